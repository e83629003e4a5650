"""The agents of one run: making each from its definition, and starting children for their parents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from orchestrator import compose
from orchestrator.agent import Agent, Deadline, Observe, Seams
from orchestrator.background import SILENT_SECONDS, Background, watch
from orchestrator.budget import Budget, Limits
from orchestrator.calls import handback_tokens
from orchestrator.children import Children
from orchestrator.commands import NAME as BASH
from orchestrator.commands import Commands, end_jobs
from orchestrator.compose import MAIN, MODEL_ALIASES, REHEARSAL, Surroundings
from orchestrator.concluding import conclude
from orchestrator.context.policy import Context, working_window
from orchestrator.desk import DiskDesk
from orchestrator.errors import JournalError, ModelError, Overloaded
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
    TodosWritten,
)
from orchestrator.execution import current_call
from orchestrator.journal import read_records
from orchestrator.loop import run_agent
from orchestrator.mcp import PROJECT_FILE, Found, Happening, Servers, own_servers, reach
from orchestrator.memories import Memories, Scope, granting, scope_of
from orchestrator.model import Model, ModelFacts
from orchestrator.past import Past
from orchestrator.permissions import OPTIONAL, Ask, Permissions, can_bind
from orchestrator.prices import Overrides
from orchestrator.reins import Reins
from orchestrator.rundir import RunDir
from orchestrator.skills import Skill, SkillTool, offered
from orchestrator.state import replay
from orchestrator.tools import Tool, tool_of
from orchestrator.webtools import web_tools
from subagents import (
    Brief,
    ChildTools,
    Conclusion,
    Definition,
    DescribeTool,
    Loaded,
    SpawnError,
    TaskTool,
    is_shortened,
    listing,
    resolve,
)
from todos import Status as TodoStatus
from todos import Todo, TodoError, TodoTool, parse, render
from workspace import (
    MEMORY_TOOLS,
    READ_ONLY,
    Access,
    FileTools,
    Parts,
    ResultStore,
    Root,
    Shell,
    Use,
    WorkspaceError,
    project_instructions,
)

MAIN_ID = "main"
_OF_PARENTS = ("task", "check_task", "cancel_task", "ask_task", "describe_subagent")
_GO_ON = "Go on with the task where you stopped: the limit or error that ended it no longer holds."
_LEFT_BEHIND = (
    "This run was forked from another one. Subagents that were in the background there are not here: "
    "{children}. Start them again if you need what they were to do."
)
_READING = ("ls", "read_file", "glob", "grep")
# Names that nobody else's tools may have: what agents do by themselves relies on them.
BUILT_IN = frozenset(
    (
        *(*READ_ONLY, "write_file", "edit_file", "delete_file"),
        *("write_todos", "skill"),
        *_OF_PARENTS,
        *MEMORY_TOOLS,
    )
)
DESCRIBE_SECONDS = 5.0
DESCRIBE_AGAIN_SECONDS = 0.25


@dataclass(frozen=True)
class Options:
    """Everything that a run is started with, checked."""

    task: str
    root: Path
    model: Model
    model_name: str
    run_id: str
    main: Definition = MAIN
    tools: Mapping[str, Tool] = field(default_factory=dict)
    servers: Found = Found()
    definitions: Loaded = field(default_factory=Loaded)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    limits: Limits = Limits()
    context: Context = Context()
    permissions: Permissions = Permissions()
    ask: Ask | None = None
    reins: Reins | None = None
    sandbox: bool = True
    network: bool = False
    memory: bool = True
    main_facts: ModelFacts = ModelFacts()
    aliases: Mapping[str, str] = field(default_factory=lambda: MODEL_ALIASES)
    prices: Overrides = field(default_factory=dict)
    log_content: bool = False
    telemetry: bool = False
    observers: Sequence[Observe] = ()
    silent_seconds: float = SILENT_SECONDS
    # The settings as the journal keeps them (`kept.Kept`).
    kept: Mapping[str, Any] = field(default_factory=dict)

    @property
    def overrides_models(self) -> bool:
        """The rehearsal answers for every model that a definition names."""
        return self.model_name == REHEARSAL


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


class Team:
    """Makes the agents of a run and starts them."""

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
        self._options = options
        self._group = group
        self._background = Background(group)
        self._children = Children(self, self._background, options.limits.max_agents)
        self._live: dict[str, Agent] = {}
        self._memories = Memories(options.root)
        # The main agent, once there is one.
        self.lead: Agent | None = None
        self._past = past
        # Agents of the past that go on in this process.
        self._taken: set[str] = set()
        self._deadline = Deadline.within(_seconds_left(options.limits, past), None)
        self._run_dir = run_dir
        self._seams = seams
        self._budget = Budget(
            max_tokens=options.limits.max_tokens, max_cost=options.limits.max_cost
        )
        self._permissions = _with_own(options).within(
            *Root(options.root).spellings, files=_files_of(options)
        )
        self._facts = {options.model_name: options.main_facts}
        self._asking = anyio.Lock()
        self._servers = Servers(
            group,
            options.root,
            run_dir.folder / "mcp",
            options.permissions,
            self._tell_of_server,
        )
        # Definitions whose own servers have been looked at.
        self._met: set[str] = set()
        # What happened to servers before there was an agent to record it.
        self._untold: list[McpServer] = []
        # Tokens a byte, by model: what one agent's reports have taught serves the next.
        self._learnt: dict[str, float] = {}
        if past is not None:
            self._budget.restore(*past.spent())
            ended = {a: e for a in past.facts if (e := past.end_of(a)) is not None}
            conclusions = {a: _conclusion_of(past, a, end) for a, end in ended.items()}
            self._children.restore(past.spawned, conclusions)

    @property
    def failure(self) -> JournalError | None:
        """Why a child in the background had to end the run."""
        return self._background.failure

    async def open(self) -> None:
        """Start what tools need before there is an agent."""
        for problem in self._options.servers.problems:
            await self._tell_of_server(Happening(PROJECT_FILE, "failed", "", text=problem))
        await self._start_servers(self._options.main)
        if (past := self._past) is not None:
            for agent_id in past.unended():
                kind = past.state(agent_id).spec.agent_type
                with suppress(SpawnError):  # a definition that is gone is told by whoever needs it
                    await self._start_servers(self._definition(agent_id, kind))

    async def main(self) -> Agent:
        """The main agent, started."""
        options = self._options
        agent = self._make(MAIN_ID, options.main, parent=None, depth=0)
        around = await run_sync(self._surroundings, agent, options.main)
        spec = compose.started(
            agent_id=MAIN_ID,
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
        self.lead = agent
        await agent.record(self._run_started(), spec, *self._take_untold())
        return agent

    def changes(self) -> list[str]:
        """How what there is now differs from what the unended agents of the past began with."""
        assert self._past is not None, "only a run that goes on has a past"
        said = []
        for agent_id in self._past.unended() or [MAIN_ID]:
            started = self._past.started(agent_id)
            assert started is not None, "what has not ended has begun"
            said += self.changes_of(agent_id, started)
        return said

    def changes_of(self, agent_id: str, started: AgentStarted) -> list[str]:
        """The same for one agent."""
        try:
            definition = self._definition(agent_id, started.agent_type)
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
        self.lead = agent = self._like(MAIN_ID, source.started)
        await agent.record(
            self._run_started(), source.started, source.as_event(), *self._take_untold()
        )
        left = replay([source.started, *source.facts]).background
        agent.desk.is_followup = False
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
        definition = self._definition(agent_id, started.agent_type)
        agent = self._make(agent_id, definition, parent=parent, depth=started.depth)
        # It is offered what its requests declare, and no more.
        agent.tools = {name: agent.tools[name] for name in started.tools if name in agent.tools}
        return agent

    async def go_on(self, agent_id: str, message: str | None) -> Agent:
        """An agent of the past, ready to go on where it ended or was stopped."""
        agent = self._from_past(agent_id)
        assert self.lead is not None, "every agent of the past has the main agent above it"
        await self.lead.record(
            RunResumed(version=version("outrider"), options=dict(self._options.kept)),
            *self._take_untold(),
        )
        ended = agent.state.ended
        if message is None and ended is not None and ended.status == "finished":
            return agent  # only the end of the run was not recorded any more
        await self._take_up(agent)
        if message is not None:
            agent.deliver(MessageAdded(text=message, origin="user"))
        elif agent.state.reply_open and not agent.state.pending:
            agent.deliver(MessageAdded(text=_GO_ON, origin="outrider"))
        return agent

    async def take_over(self, parent: Agent, child_id: str) -> Agent | None:
        """A child that was at work when the process died, to go on; ``None``: there is none."""
        past = self._past
        if past is None or child_id in self._taken or not past.has_begun(child_id):
            return None
        if past.end_of(child_id) is not None:
            return None
        child = self._restored(parent, child_id, past.facts[child_id])
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
                definition = self._definition(spawned.child_id, spawned.child_type)
                await self._children.take_over(agent, definition, spawned)

    async def _resumed(self, agent: Agent) -> AgentResumed:
        """The event by which an agent goes on, with the settings of now."""
        options, spec = self._options, agent.state.spec
        definition = self._definition(agent.agent_id, spec.agent_type)
        turns = [n for n in (options.limits.max_turns, definition.max_turns) if n is not None]
        in_flight = [i for i, _ in agent.state.unanswered if i in agent.state.begun]
        fact = AgentResumed(interrupted=len(in_flight), max_turns=min(turns, default=None))
        settings = compose.settings_of(
            definition,
            options.context,
            window := compose.window_of(spec.model, await self._facts_of(spec.model)),
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
        agent = self._restored(parent, agent_id, facts)
        if parent is None:
            self.lead = agent
        return agent

    def _definition(self, agent_id: str, agent_type: str) -> Definition:
        if agent_id == MAIN_ID:
            return self._options.main
        definition = self._options.definitions.get(agent_type)
        if definition is None:
            raise SpawnError(f"The definition of {agent_id} is gone.")
        return definition

    def _restored(self, parent: Agent | None, agent_id: str, facts: Sequence[Event]) -> Agent:
        """An agent as ``facts``, all of its events, leave it."""
        state = replay(facts)
        spec = state.spec
        definition = self._definition(agent_id, spec.agent_type)
        agent = self._make(agent_id, definition, parent=parent, depth=spec.depth)
        agent.state = state
        agent.children = [f.child_id for f in facts if isinstance(f, AgentSpawned)]
        # It is offered what its requests declare, and no more.
        agent.tools = {name: agent.tools[name] for name in spec.tools if name in agent.tools}
        agent.desk.is_followup = any(isinstance(f, AgentEnded) for f in facts)
        if agent.files is not None:
            agent.files.recall(state.seen)
        return agent

    def _run_started(self) -> RunStarted:
        options = self._options
        return RunStarted(
            task=options.task,
            task_chars=len(options.task),
            model=options.model_name,
            version=version("outrider"),
            root=str(options.root),
            options=dict(options.kept),
        )

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
        await self._start_servers(definition)
        self._learn_from(parent)
        try:
            child = self._make(child_id, definition, parent=parent, depth=depth)
            spec = await self._spec_of_child(child, parent, definition, brief, depth)
        except ValueError as error:
            raise SpawnError(f"{definition.name} cannot be started: {error}") from None
        return child, spec

    async def revive(self, parent: Agent, child_id: str) -> Agent:
        """A child that has ended, as its records leave it: it still knows what it saw."""
        records = partial(read_records, self._run_dir.journal, agent=child_id)
        facts = await run_sync(lambda: [record.fact for record in records()])
        return self._restored(parent, child_id, facts)

    async def see_through(self, child: Agent) -> Conclusion:
        """Whatever happens in a child, its parent gets a conclusion; only the journal's failure,
        which ends the run, and cancellation pass through."""
        self._live[child.agent_id] = child
        try:
            child.hold(handback_tokens(child.state))
            await run_agent(child)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001
            text = f"{child.state.last_text}\n\n[crashed: {type(error).__name__}: {error}]".strip()
            await conclude(child, "failed", "crashed", text)
        finally:
            del self._live[child.agent_id]
            child.let_go()
            await end_jobs(child)
        await self._background.end_children_of(child)
        self._learn_from(child)
        assert child.conclusion is not None, "an agent that has ended has a conclusion"
        return child.conclusion

    async def see_alone(self, agent: Agent) -> None:
        """Run an agent to its end without a parent that waits for it; nothing that it started
        outlives it."""
        self._live[agent.agent_id] = agent
        self._group.start_soon(
            watch, lambda: list(self._live.values()), self._options.silent_seconds
        )
        try:
            await run_agent(agent)
        finally:
            await end_jobs(agent)
        await self._background.end_children_of(agent)
        self._group.cancel_scope.cancel()

    async def _start_servers(self, definition: Definition) -> None:
        """Those of the run, and those that a definition brings along; each once."""
        own = own_servers(definition, os.environ)
        if definition.name not in self._met:
            self._met.add(definition.name)
            for problem in own.problems:
                await self._tell_of_server(Happening(definition.name, "failed", "", text=problem))
        await self._servers.start((*self._options.servers.servers, *own.servers))

    def _remote(self, agent: Agent) -> dict[str, Tool]:
        """The tools of servers that the agent has if it begins now, by name."""
        servers, permissions = self._servers, agent.permissions

        def keys(definition: Definition) -> list[str]:
            return [server.key for server in own_servers(definition, os.environ).servers]

        shared = [server.key for server in self._options.servers.servers]
        tools = servers.tools((*shared, *(key for d in agent.line for key in keys(d))))
        names = reach(agent.line, servers.tools(shared), lambda d: servers.tools(keys(d)))
        return {name: tools[name] for name in names if servers.may_offer(name, permissions)}

    async def _tell_of_server(self, happening: Happening) -> None:
        self._untold.append(McpServer(**asdict(happening)))
        if self.lead is None or self.lead.state.started is None:
            return
        # A journal that cannot be written ends the run by whoever needs it; a server's owner does not.
        with suppress(JournalError):
            await self.lead.record(*self._take_untold())

    def _take_untold(self) -> list[McpServer]:
        told, self._untold = self._untold, []
        return told

    def _learn_from(self, agent: Agent) -> None:
        estimator = agent.state.estimator
        if estimator.reports:
            self._learnt[agent.state.spec.model] = estimator.tokens_per_byte

    async def _spec_of_child(
        self, child: Agent, parent: Agent, definition: Definition, brief: Brief, depth: int
    ) -> AgentStarted:
        options = self._options
        model = self._model_of(definition, parent.state.spec.model)
        around = await run_sync(self._surroundings, child, definition)
        return compose.started(
            agent_id=child.agent_id,
            parent_id=parent.agent_id,
            definition=definition,
            model=model,
            facts=await self._facts_of(model),
            context=options.context,
            tools=list(child.tools.values()),
            # Its own prompt and its brief; memory only where its definition asks for it.
            system=compose.system_of(definition, around),
            brief=brief.prompt,
            max_turns=options.limits.max_turns,
            depth=depth,
            tokens_per_byte=self._learnt.get(model),
        )

    def _make(
        self, agent_id: str, definition: Definition, *, parent: Agent | None, depth: int
    ) -> Agent:
        """An agent with its tools, not yet started."""
        limits = definition.max_tokens, definition.max_cost
        budget = parent.budget if parent else self._budget
        own = self._run_dir.agent(agent_id)
        agent = Agent(
            agent_id=agent_id,
            seams=self._seams,
            store=ResultStore(self._options.root, self._run_dir.shown(own.results)),
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
        agent.tools = self._tools_of(agent, definition, parent, depth)
        return agent

    def _tools_of(
        self, agent: Agent, definition: Definition, parent: Agent | None, depth: int
    ) -> dict[str, Tool]:
        """What the definition grants out of what the parent has; never more."""
        options = self._options
        todos = TodoTool(partial(_read_todos, agent), partial(_write_todos, agent))
        files = FileTools(options.root, self._access(agent))
        agent.files = files
        of = self._children
        kinds = self._spawnable(definition)
        task = TaskTool(
            kinds,
            partial(of.start, agent),
            partial(_bind, agent, todos),
            launch=partial(of.launch, agent),
        )
        agent.spawner = task
        kin = ChildTools(
            partial(of.check, agent), partial(of.cancel, agent), partial(of.ask, agent)
        )
        expected = (WorkspaceError, TodoError, SpawnError)
        remote = self._remote(agent)
        everything = [
            # A page of read_file and a conclusion have limits of their own.
            *(
                tool_of(
                    f,
                    bounded=f.__name__ == "read_file",
                    expected=expected,
                    after_crash="repeat" if f.__name__ in _READING else "ask",
                )
                for f in files.functions()
            ),
            # Made again, these find what they had done: items by content, children by their ids.
            *(
                tool_of(f, bounded=True, expected=expected, after_crash="repeat")
                for f in (
                    todos.write_todos,
                    task.task,
                    kin.check_task,
                    kin.cancel_task,
                    kin.ask_task,
                )
            ),
            # Only where the listing had no room for the whole descriptions.
            *(
                tool_of(f, expected=expected, after_crash="repeat")
                for f in self._describing(agent, kinds)
            ),
            *self._shell_of(agent, expected),
            *self._memories.tools(agent, self._memory_of(definition), definition.name),
            *web_tools(agent),
            *self._skill_tools(agent),
            *options.tools.values(),
            *remote.values(),
        ]
        have = {t.name: t for t in everything if agent.permissions.enables(t.name)}
        if definition.todos is False:
            have.pop("write_todos", None)
        deepest = options.limits.depth
        if definition.can_spawn is False or (deepest is not None and depth >= deepest):
            for name in _OF_PARENTS:
                have.pop(name, None)
        offered = [
            name for name in have if parent is None or name in parent.tools or name in remote
        ]
        granted = resolve(granting(definition, self._memory_of(definition)), offered)
        # A grant with a pattern is narrower than the tool; one that cannot be read grants nothing.
        bounds = {name: p for name, p in granted.patterns.items() if can_bind(name, p)}
        agent.permissions = agent.permissions.narrowed(bounds=bounds)
        unread = granted.patterns.keys() - bounds.keys()
        return {name: have[name] for name in granted.tools if name not in unread}

    def _access(
        self,
        agent: Agent,
        private: Callable[[], Iterable[str]] | None = None,
        *,
        asks: bool = True,
    ) -> Access:
        """What the agent's file tools may touch; asked for every path that they meet. Without
        ``asks`` only denials count: nobody is asked when Outrider itself reads for the agent.
        ``private``: what is read of Outrider's own folder, instead of what the agent may."""

        def check(use: Use, parts: Parts) -> None:
            call = current_call.get(None)
            tool, passed = (call.tool, call.passed) if call else ("", frozenset[str]())
            agent.permissions.check_path(tool, use, parts, passed if asks else None)

        return Access(
            readable_private=private or self._readable(agent),
            also=check,
            speaks=lambda: agent.permissions.speaks_of_paths,
            guarded=agent.permissions.guarded,
        )

    def _shell_of(self, agent: Agent, expected: tuple[type[Exception], ...]) -> list[Tool]:
        """The shell tool, where the run enables it."""
        options = self._options
        if not agent.permissions.enables(BASH):
            return []
        agent.shell = Shell(
            options.root,
            self._access(agent),
            agent.store,
            self._group,
            sandbox=options.sandbox,
            network=options.network,
        )
        bash = Commands(agent, agent.shell).bash
        # It offloads by itself: what was printed is in a file already.
        return [tool_of(bash, bounded=True, expected=expected, after_crash="ask")]

    def _describing(self, agent: Agent, kinds: Loaded) -> list[Callable[..., Any]]:
        def model_of(definition: Definition) -> str:
            return self._model_of(definition, agent.state.spec.model)

        if not is_shortened(kinds):
            return []
        return [DescribeTool(kinds, lambda: agent.tools, model_of).describe_subagent]

    def _skill_tools(self, agent: Agent) -> list[Tool]:
        if (skills := self._skills_of(agent)) is None:
            return []
        made = tool_of(skills.skill, bounded=True, expected=(WorkspaceError,), after_crash="repeat")
        return [made]

    def _skills_of(self, agent: Agent) -> SkillTool | None:
        return offered(
            self._options.skills,
            partial(self._access, agent, asks=False),
            partial(self._access, agent),
        )

    def _model_of(self, definition: Definition, parent_model: str) -> str:
        options = self._options
        if options.overrides_models:
            return options.model_name
        return definition.model_for(parent_model, options.aliases)

    def _spawnable(self, definition: Definition) -> Loaded:
        known = self._options.definitions
        if not isinstance(definition.can_spawn, tuple):
            return known
        names = {name.casefold() for name in definition.can_spawn}
        return Loaded({k: d for k, d in known.definitions.items() if k.casefold() in names})

    def _readable(self, agent: Agent) -> Callable[[], Iterable[str]]:
        """What an agent may read of Outrider's own folder: its files, its children's results, and the
        folders of skills that it can read anyway."""
        shown, folder = self._run_dir.shown, self._run_dir.agent
        skills = self._skills_of(agent)

        def prefixes() -> Iterable[str]:
            yield shown(folder(agent.agent_id).folder)
            yield from agent.state.readable
            if skills is not None and "skill" in agent.tools:
                yield from skills.folders
            for child in agent.children:
                yield shown(folder(child).results)
                # The first conclusion, and those of questions asked afterwards.
                for file in folder(child).folder.glob("conclusion*.md"):
                    yield shown(file)

        return prefixes

    def _surroundings(self, agent: Agent, definition: Definition) -> Surroundings:
        options = self._options
        scope = self._memory_of(definition)
        instructed = scope != "none" if definition.instructions is None else definition.instructions
        skills = self._skills_of(agent)
        around = Surroundings(
            root=str(options.root),
            date=date.today().isoformat(),
            listing=listing(self._spawnable(definition)) if "task" in agent.tools else "",
            memory=self._memories.snapshot(scope, definition.name),
            skills=skills.listing() if skills and "skill" in agent.tools else "",
        )
        if not (instructed and options.memory):
            return around
        access = self._access(agent, asks=False)
        return replace(around, instructions=project_instructions(options.root, access.check_read))

    def _memory_of(self, definition: Definition) -> Scope:
        options = self._options
        if not options.memory:
            return "none"
        return scope_of(definition, is_main=definition is options.main)

    async def _facts_of(self, model: str) -> ModelFacts:
        """What the model's server says of it, asked once."""
        async with self._asking:
            if model not in self._facts:
                self._facts[model] = await described(self._seams.model, model)
        return self._facts[model]


