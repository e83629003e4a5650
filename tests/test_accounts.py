"""Accounts of a run: cost by kind, estimates beside reports, tools by what their results cost, isolation."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import Context, Limits, Request, run
from orchestrator.accounts import ToolAccount, by_tool, figures_by, isolation
from orchestrator.cli.tokens_tables import isolation_line
from orchestrator.errors import ConfigError
from orchestrator.events import (
    AgentSpawned,
    AgentStarted,
    Compacted,
    ModelFailed,
    ModelReplied,
    Offloaded,
    Record,
    ToolReturned,
)
from orchestrator.journal import read_records
from orchestrator.ledger import Costs, Usage
from orchestrator.model import Reply
from orchestrator.prices import Rates, cost_usd, costs_usd, pricing
from orchestrator.readings import summarise
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, cli, root
from tests.test_readings import Step, records

__all__ = ["cli", "root"]
DOC = (Path(__file__).parent.parent / "docs/tokens.md").read_text()
SONNET = "claude-sonnet-4-5"
AT = 1_796_000_000.0


def started(agent_id: str, parent_id: str | None = None, window: int = 200_000) -> AgentStarted:
    return AgentStarted(agent_id=agent_id, parent_id=parent_id, definition="d", model="m1",
                        window_tokens=window, output_tokens=8_000, brief="do it",
                        reader="read_file")  # fmt: skip


def used(read: int, written: int, output: int, uncached: int = 0) -> Usage:
    return Usage(uncached, output, read, written, written)


def replied(usage: Usage, *tools: str, model: str = "m1", **more: Any) -> ModelReplied:
    """``context_tokens`` is left out, so that the agent learns nothing: a byte stays 0.25 tokens."""
    blocks = [
        {"type": "tool_use", "id": f"t{i}", "name": t, "input": {}} for i, t in enumerate(tools)
    ]
    blocks = blocks or [{"type": "text", "text": "said"}]
    stop = "tool_use" if tools else "end_turn"
    return ModelReplied(model=model, blocks=blocks, stop_reason=stop, usage=usage, **more)


def returned(tool: str, chars: int, index: int = 0) -> ToolReturned:
    return ToolReturned(
        tool=tool, tool_use_id=f"t{index}", index=index, chars=chars, result="x" * chars
    )


def offloaded(chars: int) -> Offloaded:
    return Offloaded(tool="read_file", tool_use_id="t0", chars=chars, path="p", reason="birth")


def spawned() -> AgentSpawned:
    return AgentSpawned(child_id="c", child_type="general", tool_use_id="t0")


# ── isolation ──

WORKED: list[Step] = [
    ("main", 0, started("main")),
    ("main", 1, replied(used(0, 1_000, 100), "lookup")),
    ("main", 1, offloaded(20_000)),
    ("main", 1, returned("lookup", 20_000)),
    ("main", 2, replied(used(1_000, 400, 50), "task")),
    ("main", 2, spawned()),
    ("c", 0, started("c", "main")),
    ("c", 1, replied(used(0, 800, 60), "lookup")),
    ("c", 1, returned("lookup", 8_000)),
    ("c", 2, replied(used(800, 2_100, 40))),
    ("main", 2, returned("task", 300)),
    ("main", 3, replied(used(1_400, 300, 200))),
]


def test_the_worked_example_of_the_document() -> None:
    """Every figure of docs/tokens.md, computed."""
    account = isolation(records(*WORKED))
    assert account is not None
    assert (account.alone, account.main, account.delegated) == (23_460, 4_100, 3_700)
    assert (account.saved, account.requests, account.peak) == (15_660, 4, 8_200)
    assert (account.alone_weighted, account.weighted, account.saved_weighted) == (
        11_776,
        6_070,
        5_706,
    )
    assert (account.over_window, account.agents) == (0, 2)
    for figure in ("23,460", "4,100", "3,700", "15,660", "11,776", "6,070", "5,706", "67 %"):
        assert figure in DOC
    line = isolation_line(account)
    assert line.startswith(
        "Isolation saved 15,660 tokens (67%): one agent alone would have carried"
    )


def test_delegation_that_does_not_pay_is_said_to_cost() -> None:
    """Honest when negative: the second example of the document."""
    account = isolation(
        records(
            ("main", 0, started("main")),
            ("main", 1, replied(used(0, 1_000, 30), "task")),
            ("main", 1, spawned()),
            ("c", 0, started("c", "main")),
            ("c", 1, replied(used(0, 800, 20))),
            ("main", 1, returned("task", 100)),
            ("main", 2, replied(used(1_000, 100, 20))),
        )
    )
    assert account is not None
    assert (account.alone, account.saved) == (2_020, -880)
    assert "**−880**" in DOC
    assert isolation_line(account).startswith("Isolation cost 880 tokens more than it saved: ")


def test_where_nothing_was_kept_out_there_is_no_account() -> None:
    plain = [step for step in WORKED if step[0] == "main"]
    kept = [s for s in plain if not isinstance(s[2], Offloaded | AgentSpawned)]
    assert isolation(records(*kept)) is None
    assert isolation([]) is None


def test_what_does_not_fit_the_window_is_not_counted_as_saved() -> None:
    """Alone it could not have been carried; how many requests that were is said."""
    small = [
        (agent, turn, started("main", window=7_000) if fact == WORKED[0][2] else fact)
        for agent, turn, fact in WORKED
    ]
    account = isolation(records(*small))
    assert account is not None
    assert (account.alone, account.over_window, account.peak) == (
        1_000 + 6_100 + 7_000 * 2,
        2,
        8_200,
    )
    assert "2 of them over the window" in isolation_line(account)


def test_without_a_cache_the_one_agent_alone_gets_none_either() -> None:
    def uncached(fact: Any) -> Any:
        if not isinstance(fact, ModelReplied):
            return fact
        assert fact.usage is not None
        usage = Usage(fact.usage.context_tokens, fact.usage.output_tokens)
        return fact.model_copy(update={"usage": usage})

    account = isolation(records(*((a, t, uncached(f)) for a, t, f in WORKED)))
    assert account is not None
    assert (account.alone_weighted, account.weighted) == (account.alone, 4_100 + 3_700)


# ── by tool ──


def test_a_tools_results_cost_by_how_long_they_stay_and_how_they_are_read() -> None:
    """Two results of known size and place: written once, then read from the cache; one leaves."""
    first: list[Step] = [
        ("main", 0, started("main")),
        ("main", 1, replied(used(0, 10, 5), "big", "small")),
    ]
    steps: list[Step] = [
        *first,
        ("main", 1, returned("big", 4_000)),
        ("main", 1, returned("small", 400, 1).model_copy(update={"is_error": True})),
    ]
    from orchestrator.state import replay

    def weight(so_far: list[Step]) -> int:
        return replay(fact for _, _, fact in so_far).request_weight

    # Each request is reported with exactly a quarter of its bytes; what was sent before is read.
    sent = 0
    for turn in range(2, 6):
        now = round(weight(steps) / 4)
        steps.append(("main", turn, replied(used(sent, now - sent, 1), "none")))
        steps.append(("main", turn, returned("none", 1)))
        sent = now
    accounts = {account.tool: account for account in by_tool(records(*steps), pricing({
        "m1": Rates(1.0, 1.0, cache_read=0.1, cache_write_5m=1.25)}))}  # fmt: skip
    big, small = accounts["big"], accounts["small"]
    assert next(iter(accounts)) == "big"
    assert (big.calls, big.errors, big.chars, big.requests) == (1, 0, 4_000, 4)
    assert big.tokens == pytest.approx(1_000 + 16, abs=8)  # a quarter, and its JSON around
    assert big.usage.cache_creation_input_tokens == big.tokens  # in its first request
    assert big.usage.cache_read_input_tokens == pytest.approx(3 * big.tokens, abs=2)
    assert big.carried == pytest.approx(4 * big.tokens, abs=2)
    assert (small.calls, small.errors, small.chars, small.requests) == (1, 1, 400, 4)
    assert small.tokens == pytest.approx(100 + 16, abs=8)
    assert big.cost_usd == pytest.approx((1.25 + 3 * 0.1) * big.tokens / 1e6, rel=0.01)


def test_what_moves_to_a_file_is_carried_no_longer_and_an_unknown_price_is_unknown() -> None:
    """L3. After the offload only the placeholder is part of requests."""
    steps: list[Step] = [
        ("main", 0, started("main")),
        ("main", 1, replied(used(0, 1_000, 5), "big")),
        ("main", 1, returned("big", 40_000)),
        ("main", 2, replied(used(1_000, 10_000, 5), "none")),
        ("main", 2, returned("none", 1)),
        ("main", 2, Offloaded(tool="big", tool_use_id="t0", chars=40_000, path="p", reason="line",
                              placeholder="y" * 400, entry=2, block=0)),
        ("main", 3, replied(used(0, 1_100, 5))),
    ]  # fmt: skip
    (big, *_) = by_tool(records(*steps))
    assert big.cost_usd is None
    assert big.requests == 2
    assert big.tokens > 9_000
    assert big.tokens < big.carried < big.tokens + 1_000


def recorded(root: Path, fn: Any, **options: Any) -> list[Record]:
    async def go() -> None:
        await run("go", model=ScriptedModel(fn), root=root, run_id="first", **options)

    anyio.run(go)
    return list(read_records(RunDir(root, "first").journal))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 9_000), min_size=1, max_size=12), st.integers(1, 3))
def test_tools_never_carry_more_than_was_read(sizes: list[int], parallel: int) -> None:
    """In any run: shares of requests add up to no more than the requests."""
    import tempfile

    def text(size: int) -> str:
        """Text.

        Args:
            size: Characters.
        """
        return "é" * size

    waiting = list(sizes)

    def script(request: Request) -> Any:
        if request.purpose == "summary":
            return "Texts were seen."
        # Not by the results in the request: a compaction takes some of them out.
        wanted, waiting[:] = waiting[:parallel], waiting[parallel:]
        return [call("text", size=size) for size in wanted] or "done"

    with tempfile.TemporaryDirectory() as folder:
        found = recorded(Path(folder), script, tools=[text], context=Context(window=16_000))
    accounts = by_tool(found)
    total = summarise(found, "").usage
    assert sum(account.carried for account in accounts) <= total.context_tokens
    assert sum(account.calls for account in accounts) == len(sizes)
    assert all(0 <= account.tokens <= account.carried + 1 for account in accounts)


# ── cost by kind, estimates ──


def test_five_minute_and_one_hour_writes_are_priced_apart() -> None:
    """L2: per agent; the kinds add up to the cost."""
    usage = Usage(10_000, 1_000, 20_000, 30_000, 10_000, 20_000)
    run = records(
        ("main", 1, replied(usage, model=SONNET)), ("main", 2, replied(usage, model=SONNET))
    )
    figures = figures_by(run, "agent", lambda m, u, _: costs_usd(m, u, at=AT))["main", None]
    one = Costs(0.03, 0.015, 0.006, 0.0375, 0.12)
    assert figures.costs is not None
    for kind in Costs.__slots__:
        assert getattr(figures.costs, kind) == pytest.approx(2 * getattr(one, kind))
    assert figures.costs.total == pytest.approx(2 * (cost_usd(SONNET, usage, at=AT) or 0))


@pytest.mark.parametrize("tokens", [1_000, 199_999, 200_001, 900_000])
@pytest.mark.parametrize(
    "model", [SONNET, "claude-opus-4-1", "gemini-2.5-pro", "gpt-4o", "claude-3-haiku-20240307"]
)
def test_the_kinds_add_up_to_the_listed_price_at_any_size(model: str, tokens: int) -> None:
    usage = Usage(tokens // 2, 500, tokens // 2)
    costs = costs_usd(model, usage, at=AT)
    assert costs is not None
    assert costs.total == pytest.approx(cost_usd(model, usage, at=AT))


def test_an_unknown_price_makes_the_kinds_unknown() -> None:
    """L3."""
    run = records(("main", 1, replied(Usage(1), model=SONNET)), ("main", 2, replied(Usage(1))))
    assert figures_by(run, "agent", lambda m, u, at: costs_usd(m, u))["main", None].costs is None
    assert costs_usd("of-nobody", Usage(1)) is None


def test_estimates_stand_beside_what_was_reported_of_the_same_requests() -> None:
    """E1: summaries, failed calls and cut prompts are no part of the comparison."""
    run = records(
        ("main", 1, replied(Usage(100), estimate_tokens=110)),
        ("main", 2, replied(Usage(100, 0, 200), estimate_tokens=310)),
        ("main", 3, replied(Usage(100), estimate_tokens=900, truncated=True)),
        ("main", 3, replied(Usage(100), estimate_tokens=900, purpose="summary")),
        ("main", 3, ModelFailed(model="m1", kind="cut", message="x", usage=Usage(7))),
    )
    figures = figures_by(run, "agent", lambda m, u, at: None)["main", None]
    assert (figures.estimated, figures.reported) == (420, 400)
    assert figures.deviation == pytest.approx(0.05)


# ── the command ──


def tree(request: Request) -> Any:
    if request.agent_type == "main":
        return "merged" if results(request) else [call("task", prompt="look")]
    if not results(request):
        return [call("ls")]
    usage = Usage(100, 20, 300, 400, 100, 300)
    return Reply(
        [{"type": "text", "text": "seen it all, there is nothing."}], "end_turn", usage, SONNET
    )


def configure(root: Path, text: str) -> None:
    (root / ".outrider").mkdir(exist_ok=True)
    (root / ".outrider/config.toml").write_text(text)


PRICES = """
[prices]
"scripted" = { input = 1.0, output = 5.0 }
"claude-sonnet-4-5" = { input = 1, output = 5, cache_read = 0.1, cache_write_5m = 1.25, cache_write_1h = 2 }
"""


def test_own_prices_come_from_the_configuration(cli: Cli, root: Path) -> None:
    """L3: unknown before, then by the table; five-minute and one-hour writes in columns of their own."""
    recorded(root, tree)
    assert json.loads(cli("tokens", "first", "--json").out)["cost_usd"] is None
    assert "write 1h" not in cli("tokens", "first").out
    configure(root, PRICES)
    found = json.loads(cli("tokens", "first", "--json").out)
    main, child = found["rows"]
    assert child["costs_usd"]["cache_write_5m"] == pytest.approx(100 * 1.25 / 1e6)
    assert child["costs_usd"]["cache_write_1h"] == pytest.approx(300 * 2 / 1e6)
    for row in (main, child):
        assert sum(row["costs_usd"].values()) == pytest.approx(row["cost_usd"])
    assert found["cost_usd"] == pytest.approx(main["cost_usd"] + child["cost_usd"])
    assert re.search(
        r"agent +input +cache rd +write 5m +write 1h +output +cost\n", cli("tokens", "first").out
    )
    assert json.loads(cli("runs", "--json").out)[0]["cost_usd"] == pytest.approx(found["cost_usd"])
    shown = json.loads(cli("config", "show", "--json").out)["prices"]
    assert shown["from"] == ".outrider/config.toml"
    assert shown["value"]["scripted"]["input"] == 1.0
    assert "scripted = {input = 1.0, output = 5.0}" in cli("config", "show").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '"m" = { inptu = 1.0, output = 5.0 }',
            "prices: m: no such rate inptu; there are: input, output",
        ),
        ('"m" = { input = 1.0 }', "prices: m: output is missing"),
        ('"m" = { input = -1.0, output = 1 }', "m: input is no price in USD per million tokens"),
        ('"m" = { input = "1", output = 1 }', "m: input is no price in USD per million tokens"),
        ('"m" = { input = nan, output = 1 }', "m: input is no price in USD per million tokens"),
        ('"m" = 3', "m: no rates, and no name of a model that it is priced as"),
    ],
)
def test_a_price_that_cannot_be_used_is_named(cli: Cli, root: Path, text: str, said: str) -> None:
    recorded(root, tree)
    configure(root, f"quiet = true\n[prices]\n{text}\n")
    ran = cli("tokens", "first")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("outrider: .outrider/config.toml:2: prices: ")
    assert said in ran.err


def test_prices_can_be_set_in_the_environment(cli: Cli, root: Path) -> None:
    recorded(root, tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_PRICES", '{"scripted": "claude-sonnet-4-5"}')
        assert json.loads(cli("tokens", "first", "--json").out)["cost_usd"] > 0
        patch.setenv("OUTRIDER_PRICES", "scripted=1")
        assert "OUTRIDER_PRICES: no valid JSON" in cli("tokens", "first").err


@pytest.mark.anyio
async def test_a_cost_limit_goes_by_own_prices(tmp_path: Path) -> None:
    """L3: refused where the price is unknown, kept where a person named it."""
    model, limits = ScriptedModel(lambda _: [call("ls")]), Limits(max_cost=0.01)
    with pytest.raises(ConfigError, match="no price is known for scripted"):
        await run("x", model=model, root=tmp_path, limits=limits)
    prices = {"scripted": Rates(input=1.0, output=5.0)}
    report = await run("x", model=model, root=tmp_path, limits=limits, prices=prices)
    assert (report.status, report.reason) == ("partial", "limit:max_cost")
    assert report.cost_usd is not None
    assert 0.01 <= report.cost_usd < 0.02  # the call that reached it, and the hand-back


def test_tools_are_ordered_by_what_they_carried(cli: Cli, root: Path) -> None:
    recorded(root, tree)
    found = json.loads(cli("tokens", "first", "--by", "tool", "--json").out)
    task, ls = sorted(found["rows"], key=lambda row: row["name"] == "ls")
    assert (task["calls"], ls["calls"]) == (1, 1)
    for row in (task, ls):
        assert row["requests"] == 1
        assert row["carried_tokens"] == row["result_tokens"] > 0
        assert sum(v for v in row["usage"].values() if isinstance(v, int)) == row["carried_tokens"]
    assert found["rows"] == sorted(found["rows"], key=lambda row: -row["carried_tokens"])
    rows = list(csv.DictReader(io.StringIO(cli("tokens", "first", "--by", "tool", "--csv").out)))
    assert [row["name"] for row in rows] == [row["name"] for row in found["rows"]]
    assert "isolation" in found


@pytest.mark.parametrize("by", ["agent", "model", "tool", "turn"])
def test_csv_has_the_figures_of_json(cli: Cli, root: Path, by: str) -> None:
    configure(root, PRICES)
    recorded(root, tree)
    found = json.loads(cli("tokens", "first", "--by", by, "--json").out)["rows"]
    rows = list(csv.DictReader(io.StringIO(cli("tokens", "first", "--by", by, "--csv").out)))
    assert len(rows) == len(found) > 0
    for row, full in zip(rows, found, strict=True):
        assert int(row["cache_read_input_tokens"]) == full["usage"]["cache_read_input_tokens"]
        assert float(row["cost_usd"]) == pytest.approx(full["cost_usd"])
        if by != "tool":
            assert float(row["cache_write_1h_usd"]) == full["costs_usd"]["cache_write_1h"]
            assert int(row["estimated_tokens"]) == full["estimated_tokens"]


def test_the_isolation_line_stands_below_the_table(cli: Cli, root: Path) -> None:
    recorded(root, tree)
    assert "\n\nIsolation " in cli("tokens", "first").out
    account = json.loads(cli("tokens", "first", "--json").out)["isolation"]
    assert account["saved_tokens"] == (
        account["alone_tokens"] - account["main_tokens"] - account["delegated_tokens"]
    )


def test_compactions_count_as_kept_out() -> None:
    compacted = Compacted(trigger="line", before_tokens=9, after_tokens=1, messages=2, calls=1,
                          fallback=False, archive="a", summary="s")  # fmt: skip
    steps = [*WORKED[:2], ("main", 1, returned("lookup", 100)), ("main", 1, compacted)]
    assert isolation(records(*steps)) is not None


def test_a_tool_without_results_in_requests_has_an_account_all_the_same() -> None:
    (account,) = by_tool(records(*WORKED[:2], ("main", 1, returned("lookup", 100))))
    assert account == ToolAccount("lookup", calls=1, chars=100)
