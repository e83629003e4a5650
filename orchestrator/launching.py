"""A run: the main agent and every agent under it, in one journal. `run` is the library's front door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync

from orchestrator.agent import Observe
from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.errors import ConfigError
from orchestrator.kept import Kept, where
from orchestrator.mcp import Named
from orchestrator.model import Model
from orchestrator.permissions import Ask, Permissions
from orchestrator.preparing import opened, options_of, own_tools, workspace
from orchestrator.prices import Overrides
from orchestrator.reins import Reins
from orchestrator.report import Report
from orchestrator.rundir import check_run_id, new_run_id
from orchestrator.session import start
from orchestrator.tools import Tool


async def run(
    task: str,
    *,
    model: str | Model | None = None,
    base_url: str | None = None,
    fallback_model: str | None = None,
    root: str | Path = ".",
    tools: Iterable[Callable[..., Any] | Tool] = (),
    mcp_config: Named | None = None,
    agents: Iterable[str | Path] = (),
    agent: str | None = None,
    limits: Limits | None = None,
    context: Context | None = None,
    permissions: Permissions | None = None,
    ask: Ask | None = None,
    reins: Reins | None = None,
    sandbox: bool = True,
    network: bool = False,
    memory: bool = True,
    background: bool = True,
    run_id: str | None = None,
    model_aliases: Mapping[str, str] | None = None,
    prices: Overrides | None = None,
    log_content: bool = False,
    telemetry: bool = False,
    observers: Sequence[Observe] = (),
) -> Report:
    """Carry out ``task`` and return how it went. Runs under asyncio and trio.

    Args:
        task: What to do, in words.
        model: A model's name, ``"rehearsal"``, or a `Model` such as ``ScriptedModel``.
        base_url: A server that speaks the Messages API, instead of the provider's own.
        fallback_model: Another model of the same service, with which an agent goes on when its own does
            not answer in spite of all tries. Never for a request that is too long or refused.
        root: The workspace; run data goes to ``.outrider/runs`` in it.
        tools: Plain typed functions, async or not, that agents may call.
        mcp_config: MCP servers to start: a file like ``.mcp.json``, or its content. Those of the
            project's own ``.mcp.json`` are started where an allow rule names them.
        agents: Definition files or folders, before those of the project.
        agent: The definition that the main agent runs as, instead of the built-in one.
        limits: What the run may use.
        context: How contexts are kept small.
        permissions: What tools may do.
        ask: Asked about calls that the permissions say to ask for, one at a time; without it they
            are denied.
        reins: By which you stop the run from outside, so that it hands back what it has.
        sandbox: Whether commands of the ``bash`` tool are confined (Linux, with bubblewrap). Without
            it they may do whatever you may.
        network: Whether commands in the sandbox may use the network.
        memory: Whether agents have memories, their tools, and project instructions.
        background: Whether agents may start subagents, and commands of ``bash``, in the background.
        run_id: A name for the run, instead of one made from the time.
        model_aliases: Names that definitions use for models, beyond the built-in ones.
        prices: Your own prices, by model name, before those of the list.
        log_content: Whether the log also holds texts.
        telemetry: Whether OpenTelemetry spans and metrics are made, by the providers registered there.
        observers: Called with each batch of records, after it is in the journal and in its order.

    Raises `ConfigError` before anything is run, `JournalError` when the run cannot be recorded. A
    run that fails is a `Report` with its status.
    """
    folder = await run_sync(workspace, root)
    if not task.strip():
        raise ConfigError("the task is empty: say what to do")
    made = own_tools(tools)
    kept = Kept(
        base_url=base_url,
        fallback_model=fallback_model,
        agents=tuple(map(str, agents)),
        agent=agent,
        tools=tuple(filter(None, map(where, made.values()))),
        limits=limits or Limits(),
        context=context or Context(),
        permissions=permissions or Permissions(),
        sandbox=sandbox,
        network=network,
        memory=memory,
        background=background,
        aliases=dict(model_aliases or {}),
        prices=dict(prices or {}),
        log_content=log_content,
        telemetry=telemetry,
        # Handed over as content it may hold secrets, which are not kept.
        mcp_config=str(mcp_config) if isinstance(mcp_config, str | Path) else None,
    )
    async with opened(model, kept) as (chosen, name):
        # A model that was handed over is no name by which to find it again.
        kept = replace(kept, model=None if chosen is model else name)
        options = await options_of(kept, chosen, name, folder, made, observers, mcp_config)
        number = new_run_id(datetime.now(UTC)) if run_id is None else check_run_id(run_id)
        return await start(replace(options, task=task, run_id=number, ask=ask, reins=reins))
