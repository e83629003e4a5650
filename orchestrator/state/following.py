"""States out of a journal, which may hold anything."""

from __future__ import annotations

from orchestrator.errors import JournalError
from orchestrator.events import Record
from orchestrator.state.fold import apply
from orchestrator.state.value import State


def follow(state: State, record: Record) -> State:
    """The state of ``record``'s agent after it.

    Raises `JournalError` where the record does not follow from those before it: no run wrote them so.
    """
    try:
        return apply(state, record.fact)
    except Exception as error:
        event = getattr(record.fact, "event", "")
        said = f"record {record.seq} ({event}) does not follow from those before it"
        raise JournalError(f"{said}: `outrider audit` says what else is wrong") from error
