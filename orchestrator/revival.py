"""Agents of a recorded past: made again as their records leave them, to go on, to be asked, or as the
beginning of another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol

from anyio.to_thread import run_sync

from orchestrator import compose
from orchestrator.agent import Agent
from orchestrator.children import Children
from orchestrator.context.policy import working_window
from orchestrator.events import (
    AgentEnded,
    AgentResumed,
    AgentSpawned,
    AgentStarted,
    Event,
    McpServer,
    MessageAdded,
    RunForked,
    RunResumed,
    RunStarted,
)
from orchestrator.journal import read_records
from orchestrator.model import ModelFacts
from orchestrator.options import Options
from orchestrator.past import Past
from orchestrator.rundir import MAIN, RunDir
from orchestrator.state import State, follow_all, replay
from subagents import Conclusion, Definition, SpawnError

_GO_ON = "Go on with the task where you stopped: the limit or error that ended it no longer holds."
_LEFT_BEHIND = (
    "This run was forked from another one. Subagents that were in the background there are not here: "
    "{children}. Start them again if you need what they were to do."
)


class Makers(Protocol):
    """What makes agents of a run, as far as their revival needs it."""

    lead: Agent | None

    @property
    def options(self) -> Options: ...

    @property
    def children(self) -> Children: ...

    def make(
        self, agent_id: str, definition: Definition, *, parent: Agent | None, depth: int
    ) -> Agent: ...

    def run_started(self) -> RunStarted: ...

    def take_untold(self) -> list[McpServer]: ...

    async def facts_of(self, model: str) -> ModelFacts: ...


@dataclass(frozen=True, slots=True)
class Source:
    """The main agent of another run at the end of its turn ``at``; ``facts`` come after ``started``."""

    run_id: str
    at: int
    started: AgentStarted
    facts: Sequence[Event]
    readable: Sequence[str]

    def as_event(self) -> RunForked:
        facts = [fact.model_dump() for fact in self.facts]
        return RunForked(
            from_run=self.run_id, at_turn=self.at, happened=facts, readable=list(self.readable)
        )


class Revival:
    """Revives the agents of a run. ``past``: what was recorded before this process, if anything was."""

    def __init__(self, team: Makers, run_dir: RunDir, past: Past | None) -> None:
        self._team = team
        self._run_dir = run_dir
        self._past = past
        # Agents of the past that go on in this process.
        self._taken: set[str] = set()

    def changes(self) -> list[str]:
        """How what there is now differs from what the unended agents of the past began with."""
        assert self._past is not None, "only a run that goes on has a past"
        said = []
        try:
            for agent_id in self._past.unended() or [MAIN]:
                started = self._past.started(agent_id)
                assert started is not None, "what has not ended has begun"
                said += self.changes_of(agent_id, started)
        finally:
            # What was made to be looked at leads nothing: the end of a run is not its to record.
            self._team.lead = None
        return said

    def changes_of(self, agent_id: str, started: AgentStarted) -> list[str]:
        """The same for one agent."""
        try:
            definition = self.definition_of(agent_id, started.agent_type)
            agent = self._like(agent_id, started)
        except (SpawnError, ValueError) as error:
            return [str(error).rstrip(".")]
        said = []
        if started.digest not in (None, definition.digest):
            said.append(f"the definition of {agent_id} has changed ({definition.source})")
        if missing := [name for name in started.tools if name not in agent.tools]:
            said.append(f"{agent_id} lacks {', '.join(missing)}")
        return said

    async def fork(self, source: Source, task: str | None) -> Agent:
        """The main agent, as a copy of another run's."""
        self._team.lead = agent = self._like(MAIN, source.started)
        await agent.record(
            self._team.run_started(), source.started, source.as_event(), *self._team.take_untold()
        )
        left = replay([source.started, *source.facts]).background
        await agent.desk.settle_todos([agent.state.todos] if agent.state.todos else [])
        if agent.files is not None:
            agent.files.recall(agent.state.seen)
        await agent.record(await self._resumed(agent))
        if left:
            text = _LEFT_BEHIND.format(children=", ".join(sorted(left)))
            agent.deliver(MessageAdded(text=text, origin="outrider"))
        if task is not None:
            agent.deliver(MessageAdded(text=task, origin="user"))
        return agent

    def _like(self, agent_id: str, started: AgentStarted) -> Agent:
        """An agent of the past as it was made, without anything that happened to it."""
        parent = None if started.parent_id is None else self._from_past(started.parent_id)
        return self._made(agent_id, started, parent)

    def _made(self, agent_id: str, started: AgentStarted, parent: Agent | None) -> Agent:
        definition = self.definition_of(agent_id, started.agent_type)
        agent = self._team.make(agent_id, definition, parent=parent, depth=started.depth)
        # It is offered what its requests declare, and no more.
        agent.tools = {name: agent.tools[name] for name in started.tools if name in agent.tools}
        return agent

    async def go_on(self, agent_id: str, message: str | None) -> Agent:
        """An agent of the past, ready to go on where it ended or was stopped."""
        agent = self._from_past(agent_id)
        assert self._team.lead is not None, "every agent of the past has the main agent above it"
        await self._team.lead.record(
            RunResumed(version=version("outrider"), options=dict(self._team.options.kept)),
            *self._team.take_untold(),
        )
        ended = agent.state.ended
        if message is None and ended is not None and ended.status == "finished":
            return agent  # only the end of the run was not recorded any more
        await self._take_up(agent)
        if message is not None:
            agent.deliver(MessageAdded(text=message, origin="user"))
        # Who had said its last word when the process died has only to be heard.
        elif ended is not None and agent.state.reply_open and not agent.state.pending:
            agent.deliver(MessageAdded(text=_GO_ON, origin="outrider"))
        return agent

    async def take_over(self, parent: Agent, child_id: str) -> Agent | None:
        """A child that was at work when the process died, to go on; ``None``: there is none."""
        past = self._past
        if past is None or child_id in self._taken or not past.has_begun(child_id):
            return None
        if past.end_of(child_id) is not None:
            return None
        child = self._restored(parent, child_id, past.facts[child_id], past.state(child_id))
        await self._take_up(child)
        return child

    async def _take_up(self, agent: Agent) -> None:
        """Record that ``agent`` goes on, and take up its children in the background."""
        assert self._past is not None, "only an agent of the past is taken up"
        self._taken.add(agent.agent_id)
        await agent.desk.settle_todos(self._past.todo_texts(agent.agent_id))
        await agent.record(await self._resumed(agent))
        waiting = {use["id"] for _, use in agent.state.unanswered}
        for spawned in self._past.spawned_by(agent.agent_id):
            # A call without its result is made again, and finds its child by itself.
            if spawned.child_id in agent.state.background and spawned.tool_use_id not in waiting:
                definition = self.definition_of(spawned.child_id, spawned.child_type)
                await self._team.children.take_over(agent, definition, spawned)

    async def _resumed(self, agent: Agent) -> AgentResumed:
        """The event by which an agent goes on, with the settings of now."""
        options, spec = self._team.options, agent.state.spec
        definition = self.definition_of(agent.agent_id, spec.agent_type)
        in_flight = [i for i, _ in agent.state.unanswered if i in agent.state.begun]
        turns = compose.turns_of(definition, options.limits.max_turns)
        fact = AgentResumed(interrupted=len(in_flight), max_turns=turns)
        settings = compose.settings_of(
            definition,
            options.context,
            window := compose.window_of(spec.model, await self._team.facts_of(spec.model)),
            is_child=spec.parent_id is not None,
        )
        if settings == agent.state.settings:
            return fact
        changed: dict[str, Any] = {"policy": asdict(settings)}
        if settings.window != agent.state.settings.window:
            changed["window_tokens"] = working_window(settings, window)
        return fact.model_copy(update=changed)

    def _from_past(self, agent_id: str) -> Agent:
        """An agent as its records leave it, below its parents."""
        assert self._past is not None, "only a run that goes on has a past"
        facts = self._past.facts[agent_id]
        started = self._past.started(agent_id)
        parent_id = None if started is None else started.parent_id
        parent = None if parent_id is None else self._from_past(parent_id)
        agent = self._restored(parent, agent_id, facts, self._past.state(agent_id))
        if parent is None:
            self._team.lead = agent
        return agent

    def definition_of(self, agent_id: str, agent_type: str) -> Definition:
        if agent_id == MAIN:
            return self._team.options.main
        definition = self._team.options.definitions.get(agent_type)
        if definition is None:
            raise SpawnError(f"The definition of {agent_id} is gone.")
        return definition

    def _restored(
        self, parent: Agent | None, agent_id: str, facts: Sequence[Event], state: State
    ) -> Agent:
        """An agent as ``facts``, all of its events, leave it, in ``state``."""
        started = next(fact for fact in facts if isinstance(fact, AgentStarted))
        agent = self._made(agent_id, started, parent)
        agent.state = state
        agent.children = [f.child_id for f in facts if isinstance(f, AgentSpawned)]
        agent.desk.is_followup = any(isinstance(f, AgentEnded) for f in facts)
        agent.desk.is_revived = True
        if agent.files is not None:
            agent.files.recall(state.seen)
        return agent

    async def revive(self, parent: Agent, child_id: str) -> Agent:
        """A child that has ended, as its records leave it: it still knows what it saw."""
        records = partial(read_records, self._run_dir.journal, agent=child_id)
        own = await run_sync(lambda: list(records()))
        return self._restored(parent, child_id, [record.fact for record in own], follow_all(own))


def conclusion_of(past: Past, agent_id: str, ended: AgentEnded) -> Conclusion:
    """The conclusion that an agent of the past came to."""
    started = past.started(agent_id)
    assert started is not None, "what has ended has begun"
    return Conclusion(
        agent_id=agent_id,
        agent_type=started.agent_type,
        status=ended.status,
        reason=ended.reason,
        text=ended.conclusion,
        path=ended.path,
        tool_calls=ended.tool_calls,
        tokens=ended.usage.total_tokens,
        artifacts=tuple(ended.artifacts),
    )
