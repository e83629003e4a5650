"""Readings of a run's records for commands and reports: pure folds, the same live and afterwards.

A price is handed in as a function, so that nothing here reads a table or a clock. Cost is summed
call by call, at the model and time of each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orchestrator.events import (
    AgentEnded,
    AgentResumed,
    AgentStarted,
    Compacted,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelSwitched,
    Offloaded,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    Status,
    Steered,
    ToolReturned,
    WindowCorrected,
)
from orchestrator.evolving import evolve
from orchestrator.ledger import Ledger, Usage

# (model, usage of one call, seconds since the epoch) -> USD, or None where the price is not known.
Price = Callable[[str, Usage, float], float | None]
Key = Literal["agent", "model", "turn"]


def unpriced(model: str, usage: Usage, at: float) -> float | None:
    """The `Price` of everything where no prices are asked for: not known."""
    return None


@dataclass(frozen=True)
class AgentRow:
    """One agent's account. ``status`` is ``None`` until it has ended.

    ``cost_usd`` is ``None`` as soon as one call's price is not known. ``unreported`` calls are those
    of which the provider reported no tokens: they are in ``requests`` and in no sum.
    """

    agent_id: str
    parent_id: str | None = None
    agent_type: str = "main"
    model: str = ""
    status: Status | None = None
    reason: str | None = None
    turns: int = 0
    ledger: Ledger = Ledger()
    tool_calls: int = 0
    cost_usd: float | None = 0.0
    window_tokens: int = 0
    offloaded: int = 0
    compactions: int = 0
    conclusion_tokens: int = 0
    returned_tokens: int = 0
    conclusion_path: str | None = None
    seconds: float = 0.0

    @property
    def usage(self) -> Usage:
        return self.ledger.usage

    @property
    def requests(self) -> int:
        return self.ledger.requests

    @property
    def unreported(self) -> int:
        return self.ledger.unreported

    @property
    def peak_context_tokens(self) -> int:
        """The largest input + cache read + cache write of one request."""
        return self.ledger.peak_context_tokens

    def as_json(self) -> dict[str, Any]:
        """The fields of a result's ``agents``."""
        return {
            "agent_id": self.agent_id,
            "parent_id": self.parent_id,
            "agent_type": self.agent_type,
            "model": self.model,
            "status": self.status,
            "reason": self.reason,
            "turns": self.turns,
            "requests": self.requests,
            "unreported": self.unreported,
            "tool_calls": self.tool_calls,
            "usage": self.usage.as_json(),
            "cost_usd": self.cost_usd,
            "peak_context_tokens": self.peak_context_tokens,
            "window_tokens": self.window_tokens,
            "offloaded": self.offloaded,
            "compactions": self.compactions,
            "conclusion_tokens": self.conclusion_tokens,
            "returned_tokens": self.returned_tokens,
            "conclusion_path": self.conclusion_path,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class RunSummary:
    """A run as its records tell it. ``status`` is ``None`` for a run without an end: it is running
    or it crashed, which only its lock can tell. ``started``: seconds since the epoch; ``seconds``:
    how long it ran, without the time between a stop and a resume."""

    run_id: str
    task: str = ""
    model: str = ""
    status: Status | None = None
    reason: str | None = None
    started: float | None = None
    seconds: float = 0.0
    agents: tuple[AgentRow, ...] = ()

    @property
    def usage(self) -> Usage:
        """The sum over the agents."""
        return sum((agent.usage for agent in self.agents), Usage())

    @property
    def cost_usd(self) -> float | None:
        """The sum over the agents; ``None`` if one is not known."""
        total: float | None = 0.0
        for agent in self.agents:
            total = _add_cost(total, agent.cost_usd)
        return total

    @property
    def unreported(self) -> int:
        return sum(agent.unreported for agent in self.agents)


@dataclass(frozen=True)
class TokenRow:
    """Tokens and model calls under one name: an agent's id, a model, or an agent's turn."""

    name: str
    turn: int | None = None
    calls: int = 0
    usage: Usage = Usage()
    unreported: int = 0
    cost_usd: float | None = 0.0


def summarise(records: Iterable[Record], run_id: str, price: Price = unpriced) -> RunSummary:
    """The run in figures. Agents stand in tree order, each before its children."""
    tally = Tally(price)
    tally.take_all(records)
    return tally.summary(run_id)


def tokens_by(records: Iterable[Record], key: Key, price: Price = unpriced) -> list[TokenRow]:
    """Tokens by ``key``, in the order of first appearance."""
    rows: dict[tuple[str, int | None], TokenRow] = {}
    for record in records:
        fact = record.fact
        if isinstance(fact, ModelReplied | ModelFailed):
            name = fact.model if key == "model" else record.agent_id
            turn = record.turn if key == "turn" else None
            row = rows.get((name, turn)) or TokenRow(name, turn)
            rows[name, turn] = replace(
                row,
                calls=row.calls + 1,
                usage=row.usage + (fact.usage or Usage()),
                unreported=row.unreported + (fact.usage is None),
                cost_usd=_add_cost(row.cost_usd, _cost(record, price)),
            )
    return list(rows.values())


# ── inside ──


@dataclass
class Tally:
    """The records so far, summed as they come. ``clock``: how long the run was running, in seconds."""

    price: Price
    run: RunSummary = RunSummary("")
    agents: dict[str, AgentRow] = field(default_factory=dict)
    clock: float = 0.0
    _began: dict[str, float] = field(default_factory=dict)
    _last: float | None = None

    def take_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.take(record)

    def summary(self, run_id: str) -> RunSummary:
        """The run in figures, as far as its records were taken."""
        agents = _in_tree_order(self.agents)
        return evolve(self.run, run_id=run_id, seconds=self.clock, agents=agents)

    def take(self, record: Record) -> None:
        self._tick(record)
        self.run = _run_after(self.run, record)
        if isinstance(record.fact, AgentStarted):
            self._began.setdefault(record.agent_id, self.clock)
            self.agents.setdefault(record.agent_id, AgentRow(record.agent_id))
        row = self.agents.get(record.agent_id)
        if row is not None and not isinstance(record.fact, RunEnded | RunResumed):
            seconds = self.clock - self._began[record.agent_id]
            row = evolve(row, turns=max(row.turns, record.turn), seconds=seconds)
            self.agents[record.agent_id] = _agent_after(row, record, self.price)

    def _tick(self, record: Record) -> None:
        # What a person asks for may come while nothing runs. The time between a stop and a resume does
        # not count, nor does a clock that is set back.
        if isinstance(record.fact, Steered):
            return
        if self._last is not None and not isinstance(record.fact, RunResumed):
            self.clock += max(0.0, record.ts - self._last)
        self._last = record.ts


def _run_after(run: RunSummary, record: Record) -> RunSummary:
    fact = record.fact
    if isinstance(fact, RunStarted):
        return evolve(run, task=fact.task, model=fact.model, started=record.ts)
    if isinstance(fact, RunResumed):
        return evolve(run, status=None, reason=None)
    if isinstance(fact, RunEnded):
        return evolve(run, status=fact.status, reason=fact.reason)
    return run


def _agent_after(row: AgentRow, record: Record, price: Price) -> AgentRow:
    match record.fact:
        case AgentStarted() as fact:
            return _started(row, fact)
        case ModelReplied() | ModelFailed():
            return _with_call(row, record, price)
        case AgentEnded() as fact:
            return _ended(row, fact)
        case ToolReturned() | Offloaded() | Compacted():
            return _counted(row, record)
        case WindowCorrected(tokens=tokens):
            return evolve(row, window_tokens=tokens)
        case ModelSwitched(to=to, window_tokens=tokens):
            return evolve(row, model=to, window_tokens=tokens)
        case MessageAdded() | AgentResumed():
            return evolve(row, status=None, reason=None)  # a follow-up: it goes on
        case _:
            return row


def _started(row: AgentRow, fact: AgentStarted) -> AgentRow:
    return evolve(
        row,
        parent_id=fact.parent_id,
        agent_type=fact.agent_type,
        model=fact.model,
        window_tokens=fact.window_tokens,
    )


def _with_call(row: AgentRow, record: Record, price: Price) -> AgentRow:
    fact = record.fact
    assert isinstance(fact, ModelReplied | ModelFailed)
    cost = _add_cost(row.cost_usd, _cost(record, price))
    return evolve(
        row, ledger=row.ledger.with_call(fact.usage), cost_usd=cost, status=None, reason=None
    )


def _counted(row: AgentRow, record: Record) -> AgentRow:
    return evolve(
        row,
        tool_calls=row.tool_calls + isinstance(record.fact, ToolReturned),
        offloaded=row.offloaded + isinstance(record.fact, Offloaded),
        compactions=row.compactions + isinstance(record.fact, Compacted),
    )


def _ended(row: AgentRow, fact: AgentEnded) -> AgentRow:
    return evolve(
        row,
        status=fact.status,
        reason=fact.reason,
        conclusion_tokens=fact.conclusion_tokens,
        returned_tokens=fact.returned_tokens,
        conclusion_path=fact.path,
    )


def _cost(record: Record, price: Price) -> float | None:
    """One call's cost. A call of which nothing was reported adds nothing here; it is counted."""
    fact = record.fact
    assert isinstance(fact, ModelReplied | ModelFailed)
    return 0.0 if fact.usage is None else price(fact.model, fact.usage, record.ts)


def _add_cost(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _in_tree_order(agents: dict[str, AgentRow]) -> tuple[AgentRow, ...]:
    """Each agent before its children, which stand in the order in which they started."""
    children: dict[str | None, list[AgentRow]] = {}
    for row in agents.values():
        parent = row.parent_id if row.parent_id in agents else None
        children.setdefault(parent, []).append(row)
    ordered: list[AgentRow] = []
    waiting: list[AgentRow] = _reversed(children.get(None, ()))
    while waiting:
        row = waiting.pop()
        ordered.append(row)
        waiting += _reversed(children.get(row.agent_id, ()))
    return tuple(ordered)


def _reversed(rows: Sequence[AgentRow]) -> list[AgentRow]:
    return list(reversed(rows))
