"""What a definition comes to under the settings: its tools, model, window, sizes and limits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from orchestrator.config import Settings
    from orchestrator.grants import Granted
    from orchestrator.tools import Tool
    from subagents import Definition, Loaded, Problem

# A main agent's children are one level deep.
_CHILDS_DEPTH = 1
_BUILT_IN = "built-in:"

# Tools by name, with the tokens that their schemas cost; `None` where that is not known.
Tools = Mapping[str, int | None]


def described(
    definition: Definition, settings: Settings, root: Path, have: Tools
) -> dict[str, Any]:
    """A definition as JSON, as a child of a main agent that has the tools ``have``."""
    granted = _granted(definition, settings, have)
    tools = list(granted.tools)
    model, window, known = _model(definition, settings)
    return {
        "name": definition.name,
        "description": definition.description,
        "tools": tools,
        "bounds": {tool: list(patterns) for tool, patterns in granted.bounds.items()},
        "unknown_tools": list(granted.unknown),
        "model": model,
        "window_tokens": window,
        "window_known": known,
        "prompt_tokens": tokens(definition.prompt),
        "schema_tokens": sum(have[tool] or 0 for tool in tools),
        "unmeasured_tools": [tool for tool in tools if have[tool] is None],
        "limits": _limits(definition, settings),
        "effort": definition.effort,
        "can_spawn": _can_spawn(definition, tools),
        "denied": list((definition.permissions or {}).get("deny", ())),
        "returns": _returns(definition),
        "source": shown_path(definition.source, root),
        "prompt": definition.prompt,
    }


def available(settings: Settings, root: Path, found: Loaded) -> dict[str, int | None]:
    """The tools of a main agent in this workspace, under the settings' denials."""
    made = [
        *_of_everyone(root, found, settings),
        *_of_shell(settings),
        *(_of_memory(root) if settings.memory else ()),
        *_of_web(),
        *_of_skills(root, settings),
    ]
    sizes: dict[str, int | None] = {tool.name: tokens(_json(tool.schema)) for tool in made}
    # By name only: looking at a project must not run its code.
    own = {spec.rpartition(":")[2]: None for spec in settings.tools}
    permissions = settings.permissions()
    return {name: size for name, size in {**sizes, **own}.items() if permissions.enables(name)}


# In the order of a request. Nothing of the tools is called.


def _of_everyone(root: Path, found: Loaded, settings: Settings) -> Iterator[Tool]:
    from orchestrator.toolbox import tools_of_parents
    from orchestrator.tools import tool_of
    from subagents import ChildTools, DescribeTool, TaskTool, is_shortened
    from todos import TodoTool
    from workspace import Access, FileTools

    yield from map(tool_of, FileTools(root, Access()).functions())
    yield tool_of(TodoTool(_nowhere, _nowhere).write_todos)
    task, kin = TaskTool({}, _nowhere, _nowhere), ChildTools(_nowhere, _nowhere, _nowhere)
    yield from tools_of_parents(task, kin, background=settings.background)
    if is_shortened(found):
        yield tool_of(DescribeTool({}, _nowhere, _nowhere).describe_subagent)


def _of_memory(root: Path) -> Iterable[Tool]:
    from orchestrator.tools import tool_of
    from workspace import Memory, MemoryTools

    return map(tool_of, MemoryTools(Memory(root), _nowhere, _nowhere).functions())


def _of_shell(settings: Settings) -> Iterable[Tool]:
    from orchestrator.commands import Commands
    from orchestrator.toolbox import shell_tool

    nobody = cast(Any, None)
    return [shell_tool(Commands(nobody, nobody), background=settings.background)]


def _of_web() -> Iterable[Tool]:
    from orchestrator.tools import tool_of
    from orchestrator.web import Fetch

    return [tool_of(Fetch(cast(Any, None)).fetch)]


def _of_skills(root: Path, settings: Settings) -> Iterable[Tool]:
    from orchestrator.places import user_skill_folders
    from orchestrator.skills import find_skills, offered
    from orchestrator.tools import tool_of
    from workspace import Access, Parts, Use

    permissions = settings.permissions()

    def check(use: Use, parts: Parts) -> None:
        permissions.check_path("", use, parts, None)

    found = find_skills(root, user_skill_folders())
    tool = offered(found.known, lambda private: Access(readable_private=private, also=check))
    return [] if tool is None else [tool_of(tool.skill)]


def _nowhere(*_: Any) -> Any:
    raise AssertionError("tools that are only measured are not called")


def tokens(text: str) -> int:
    """A quarter of its UTF-8 bytes, as everything is estimated before a model has reported."""
    return -(-len(text.encode(errors="surrogatepass")) // 4)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _granted(definition: Definition, settings: Settings, have: Tools) -> Granted:
    from orchestrator.grants import granted_to
    from orchestrator.memories import scope_of

    scope = scope_of(definition, is_main=False) if settings.memory else "none"
    may_spawn = settings.depth is None or settings.depth > _CHILDS_DEPTH
    return granted_to(definition, have, scope, may_spawn=may_spawn)


def _can_spawn(definition: Definition, tools: Iterable[str]) -> bool | list[str]:
    if "task" not in tools:
        return False
    return list(definition.can_spawn) if isinstance(definition.can_spawn, tuple) else True


def _returns(definition: Definition) -> dict[str, Any] | None:
    """The schema of its conclusions; nothing where what it says is none, which is a problem of its file."""
    from subagents import schema_of

    try:
        return None if definition.returns is None else schema_of(definition.returns)
    except ValueError:
        return None


def _model(definition: Definition, settings: Settings) -> tuple[str, int, bool]:
    """(model, its working window, whether that is more than a guess). ``inherit`` has the main
    agent's window."""
    from orchestrator.compose import (
        DEFAULT_MODEL,
        MODEL_ALIASES,
        REHEARSAL,
        resolved,
        settings_of,
    )
    from orchestrator.context import window_for
    from orchestrator.context.policy import working_window

    aliases = {**MODEL_ALIASES, **settings.models}
    shown = definition.model_for("inherit", aliases)
    main = resolved(settings.model or DEFAULT_MODEL, aliases)
    model = REHEARSAL if main == REHEARSAL else main if shown == "inherit" else shown
    window = window_for(model)
    context = settings_of(definition, settings.context(), window, is_child=True)
    return (
        model if main == REHEARSAL else shown,
        working_window(context, window),
        window.known or context.window is not None,
    )


def _limits(definition: Definition, settings: Settings) -> dict[str, int | float | None]:
    """What holds: the less of what the definition and the run say, or what the definition changes."""
    from orchestrator.compose import context_of
    from subagents import CONCLUSION_TOKENS

    context = context_of(definition, settings.context())
    both = ("max_turns", "max_tokens", "max_seconds", "max_cost")
    return {
        **{name: _less(getattr(definition, name), getattr(settings, name)) for name in both},
        "conclusion_tokens": definition.conclusion_tokens or CONCLUSION_TOKENS,
        "offload_at": context.offload_at,
        "compact_at": context.compact_at,
    }


def _less(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


# ── paths ──


def shown_path(path: str, root: Path) -> str:
    """A path from the root where it is below it, else as it is."""
    if path.startswith(_BUILT_IN):
        return path
    base = os.path.abspath(root)
    whole = os.path.abspath(path)
    return os.path.relpath(whole, base) if whole.startswith(base + os.sep) else path


def shown_problem(problem: Problem, root: Path) -> Problem:
    """A problem with its paths from the root."""
    below = os.path.join(os.path.abspath(root), "")
    message = problem.message.replace(below, "")
    return replace(problem, path=shown_path(problem.path, root), message=message)
