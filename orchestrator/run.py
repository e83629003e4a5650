"""A run: the main agent and every agent under it, in one journal. `run` is the library's front door."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync

from orchestrator import compose
from orchestrator.agent import Agent, Observe, Seams
from orchestrator.budget import Limits
from orchestrator.compose import MAIN, MODEL_ALIASES, REHEARSAL, resolved
from orchestrator.context.policy import Context, working_window
from orchestrator.errors import ConfigError, NoModelChosen
from orchestrator.events import Record, RunEnded
from orchestrator.journal import open_journal
from orchestrator.ledger import Usage
from orchestrator.logs import LogWriter
from orchestrator.mcp import Named, check_extra, find_servers
from orchestrator.model import Model, ModelFacts
from orchestrator.permissions import Ask, Asking, Permissions
from orchestrator.places import user_agent_folders, user_skill_folders
from orchestrator.prices import cost_usd
from orchestrator.readings import Tally
from orchestrator.report import Report, report_of
from orchestrator.rundir import RunDir, check_run_id, new_run_id
from orchestrator.skills import find_skills
from orchestrator.team import BUILT_IN, Options, Team, described, may_start
from orchestrator.tools import Tool, by_name
from subagents import Definition, Loaded, discover, schema_of

# Any of these in the environment says where a model is to be had.
_WAYS_TO_A_MODEL = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_PROFILE",
)


async def run(
    task: str,
    *,
    model: str | Model | None = None,
    base_url: str | None = None,
    root: str | Path = ".",
    tools: Iterable[Callable[..., Any] | Tool] = (),
    mcp_config: Named | None = None,
    agents: Iterable[str | Path] = (),
    agent: str | None = None,
    limits: Limits | None = None,
    context: Context | None = None,
    permissions: Permissions | None = None,
    ask: Ask | None = None,
    memory: bool = True,
    run_id: str | None = None,
    model_aliases: Mapping[str, str] | None = None,
    log_content: bool = False,
    observers: Sequence[Observe] = (),
) -> Report:
    """Carry out ``task`` and return how it went. Runs under asyncio and trio.

    Args:
        task: What to do, in words.
        model: A model's name, ``"rehearsal"``, or a `Model` such as ``ScriptedModel``.
        base_url: A server that speaks the Messages API, instead of the provider's own.
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
        memory: Whether agents have memories, their tools, and project instructions.
        run_id: A name for the run, instead of one made from the time.
        model_aliases: Names that definitions use for models, beyond the built-in ones.
        log_content: Whether the log also holds texts.
        observers: Called with each batch of records, after it is durable and in its order.

    Raises `ConfigError` before anything is run, `JournalError` when the run cannot be recorded. A
    run that fails is a `Report` with its status.
    """
    aliases = {**MODEL_ALIASES, **(model_aliases or {})}
    settings = context or Context()
    if settings.summary_model is not None:
        settings = replace(settings, summary_model=resolved(settings.summary_model, aliases))
    folder = await run_sync(_workspace, root)
    if not task.strip():
        raise ConfigError("the task is empty: say what to do")
    servers = await run_sync(find_servers, folder, mcp_config)
    check_extra(
        server for server in servers.servers if may_start(server, permissions or Permissions())
    )
    definitions = await run_sync(discover, folder, tuple(agents), user_agent_folders())
    skills = await run_sync(find_skills, folder, user_skill_folders())
    given = model if model is None or isinstance(model, Model) else resolved(model, aliases)
    async with _opened(given, base_url) as (chosen, name):
        facts = await described(chosen, name)
        main = MAIN if agent is None else _main_of(definitions, agent)
        _check_main(main, settings, name, facts)
        return await start(
            Options(
                task=task,
                root=folder,
                model=chosen,
                model_name=name,
                run_id=new_run_id(datetime.now(UTC)) if run_id is None else check_run_id(run_id),
                main=main,
                tools=_own(tools),
                servers=servers,
                definitions=definitions,
                skills=skills.known,
                limits=limits or Limits(),
                context=settings,
                permissions=permissions or Permissions(),
                ask=ask,
                memory=memory,
                main_facts=facts,
                aliases=aliases,
                log_content=log_content,
                observers=observers,
            )
        )


def _own(tools: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
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
async def _opened(
    model: str | Model | None, base_url: str | None
) -> AsyncIterator[tuple[Model, str]]:
    """The model and its name; a client that was made here is closed. Raises `NoModelChosen`."""
    if isinstance(model, Model):
        yield model, getattr(model, "name", "scripted")
    elif model == REHEARSAL:
        from orchestrator.rehearsal import RehearsalModel

        yield RehearsalModel(), REHEARSAL
    elif model is None and base_url is None and not any(map(os.environ.get, _WAYS_TO_A_MODEL)):
        raise NoModelChosen
    else:
        from orchestrator.claude import ClaudeModel

        claude = ClaudeModel(base_url=base_url)
        try:
            yield claude, model or compose.DEFAULT_MODEL
        finally:
            with anyio.CancelScope(shield=True):
                await claude.aclose()


def _workspace(root: str | Path) -> Path:
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


async def start(options: Options) -> Report:
    """Start a new run and see it through."""
    _check_price(options)
    run_dir = RunDir(options.root, options.run_id)
    await run_sync(run_dir.create)
    tally = Tally(call_price)
    async with _recording(options, run_dir, tally) as seams:
        main = await _carry_out(options, run_dir, seams, tally)
    return report_of(tally.summary(options.run_id), run_dir, main.state)


async def _carry_out(options: Options, run_dir: RunDir, seams: Seams, tally: Tally) -> Agent:
    """Run the main agent, and what goes on beside it, to the end. Raises `JournalError`."""
    main: Agent | None = None
    team: Team | None = None
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            team = Team(options, run_dir, seams, group)
            try:
                main = await team.main()
                await team.see_main_through(main)
            # Carried past the group, which would wrap it in an exception group.
            except Exception as error:  # noqa: BLE001
                failure = error
                group.cancel_scope.cancel()
        failure = failure or (team.failure if team is not None else None)
        if failure is not None:
            raise failure
    finally:
        if main is not None:
            with anyio.CancelScope(shield=True):
                await main.record(_end_of(main, tally))
    assert main is not None, "without a failure there is a main agent"
    return main


@asynccontextmanager
async def _recording(options: Options, run_dir: RunDir, tally: Tally) -> AsyncIterator[Seams]:
    """The seams of a run: its journal, and what reads along once records are durable."""
    limits = options.limits
    slots = (
        nullcontext() if limits.concurrency is None else anyio.CapacityLimiter(limits.concurrency)
    )
    async with open_journal(run_dir.journal) as journal:
        # Behind the run's lock: the writer cuts a torn last line off.
        log = LogWriter(
            run_dir.log, options.run_id, environ=os.environ, with_content=options.log_content
        )
        with closing(log):
            readers: tuple[Observe, ...] = (tally.take_all, log, *options.observers)

            def observe(records: Sequence[Record]) -> None:
                for read in readers:
                    read(records)

            yield Seams(
                run_id=options.run_id,
                model=options.model,
                journal=journal,
                observe=observe,
                slots=slots,
                price=cost_usd,
                asking=Asking(options.ask),
                root=options.root,
            )


def _end_of(main: Agent, tally: Tally) -> RunEnded:
    """How the run ended; without the main agent's end it was stopped from outside."""
    ended, summary = main.state.ended, tally.summary("")
    return RunEnded(
        status="cancelled" if ended is None else ended.status,
        reason="cancelled" if ended is None else ended.reason,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
    )


def call_price(model: str, usage: Usage, at: float) -> float | None:
    """USD of one call at the time ``at``, in seconds since the epoch."""
    return cost_usd(model, usage, at=at)


def _check_price(options: Options) -> None:
    if options.limits.max_cost is not None and cost_usd(options.model_name, Usage(1)) is None:
        raise ConfigError(
            f"no price is known for {options.model_name}, so a cost limit cannot be kept: "
            "use --max-tokens, or choose a model with a known price"
        )
