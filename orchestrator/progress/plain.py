"""Plain lines: one per notable event, for logs and pipes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.progress.board import MAIN, Board
from orchestrator.progress.inert import one_line
from todos import parse

_STEERED = {
    "cancel": "is to hand back what it has",
    "compact": "is to be compacted",
    "pause": "is paused, with all others",
    "continue": "goes on, with all others",
    "budget": "has another limit",
    "say": "is told something",
    "approve": "was permitted what it asked for",
    "deny": "was denied what it asked for",
}


def notable(board: Board, record: Record, *, with_content: bool = True) -> str | None:
    """A line about ``record`` if it is notable; ``board`` is as it was before. ``with_content``: the
    beginning of briefs and plan items."""
    who, fact = one_line(record.agent_id, 60), record.fact
    match fact:
        case ev.AgentStarted():
            brief = f": {one_line(fact.brief, 60)}" if fact.parent_id and with_content else ""
            return f"{who} started on {one_line(fact.model, 60)}{brief}"
        case ev.AgentEnded():
            return f"{who} {_ending(fact)}"
        case ev.TodosWritten() if record.agent_id == MAIN:
            return _todos_changed(board, fact, with_content)
        case ev.BudgetReached():
            return f"{who} reached the limit {fact.name} ({fact.limit:,g})"
        case ev.Compacted():
            saved = f"{fact.before_tokens:,} → {fact.after_tokens:,} tokens"
            return f"{who} summarised {fact.messages} old messages: {saved}"
        case ev.ModelFailed():
            return f"{who} call failed ({fact.kind}): {one_line(fact.message, 160)}{_again(fact)}"
        case ev.AgentResumed(interrupted=interrupted):
            calls = f", {interrupted} calls were interrupted" if interrupted else ""
            return f"{who} goes on{calls}"
        case _:
            return _told(who, fact)


def _told(who: str, fact: ev.Fact) -> str | None:
    match fact:
        case ev.OffloadFailed():
            return f"{who} could not store a result of {fact.tool}: {one_line(fact.message)}"
        case ev.ModelSwitched():
            return f"{who} goes on with {one_line(fact.to)}: {one_line(fact.from_model)} failed ({fact.why})"
        case ev.Steered(command=command):
            return f"{who} {_STEERED[command]}{_raised(fact)}"
        case ev.PermissionDecided(decision="deny"):
            hint = f"; {one_line(fact.hint, 300)}" if fact.hint else ""
            return f"{who} was denied {one_line(fact.tool)} by {one_line(fact.rule)}{hint}"
        case _:
            return None


def _raised(fact: ev.Steered) -> str:
    return "" if fact.value is None else f": {fact.name} {fact.value:,g}"


def _ending(fact: ev.AgentEnded) -> str:
    reason = "" if fact.reason is None else f" ({fact.reason})"
    tokens = f"{fact.usage.total_tokens:,} tokens"
    return f"{fact.status}{reason} after {fact.turns} turns, {fact.tool_calls} calls, {tokens}"


def _todos_changed(board: Board, fact: ev.TodosWritten, with_content: bool) -> str | None:
    """Only what changed: whole lists, again and again, would drown the rest."""
    before = {item.id: item.status for item in board.todos}
    changed = [item for item in parse(fact.text) if before.get(item.id) != item.status]
    if not changed:
        return None
    if not with_content:
        count = (sum(item.status == "completed" for item in board.todos), len(board.todos))
        moved = count != (fact.done, fact.total)
        return f"to-dos {fact.done}/{fact.total} done" if moved else None
    item = changed[0]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    words = f"{item.status.replace('_', ' ')}: {one_line(item.content, 60)}{more}"
    return f"to-dos {fact.done}/{fact.total} done; {words}"


def _again(fact: ev.ModelFailed) -> str:
    if fact.retry_in_ms is None:
        return "; it is not tried again"
    return f"; again in {fact.retry_in_ms / 1000:.1f}s"


class PlainLines:
    """One line per notable event, for logs and pipes. An observer of records."""

    def __init__(self, stream: TextIO, *, with_content: bool = True) -> None:
        self._stream = stream
        self._with_content = with_content
        self._board = Board()
        self._held: list[str] | None = None

    def __call__(self, records: Sequence[Record]) -> None:
        for record in records:
            text = notable(self._board, record, with_content=self._with_content)
            self._board = self._board.after(record)
            if text is not None:
                seconds = record.ts - (self._board.began or record.ts)
                self._write(f"{seconds:7.1f}s  {text}\n")
        self._stream.flush()

    def catch_up(self, records: Sequence[Record]) -> None:
        """Know what happened before, without showing it."""
        self._board = self._board.after_all(records)

    def _write(self, line: str) -> None:
        if self._held is None:
            self._stream.write(line)
        else:
            self._held.append(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to somebody else; the lines of the meantime follow."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._stream.writelines(held)
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def drop(self) -> None:
        """Nothing to put right."""
