"""What ``outrider tokens`` found, and its forms for programs: JSON and CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.ledger import Costs

if TYPE_CHECKING:
    from orchestrator.accounts import Figures, Isolation, ToolAccount
    from orchestrator.readings import RunSummary, TokenRow


@dataclass(frozen=True)
class Found:
    """What was asked of a run: ``rows`` by model or turn, ``tools`` by tool; by agent, the run's own.
    ``figures`` belong to the rows by name and turn."""

    by: str
    run: RunSummary
    rows: Sequence[TokenRow]
    tools: Sequence[ToolAccount]
    figures: Mapping[tuple[str, int | None], Figures]
    isolation: Isolation | None

    def figures_of(self, name: str, turn: int | None = None) -> Figures:
        from orchestrator.accounts import Figures

        return self.figures.get((name, turn)) or Figures()


def print_json_of(found: Found) -> None:
    from orchestrator.cli.output import clean, print_json
    from orchestrator.events import SCHEMA

    run = found.run
    described = {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "status": run.status,
        "by": found.by,
        "usage": run.usage.as_json(),
        "cost_usd": run.cost_usd,
        "unreported": run.unreported,
        "isolation": None if found.isolation is None else found.isolation.as_json(),
        "rows": list(_rows(found)),
    }
    print_json(clean(described))


def _rows(found: Found) -> Iterator[dict[str, Any]]:
    """The rows in full, as JSON has them."""
    for agent in found.run.agents if found.by == "agent" else ():
        yield agent.as_json() | _more(found.figures_of(agent.agent_id))
    for row in found.rows:
        yield _json(row) | _more(found.figures_of(row.name, row.turn))
    for account in found.tools:
        yield _tool_json(account)


def _more(figures: Figures) -> dict[str, Any]:
    """Cost by kind of token; and of the requests that were estimated and reported, both sums."""
    return {
        "costs_usd": None if figures.costs is None else figures.costs.as_json(),
        "estimated_tokens": figures.estimated,
        "reported_tokens": figures.reported,
    }


def _json(row: TokenRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "turn": row.turn,
        "calls": row.calls,
        "usage": row.usage.as_json(),
        "unreported": row.unreported,
        "cost_usd": row.cost_usd,
    }


def _tool_json(account: ToolAccount) -> dict[str, Any]:
    """``usage`` and ``cost_usd`` are the tool's share of its requests, not tokens of their own."""
    return {
        "name": account.tool,
        "calls": account.calls,
        "errors": account.errors,
        "chars": account.chars,
        "result_tokens": account.tokens,
        "requests": account.requests,
        "carried_tokens": account.carried,
        "usage": account.usage.as_json(),
        "cost_usd": account.cost_usd,
    }


def print_csv(found: Found) -> None:
    import csv

    from orchestrator.cli.output import clean

    lines = clean([_flat(row) for row in _rows(found)])
    writer = csv.DictWriter(sys.stdout, list(lines[0]) if lines else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    usage = row.pop("usage")
    costs = row.pop("costs_usd", None)
    by_age: dict[str, int] = usage.pop("cache_creation")
    total = sum(usage.values())
    flat = {**row, **usage, **by_age, "total_tokens": total}
    if "estimated_tokens" in row:
        kinds = (costs or dict.fromkeys(Costs.__slots__)).items()
        flat |= {f"{kind}_usd": usd for kind, usd in kinds}
    return flat
