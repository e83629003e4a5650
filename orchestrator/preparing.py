"""From what a caller asks for to `Options`: the model opened, everything checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

from orchestrator import compose
from orchestrator.agent import Observe
from orchestrator.compose import MAIN, MODEL_ALIASES, REHEARSAL, resolved
from orchestrator.context.policy import Context, working_window
from orchestrator.errors import ConfigError, NoModelChosen
from orchestrator.kept import Kept
from orchestrator.ledger import Usage
from orchestrator.mcp import Named, check_extra, find_servers, may_start
from orchestrator.model import Fallback, Model, ModelFacts
from orchestrator.modelfacts import described
from orchestrator.options import Options
from orchestrator.permissions import Permissions
from orchestrator.places import user_agent_folders, user_skill_folders
from orchestrator.prices import cost_usd
from orchestrator.skills import find_skills
from orchestrator.toolbox import BUILT_IN
from orchestrator.tools import Tool, by_name
from subagents import Definition, Loaded, discover, schema_of

SCRIPTED = "scripted"
# Any of these in the environment says where a model is to be had.
_WAYS_TO_A_MODEL = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_PROFILE",
)


async def options_of(
    kept: Kept,
    model: Model,
    name: str,
    folder: Path,
    tools: Mapping[str, Tool],
    observers: Sequence[Observe],
    mcp_config: Named | None = None,
) -> Options:
    """Everything checked, but for the task and the run's id. ``name``: the model's."""
    aliases = {**MODEL_ALIASES, **kept.aliases}
    settings = kept.context
    if settings.summary_model is not None:
        settings = replace(settings, summary_model=resolved(settings.summary_model, aliases))
    named = tuple(kept.agents)
    definitions = await run_sync(discover, folder, named, user_agent_folders())
    skills = await run_sync(find_skills, folder, user_skill_folders())
    servers = await run_sync(find_servers, folder, mcp_config or kept.mcp_config)
    check_extra(s for s in servers.servers if may_start(s, kept.permissions))
    facts = await described(model, name)
    main = MAIN if kept.agent is None else _main_of(definitions, kept.agent)
    _check_main(main, settings, name, facts)
    _check_price(kept, name)
    fallback = await _fallback(kept, model, aliases)
    return Options(
        task="",
        root=folder,
        model=model,
        model_name=name,
        run_id="",
        main=main,
        tools=tools,
        servers=servers,
        skills=skills.known,
        definitions=definitions,
        limits=kept.limits,
        context=settings,
        permissions=kept.permissions,
        sandbox=kept.sandbox,
        network=kept.network,
        memory=kept.memory,
        background=kept.background,
        main_facts=facts,
        aliases=aliases,
        prices=kept.prices,
        fallback=fallback,
        log_content=kept.log_content,
        telemetry=kept.telemetry,
        observers=observers,
        kept=kept.as_json(),
    )


async def _fallback(kept: Kept, model: Model, aliases: Mapping[str, str]) -> Fallback | None:
    if kept.fallback_model is None:
        return None
    name = resolved(kept.fallback_model, aliases)
    _check_price(kept, name)
    return Fallback(name, await described(model, name))


def own_tools(tools: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """The user's own tools by name. Raises `ConfigError`."""
    named = by_name(tools)
    if clash := sorted(BUILT_IN & named.keys()):
        raise ConfigError(
            f"a tool cannot be named {clash[0]}: that is a built-in one; rename yours"
        )
    return named


def _check_main(main: Definition, settings: Context, model: str, facts: ModelFacts) -> None:
    """Everything about the main agent that can be wrong, before anything is recorded."""
    try:
        working_window(settings, compose.window_of(model, facts))
    except ValueError as error:
        raise ConfigError(f"{model}: {error}") from None
    try:
        Permissions().narrowed(main.permissions)
        if main.returns is not None:
            schema_of(main.returns)
    except ValueError as error:
        raise ConfigError(f"{main.source}: {error}") from None


@asynccontextmanager
async def opened(model: str | Model | None, kept: Kept) -> AsyncIterator[tuple[Model, str]]:
    """The model and its name; a client that was made here is closed. Raises `NoModelChosen`."""
    base_url = kept.base_url
    if isinstance(model, Model):
        yield model, getattr(model, "name", SCRIPTED)
        return
    name = None if model is None else resolved(model, {**MODEL_ALIASES, **kept.aliases})
    if name is not None and get_close_matches(name, [REHEARSAL], cutoff=0.85) and name != REHEARSAL:
        raise ConfigError(f"no model is called {name!r}; did you mean {REHEARSAL}?")
    if name == REHEARSAL:
        from orchestrator.rehearsal import RehearsalModel

        yield RehearsalModel(), REHEARSAL
    elif name is None and base_url is None and not any(map(os.environ.get, _WAYS_TO_A_MODEL)):
        raise NoModelChosen
    else:
        from orchestrator.claude import ClaudeModel

        claude = ClaudeModel(base_url=base_url)
        try:
            yield claude, name or compose.DEFAULT_MODEL
        finally:
            with anyio.CancelScope(shield=True):
                await claude.aclose()


def workspace(root: str | Path) -> Path:
    folder = Path(root).absolute()
    if not folder.is_dir():
        raise ConfigError(f"no such folder: {folder}; choose the workspace with --root")
    return folder


def _main_of(definitions: Loaded, name: str) -> Definition:
    if (found := definitions.get(name)) is None:
        wrong = [p for p in definitions.problems if p.severity == "error"]
        for problem in wrong:
            if Path(problem.path).stem.casefold() == name.casefold():
                raise ConfigError(f"{name} gives no definition: {problem}")
        names = ", ".join(sorted(definitions.definitions))
        raise ConfigError(f"no definition is called {name!r}; there are: {names}")
    return found


def _check_price(kept: Kept, model: str) -> None:
    if kept.limits.max_cost is None:
        return
    if cost_usd(model, Usage(1), overrides=kept.prices) is None:
        raise ConfigError(
            f"no price is known for {model}, so a cost limit cannot be kept: "
            "use --max-tokens, choose a model with a known price, or set its price (docs/tokens.md)"
        )