def _with_own(options: Options) -> Permissions:
    """The run's rules. Bringing a tool of the name of an optional one, such as `web_search`, enables
    it like a rule."""
    rules = options.permissions
    own = [n for n in OPTIONAL if n in options.tools and not rules.enables(n)]
    return replace(rules, allow=(*rules.allow, *own))


def _files_of(options: Options) -> list[str]:
    """The files of the definitions: what a run was started with is not for its tools to change."""
    sources = (d.source for d in options.definitions.definitions.values())
    return [str(Path(s).absolute()) for s in sources if not s.startswith("built-in:")]


async def described(model: Model, name: str) -> ModelFacts:
    """What the server says of model ``name``. Silence and errors leave it to the table: a wrong key
    or address is told by the first call."""
    with anyio.move_on_after(DESCRIBE_SECONDS), suppress(ModelError):
        while True:
            try:
                return await model.describe(name)
            except Overloaded:  # a local server that is still loading its model
                await anyio.sleep(DESCRIBE_AGAIN_SECONDS)
    return ModelFacts()


def _seconds_left(limits: Limits, past: Past | None) -> float | None:
    """Seconds that the run still has; the time between a stop and a resume does not count."""
    used = 0.0 if past is None else past.summary.seconds
    return None if limits.max_seconds is None else max(limits.max_seconds - used, 0.0)


def _conclusion_of(past: Past, agent_id: str, ended: AgentEnded) -> Conclusion:
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


def _read_todos(agent: Agent) -> tuple[Todo, ...]:
    return parse(agent.state.todos)


async def _write_todos(agent: Agent, items: tuple[Todo, ...]) -> None:
    text = render(items)
    done = sum(item.status == "completed" for item in items)
    await agent.record(TodosWritten(text=text, done=done, total=len(items)))
    await agent.desk.write_todos(text)


async def _bind(agent: Agent, todos: TodoTool, item: str, status: TodoStatus) -> None:
    """Let a plan item follow a subagent, where the agent keeps a plan."""
    if "write_todos" not in agent.tools:
        raise TodoError("there is no plan here: leave todo out")
    await todos.set_status(item, status)
