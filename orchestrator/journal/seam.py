"""Where agents record: what another journal would have to offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from orchestrator.events import Fact, Record

Applied = Callable[[Sequence[Record]], None]


class Entry(NamedTuple):
    """An event before it is recorded: whose it is, in which turn, what happened."""

    agent_id: str
    turn: int
    fact: Fact


class Journal(Protocol):
    """Where events are recorded. Called from many tasks at once."""

    async def append(
        self, facts: Sequence[tuple[str, int, Fact]], applied: Applied, *, on_disk: bool = False
    ) -> None:
        """Record ``facts``, each an (agent id, turn, event), together and in this order.

        On return they outlive this process, whatever ends it; with ``on_disk`` a loss of power too.
        Without it, that takes another second. ``applied`` is called once with their records, after
        the commit and in the journal's order over all callers; what it raises is raised here. A
        cancellation takes effect when the records are committed and applied. Raises
        `JournalError`; then nothing of ``facts`` is applied, except where only the wait for the disk failed.
        """
        ...
