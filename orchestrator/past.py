"""What a run's records say, for going on with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.events import (
    AgentEnded,
    AgentResumed,
    AgentSpawned,
    AgentStarted,
    Event,
    MessageAdded,
    Record,
    RunResumed,
    RunStarted,
    Steered,
    TodosWritten,
)
from orchestrator.readings import AgentRow, RunSummary
from orchestrator.state import State, follow, follow_all, unfollowed


@dataclass
class Past:
    """A run so far. ``options``: what it was last started with; ``summary``: its figures;
    ``records``: each agent's own, in their order; ``facts``: their events."""

    options: Mapping[str, Any]
    summary: RunSummary
    records: Mapping[str, Sequence[Record]]
    facts: Mapping[str, Sequence[Event]]
    _states: dict[str, State] = field(default_factory=dict)

    def state(self, agent_id: str) -> State:
        """The agent's state at the end of its records. Raises `JournalError` where one of them does not
        follow from those before it."""
        if agent_id not in self._states:
            self._states[agent_id] = follow_all(self.records[agent_id])
        return self._states[agent_id]

    def started(self, agent_id: str) -> AgentStarted | None:
        """What the agent began with; ``None``: it was about to begin."""
        facts = self.facts.get(agent_id, ())
        return next((f for f in facts if isinstance(f, AgentStarted)), None)

    def has_begun(self, agent_id: str) -> bool:
        return self.started(agent_id) is not None

    def todo_texts(self, agent_id: str) -> list[str]:
        """The agent's to-do files, oldest first."""
        return [f.text for f in self.facts.get(agent_id, ()) if isinstance(f, TodosWritten)]

    def end_of(self, agent_id: str) -> AgentEnded | None:
        """How the agent ended; ``None`` while it goes on."""
        for fact in reversed(self.facts.get(agent_id, ())):
            if isinstance(fact, AgentEnded):
                return fact
            if isinstance(fact, AgentResumed) or _asks_more(fact):
                return None
        return None

    def spawned_by(self, agent_id: str) -> Iterator[AgentSpawned]:
        """The children of an agent, in the order in which they were started."""
        return (fact for fact in self.facts.get(agent_id, ()) if isinstance(fact, AgentSpawned))

    @property
    def spawned(self) -> int:
        """How many agents were started by others."""
        return sum(1 for agent_id in self.facts for _ in self.spawned_by(agent_id))

    def unended(self) -> list[str]:
        """Agents that have begun and not ended."""
        return [a for a in self.facts if self.has_begun(a) and self.end_of(a) is None]

    def spent(self, agent_id: str | None = None) -> tuple[int, float]:
        """Tokens and USD of an agent and all below it; without an id, of the whole run."""
        below = {agent_id} if agent_id is not None else {row.agent_id for row in self._rows}
        tokens, cost = 0, 0.0
        for row in self._rows:  # in tree order: parents come before their children
            if row.agent_id in below or row.parent_id in below:
                below.add(row.agent_id)
                tokens += row.usage.total_tokens
                cost += row.cost_usd or 0.0
        return tokens, cost

    @property
    def _rows(self) -> tuple[AgentRow, ...]:
        return self.summary.agents


def past_of(records: Sequence[Record], summary: RunSummary) -> Past:
    """The past that ``records``, a run's from the first, tell; ``summary``: their figures.

    Raises `JournalError` where an agent ended that never began.
    """
    own: dict[str, list[Record]] = {}
    for record in records:
        own.setdefault(record.agent_id, []).append(record)
    for all_of in own.values():
        _check_beginning(all_of)
    facts = {agent_id: [record.fact for record in all_of] for agent_id, all_of in own.items()}
    return Past(options_in(records), summary, own, facts)


def _check_beginning(own: Sequence[Record]) -> None:
    for record in own:
        if isinstance(record.fact, AgentStarted):
            return
        if isinstance(record.fact, AgentEnded):
            raise unfollowed(record)


def options_in(records: Sequence[Record]) -> Mapping[str, Any]:
    """What the run was last started or resumed with, as JSON, with the limits that were raised since."""
    options: Mapping[str, Any] = {}
    for record in records:
        match record.fact:
            case RunStarted() | RunResumed() if record.fact.options:
                options = record.fact.options
            case Steered(command="budget", name=str(name), value=float(value)):
                limit = value if name == "max_cost" else int(value)
                options = {**options, "limits": {**options.get("limits", {}), name: limit}}
    return options


def up_to(records: Sequence[Record], turn: int) -> tuple[list[Event], State]:
    """What had happened to an agent at the end of its turn ``turn``, its results included, and its state
    then. ``records``: all of its own.

    Raises ``ValueError`` where it had no such turn, or did not come to its end, and `JournalError` where
    a record does not follow from those before it.
    """
    state, taken = State(), list[Event]()
    for record in records:
        state = follow(state, record)
        taken.append(record.fact)
        if state.turn == turn and state.started is not None and not state.unanswered:
            return taken, state
    if turn > state.turn:
        raise ValueError(f"it has {state.turn} turns")
    raise ValueError(f"turn {turn} did not come to its end: the results of its calls are not there")


def _asks_more(fact: Event) -> bool:
    return isinstance(fact, MessageAdded) and fact.origin == "user"
