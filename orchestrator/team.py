"""The agents of one run: making each from its definition, and seeing it through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from orchestrator import compose
from orchestrator.agent import Agent, Deadline, Seams
from orchestrator.background import Background, watch
from orchestrator.budget import Budget, Limits
from orchestrator.calls import handback_tokens
from orchestrator.children import Children
from orchestrator.commands import end_jobs
from orchestrator.concluding import conclude
from orchestrator.context.windows import family_of
from orchestrator.desk import DiskDesk
from orchestrator.errors import ConfigError, JournalError
from orchestrator.events import AgentStarted, McpServer, RunStarted
from orchestrator.loop import run_agent
from orchestrator.model import ModelFacts
from orchestrator.modelfacts import KnownModels
from orchestrator.options import Options
from orchestrator.past import Past
from orchestrator.permissions import BY_NAME, OPTIONAL, Permissions
from orchestrator.remotes import Remotes
from orchestrator.revival import Revival, conclusion_of
from orchestrator.rundir import MAIN, RunDir
from orchestrator.state import State, replay
from orchestrator.toolbox import Toolbox
from subagents import Brief, Conclusion, Definition, SpawnError, resolve
from workspace import ResultStore, Root

# A limit that lets a small task be done, for whoever gave one that lets nothing be done.
_A_SMALL_RUN_TOKENS = 100_000


class Team:
    """Makes the agents of a run and sees them through."""

    def __init__(
        self,
        options: Options,
        run_dir: RunDir,
        seams: Seams,
        group: TaskGroup,
        past: Past | None = None,
    ) -> None:
        """``group``: the run's own task group, for what goes on beside its main agent. ``past``: what
        was recorded before, where the run is not new."""
        self.options = options
        # The main agent, once there is one.
        self.lead: Agent | None = None
        self._run_dir = run_dir
        self._seams = seams
        self._group = group
        self._past = past
        self._live: dict[str, Agent] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._background = Background(group)
        self.children: Children = Children(self, self._background, options.limits.max_agents)
        self._remotes = Remotes(
            group,
            options.root,
            run_dir.folder / "mcp",
            options.servers,
            options.permissions,
            lambda: self.lead,
        )
        self._toolbox = Toolbox(options, run_dir, group, self.children, self._remotes)
        self.revival: Revival = Revival(self, run_dir, past)
        self._models = KnownModels(seams.model, options.model_name, options.main_facts)
        self._deadline = Deadline.within(_seconds_left(options.limits, past), None)
        self._budget = Budget(
            max_tokens=options.limits.max_tokens, max_cost=options.limits.max_cost
        )
        self._permissions = _with_own(options).within(
            *Root(options.root).spellings, files=_governing(options)
        )
        # Tokens a byte, by model: what one agent's reports have taught serves the next.
        # Tokens a byte, by model and by family.
        self._learnt: dict[str, float] = {}
        if past is not None:
            self._budget.restore(*past.spent())
            ended = {a: e for a in past.facts if (e := past.end_of(a)) is not None}
            conclusions = {a: conclusion_of(past, a, end) for a, end in ended.items()}
            self.children.restore(past.spawned, conclusions)

    @property
    def failure(self) -> JournalError | None:
        """Why a child in the background had to end the run."""
        return self._background.failure

    @property
    def live(self) -> Mapping[str, Agent]:
        """The agents at work, by their ids."""
        return self._live

    @property
    def budget(self) -> Budget:
        """What the whole run has used, and may use."""
        return self._budget

    def raise_limit(self, name: str, value: float, spent: float) -> None:
        """Another limit of the whole run from now on. ``spent``: USD so far, which nobody has counted
        towards a limit where there was none."""
        match name:
            case "max_tokens":
                self._budget.max_tokens = int(value)
            case "max_cost":
                self._budget.cost = spent
                self._budget.max_cost = value
            case "max_agents":
                self.children.allow(int(value))

    def scope_of(self, agent_id: str) -> anyio.CancelScope | None:
        """What cancels a child that is at work; ``None`` for the agent that the run is about."""
        return self._scopes.get(agent_id)

    async def open(self) -> None:
        """Start what tools need before there is an agent."""
        await self._remotes.open(self.options.main)
        if (past := self._past) is not None:
            for agent_id in past.unended():
                started = past.started(agent_id)
                assert started is not None, "what has not ended has begun"
                with suppress(SpawnError):  # a definition that is gone is told by whoever needs it
                    definition = self.revival.definition_of(agent_id, started.agent_type)
                    await self._remotes.start(definition)

    async def main(self) -> Agent:
        """The main agent, started."""
        options = self.options
        agent = self.make(MAIN, options.main, parent=None, depth=0)
        around = await self._toolbox.surroundings(agent, options.main)
        spec = compose.started(
            agent_id=MAIN,
            parent_id=None,
            definition=options.main,
            model=options.model_name,
            facts=options.main_facts,
            context=options.context,
            tools=list(agent.tools.values()),
            system=compose.system_of(options.main, around),
            brief=options.task,
            max_turns=options.limits.max_turns,
            depth=0,
        )
        self._check_room(replay([spec]))
        self.lead = agent
        await agent.record(self.run_started(), spec, *self.take_untold())
        return agent

    def _check_room(self, state: State) -> None:
        """Raises `ConfigError` for a token limit that leaves no room for a single call."""
        limit = self._budget.max_tokens
        needed = state.context_tokens + state.output_tokens + handback_tokens(state)
        if limit is not None and limit < needed:
            raise ConfigError(
                f"max_tokens {limit:,} is not enough for one call of {state.spec.model} and a last turn, "
                f"which may take {needed:,} here: give more, for example "
                f"--max-tokens {max(_A_SMALL_RUN_TOKENS, needed * 5)}"
            )

    def run_started(self) -> RunStarted:
        """The first event of a run."""
        options = self.options
        return RunStarted(
            task=options.task,
            task_chars=len(options.task),
            model=options.model_name,
            version=version("outrider"),
            root=str(options.root),
            options=dict(options.kept),
        )

    def take_untold(self) -> list[McpServer]:
        """What happened to servers and is not recorded yet."""
        return self._remotes.take_untold()

    async def facts_of(self, model: str) -> ModelFacts:
        """What a model's server says of it."""
        return await self._models.facts_of(model)

    async def make_child(
        self, parent: Agent, definition: Definition, brief: Brief, child_id: str
    ) -> tuple[Agent, AgentStarted]:
        """A child of ``parent``, and the event that it begins with. Raises `SpawnError`."""
        if resolve(definition, parent.tools).refused:
            names = ", ".join(definition.tools or ())
            raise SpawnError(
                f"{definition.name} names tools that do not exist here ({names}); "
                f"there are: {', '.join(parent.tools)}."
            )
        depth = parent.state.spec.depth + 1
        await self._remotes.start(definition)
        self._learn_from(parent)
        try:
            child = self.make(child_id, definition, parent=parent, depth=depth)
            spec = await self._spec_of_child(child, parent, definition, brief, depth)
        except ValueError as error:
            raise SpawnError(f"{definition.name} cannot be started: {error}") from None
        return child, spec

    async def revive(self, parent: Agent, child_id: str) -> Agent:
        """A child that has ended, as its records leave it: it still knows what it saw."""
        return await self.revival.revive(parent, child_id)

    async def take_over(self, parent: Agent, child_id: str) -> Agent | None:
        """A child that was at work when the process died, to go on; ``None``: there is none."""
        return await self.revival.take_over(parent, child_id)

    async def see_through(self, child: Agent) -> Conclusion:
        """Whatever happens in a child, its parent gets a conclusion; only the journal's failure,
        which ends the run, and cancellation pass through."""
        self._live[child.agent_id] = child
        scope = self._scopes[child.agent_id] = anyio.CancelScope()
        try:
            child.hold(handback_tokens(child.state))
            with scope:
                await run_agent(child)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001
            text = f"{child.state.last_text}\n\n[crashed: {type(error).__name__}: {error}]".strip()
            await conclude(child, "failed", "crashed", text)
        finally:
            del self._live[child.agent_id], self._scopes[child.agent_id]
            child.let_go()
            await end_jobs(child)
        await self._background.end_children_of(child)
        if child.state.ended is None:  # stopped alone, from outside
            await conclude(child, "cancelled", "cancelled", child.state.text_so_far)
        self._learn_from(child)
        assert child.conclusion is not None, "an agent that has ended has a conclusion"
        return child.conclusion

    async def see_alone(self, agent: Agent) -> None:
        """Run an agent to its end without a parent that waits for it; nothing that it started
        outlives it."""
        self._live[agent.agent_id] = agent
        self._group.start_soon(
            watch, lambda: list(self._live.values()), self.options.silent_seconds
        )
        try:
            await run_agent(agent)
        finally:
            await end_jobs(agent)
        await self._background.end_children_of(agent)
        self._group.cancel_scope.cancel()

    def _learn_from(self, agent: Agent) -> None:
        estimator = agent.state.estimator
        if estimator.reports:
            model = agent.state.spec.model
            self._learnt[model] = self._learnt[family_of(model)] = estimator.tokens_per_byte

    async def _spec_of_child(
        self, child: Agent, parent: Agent, definition: Definition, brief: Brief, depth: int
    ) -> AgentStarted:
        options = self.options
        model = options.model_of(definition, parent.state.spec.model)
        around = await self._toolbox.surroundings(child, definition)
        return compose.started(
            agent_id=child.agent_id,
            parent_id=parent.agent_id,
            definition=definition,
            model=model,
            facts=await self.facts_of(model),
            context=options.context,
            tools=list(child.tools.values()),
            # Its own prompt and its brief; memory only where its definition asks for it.
            system=compose.system_of(definition, around),
            brief=brief.prompt,
            max_turns=options.limits.max_turns,
            depth=depth,
            tokens_per_byte=self._learnt.get(model, self._learnt.get(family_of(model))),
        )

    def make(
        self, agent_id: str, definition: Definition, *, parent: Agent | None, depth: int
    ) -> Agent:
        """An agent with its tools, not yet started."""
        limits = definition.max_tokens, definition.max_cost
        budget = parent.budget if parent else self._budget
        own = self._run_dir.agent(agent_id)
        agent = Agent(
            agent_id=agent_id,
            seams=self._seams,
            store=ResultStore(self.options.root, self._run_dir.shown(own.results)),
            desk=DiskDesk.of(self._run_dir, agent_id, is_main=parent is None),
            budget=Budget(max_tokens=limits[0], max_cost=limits[1], parent=budget),
            deadline=Deadline.within(
                definition.max_seconds, parent.deadline if parent else self._deadline
            ),
            permissions=(parent.permissions if parent else self._permissions).narrowed(
                definition.permissions
            ),
        )
        if self._past is not None:
            agent.budget.restore(*self._past.spent(agent_id))
        if definition.conclusion_tokens is not None:
            agent.conclusion_tokens = definition.conclusion_tokens
        agent.line = (*(parent.line if parent else ()), definition)
        agent.tools = self._toolbox.tools_of(agent, definition, parent, depth)
        return agent


