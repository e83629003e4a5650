"""``outrider runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.table import Column, cost, duration, number, table, width_of

if TYPE_CHECKING:
    from orchestrator.readings import RunSummary
    from orchestrator.rundir import RunDir

_COLUMNS = (
    Column("run"),
    Column("status"),
    Column("started"),
    Column("took", right=True),
    Column("agents", right=True),
    Column("tokens", right=True),
    Column("cost", right=True),
    Column("task", least=10),
)


def runs(root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """The recorded runs of the workspace, newest first.

    \b
    Examples:
      outrider runs
      outrider runs --json | jq -r '.[0].run_id'
    """
    from orchestrator.cli.output import clean, print_json
    from orchestrator.cli.terminal import print_lines, width
    from orchestrator.rundir import list_runs

    found = [(run, *_read(run)) for run in list_runs(root)]
    if as_json:
        print_json(clean([_as_json(*each) for each in found]))
    elif not found:
        typer.echo(f"No run is recorded in {root.absolute()}.")
    else:
        print_lines(fitted([_row(*each) for each in found], width()))


def fitted(rows: list[list[str]], width: int | None) -> list[str]:
    """The table; where it is too wide, without the time that the ids tell as well."""
    lines = table(_COLUMNS, rows, width)
    if width is None or width_of(lines) <= width:
        return lines
    kept = [i for i, column in enumerate(_COLUMNS) if column.title != "started"]
    return table([_COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows], width)


def _read(run: RunDir) -> tuple[RunSummary, str]:
    """A run's figures and status. A journal that cannot be read is listed all the same."""
    from orchestrator.cli.pricing import price_for
    from orchestrator.errors import JournalError
    from orchestrator.journal import is_running, read_records
    from orchestrator.readings import RunSummary, summarise

    try:
        found = summarise(read_records(run.journal), run.run_id, price_for(run.root))
    except JournalError:
        return RunSummary(run.run_id), "damaged"
    if found.status is not None:
        return found, found.status
    # Without its end: somebody holds it, or it was stopped hard.
    return found, "running" if is_running(run.journal) else "crashed"


def _row(run: RunDir, found: RunSummary, status: str) -> list[str]:
    from datetime import datetime

    from orchestrator.cli.output import clean
    from orchestrator.progress import one_line

    began = found.started
    return [
        run.run_id,
        status,
        "?" if began is None else f"{datetime.fromtimestamp(began):%Y-%m-%d %H:%M}",
        duration(found.seconds),
        str(len(found.agents)),
        number(found.usage.total_tokens),
        cost(found.cost_usd),
        one_line(clean(found.task), 200),
    ]


def _as_json(run: RunDir, found: RunSummary, status: str) -> dict[str, Any]:
    from orchestrator.events import SCHEMA
    from orchestrator.logs import timestamp

    return {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "status": status,
        "reason": found.reason,
        "task": found.task,
        "model": found.model,
        "started": None if found.started is None else timestamp(found.started),
        "seconds": round(found.seconds, 3),
        "agents": len(found.agents),
        "usage": found.usage.as_json(),
        "cost_usd": found.cost_usd,
        "path": run.shown(run.folder),
    }
