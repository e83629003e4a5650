"""``outrider tokens``: who used how many."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from orchestrator.ledger import Costs, Usage

if TYPE_CHECKING:
    from orchestrator.accounts import Figures, Isolation, ToolAccount
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
    Column("estimate", right=True),
    Column("cost", right=True),
    Column("time", right=True),
)
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
    found = _read(root, run, by)
    if as_json:
        _print_json(found)
    elif as_csv:
        _print_csv(found)
    else:
        _print_table(found)


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


def _read(root: Path, run: str, by: str) -> Found:
    from orchestrator.accounts import by_tool, figures_by, isolation
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
        isolation=isolation(records),
    )


# ── for programs ──


def _print_json(found: Found) -> None:
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
        "chars": row.chars,
        "errors": row.errors,
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


def _print_csv(found: Found) -> None:
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


# ── for people ──


def _print_table(found: Found) -> None:
    from orchestrator.cli.output import clean
    from orchestrator.cli.terminal import print_lines, width

    cells = width()
    if found.by == "agent":
        lines = agent_tables(found.run, cells, found.figures) + cost_table(found, cells)
    elif found.by == "tool":
        lines = tool_table(found.tools, cells)
    else:
        lines = token_table(found, cells)
    if found.isolation is not None:
        lines += ["", isolation_line(found.isolation)]
    print_lines(clean(lines))
    if found.run.unreported:
        count = found.run.unreported
        calls = "1 call" if count == 1 else f"{count} calls"
        typer.echo(f"\nOf {calls} the provider reported no tokens; they are in no sum.")


def isolation_line(account: Isolation) -> str:
    """What isolation saved, or cost, in a sentence."""
    subagents = account.agents - 1
    whom = f", {number(subagents)} subagent{'' if subagents == 1 else 's'}" if subagents else ""
    spent = account.main + account.delegated
    verdict = (
        f"saved {number(account.saved)} tokens ({account.saved / account.alone:.0%})"
        if account.saved >= 0
        else f"cost {number(-account.saved)} tokens more than it saved"
    )
    weighted = (
        f"saved {number(account.saved_weighted)}"
        if account.saved_weighted >= 0
        else f"cost {number(-account.saved_weighted)}"
    )
    peak = f"peak {short_number(account.peak)} of {short_number(account.window)}"
    if account.over_window:
        peak += f", {number(account.over_window)} of them over the window"
    return (
        f"Isolation {verdict}: one agent alone would have carried {number(account.alone)} over "
        f"{number(account.requests)} requests ({peak}); here {number(spent)} were carried "
        f"(main {number(account.main)}{whom} {number(account.delegated)}). Weighted by cache "
        f"prices it {weighted}."
    )


def agent_tables(
    found: RunSummary,
    width: int | None,
    figures: Mapping[tuple[str, int | None], Figures] | None = None,
) -> list[str]:
    """One table where it fits, else two: tokens first, then the work they were used for."""
    known = figures or {}
    status = Column("status", least=8)
    everything = table(
        (_AGENT, status, *_USAGE, *_WORK),
        [_name(found, a) + _usage(a.usage) + _work(a, known) for a in found.agents]
        + [_total(found, known)],
    )
    if width is None or width_of(everything) <= width:
        return everything
    total = _total(found, known)
    split = 2 + len(_USAGE)
    first = table(
        (_AGENT, status, *_USAGE),
        [_name(found, a) + _usage(a.usage) for a in found.agents] + [total[:split]],
        width,
    )
    second = table(
        (_AGENT, *_WORK),
        [_name(found, a)[:1] + _work(a, known) for a in found.agents] + [total[:1] + total[split:]],
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


def _work(agent: AgentRow, known: Mapping[tuple[str, int | None], Figures]) -> list[str]:
    return [
        agent.model,
        str(agent.turns),
        str(agent.requests),
        f"{short_number(agent.peak_context_tokens)}/{short_number(agent.window_tokens)}",
        _deviation(known.get((agent.agent_id, None))),
        cost(agent.cost_usd),
        duration(agent.seconds),
    ]


def _deviation(figures: Figures | None) -> str:
    """The estimates against what was reported."""
    deviation = None if figures is None else figures.deviation
    return "" if deviation is None else f"{deviation:+.1%}"


def _all(known: Iterable[Figures]) -> Figures | None:
    """Estimates and reports of several rows together."""
    rows = list(known)
    if not rows:
        return None
    estimated = sum(row.estimated for row in rows)
    return replace(rows[0], estimated=estimated, reported=sum(row.reported for row in rows))


def cost_table(found: Found, width: int | None) -> list[str]:
    """Cost by kind of token; nothing where no price is known."""
    agents = [a for a in found.run.agents if found.figures_of(a.agent_id).costs is not None]
    if not any(a.cost_usd for a in agents):
        return []
    titles = ("input", "cache rd", "write 5m", "write 1h", "output", "cost")
    columns = (_AGENT, *(Column(title, right=True) for title in titles))
    sums = [found.figures_of(a.agent_id).costs for a in found.run.agents]
    known = [costs for costs in sums if costs is not None]
    total = sum(known[1:], known[0]) if len(known) == len(sums) else None
    lines = [
        *(
            [_name(found.run, a)[0], *_costs(found.figures_of(a.agent_id).costs)]
            for a in found.run.agents
        ),
        ["total", *_costs(total)],
    ]
    return ["", *table(columns, lines, width)]


def _costs(costs: Costs | None) -> list[str]:
    if costs is None:
        return ["?"] * 6
    parts = (costs.input, costs.cache_read, costs.cache_write_5m, costs.cache_write_1h)
    return [cost(part) for part in (*parts, costs.output, costs.total)]


def _total(found: RunSummary, known: Mapping[tuple[str, int | None], Figures]) -> list[str]:
    count = len(found.agents)
    work = [
        "",
        str(sum(agent.turns for agent in found.agents)),
        str(sum(agent.requests for agent in found.agents)),
        "",
        _deviation(_all(known.values())),
        cost(found.cost_usd),
        # Agents work at the same time: the run's own time, not the sum.
        duration(found.seconds),
    ]
    status = found.status or "not ended"
    return [f"total ({count})", status, *_usage(found.usage), *work]


def token_table(found: Found, width: int | None) -> list[str]:
    """Tokens by model, or by agent and turn; estimated and reported input side by side."""
    rows, by_turn = found.rows, found.by == "turn"
    first = [Column("agent" if by_turn else "model", least=14)]
    first += [Column("turn", right=True)] if by_turn else []
    usage = sum((row.usage for row in rows), Usage())
    total = ["total", *([""] if by_turn else []), str(sum(row.calls for row in rows))]
    total += [_deviation(_all(found.figures.values()))]
    total += [*_usage(usage), cost(_sum(row.cost_usd for row in rows))]
    middle = (Column("requests", right=True), Column("estimate", right=True))
    return table(
        (*first, *middle, *_USAGE, Column("cost", right=True)),
        [*(_token_row(found, row) for row in rows), total],
        width,
    )


def _token_row(found: Found, row: TokenRow) -> list[str]:
    turn = [str(row.turn)] if found.by == "turn" else []
    deviation = _deviation(found.figures_of(row.name, row.turn))
    return [row.name, *turn, str(row.calls), deviation, *_usage(row.usage), cost(row.cost_usd)]


def tool_table(tools: Sequence[ToolAccount], width: int | None) -> list[str]:
    """Tools have no tokens of their own: what their results cost in the requests they stayed in."""
    right = (
        "calls",
        "errors",
        "characters",
        "tokens",
        "requests",
        "carried",
        "cache wr",
        "cache rd",
    )
    columns = (Column("tool", least=14), *(Column(t, right=True) for t in (*right, "cost")))
    lines = [[tool.tool, *map(number, _figures(tool)), cost(tool.cost_usd)] for tool in tools]
    sums = [sum(each) for each in zip(*map(_figures, tools), strict=True)] or [0] * len(right)
    total = ["total", *map(number, sums), cost(_sum(tool.cost_usd for tool in tools))]
    return table(columns, [*lines, total], width)


def _figures(tool: ToolAccount) -> list[int]:
    written, read = tool.usage.cache_creation_input_tokens, tool.usage.cache_read_input_tokens
    counted = [tool.calls, tool.errors, tool.chars, tool.tokens, tool.requests, tool.carried]
    return [*counted, written, read]


def _sum(costs: Any) -> float | None:
    known = list(costs)
    return None if None in known else sum(known)
