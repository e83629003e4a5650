"""``outrider run``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli import options as opt

# The command's own arguments; all others are settings.
_NO_SETTINGS = ("task", "root", "run_id")


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
    compact_at: opt.CompactAt = None,
    compaction: opt.Compaction = None,
    offload_at: opt.OffloadAt = None,
    window: opt.Window = None,
    keep_turns: opt.KeepTurns = None,
    summary_model: opt.SummaryModel = None,
    max_tokens: opt.MaxTokens = None,
    max_cost: opt.MaxCost = None,
    max_turns: opt.MaxTurns = None,
    max_seconds: opt.MaxSeconds = None,
    max_agents: opt.MaxAgents = None,
    concurrency: opt.Concurrency = None,
    depth: opt.Depth = None,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    asking: opt.Asking = None,
    sandbox: opt.Sandbox = None,
    network: opt.Network = None,
    output_format: opt.OutputFormat = None,
    quiet: opt.Quiet = None,
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
    import anyio

    from orchestrator.cli.asking import person_asked
    from orchestrator.cli.before import check_definitions, new_id, note_shell, note_trust, read_task
    from orchestrator.cli.watching import progress_for, shown
    from orchestrator.cli.work import Work
    from orchestrator.config import load_settings

    configured = load_settings(root, given)
    settings = configured.settings
    check_definitions(root, settings)
    note_trust(configured)
    note_shell(settings)
    progress = progress_for(settings, sys.stderr, sys.stdout)
    ask = person_asked(settings, progress, sys.stderr)
    work = Work(read_task(task), root, run_id or new_id(), settings, sys.stdout, ask)
    # The standard output is the result's alone: what tools of the user's print goes to stderr.
    with shown(progress), redirect_stdout(sys.stderr):
        outcome = anyio.run(work.carry_out, progress)
    return work.tell(outcome)
