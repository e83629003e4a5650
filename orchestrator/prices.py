"""What a model call costs, from the prices that ship with `genai-prices`: no network.

A price that is not known is ``None``, never zero. Price one call at a time and add up: some models
cost more per token above a request size, so the sum of many calls has no price of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.ledger import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """A model's price in USD per million tokens; ``None`` where it is not known."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write_5m: float | None = None
    cache_write_1h: float | None = None


def cost_usd(
    model: str,
    usage: Usage,
    *,
    at: float | None = None,
    overrides: Mapping[str, Rates | str] | None = None,
) -> float | None:
    """The price of one call in USD, or ``None`` where it is not known.

    ``at``: when the call was made, in seconds since the epoch (default now), for prices change.
    ``overrides``: by model name, the rates to use, or the name of the model that it is priced as
    (a gateway's own name for a public model).
    """
    chosen = (overrides or {}).get(model, model)
    if isinstance(chosen, Rates):
        return _at_rates(chosen, usage)
    return _listed(chosen, usage, at)


def _at_rates(rates: Rates, usage: Usage) -> float | None:
    parts = (
        (usage.input_tokens, rates.input),
        (usage.output_tokens, rates.output),
        (usage.cache_read_input_tokens, rates.cache_read),
        (usage.cache_creation_input_tokens - _one_hour(usage), rates.cache_write_5m),
        (_one_hour(usage), rates.cache_write_1h),
    )
    total = 0.0
    for tokens, rate in parts:
        if tokens and rate is None:
            return None
        total += tokens * (rate or 0.0)
    return total / _MILLION


def _listed(model: str, usage: Usage, at: float | None) -> float | None:
    import genai_prices  # late: a heavy import

    # Its input_tokens are all tokens read, ours those that no cache holds.
    counted = genai_prices.Usage(
        input_tokens=usage.context_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        cache_write_1h_tokens=_one_hour(usage),
    )
    when = None if at is None else datetime.fromtimestamp(at, UTC)
    try:
        price = genai_prices.calc_price(counted, model, genai_request_timestamp=when)
    except LookupError:
        return None
    return float(price.total_price)


def _one_hour(usage: Usage) -> int:
    # At most all of them: some servers report the two figures at odds.
    return min(usage.ephemeral_1h_input_tokens, usage.cache_creation_input_tokens)
