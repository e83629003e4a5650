"""``outrider compact``."""

from __future__ import annotations

from pathlib import Path

import typer

from orchestrator.cli import options as opt


def compact(run: opt.Run, agent: opt.OneAgent = None, root: opt.Root = Path()) -> None:
    """Let an agent of RUN be compacted before its next turn, however full its context is.

    For a run that stands still: it is done when the run goes on. One that is going on is told by
    outrider steer RUN compact.

    \b
    Examples:
      outrider compact latest && outrider resume latest "Now the tests"
      outrider compact latest --agent explorer-1a2b3c4d5e
    """
    import anyio

    from orchestrator.cli.output import going_on
    from orchestrator.manual import compact_next
    from orchestrator.rundir import MAIN, find_run

    run_dir = find_run(root, run)

    async def ask() -> str:
        return await compact_next(run_dir.run_id, agent=agent or MAIN, root=root)

    found = anyio.run(ask)
    typer.echo(f"{found} is compacted before its next turn; {going_on(run_dir.run_id, root)}")
