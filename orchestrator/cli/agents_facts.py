"""What a definition comes to under the settings: its tools, model, window, sizes and limits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from orchestrator.config import Settings
    from subagents import Definition, Loaded, Problem

# A main agent's children are one level deep.
_CHILDS_DEPTH = 1
_OF_PARENTS = frozenset({"task", "check_task", "cancel_task", "ask_task", "describe_subagent"})
_BUILT_IN = "built-in:"

# Tools by name, with the tokens that their schemas cost; `None` where that is not known.
Tools = Mapping[str, int | None]


def described(
    definition: Definition, settings: Settings, root: Path, have: Tools
) -> dict[str, Any]:
    """A definition as JSON, as a child of a main agent that has the tools ``have``."""
    tools, bounds, unknown = _granted(definition, settings, have)
    model, window, known = _model(definition, settings)
    return {
        "name": definition.name,
        "description": definition.description,
        "tools": tools,
        "bounds": bounds,
        "unknown_tools": unknown,
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
    from orchestrator.tools import tool_of

    functions = [
        *_functions(root, found),
        *(_of_memory(root) if settings.memory else ()),
        *_of_skills(root, settings),
        *_of_shell(),
    ]
    made = (tool_of(function) for function in functions)
    sizes: dict[str, int | None] = {tool.name: tokens(_json(tool.schema)) for tool in made}
    # By name only: looking at a project must not run its code.
    own = {spec.rpartition(":")[2]: None for spec in settings.tools}
    permissions = settings.permissions()
    return {name: size for name, size in {**sizes, **own}.items() if permissions.enables(name)}


def _functions(root: Path, found: Loaded) -> Iterable[Callable[..., Any]]:
    """The functions behind the tools, in the order of a request. Nothing of them is called."""
    from subagents import ChildTools, DescribeTool, TaskTool, is_shortened
    from todos import TodoTool
    from workspace import Access, FileTools

    yield from FileTools(root, Access()).functions()
    yield TodoTool(_nowhere, _nowhere).write_todos
    yield TaskTool({}, _nowhere, _nowhere).task
    kin = ChildTools(_nowhere, _nowhere, _nowhere)
    yield from (kin.check_task, kin.cancel_task, kin.ask_task)
    if is_shortened(found):
        yield DescribeTool({}, _nowhere, _nowhere).describe_subagent


def _of_memory(root: Path) -> Iterable[Callable[..., Any]]:
    from workspace import Memory, MemoryTools

    return MemoryTools(Memory(root), _nowhere, _nowhere).functions()


def _of_shell() -> Iterable[Callable[..., Any]]:
    from orchestrator.commands import Commands

    nobody = cast(Any, None)
    return [Commands(nobody, nobody).bash]


def _of_skills(root: Path, settings: Settings) -> Iterable[Callable[..., Any]]:
    from orchestrator.places import user_skill_folders
    from orchestrator.skills import find_skills, offered
    from workspace import Access, Parts, Use

    permissions = settings.permissions()

    def check(use: Use, parts: Parts) -> None:
        permissions.check_path("", use, parts, None)

    found = find_skills(root, user_skill_folders())
    tool = offered(found.known, lambda private: Access(readable_private=private, also=check))
    return [] if tool is None else [tool.skill]


def _nowhere(*_: Any) -> Any:
    raise AssertionError("tools that are only measured are not called")


def tokens(text: str) -> int:
    """A quarter of its UTF-8 bytes, as everything is estimated before a model has reported."""
    return -(-len(text.encode(errors="surrogatepass")) // 4)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _granted(
    definition: Definition, settings: Settings, have: Tools
) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """(granted, the patterns within which some of them are, unknown), as `Team` grants them."""
    from orchestrator.memories import granting, scope_of
    from orchestrator.permissions import can_bind
    from subagents import resolve
    from workspace import MEMORY_TOOLS

    scope = scope_of(definition, is_main=False) if settings.memory else "none"
    granted = resolve(granting(definition, scope), have)
    bounds = {name: list(p) for name, p in granted.patterns.items() if can_bind(name, p)}
    withheld = granted.patterns.keys() - bounds.keys()
    if scope == "none":
        withheld |= {*MEMORY_TOOLS}
    if definition.todos is False:
        withheld.add("write_todos")
    if definition.can_spawn is False or (
        settings.depth is not None and settings.depth <= _CHILDS_DEPTH
    ):
        withheld |= _OF_PARENTS
    tools = [tool for tool in granted.tools if tool not in withheld]
    return tools, {t: p for t, p in bounds.items() if t in tools}, list(granted.unknown)


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
        context_of,
        resolved,
    )
    from orchestrator.context import window_for
    from orchestrator.context.policy import working_window

    aliases = {**MODEL_ALIASES, **settings.models}
    shown = definition.model_for("inherit", aliases)
    main = resolved(settings.model or DEFAULT_MODEL, aliases)
    model = REHEARSAL if main == REHEARSAL else main if shown == "inherit" else shown
    window = window_for(model)
    context = context_of(definition, settings.context())
    # A child may run on a smaller model than the one that the window was chosen for.
    if context.window is not None and window.known:
        context = replace(context, window=min(context.window, window.input_cap))
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
