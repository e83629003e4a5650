"""Readings: figures that add up, of whole, unfinished and resumed runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.events import (
    AgentEnded,
    AgentStarted,
    Compacted,
    Event,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    Offloaded,
    Record,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolReturned,
    WindowCorrected,
)
from orchestrator.ledger import Usage
from orchestrator.readings import TokenRow, summarise, tokens_by

Step = tuple[str, int, Event]


def records(*steps: Step, ts: float = 100.0) -> list[Record]:
    """Records one second apart."""
    return [
        Record(seq=number, ts=ts + number, agent_id=agent, turn=turn, fact=fact)
        for number, (agent, turn, fact) in enumerate(steps, 1)
    ]


def run_started() -> RunStarted:
    return RunStarted(task="survey", task_chars=6, model="m1", version="0", root="/w")


def started(agent_id: str, parent_id: str | None = None, agent_type: str = "main") -> AgentStarted:
    return AgentStarted(agent_id=agent_id, parent_id=parent_id, agent_type=agent_type,
                        definition=agent_type, model="m1", window_tokens=200_000,
                        output_tokens=8_000, brief="do it")  # fmt: skip


def replied(usage: Usage, model: str = "m1") -> ModelReplied:
    return ModelReplied(model=model, blocks=[], stop_reason="end_turn", usage=usage)


def failed(usage: Usage | None, model: str = "m1") -> ModelFailed:
    return ModelFailed(model=model, kind="overloaded", message="busy", usage=usage)


def returned(tool: str, chars: int, is_error: bool = False) -> ToolReturned:
    return ToolReturned(tool=tool, tool_use_id="t", index=0, chars=chars, is_error=is_error,
                        result="")  # fmt: skip


def ended(status: str = "finished", reason: str | None = None) -> AgentEnded:
    return AgentEnded.model_validate(
        {"status": status, "reason": reason, "turns": 2, "tool_calls": 1, "usage": Usage(),
         "conclusion_tokens": 30, "returned_tokens": 20, "path": "c.md"}
    )  # fmt: skip


def price(model: str, usage: Usage, at: float) -> float | None:
    """A dollar a token, for the one model that has a price."""
    return float(usage.total_tokens) if model == "m1" else None


CHILD = "main.t1"
WHOLE: list[Step] = [
    ("main", 0, run_started()),
    ("main", 0, started("main")),
    ("main", 1, replied(Usage(10, 5, 100))),
    (CHILD, 0, started(CHILD, "main", "explorer")),
    ("main", 1, returned("ls", 40)),
    (CHILD, 1, failed(None)),
    (CHILD, 1, failed(Usage(7))),
    (CHILD, 1, replied(Usage(20, 2))),
    (CHILD, 1, returned("read_file", 5_000)),
    (CHILD, 1, returned("read_file", 10, is_error=True)),
    (CHILD, 1, Offloaded(tool="read_file", tool_use_id="t", chars=5_000, path="p", reason="line")),
    (CHILD, 2, ended("partial", "limit:max_turns")),
    ("main", 2, replied(Usage(30, 9, 200))),
    ("main", 2, ended()),
    ("main", 2, RunEnded(status="finished", usage=Usage())),
]


def test_a_whole_run_in_figures() -> None:
    """L2: failed and cut calls count as far as known; what was not reported is counted as such."""
    run = summarise(records(*WHOLE), "r1", price)
    assert (run.run_id, run.task, run.model, run.status) == ("r1", "survey", "m1", "finished")
    assert (run.started, run.seconds) == (101.0, 14.0)
    main, child = run.agents
    assert main.usage == Usage(40, 14, 300)
    assert (main.requests, main.unreported, main.peak_context_tokens) == (2, 0, 230)
    assert (main.turns, main.tool_calls, main.status, main.reason) == (2, 1, "finished", None)
    assert (main.conclusion_tokens, main.returned_tokens, main.conclusion_path) == (30, 20, "c.md")
    assert child.usage == Usage(27, 2)
    assert (child.requests, child.unreported, child.offloaded) == (3, 1, 1)
    assert (child.status, child.reason, child.seconds) == ("partial", "limit:max_turns", 8.0)
    assert (child.parent_id, child.agent_type, child.window_tokens) == ("main", "explorer", 200_000)
    assert run.usage == main.usage + child.usage
    assert run.cost_usd == run.usage.total_tokens
    assert run.unreported == 1


def test_a_row_has_the_documented_fields() -> None:
    """Every field of `agents`, usage in the provider's shape."""
    row = summarise(records(*WHOLE), "r1", price).agents[1].as_json()
    documented = """agent_id parent_id agent_type model status reason turns requests tool_calls usage
        cost_usd peak_context_tokens window_tokens offloaded compactions conclusion_tokens
        returned_tokens conclusion_path seconds"""
    assert set(documented.split()) == row.keys() - {"unreported"}
    assert row["usage"]["cache_creation"]["ephemeral_5m_input_tokens"] == 0


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_any_prefix_of_a_run_can_be_read(length: int) -> None:
    """L4: an unfinished run has figures and no status; the sum over agents holds."""
    run = summarise(records(*WHOLE[:length]), "r1", price)
    assert run.status is None
    assert run.usage == sum((agent.usage for agent in run.agents), Usage())


