"""What one agent gets in its hands: its tools, what they may touch, and what its prompt tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from orchestrator.agent import Agent
from orchestrator.children import Children
from orchestrator.commands import NAME as BASH
from orchestrator.commands import Commands
from orchestrator.compose import Surroundings
from orchestrator.events import TodosWritten
from orchestrator.execution import current_call
from orchestrator.grants import Granted, granted_to
from orchestrator.memories import Memories, Scope
from orchestrator.options import Options
from orchestrator.permissions import BY_RULE
from orchestrator.remotes import Remotes
from orchestrator.rundir import RunDir
from orchestrator.skills import SkillTool, offered
from orchestrator.tools import Tool, tool_of
from orchestrator.webtools import web_tools
from subagents import (
    DELEGATING,
    IN_BACKGROUND,
    ChildTools,
    Definition,
    DescribeTool,
    Loaded,
    SpawnError,
    TaskTool,
    is_shortened,
    listing,
)
from todos import Status as TodoStatus
from todos import Todo, TodoError, TodoTool, parse, render
from workspace import (
    MEMORY_TOOLS,
    READ_ONLY,
    Access,
    FileTools,
    Parts,
    Shell,
    Use,
    WorkspaceError,
    project_instructions,
)

# Names that nobody else's tools may have: what agents do by themselves relies on them.
BUILT_IN = frozenset(
    (
        *(*READ_ONLY, "write_file", "edit_file", "delete_file"),
        *("write_todos", "skill"),
        *DELEGATING,
        *MEMORY_TOOLS,
    )
)
_NO_BACKGROUND = (
    "nothing runs in the background in this run: leave background out (the user can enable it: "
    "--background)"
)
_EXPECTED = (WorkspaceError, TodoError, SpawnError)


class Toolbox:
    """Makes the tools of the agents of one run."""

    def __init__(
        self,
        options: Options,
        run_dir: RunDir,
        group: TaskGroup,
        children: Children,
        remotes: Remotes,
    ) -> None:
        """``group``: the run's own, for commands in the background."""
        self._options = options
        self._run_dir = run_dir
        self._group = group
        self._children = children
        self._remotes = remotes
        self._memories = Memories(options.root)

    def tools_of(
        self, agent: Agent, definition: Definition, parent: Agent | None, depth: int
    ) -> dict[str, Tool]:
        """What the definition grants out of what the parent has; never more."""
        options = self._options
        todos = TodoTool(partial(_read_todos, agent), partial(_write_todos, agent))
        files = FileTools(options.root, self.access(agent))
        agent.files = files
        of = self._children
        kinds = self._options.spawnable(definition)
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
        remote = self._remotes.tools(agent)
        everything = [
            # A page of read_file and a conclusion have limits of their own.
            *(
                tool_of(
                    f,
                    bounded=f.__name__ == "read_file",
                    expected=_EXPECTED,
                    after_crash="repeat" if f.__name__ in READ_ONLY else "ask",
                )
                for f in files.functions()
            ),
            # Made again, these find what they had done: items by content, children by their ids.
            tool_of(todos.write_todos, bounded=True, expected=_EXPECTED, after_crash="repeat"),
            *tools_of_parents(task, kin, background=options.background),
            # Only where the listing had no room for the whole descriptions.
            *(
                tool_of(f, expected=_EXPECTED, after_crash="repeat")
                for f in self._describing(agent, kinds, depth + 1)
            ),
            *self._shell_of(agent),
            *self._memories.tools(agent, self._options.memory_of(definition), definition.name),
            *web_tools(agent),
            *self._skill_tools(agent),
            *options.tools.values(),
            *remote.values(),
        ]
        have = {t.name: t for t in everything if agent.permissions.enables(t.name)}
        agent.off = self._off(agent)
        offered = [
            name for name in have if parent is None or name in parent.tools or name in remote
        ]
        granted = self._granted(definition, offered, depth)
        agent.permissions = agent.permissions.narrowed(bounds=granted.bounds)
        return {name: have[name] for name in granted.tools}

    def _granted(self, definition: Definition, have: Iterable[str], depth: int) -> Granted:
        """What an agent of this kind, so deep in the tree, gets of the tools ``have``."""
        options = self._options
        deepest = options.limits.depth
        may_spawn = deepest is None or depth < deepest
        return granted_to(definition, have, options.memory_of(definition), may_spawn=may_spawn)

    def access(
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

    def _shell_of(self, agent: Agent) -> list[Tool]:
        """The shell tool, where the run enables it."""
        options = self._options
        if not agent.permissions.enables(BASH):
            return []
        agent.shell = Shell(
            options.root,
            self.access(agent),
            agent.store,
            self._group,
            sandbox=options.sandbox,
            network=options.network,
        )
        return [shell_tool(Commands(agent, agent.shell), background=options.background)]

    def _off(self, agent: Agent) -> dict[str, str]:
        """Tools that this run does not enable, each with what would."""
        options, rules = self._options, agent.permissions
        off = {name: f"--allow {name}" for name in BY_RULE if not rules.mentions(name)}
        if not options.background:
            off |= dict.fromkeys(IN_BACKGROUND, "--background")
        if not options.memory:
            off |= dict.fromkeys(MEMORY_TOOLS, "--memory")
        return {name: how for name, how in off.items() if not rules.denies_tool(name)}

    def _describing(self, agent: Agent, kinds: Loaded, depth: int) -> list[Callable[..., Any]]:
        """``depth``: of the agents that are described."""

        def tools_of(definition: Definition) -> list[str]:
            return self._granted(definition, agent.tools, depth).as_texts()

        def model_of(definition: Definition) -> str:
            return self._options.model_of(definition, agent.state.spec.model)

        if not is_shortened(kinds):
            return []
        return [DescribeTool(kinds, tools_of, model_of).describe_subagent]

    def _skill_tools(self, agent: Agent) -> list[Tool]:
        if (skills := self._skills_of(agent)) is None:
            return []
        made = tool_of(skills.skill, bounded=True, expected=(WorkspaceError,), after_crash="repeat")
        return [made]

    def _skills_of(self, agent: Agent) -> SkillTool | None:
        """What the agent's rules let it read of the skills: looked at once for each set of rules."""
        if agent.skills is None or agent.skills[0] is not agent.permissions:
            skills = offered(
                self._options.skills,
                partial(self.access, agent, asks=False),
                partial(self.access, agent),
            )
            agent.skills = (agent.permissions, skills)
        return agent.skills[1]

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

    async def surroundings(self, agent: Agent, definition: Definition) -> Surroundings:
        """What the agent's system prompt says beyond its definition."""
        scope = self._options.memory_of(definition)
        instructed = scope != "none" if definition.instructions is None else definition.instructions
        instructed = instructed and self._options.memory
        if scope == "none" and not instructed:
            # As for most children: nothing is read, so no thread is needed.
            return self._surroundings(agent, definition, scope, instructed=False)
        return await run_sync(
            partial(self._surroundings, agent, definition, scope, instructed=instructed)
        )

    def _surroundings(
        self, agent: Agent, definition: Definition, scope: Scope, *, instructed: bool
    ) -> Surroundings:
        options = self._options
        skills = self._skills_of(agent)
        around = Surroundings(
            root=str(options.root),
            date=date.today().isoformat(),
            listing=listing(options.spawnable(definition)) if "task" in agent.tools else "",
            memory=self._memories.snapshot(scope, definition.name),
            skills=skills.listing() if skills and "skill" in agent.tools else "",
        )
        if not instructed:
            return around
        access = self.access(agent, asks=False)
        return replace(around, instructions=project_instructions(options.root, access.check_read))


def tools_of_parents(task: TaskTool, kin: ChildTools, *, background: bool) -> list[Tool]:
    """The tools of an agent that may start others."""
    makers: list[Callable[..., Tool]] = [
        _with_background(background, task.task),
        *(partial(tool_of, f) for f in (kin.check_task, kin.cancel_task) if background),
        partial(tool_of, kin.ask_task),
    ]
    return [make(bounded=True, expected=_EXPECTED, after_crash="repeat") for make in makers]


def shell_tool(commands: Commands, *, background: bool) -> Tool:
    """`bash`. It offloads by itself: what was printed is in a file already."""
    make = _with_background(background, commands.bash)
    return make(bounded=True, expected=_EXPECTED, after_crash="ask")


def _with_background(is_on: bool, function: Callable[..., Any]) -> Callable[..., Tool]:
    """What makes a tool of a function that can do its work in the background."""
    if is_on:
        return partial(tool_of, function)
    return partial(tool_of, partial(function, background=False), off={"background": _NO_BACKGROUND})


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
