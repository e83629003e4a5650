"""What ``outrider tokens`` found, as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli.table import (
    Column,
    cost,
    duration,
    number,
    short_number,
    table,
    width_of,
)
from orchestrator.cli.tokens_data import Found
from orchestrator.ledger import Costs, Usage

if TYPE_CHECKING:
    from orchestrator.accounts import Figures, Isolation, ToolAccount
    from orchestrator.readings import AgentRow, RunSummary, TokenRow

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


def print_tables(found: Found) -> None:
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
    named = list(zip(_names(found), found.agents, strict=True))
    everything = table(
        (_AGENT, status, *_USAGE, *_WORK),
        [name + _usage(a.usage) + _work(a, known) for name, a in named] + [_total(found, known)],
    )
    if width is None or width_of(everything) <= width:
        return everything
    total = _total(found, known)
    split = 2 + len(_USAGE)
    first = table(
        (_AGENT, status, *_USAGE),
        [name + _usage(a.usage) for name, a in named] + [total[:split]],
        width,
    )
    second = table(
        (_AGENT, *_WORK),
        [name[:1] + _work(a, known) for name, a in named] + [total[:1] + total[split:]],
        width,
    )
    return [*first, "", *second]


def _names(found: RunSummary) -> Iterator[list[str]]:
    """Of each agent its name, set in by its depth, and its status."""
    depths: dict[str, int] = {}
    for agent in found.agents:  # each before its children
        depth = 0 if agent.parent_id is None else depths.get(agent.parent_id, 0) + 1
        depths[agent.agent_id] = depth
        label = _label(agent)
        label = label if depth == 0 else f"{'  ' * (depth - 1)}└ {label}"
        yield [label, agent.status or "not ended"]


def _label(agent: AgentRow) -> str:
    from orchestrator.progress import one_line

    label = one_line(agent.agent_id, 60)
    if label.startswith(agent.agent_type):
        return label
    return f"{one_line(agent.agent_type, 30)} {label}"


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
    named = zip(_names(found.run), sums, strict=True)
    lines = [*([name[0], *_costs(costs)] for name, costs in named), ["total", *_costs(total)]]
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
