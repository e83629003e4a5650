"""States out of a journal, which may hold anything."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from orchestrator.errors import JournalError
from orchestrator.events import AgentEnded, ModelFailed, ModelReplied, Record
from orchestrator.state.fold import apply
from orchestrator.state.value import State

# What only an agent does that has begun.
_ONCE_BEGUN = (ModelReplied, ModelFailed, AgentEnded)


def follow(state: State, record: Record) -> State:
    """The state of ``record``'s agent after it.

    Raises `JournalError` where the record does not follow from those before it: no run wrote them so.
    """
    if state.started is None and isinstance(record.fact, _ONCE_BEGUN):
        raise unfollowed(record)
    try:
        return apply(state, record.fact)
    except Exception as error:
        raise unfollowed(record) from error


def follow_all(records: Iterable[Record]) -> State:
    """The state of an agent after ``records``, all of its own. Raises as `follow` does."""
    return reduce(follow, records, State())


def unfollowed(record: Record) -> JournalError:
    """What there is to say of a record that does not follow from those before it."""
    event = getattr(record.fact, "event", "")
    said = f"record {record.seq} ({event}) does not follow from those before it"
    return JournalError(f"{said}: `outrider audit` says what else is wrong")
