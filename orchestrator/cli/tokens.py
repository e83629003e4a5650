"""``outrider tokens``: who used how many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.errors import ConfigError
from orchestrator.ledger import Costs, Usage

if TYPE_CHECKING:
    from orchestrator.cli.tokens_data import Found

_KEYS = ("agent", "model", "tool", "turn")
By = Annotated[str, typer.Option(metavar="|".join(_KEYS), help="What to add up by.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def tokens(
    run: opt.NewestRun = "latest",
    by: By = "agent",
    root: opt.Root = Path(),
    as_json: opt.Json = False,
    as_csv: Csv = False,
) -> None:
    """Tokens of a run, as its provider reported them, over every request of every agent.

    Input is what no cache held. "cache rd" and "cache wr" are cache reads and writes; total is the
    sum of the four. A price that is not known shows as ?; your own prices belong into config.toml.
    "estimate" is what Outrider expected of its requests, against what was reported. By tool: results
    over all requests that they were part of. What each figure means: docs/tokens.md.

    \b
    Examples:
      outrider tokens latest
      outrider tokens latest --by model
      outrider tokens 20261130-14 --by turn --csv > turns.csv
    """
    if by not in _KEYS:
        raise ConfigError(f"--by {by}: choose one of {', '.join(_KEYS)}")
    from orchestrator.cli import tokens_data, tokens_tables

    found = _read(root, run, by, with_isolation=as_json or not as_csv)
    if as_json:
        tokens_data.print_json_of(found)
    elif as_csv:
        tokens_data.print_csv(found)
    else:
        tokens_tables.print_tables(found)


def _read(root: Path, run: str, by: str, *, with_isolation: bool) -> Found:
    """``with_isolation``: with what isolation saved, which needs the whole run replayed."""
    from orchestrator.accounts import by_tool, figures_by, isolation
    from orchestrator.cli.tokens_data import Found
    from orchestrator.config import load_settings
    from orchestrator.journal import read_records
    from orchestrator.prices import costs_usd, pricing
    from orchestrator.readings import summarise, tokens_by
    from orchestrator.rundir import find_run

    place = find_run(root, run)
    own = load_settings(root).settings.prices
    price = pricing(own)

    def parts(model: str, usage: Usage, at: float) -> Costs | None:
        return costs_usd(model, usage, at=at, overrides=own)

    records = list(read_records(place.journal))
    key: Any = by
    return Found(
        by=by,
        run=summarise(records, place.run_id, price),
        rows=tokens_by(records, key, price) if by in ("model", "turn") else (),
        tools=by_tool(records, price) if by == "tool" else (),
        figures=figures_by(records, key, parts) if by != "tool" else {},
        isolation=isolation(records) if with_isolation else None,
    )
