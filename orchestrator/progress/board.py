"""The model behind what is shown: a pure fold over the records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.evolving import evolve
from orchestrator.ledger import Ledger
from orchestrator.progress.inert import one_line
from todos import Todo, parse

MAIN = "main"


@dataclass(frozen=True)
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
    """The run as its records tell it so far. ``todos`` are the main agent's. ``last``: when the newest
    record before was written; time in which nobody was at work on the run is left out of all times."""

    began: float | None = None
    agents: dict[str, AgentView] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    last: float = 0.0

    def after_all(self, records: Iterable[Record]) -> Board:
        board, last = self, self.last
        for record in records:
            if isinstance(record.fact, ev.RunResumed):
                board = evolve(board, last=last)
            board, last = board.after(record), record.ts
        return evolve(board, last=last)

    def after(self, record: Record) -> Board:
        """The board after one more record. Of a run that is resumed, `after_all` knows when it stopped."""
        fact = record.fact
        board = self if self.began is not None else evolve(self, began=record.ts)
        if isinstance(fact, ev.RunResumed):
            board = board._later(record.ts - board.last)
        if isinstance(fact, ev.AgentStarted):
            return board._started(record, fact)
        if isinstance(fact, ev.TodosWritten):
            return evolve(board, todos=parse(fact.text)) if record.agent_id == MAIN else board
        view = board.agents.get(record.agent_id)
        if view is None:
            return board
        after = _view_after(view, record)
        if after is view:
            return board
        board = board._with(after)
        if isinstance(fact, ev.AgentEnded):
            return board._settled(view)
        # A child that goes on after its end is one that its parent waits for again.
        return board if view.status is None or after.status is not None else board._awaited(after)

    def _later(self, seconds: float) -> Board:
        """The same, as if all of it had been so much later."""
        views = {
            name: evolve(
                view,
                began=view.began + seconds,
                ended=None if view.ended is None else view.ended + seconds,
            )
            for name, view in self.agents.items()
        }
        return evolve(self, began=(self.began or 0.0) + seconds, agents=views)

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
        return self._awaited(view)._with(view)

    def _settled(self, child: AgentView) -> Board:
        parent = self.agents.get(child.parent_id or "")
        if parent is None or child.status is not None:
            return self
        return self._with(evolve(parent, children=max(parent.children - 1, 0)))

    def _awaited(self, child: AgentView) -> Board:
        parent = self.agents.get(child.parent_id or "")
        return self if parent is None else self._with(evolve(parent, children=parent.children + 1))

    def _with(self, view: AgentView) -> Board:
        return Board(self.began, {**self.agents, view.agent_id: view}, self.todos, self.last)

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
    if record.turn > view.turns:
        view = evolve(view, turns=record.turn)
    match record.fact:
        case ev.ModelReplied(usage=usage):
            return evolve(view, ledger=view.ledger.with_call(usage), retry="")
        case ev.ModelFailed() as fact:
            return evolve(view, ledger=view.ledger.with_call(fact.usage), retry=_retry(fact))
        case ev.ToolStarted() as fact:
            return evolve(view, tools=(*view.tools, (fact.tool_use_id, one_line(fact.tool, 40))))
        case ev.ToolReturned(tool_use_id=returned):
            return evolve(view, tools=tuple(t for t in view.tools if t[0] != returned))
        case ev.AgentEnded() as fact:
            view = evolve(view, status=fact.status, reason=fact.reason, ended=record.ts)
            return evolve(view, tools=(), retry="")
        case ev.MessageAdded() | ev.AgentResumed():
            return evolve(view, status=None, reason=None, ended=None)  # it goes on
        case _:
            return view


def _retry(fact: ev.ModelFailed) -> str:
    return "" if fact.retry_in_ms is None else f"retry: {fact.kind}"
