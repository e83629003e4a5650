"""Prices: known ones right, unknown ones unknown."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ledger import Usage
from orchestrator.prices import Rates, cost_usd

# 2026-11-30: prices of this day, so that a later change of the list does not change the test.
AT = 1_796_000_000.0
SONNET = "claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        (Usage(), 0.0),
        (Usage(input_tokens=100_000), 0.30),
        (Usage(output_tokens=100_000), 1.50),
        (Usage(cache_read_input_tokens=100_000), 0.03),
        (Usage(cache_creation_input_tokens=100_000, ephemeral_5m_input_tokens=100_000), 0.375),
        (Usage(cache_creation_input_tokens=100_000, ephemeral_1h_input_tokens=100_000), 0.60),
        (Usage(10_000, 1_000, 20_000, 30_000, 10_000, 20_000), 0.0300 + 0.015 + 0.006 + 0.1575),
    ],
)
def test_each_kind_of_token_has_its_price(usage: Usage, usd: float) -> None:
    """L2: input, output, cache reads, and five-minute and one-hour cache writes apart."""
    assert cost_usd(SONNET, usage, at=AT) == pytest.approx(usd)


def test_a_large_request_costs_more_per_token() -> None:
    """L2: prices step up with the request's size, so cost is summed call by call."""
    half, whole = Usage(input_tokens=150_000), Usage(input_tokens=300_000)
    assert (cost_usd(SONNET, whole, at=AT) or 0) > 2 * (cost_usd(SONNET, half, at=AT) or 0)


@pytest.mark.parametrize("model", ["rehearsal", "my-local-model", "", "claude-of-2090"])
def test_an_unknown_price_is_unknown(model: str) -> None:
    """L3: never zero."""
    assert cost_usd(model, Usage(1_000, 1_000)) is None


PRICED = (SONNET, "claude-opus-5", "claude-haiku-4-5", "gpt-5", "gemini-2.5-pro", "deepseek-chat")
COUNT = st.integers(0, 2_000_000)


@given(
    st.sampled_from(PRICED),
    st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT),
    st.integers(-86_400, 86_400),
)
def test_a_price_is_the_lists_own_whatever_is_remembered_of_it(
    model: str, usage: Usage, seconds: int
) -> None:
    """Also where it steps up with size, or depends on the hour."""
    at = AT + seconds
    counted = genai_prices.Usage(
        input_tokens=usage.context_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        cache_write_1h_tokens=min(
            usage.ephemeral_1h_input_tokens, usage.cache_creation_input_tokens
        ),
    )
    when = datetime.fromtimestamp(at, UTC)
    listed = genai_prices.calc_price(counted, model, genai_request_timestamp=when).total_price
    assert cost_usd(model, usage, at=at) == pytest.approx(float(listed))


def test_a_price_that_changes_by_the_hour_is_not_remembered_for_the_day() -> None:
    """DeepSeek's nights were cheaper, in early 2025."""
    midnight = datetime(2025, 5, 5, tzinfo=UTC).timestamp()
    usage = Usage(1_000_000)
    by_hour = {cost_usd("deepseek-chat", usage, at=midnight + 3_600 * h) for h in range(24)}
    assert len(by_hour) == 2


def test_figures_at_odds_are_priced_all_the_same() -> None:
    """A server that reports more one-hour writes than writes breaks nothing."""
    usage = Usage(cache_creation_input_tokens=10, ephemeral_1h_input_tokens=20)
    assert cost_usd(SONNET, usage, at=AT) == pytest.approx(10 * 6 / 1e6)


def test_own_rates_come_first() -> None:
    """L3: a person's own price wins; a part that it leaves out is unknown as soon as it is used."""
    own = {SONNET: Rates(input=1.0, output=2.0), "full": Rates(1.0, 2.0, 0.1, 1.25, 2.0)}
    assert cost_usd(SONNET, Usage(1_000_000, 500_000), overrides=own) == pytest.approx(2.0)
    assert cost_usd(SONNET, Usage(cache_read_input_tokens=1), overrides=own) is None
    usage = Usage(1_000_000, 0, 1_000_000, 2_000_000, 1_000_000, 1_000_000)
    assert cost_usd("full", usage, overrides=own) == pytest.approx(1.0 + 0.1 + 1.25 + 2.0)


def test_a_name_can_be_priced_as_another() -> None:
    """A gateway's own name for a public model."""
    usage = Usage(input_tokens=1_000)
    assert cost_usd("gateway/sonnet", usage, at=AT, overrides={"gateway/sonnet": SONNET}) == (
        cost_usd(SONNET, usage, at=AT)
    )


def test_the_price_list_is_loaded_late() -> None:
    """Importing the module costs no price list."""
    check = "import sys, orchestrator.prices; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
