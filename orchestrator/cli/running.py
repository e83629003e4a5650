"""``outrider run``."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from orchestrator.cli import options as opt

if TYPE_CHECKING:
    from orchestrator.agent import Observe
    from orchestrator.config import Settings
    from orchestrator.events import Record
    from orchestrator.permissions import Ask
    from orchestrator.reins import Reins
    from orchestrator.report import Report

    Go: TypeAlias = Callable[[Ask | None, Reins, Sequence[Observe]], Awaitable[Report]]
    Past: TypeAlias = Sequence[Record]

# The command's own arguments; all others are settings.
_NO_SETTINGS = ("task", "root", "run_id")


@opt.with_settings
def run(
    context: typer.Context,
    task: opt.Task,
    root: opt.Root = Path(),
    model: opt.Model = None,
    base_url: opt.BaseUrl = None,
    agents: opt.Agents = None,
    agent: opt.Agent = None,
    tools: opt.Tools = None,
    mcp_config: opt.McpConfig = None,
    memory: opt.Memory = None,
    background: opt.Background = None,
    log_content: opt.LogContent = None,
    run_id: opt.RunId = None,
) -> None:
    """Carry out TASK. The result goes to stdout, progress to stderr, the record to .outrider/runs.

    Without --model, the environment must have ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL. The word none
    takes a limit away. Every option can also be set for good: see outrider config show --help.

    Exit codes: 0 finished, 1 failed, 2 nothing was run, 3 partial (a limit was reached), 4 stopped by
    a denied permission, 130 or 143 stopped by a signal.

    \b
    Examples:
      outrider run "Survey this repository" --model rehearsal
      outrider run "Find the three slowest tests" --max-tokens 500000 --deny "write(**)"
      git diff | outrider run - --agent reviewer --output-format json > review.json
    """
    given = {
        name: value
        for name, value in context.params.items()
        if name not in _NO_SETTINGS and value not in (None, [], ())
    }
    raise typer.Exit(_run(task, root, run_id, given))


def _run(task: str, root: Path, run_id: str | None, given: dict[str, Any]) -> int:
    from orchestrator.cli.before import look_around, new_id, read_task
    from orchestrator.cli.usertools import load_tools
    from orchestrator.config import load_settings

    configured = load_settings(root, given)
    settings = configured.settings
    look_around(root, configured)
    text, number = read_task(task), run_id or new_id()

    async def go(ask: Ask | None, reins: Reins, observers: Sequence[Observe]) -> Report:
        from orchestrator.launching import run

        return await run(
            text,
            model=settings.model,
            base_url=settings.base_url,
            fallback_model=settings.fallback_model,
            root=root,
            tools=load_tools(settings.tools, root),
            mcp_config=settings.mcp_config,
            agents=settings.agents,
            agent=settings.agent,
            limits=settings.limits(),
            context=settings.context(),
            permissions=settings.permissions(),
            ask=ask,
            reins=reins,
            sandbox=settings.sandbox,
            network=settings.network,
            memory=settings.memory,
            background=settings.background,
            run_id=number,
            model_aliases=settings.models,
            prices=settings.prices,
            telemetry=settings.telemetry,
            log_content=settings.log_content,
            observers=observers,
        )

    return carried_out(go, root, number, settings)


def carried_out(
    go: Go, root: Path, run_id: str, settings: Settings, past: Past | None = None
) -> int:
    """Carry out a run with progress on stderr and its result on stdout; returns the exit code.

    ``past``: what the display knows already.
    """
    import anyio

    from orchestrator.cli.asking import person_asked
    from orchestrator.cli.watching import progress_for, shown
    from orchestrator.cli.work import Work

    progress = progress_for(settings, sys.stderr, sys.stdout)
    if progress is not None and past:
        progress.catch_up(past)
    ask = person_asked(settings, progress, sys.stderr)
    work = Work(partial(go, ask), root, run_id, settings, sys.stdout)
    # The standard output is the result's alone: what tools of the user's print goes to stderr.
    with shown(progress), redirect_stdout(sys.stderr):
        outcome = anyio.run(work.carry_out, progress)
    return work.tell(outcome)
