"""Lines, levels, windows and estimates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context import Context, policy, window_for
from orchestrator.context.estimate import MEDIA_TOKENS, Estimator, weigh
from orchestrator.context.windows import Window, binds_thinking
from orchestrator.messages import encode, tool_result, user
from tests.histories import IMAGE


@pytest.mark.parametrize(
    ("window", "reserve", "offload", "compact", "exhausted"),
    [
        (8_000, 1_000, 4_500, 6_000, 7_000),
        (32_000, 4_000, 18_000, 24_000, 28_000),
        (200_000, 8_000, 142_500, 190_000, 192_000),
        (1_000_000, 8_000, 742_500, 990_000, 992_000),
    ],
)
def test_e5_the_lines_follow_the_formulas(
    window: int, reserve: int, offload: int, compact: int, exhausted: int
) -> None:
    """E5: reserve, headroom and the four lines at windows of 8k, 32k, 200k and 1M."""
    model = Window(window, window, 64_000)
    assert policy.output_reserve(window, model) == reserve
    at = policy.lines(Context(), window, reserve)
    assert (at.offload, at.compact, at.exhausted) == (offload, compact, exhausted)
    assert [policy.level(t, at) for t in (offload - 1, offload, compact, exhausted)] == [
        "normal",
        "offload",
        "exhausted" if compact == exhausted else "compact",
        "exhausted",
    ]


def test_a_large_turn_widens_the_headroom_up_to_its_cap() -> None:
    at = policy.lines(Context(), 200_000, 8_000, largest_recent_turn=12_000)
    assert at.compact == 180_000
    assert policy.lines(Context(), 200_000, 8_000, 500_000).compact == 160_000


def test_compact_at_is_a_share_of_the_working_window() -> None:
    assert policy.lines(Context(compact_at=0.5), 50_000, 8_000).compact == 25_000


def test_e5_a_window_above_the_known_cap_is_refused_with_the_cap() -> None:
    known = window_for("claude-haiku-4-5")
    with pytest.raises(ValueError, match="200,000"):
        policy.working_window(Context(window=300_000), known)
    unknown = window_for("some-model")
    assert policy.working_window(Context(window=300_000), unknown) == 300_000


def test_the_working_window_is_at_most_200k_unless_asked_for() -> None:
    large = window_for("claude-sonnet-5-5")
    assert policy.working_window(Context(), large) == 200_000
    assert policy.working_window(Context(window=1_000_000), large) == 1_000_000


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("claude-sonnet-5-5", 1_000_000, 128_000),
        ("claude-haiku-4-5-20251001", 200_000, 64_000),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 200_000, 64_000),
        ("claude-opus-4-7", 1_000_000, 128_000),
        ("claude-sonnet-4-6", 1_000_000, 64_000),
        ("claude-mythos-preview", 1_000_000, 128_000),
        ("claude-something-1m", 1_000_000, 64_000),
        ("gemini-2.5-pro", 1_048_576, 65_536),
        ("never-heard-of", 32_000, 8_000),
    ],
)
def test_e4_one_table_tells_window_and_output_cap(model: str, window: int, output: int) -> None:
    """E4: every family has its window; unknown names get a low guess."""
    found = window_for(model)
    assert (found.window, found.output_cap) == (window, output)
    assert found.known is (model != "never-heard-of")


@pytest.mark.parametrize(
    ("model", "binds"),
    [
        ("claude-opus-5-5", True),
        ("claude-fable-5-1", True),
        ("claude-mythos-5-2", True),
        ("claude-fable-5", False),
        ("claude-opus-4-8", False),
        ("scripted", False),
    ],
)
def test_models_that_bind_thinking_are_known_by_name(model: str, binds: bool) -> None:
    assert binds_thinking(model) is binds


@pytest.mark.parametrize(
    "bad",
    [
        {"offload_at": 0},
        {"compact_at": 0.0},
        {"compact_at": 1.5},
        {"window": 10},
        {"keep_turns": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Context(**bad)  # type: ignore[arg-type]


def test_e1_the_estimate_is_the_last_report_and_what_came_since() -> None:
    """E1: last reported usage + delta at the learnt factor."""
    estimator = Estimator().learn(40_000, 12_000)
    assert estimator.tokens(40_000) == 12_000
    assert estimator.tokens(44_000) == 13_200
    assert Estimator().tokens(400) == 100


@given(st.floats(0.15, 1.2), st.lists(st.integers(2_000, 200_000), min_size=6, max_size=12))
def test_e1_within_ten_percent_after_five_reports(ratio: float, weights: list[int]) -> None:
    """E1: whatever a model's tokens weigh, five reports teach it."""
    estimator = Estimator()
    for weight in weights[:-1]:
        estimator = estimator.learn(weight, round(weight * ratio))
    actual = weights[-1] * ratio
    # E2: after an edit nothing is left but the factor.
    assert abs(estimator.forget_report().tokens(weights[-1]) - actual) <= 0.1 * actual + 1


def test_e2_an_edit_makes_the_report_stale() -> None:
    """E2: a report counts only for the context that it was made for."""
    estimator = Estimator().learn(40_000, 12_000).forget_report()
    assert estimator.reported_tokens is None
    assert estimator.tokens(10_000) == 3_000


def test_images_weigh_a_fixed_amount_wherever_they_are() -> None:
    huge = {**IMAGE, "source": {**IMAGE["source"], "data": "A" * 500_000}}
    for message in (user(huge), user(tool_result("t", [huge]))):
        weight = weigh(message["content"], len(encode(message)))
        assert MEDIA_TOKENS * 4 <= weight < MEDIA_TOKENS * 4 + 400
