"""The live tree: the board drawn on a terminal, again and again in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from orchestrator.events import Record
from orchestrator.progress.board import AgentView, Board
from orchestrator.progress.inert import one_line
from todos import Todo

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

REFRESH_PER_SECOND = 4
MOST_AGENTS = 16
MOST_TODOS = 8

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

    def catch_up(self, records: Sequence[Record]) -> None:
        """Know what happened before, without showing it."""
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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to somebody else."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start(refresh=True)

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