def _with_own(options: Options) -> Permissions:
    """The run's rules. Bringing a tool of the name of an optional one, such as `web_search`, enables
    it like a rule."""
    rules = options.permissions
    own = [n for n in OPTIONAL if n in options.tools and not rules.enables(n)]
    return replace(rules, allow=(*rules.allow, *own))


def _governing(options: Options) -> list[str]:
    """What a run was started with is not for its tools to change: the files of the definitions, folders
    and files that were named for more of them and for servers, and where links lead to such."""
    sources = (d.source for d in options.definitions.definitions.values())
    named = (*options.kept.get("agents", ()), options.kept.get("mcp_config"))
    files = [Path(s) for s in sources if not s.startswith("built-in:")]
    files += [Path(s) for s in named if s]
    linked = (options.root.joinpath(*parts) for parts in BY_NAME)
    files += [path for path in linked if os.path.realpath(path) != str(path.absolute())]
    return sorted({p for path in files for p in (str(path.absolute()), os.path.realpath(path))})


def _seconds_left(limits: Limits, past: Past | None) -> float | None:
    """Seconds that the run still has; the time between a stop and a resume does not count."""
    used = 0.0 if past is None else past.summary.seconds
    return None if limits.max_seconds is None else max(limits.max_seconds - used, 0.0)
