"""What a person sees while a run goes on: a small live tree on a terminal, plain lines elsewhere.

`Board` is the model behind both, a pure fold over the records. Everything that a model, a tool or a
file wrote passes through `inert` before it is shown, so that it cannot steer the terminal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.ledger import Ledger
from todos import Todo, parse

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

MAIN = "main"
REFRESH_PER_SECOND = 4
MOST_AGENTS = 16
MOST_TODOS = 8

# Escape sequences as a whole (CSI; OSC, DCS and their like up to their end; two-character ones).
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# What is left of control characters, and those that reorder text; tab and line feed stay.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def inert(text: str) -> str:
    """``text`` without escape sequences and control characters; lines and tabs stay."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


def one_line(text: str, most: int = 100) -> str:
    """``text`` made inert, on one line, of at most so many characters."""
    line = " ".join(inert(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


# ── the model ──


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent as it is now. ``tools``: its running calls, id and name."""

    agent_id: str
    parent_id: str | None
    agent_type: str
    brief: str
    depth: int
    model: str
    began: float
    turns: int = 0
    ledger: Ledger = Ledger()
    tools: tuple[tuple[str, str], ...] = ()
    children: int = 0
    retry: str = ""
    status: ev.Status | None = None
    reason: str | None = None
    ended: float | None = None

    @property
    def state(self) -> str:
        """What it does, in a few words."""
        if self.status is not None:
            return self.status if self.reason is None else f"{self.status} ({self.reason})"
        if self.retry:
            return self.retry
        if not self.tools:
            return "thinking"
        if self.children:
            return f"waits for {self.children}"
        first = self.tools[0][1]
        return first if len(self.tools) == 1 else f"{first} +{len(self.tools) - 1}"

    @property
    def cache_share(self) -> float | None:
        """Share of the input that came from the cache."""
        usage = self.ledger.usage
        read = usage.context_tokens
        return usage.cache_read_input_tokens / read if read else None


@dataclass(frozen=True)
class Board:
    """The run as its records tell it so far. ``todos`` are the main agent's."""

    began: float | None = None
    agents: dict[str, AgentView] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()

    def after_all(self, records: Iterable[Record]) -> Board:
        board = self
        for record in records:
            board = board.after(record)
        return board

    def after(self, record: Record) -> Board:
        """The board after one more record."""
        board = self if self.began is not None else replace(self, began=record.ts)
        fact = record.fact
        if isinstance(fact, ev.AgentStarted):
            return board._started(record, fact)
        if isinstance(fact, ev.TodosWritten):
            return replace(board, todos=parse(fact.text)) if record.agent_id == MAIN else board
        view = board.agents.get(record.agent_id)
        if view is None:
            return board
        board = board._with(_view_after(view, record))
        return board._settled(view) if isinstance(fact, ev.AgentEnded) else board

    def _started(self, record: Record, fact: ev.AgentStarted) -> Board:
        view = AgentView(
            agent_id=record.agent_id,
            parent_id=fact.parent_id,
            agent_type=fact.agent_type,
            brief=one_line(fact.brief),
            depth=fact.depth,
            model=fact.model,
            began=record.ts,
        )
        parent = self.agents.get(fact.parent_id or "")
        board = (
            self if parent is None else self._with(replace(parent, children=parent.children + 1))
        )
        return board._with(view)

    def _settled(self, child: AgentView) -> Board:
        parent = self.agents.get(child.parent_id or "")
        if parent is None or child.status is not None:
            return self
        return self._with(replace(parent, children=max(parent.children - 1, 0)))

    def _with(self, view: AgentView) -> Board:
        return replace(self, agents={**self.agents, view.agent_id: view})

    def chosen(self, most: int) -> tuple[list[AgentView], int]:
        """At most ``most`` agents in tree order, and how many are left out: those at work come
        first, then those that ended last."""
        rank = sorted(
            self.agents.values(),
            key=lambda a: (a.agent_id != MAIN, a.ended is not None, -(a.ended or 0.0)),
        )
        kept = {view.agent_id for view in rank[:most]}
        shown = [view for view in self._in_tree_order() if view.agent_id in kept]
        return shown, len(self.agents) - len(shown)

    def _in_tree_order(self) -> list[AgentView]:
        children: dict[str | None, list[AgentView]] = {}
        for view in self.agents.values():
            parent = view.parent_id if view.parent_id in self.agents else None
            children.setdefault(parent, []).append(view)
        ordered: list[AgentView] = []
        waiting = children.get(None, [])[::-1]
        while waiting:
            ordered.append(waiting.pop())
            waiting += children.get(ordered[-1].agent_id, [])[::-1]
        return ordered

    def open_todos(self, most: int) -> tuple[list[Todo], int]:
        """At most ``most`` items in their order, and how many are left out: what is being done
        comes first, then what is open, then what is done."""
        order = {"in_progress": 0, "pending": 1, "completed": 2, "cancelled": 3}
        places = sorted(range(len(self.todos)), key=lambda i: (order[self.todos[i].status], i))
        kept = sorted(places[:most])
        return [self.todos[i] for i in kept], len(self.todos) - len(kept)


def _view_after(view: AgentView, record: Record) -> AgentView:
    view = replace(view, turns=max(view.turns, record.turn))
    match record.fact:
        case ev.ModelReplied(usage=usage):
            return replace(view, ledger=view.ledger.with_call(usage), retry="")
        case ev.ModelFailed() as fact:
            return replace(view, ledger=view.ledger.with_call(fact.usage), retry=_retry(fact))
        case ev.ToolStarted() as fact:
            return replace(view, tools=(*view.tools, (fact.tool_use_id, one_line(fact.tool, 40))))
        case ev.ToolReturned(tool_use_id=returned):
            return replace(view, tools=tuple(t for t in view.tools if t[0] != returned))
        case ev.AgentEnded() as fact:
            view = replace(view, status=fact.status, reason=fact.reason, ended=record.ts)
            return replace(view, tools=(), retry="")
        case ev.MessageAdded():
            return replace(view, status=None, reason=None, ended=None)  # it goes on
        case _:
            return view


def _retry(fact: ev.ModelFailed) -> str:
    return "" if fact.retry_in_ms is None else f"retry: {fact.kind}"


# ── plain lines ──


def notable(board: Board, record: Record) -> str | None:
    """A line about ``record`` if it is notable; ``board`` is as it was before."""
    who, fact = one_line(record.agent_id, 60), record.fact
    match fact:
        case ev.AgentStarted():
            brief = f": {one_line(fact.brief, 60)}" if fact.parent_id else ""
            return f"{who} started on {one_line(fact.model, 60)}{brief}"
        case ev.AgentEnded():
            return f"{who} {_ending(fact)}"
        case ev.TodosWritten() if record.agent_id == MAIN:
            return _todos_changed(board, fact)
        case ev.BudgetReached():
            return f"{who} reached the limit {fact.name} ({fact.limit:,g})"
        case ev.Compacted():
            saved = f"{fact.before_tokens:,} → {fact.after_tokens:,} tokens"
            return f"{who} summarised {fact.messages} old messages: {saved}"
        case ev.ModelFailed():
            return f"{who} call failed ({fact.kind}): {one_line(fact.message, 160)}{_again(fact)}"
        case _:
            return _refused(who, fact)


def _refused(who: str, fact: ev.Fact) -> str | None:
    match fact:
        case ev.OffloadFailed():
            return f"{who} could not store a result of {fact.tool}: {one_line(fact.message)}"
        case ev.PermissionDecided(decision="deny"):
            return f"{who} was denied {one_line(fact.tool)} by {one_line(fact.rule)}"
        case _:
            return None


def _ending(fact: ev.AgentEnded) -> str:
    reason = "" if fact.reason is None else f" ({fact.reason})"
    tokens = f"{fact.usage.total_tokens:,} tokens"
    return f"{fact.status}{reason} after {fact.turns} turns, {fact.tool_calls} calls, {tokens}"


def _todos_changed(board: Board, fact: ev.TodosWritten) -> str | None:
    """Only what changed: whole lists, again and again, would drown the rest."""
    before = {item.id: item.status for item in board.todos}
    changed = [item for item in parse(fact.text) if before.get(item.id) != item.status]
    if not changed:
        return None
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

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._board = Board()

    def __call__(self, records: Sequence[Record]) -> None:
        for record in records:
            text = notable(self._board, record)
            self._board = self._board.after(record)
            if text is not None:
                seconds = record.ts - (self._board.began or record.ts)
                self._stream.write(f"{seconds:7.1f}s  {text}\n")
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


# ── the live tree ──

_STYLES = {"finished": "green", "partial": "yellow", "failed": "red", "empty": "yellow"}
_MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]", "cancelled": "[-]"}


class LiveTree:
    """The agents as a tree on a terminal, redrawn in place and gone at the end. An observer."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._clock = clock
        self._board = Board()
        self._live: Live | None = None

    def __call__(self, records: Sequence[Record]) -> None:
        # Replaced as a whole: the drawing thread sees either the old or the new board.
        self._board = self._board.after_all(records)

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console,
            get_renderable=lambda: drawn(self._board, self._clock(), console),
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            # stdout is not ours to draw on; what tools print to stderr appears above the tree.
            redirect_stdout=False,
        )
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, traceback)

    def drop(self) -> None:
        """Show the cursor again when the process is about to be stopped at once."""
        self._stream.write("\x1b[?25h\n")
        self._stream.flush()


def drawn(board: Board, now: float, console: Console) -> RenderableType:
    """The tree and the to-dos, in at most the console's height."""
    from rich.console import Group
    from rich.text import Text

    height = max(console.height, 6)
    todos, hidden_todos = board.open_todos(min(MOST_TODOS, height // 4))
    agents, hidden = board.chosen(min(MOST_AGENTS, max(height - len(todos) - 5, 1)))
    parts: list[RenderableType] = [_grid(agents, now, console.width)]
    if hidden:
        parts.append(Text(f"… and {hidden} more", style="dim"))
    if board.todos:
        done = sum(todo.status == "completed" for todo in board.todos)
        more = f" · … and {hidden_todos} more" if hidden_todos else ""
        parts.append(Text(f"to-dos {done}/{len(board.todos)}{more}", style="bold"))
        parts += [_todo(todo, console.width) for todo in todos]
    return Group(*parts)


_TITLES = ("agent", "doing", "turn", "in", "out", "cached", "time")
# Cells of the figures' columns; the rest of the line is for names and what is being done.
_FIGURES = (4, 6, 6, 6, 5)


def _grid(agents: Sequence[AgentView], now: float, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    room = max(width - sum(_FIGURES) - 2 * len(_FIGURES) - 2, 16)
    doing = min(max(room * 2 // 5, 8), 24)
    grid = Table.grid(padding=(0, 2), expand=False)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=room - doing)
    grid.add_column(no_wrap=True, overflow="ellipsis", width=doing)
    for cells in _FIGURES:
        grid.add_column(no_wrap=True, justify="right", width=cells)
    grid.add_row(*(Text(title, style="dim") for title in _TITLES))
    for view in agents:
        grid.add_row(*_row(view, now))
    return grid


def _row(view: AgentView, now: float) -> list[Text]:
    from rich.text import Text

    style = "dim" if view.status is not None else ""
    name = view.agent_type if view.parent_id is None else f"└ {view.agent_type}"
    label = Text("  " * max(view.depth - 1, 0) + one_line(name, 40), style=style)
    if view.parent_id is not None:
        label.append(f" {view.brief}", style="dim")
    state = Text(one_line(view.state, 60), style=_STYLES.get(view.status or "", style or "cyan"))
    usage, share = view.ledger.usage, view.cache_share
    figures = (
        str(view.turns),
        _short(usage.context_tokens),
        _short(usage.output_tokens),
        f"{share:.0%}" if share else "",
        f"{max((view.ended or now) - view.began, 0):.0f}s",
    )
    return [label, state, *(Text(figure, style=style) for figure in figures)]


def _todo(todo: Todo, width: int) -> Text:
    from rich.text import Text

    style = {"in_progress": "cyan", "completed": "dim", "cancelled": "dim"}.get(todo.status, "")
    text = Text(f"{_MARKS[todo.status]} {one_line(todo.content, 200)}", style=style)
    text.truncate(width, overflow="ellipsis")
    return text


def _short(value: int) -> str:
    if value < 1_000:
        return str(value)
    return f"{value / 1_000:.1f}k" if value < 1_000_000 else f"{value / 1_000_000:.1f}M"
