"""``outrider tokens``: who used how many."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.table import (
    Column,
    cost,
    duration,
    number,
    short_number,
    table,
    width_of,
)
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.ledger import Usage
    from orchestrator.readings import AgentRow, RunSummary, TokenRow

_KEYS = ("agent", "model", "tool", "turn")
_USAGE = (
    Column("input", right=True),
    Column("cache rd", right=True),
    Column("cache wr", right=True),
    Column("output", right=True),
    Column("total", right=True),
)
_AGENT = Column("agent", least=14)
_WORK = (
    Column("model", least=8),
    Column("turns", right=True),
    Column("requests", right=True),
    Column("peak/window", right=True),
    Column("cost", right=True),
    Column("time", right=True),
)
By = Annotated[str, typer.Option(metavar="|".join(_KEYS), help="What to add up by.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def tokens(
    run: opt.Run,
    by: By = "agent",
    root: opt.Root = Path(),
    as_json: opt.Json = False,
    as_csv: Csv = False,
) -> None:
    """Tokens of a run, as its provider reported them, over every request of every agent.

    Input is what no cache held. "cache rd" and "cache wr" are cache reads and writes; total is the
    sum of the four. A price that is not known shows as ?.

    \b
    Examples:
      outrider tokens latest
      outrider tokens latest --by model
      outrider tokens 20261130-14 --by turn --csv > turns.csv
    """
    if by not in _KEYS:
        raise ConfigError(f"--by {by}: choose one of {', '.join(_KEYS)}")
    found, rows = _read(root, run, by)
    if as_json:
        _print_json(found, rows, by)
    elif as_csv:
        _print_csv(found, rows)
    else:
        _print_table(found, rows, by)


def _read(root: Path, run: str, by: str) -> tuple[RunSummary, list[TokenRow]]:
    """The run; and, where it is not wanted by agent, its rows."""
    from orchestrator.journal import read_records
    from orchestrator.readings import summarise, tokens_by
    from orchestrator.rundir import find_run
    from orchestrator.session import call_price

    place = find_run(root, run)
    records = list(read_records(place.journal))
    found = summarise(records, place.run_id, call_price)
    rows = [] if by == "agent" else tokens_by(records, by, call_price)  # type: ignore[arg-type]
    return found, rows


# ── for programs ──


def _print_json(found: RunSummary, rows: Sequence[TokenRow], by: str) -> None:
    from orchestrator.cli.output import print_json
    from orchestrator.events import SCHEMA

    described = [a.as_json() for a in found.agents] if by == "agent" else [_json(r) for r in rows]
    print_json(
        {
            "schema": SCHEMA,
            "run_id": found.run_id,
            "status": found.status,
            "by": by,
            "usage": found.usage.as_json(),
            "cost_usd": found.cost_usd,
            "unreported": found.unreported,
            "rows": described,
        }
    )


def _json(row: TokenRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "turn": row.turn,
        "calls": row.calls,
        "usage": row.usage.as_json(),
        "unreported": row.unreported,
        "cost_usd": row.cost_usd,
        "chars": row.chars,
        "errors": row.errors,
    }


def _print_csv(found: RunSummary, rows: Sequence[TokenRow]) -> None:
    import csv

    lines = [_flat(row) for row in rows] or [_flat_agent(agent) for agent in found.agents]
    writer = csv.DictWriter(
        sys.stdout, list(lines[0]) if lines else ["agent_id"], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(lines)


def _flat_agent(agent: AgentRow) -> dict[str, Any]:
    described = agent.as_json()
    return {k: v for k, v in described.items() if k != "usage"} | _flat_usage(agent.usage)


def _flat(row: TokenRow) -> dict[str, Any]:
    return {k: v for k, v in _json(row).items() if k != "usage"} | _flat_usage(row.usage)


def _flat_usage(usage: Usage) -> dict[str, int]:
    described = usage.as_json()
    by_age: dict[str, int] = described.pop("cache_creation")
    return {**described, **by_age, "total_tokens": usage.total_tokens}


# ── for people ──


def _print_table(found: RunSummary, rows: Sequence[TokenRow], by: str) -> None:
    from orchestrator.cli.terminal import print_lines, width

    cells = width()
    if by == "agent":
        print_lines(agent_tables(found, cells))
    elif by == "tool":
        print_lines(tool_table(rows, cells))
    else:
        print_lines(token_table(rows, by, cells))
    if found.unreported:
        calls = "1 call" if found.unreported == 1 else f"{found.unreported} calls"
        typer.echo(f"\nOf {calls} the provider reported no tokens; they are in no sum.")


def agent_tables(found: RunSummary, width: int | None) -> list[str]:
    """One table where it fits, else two: tokens first, then the work they were used for."""
    status = Column("status", least=8)
    everything = table(
        (_AGENT, status, *_USAGE, *_WORK),
        [_name(found, a) + _usage(a.usage) + _work(a) for a in found.agents] + [_total(found)],
    )
    if width is None or width_of(everything) <= width:
        return everything
    total = _total(found)
    split = 2 + len(_USAGE)
    first = table(
        (_AGENT, status, *_USAGE),
        [_name(found, a) + _usage(a.usage) for a in found.agents] + [total[:split]],
        width,
    )
    second = table(
        (_AGENT, *_WORK),
        [_name(found, a)[:1] + _work(a) for a in found.agents] + [total[:1] + total[split:]],
        width,
    )
    return [*first, "", *second]


def _name(found: RunSummary, agent: AgentRow) -> list[str]:
    from orchestrator.progress import one_line

    label = one_line(agent.agent_id, 60)
    if not label.startswith(agent.agent_type):
        label = f"{one_line(agent.agent_type, 30)} {label}"
    depth = _depth(found, agent)
    label = label if depth == 0 else f"{'  ' * (depth - 1)}└ {label}"
    return [label, agent.status or "not ended"]


def _depth(found: RunSummary, agent: AgentRow) -> int:
    parents = {a.agent_id: a.parent_id for a in found.agents}
    depth, parent = 0, agent.parent_id
    while parent is not None and depth < len(parents):
        depth, parent = depth + 1, parents.get(parent)
    return depth


def _usage(usage: Usage) -> list[str]:
    return [
        number(usage.input_tokens),
        number(usage.cache_read_input_tokens),
        number(usage.cache_creation_input_tokens),
        number(usage.output_tokens),
        number(usage.total_tokens),
    ]


def _work(agent: AgentRow) -> list[str]:
    return [
        agent.model,
        str(agent.turns),
        str(agent.requests),
        f"{short_number(agent.peak_context_tokens)}/{short_number(agent.window_tokens)}",
        cost(agent.cost_usd),
        duration(agent.seconds),
    ]


def _total(found: RunSummary) -> list[str]:
    count = len(found.agents)
    work = [
        "",
        str(sum(agent.turns for agent in found.agents)),
        str(sum(agent.requests for agent in found.agents)),
        "",
        cost(found.cost_usd),
        # Agents work at the same time: the run's own time, not the sum.
        duration(found.seconds),
    ]
    status = found.status or "not ended"
    return [f"total ({count})", status, *_usage(found.usage), *work]


def token_table(rows: Sequence[TokenRow], by: str, width: int | None) -> list[str]:
    """Tokens by model, or by agent and turn."""
    from orchestrator.ledger import Usage

    by_turn = by == "turn"
    first = [Column("agent" if by_turn else "model", least=14)]
    first += [Column("turn", right=True)] if by_turn else []
    usage = sum((row.usage for row in rows), Usage())
    total = ["total", *([""] if by_turn else []), str(sum(row.calls for row in rows))]
    total += [*_usage(usage), cost(_sum(row.cost_usd for row in rows))]
    return table(
        (*first, Column("requests", right=True), *_USAGE, Column("cost", right=True)),
        [*(_token_row(row, by_turn) for row in rows), total],
        width,
    )


def _token_row(row: TokenRow, by_turn: bool) -> list[str]:
    turn = [str(row.turn)] if by_turn else []
    return [row.name, *turn, str(row.calls), *_usage(row.usage), cost(row.cost_usd)]


def tool_table(rows: Sequence[TokenRow], width: int | None) -> list[str]:
    """Tools have no tokens of their own: what counts is how much text they brought in."""
    columns = (
        Column("tool", least=14),
        *(Column(title, right=True) for title in ("calls", "errors", "characters")),
    )
    total = ["total"] + [
        number(sum(getattr(row, name) for row in rows)) for name in ("calls", "errors", "chars")
    ]
    lines = [[r.name, number(r.calls), number(r.errors), number(r.chars)] for r in rows]
    return table(columns, [*lines, total], width)


def _sum(costs: Any) -> float | None:
    known = list(costs)
    return None if None in known else sum(known)
