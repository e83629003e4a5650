"""``outrider runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.prune import prune
from orchestrator.cli.table import Column, cost, duration, number, size, table, width_of

if TYPE_CHECKING:
    from orchestrator.readings import Price, RunSummary
    from orchestrator.rundir import RunDir

_COLUMNS = (
    Column("run"),
    Column("status"),
    Column("started"),
    Column("took", right=True),
    Column("agents", right=True),
    Column("tokens", right=True),
    Column("cost", right=True),
    Column("size", right=True),
    Column("task", least=10),
)


# Left out where the table is too wide, one after another.
_SPARED = ("started", "took", "size")

app: typer.Typer = typer.Typer(rich_markup_mode=None)
app.command("prune")(prune)


@app.callback(invoke_without_command=True)
def runs(context: typer.Context, root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """The recorded runs of the workspace, newest first, with their sizes on disk.

    \b
    Examples:
      outrider runs
      outrider runs prune --older-than 30d
      outrider runs --json | jq -r '.[0].run_id'
    """
    if context.invoked_subcommand is not None:
        return
    from orchestrator.cli.output import clean, print_json
    from orchestrator.cli.pricing import price_for
    from orchestrator.cli.terminal import print_lines, width
    from orchestrator.readings import unpriced
    from orchestrator.rundir import list_runs, none_here

    listed = list_runs(root)
    price = price_for(root) if listed else unpriced
    found = [(run, *_read(run, price)) for run in listed]
    if as_json:
        print_json(clean([_as_json(*each) for each in found]))
    elif not found:
        text = none_here(root)
        typer.echo(f"{text[:1].upper()}{text[1:]}")
    else:
        print_lines(fitted([_row(*each) for each in found], width()))


def fitted(rows: list[list[str]], width: int | None) -> list[str]:
    """The table; where it is too wide, first without the time that the ids tell as well."""
    kept = list(range(len(_COLUMNS)))
    for title in (None, *_SPARED):
        kept = [i for i in kept if _COLUMNS[i].title != title]
        columns = [_COLUMNS[i] for i in kept]
        lines = table(columns, [[row[i] for i in kept] for row in rows], width)
        if width is None or width_of(lines) <= width:
            break
    return lines


def _read(run: RunDir, price: Price) -> tuple[RunSummary, str]:
    """A run's figures and status. A journal that cannot be read is listed all the same."""
    from orchestrator.errors import JournalError
    from orchestrator.journal import is_running, read_records
    from orchestrator.readings import RunSummary, summarise

    try:
        found = summarise(read_records(run.journal), run.run_id, price)
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
    from orchestrator.pruning import size_of

    began = found.started
    return [
        run.run_id,
        status,
        "?" if began is None else f"{datetime.fromtimestamp(began):%Y-%m-%d %H:%M}",
        duration(found.seconds),
        str(len(found.agents)),
        number(found.usage.total_tokens),
        cost(found.cost_usd),
        size(size_of(run.folder)),
        one_line(clean(found.task), 200),
    ]


def _as_json(run: RunDir, found: RunSummary, status: str) -> dict[str, Any]:
    from orchestrator.events import SCHEMA
    from orchestrator.logs import timestamp
    from orchestrator.pruning import size_of

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
        "bytes": size_of(run.folder),
        "path": run.shown(run.folder),
    }