def test_an_unknown_price_makes_the_sum_unknown() -> None:
    """L3: one call without a known price, and cost is unknown: for its agent and the run only."""
    steps = [*WHOLE[:-3], (CHILD, 2, replied(Usage(1), "local")), *WHOLE[-3:]]
    run = summarise(records(*steps), "r1", price)
    assert [agent.cost_usd for agent in run.agents] == [354.0, None]
    assert run.cost_usd is None
    assert summarise(records(*WHOLE), "r1").cost_usd is None  # no prices asked for


def test_a_resumed_run_runs_again() -> None:
    """L4: after a resume the run has no end yet, and the time in between does not count."""
    first = records(*WHOLE)
    later: list[Step] = [
        ("main", 2, RunResumed()),
        ("main", 2, MessageAdded(text="and now?", origin="user")),
        ("main", 3, replied(Usage(1))),
    ]
    resumed = [
        each.model_copy(update={"seq": each.seq + len(first)})
        for each in records(*later, ts=9_000.0)
    ]
    run = summarise(first + resumed, "r1", price)
    assert run.status is None
    assert run.seconds == 14.0 + 2.0
    main, child = run.agents
    assert (main.status, main.turns, child.status) == (None, 3, "partial")


def test_a_clock_set_back_costs_no_time() -> None:
    """H2: a clock jump gives no negative seconds."""
    steps = records(*WHOLE[:3])
    back = steps[-1].model_copy(update={"ts": 5.0})
    assert summarise([*steps[:2], back], "r1").seconds == 1.0


def test_compactions_and_a_corrected_window() -> None:
    """Compactions are counted, and the window is the one that the run came to know."""
    compacted = Compacted(trigger="line", before_tokens=9, after_tokens=1, messages=4, calls=1,
                          fallback=False, archive="a", summary="s")  # fmt: skip
    corrected = WindowCorrected(model="m1", tokens=32_000, source="error")
    steps = [*WHOLE[:2], ("main", 1, compacted), ("main", 1, corrected)]
    (main,) = summarise(records(*steps), "r1").agents
    assert (main.compactions, main.window_tokens) == (1, 32_000)


def test_agents_stand_in_tree_order() -> None:
    """Each agent before its children, siblings as they started, an orphan at the top."""
    steps: list[Step] = [
        (name, 0, started(name, parent))
        for name, parent in [
            ("main", None), ("a", "main"), ("b", "main"), ("a1", "a"), ("lost", "gone"), ("a2", "a"),
        ]
    ]  # fmt: skip
    rows = summarise(records(*steps), "r1").agents
    assert [row.agent_id for row in rows] == ["main", "a", "a1", "a2", "b", "lost"]


def test_tokens_by_agent_model_and_turn() -> None:
    """L2: each call is in exactly one row, failed ones included."""
    run = [*records(*WHOLE)]
    assert tokens_by(run, "agent", price) == [
        TokenRow("main", calls=2, usage=Usage(40, 14, 300), cost_usd=354.0),
        TokenRow(CHILD, calls=3, usage=Usage(27, 2), unreported=1, cost_usd=29.0),
    ]
    (model,) = tokens_by(run, "model", price)
    assert (model.name, model.calls, model.usage) == ("m1", 5, Usage(67, 16, 300))
    turns = [(row.name, row.turn, row.calls) for row in tokens_by(run, "turn", price)]
    assert turns == [("main", 1, 1), (CHILD, 1, 3), ("main", 2, 1)]


USAGES = st.builds(Usage, *[st.integers(0, 1_000)] * 6)


def _calls(draw: st.DrawFn) -> Iterator[Step]:
    names = ["main", "a", "b"]
    yield from ((name, 0, started(name, None if name == "main" else "main")) for name in names)
    for _ in range(draw(st.integers(0, 20))):
        name = draw(st.sampled_from(names))
        model = draw(st.sampled_from(["m1", "m2"]))
        usage = draw(st.none() | USAGES)
        call = failed(None, model) if usage is None else replied(usage, model)
        yield name, draw(st.integers(1, 5)), call


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    return records(*_calls(draw))


@given(runs())
def test_every_reading_has_the_same_sum(run: list[Record]) -> None:
    """L2: by agent, by model and by turn add up to the tree's total, calls and tokens."""
    summary = summarise(run, "r1", price)
    readings = [tokens_by(run, "agent"), tokens_by(run, "model"), tokens_by(run, "turn")]
    for rows in readings:
        assert sum((row.usage for row in rows), Usage()) == summary.usage
        assert sum(row.calls for row in rows) == sum(agent.requests for agent in summary.agents)
        assert sum(row.unreported for row in rows) == summary.unreported
