"""What a model call costs, from the prices that ship with `genai-prices`: no network.

A price that is not known is ``None``, never zero. Price one call at a time and add up: some models
cost more per token above a request size, so the sum of many calls has no price of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import TYPE_CHECKING

from orchestrator.ledger import Costs, Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """A model's price in USD per million tokens; ``None`` where it is not known."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write_5m: float | None = None
    cache_write_1h: float | None = None


# By model name: its rates, or the name of the model that it is priced as.
Overrides = Mapping[str, Rates | str]


def cost_usd(
    model: str,
    usage: Usage,
    *,
    at: float | None = None,
    overrides: Overrides | None = None,
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


def costs_usd(
    model: str,
    usage: Usage,
    *,
    at: float | None = None,
    overrides: Overrides | None = None,
) -> Costs | None:
    """The price of one call as `cost_usd` gives it, by kind of token."""
    chosen = (overrides or {}).get(model, model)
    if isinstance(chosen, Rates):
        return _parts_at(chosen, usage)
    when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    rates = _flat_rates(chosen, when.date()) or _stepped_rates(chosen, usage, when)
    return None if rates is None else _parts_at(rates, usage)


def pricing(overrides: Overrides | None) -> Callable[[str, Usage, float], float | None]:
    """`cost_usd` of a call at a time, with these overrides."""
    return lambda model, usage, at: cost_usd(model, usage, at=at, overrides=overrides)


def _at_rates(rates: Rates, usage: Usage) -> float | None:
    costs = _parts_at(rates, usage)
    return None if costs is None else costs.total


def _parts_at(rates: Rates, usage: Usage) -> Costs | None:
    parts = (
        (usage.input_tokens, rates.input),
        (usage.output_tokens, rates.output),
        (usage.cache_read_input_tokens, rates.cache_read),
        (usage.cache_creation_input_tokens - _one_hour(usage), rates.cache_write_5m),
        (_one_hour(usage), rates.cache_write_1h),
    )
    if any(tokens and rate is None for tokens, rate in parts):
        return None
    return Costs(*(tokens * (rate or 0.0) / _MILLION for tokens, rate in parts))


def _listed(model: str, usage: Usage, at: float | None) -> float | None:
    when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    rates = _flat_rates(model, when.date())
    if rates is not None:
        return _at_rates(rates, usage)
    found = _calculated(model, usage, when) if _is_listed(model, when.date()) else None
    return None if found is None else float(found.total_price)


def _calculated(model: str, usage: Usage, when: datetime) -> PriceCalculation | None:
    """By the list itself, which takes longer than all else that is done about a call."""
    import genai_prices  # late: a heavy import

    # Its input_tokens are all tokens read, ours those that no cache holds.
    counted = genai_prices.Usage(
        input_tokens=usage.context_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        cache_write_1h_tokens=_one_hour(usage),
    )
    try:
        return genai_prices.calc_price(counted, model, genai_request_timestamp=when)
    except LookupError:
        return None


@lru_cache(maxsize=256)
def _is_listed(model: str, day: date) -> bool:
    """Whether there is any price. That there is none takes longest to find out."""
    return _calculated(model, Usage(), datetime.combine(day, time(), UTC)) is not None


@lru_cache(maxsize=256)
def _flat_rates(model: str, day: date) -> Rates | None:
    """The listed rates of ``model`` where they hold for requests of any size, all ``day``."""
    when = datetime.combine(day, time(), UTC)
    found = _calculated(model, Usage(), when)
    if found is None or not _is_flat(found):
        return None

    def usd(**million: int) -> float:
        priced = _calculated(model, Usage(**million), when)
        assert priced is not None
        return float(priced.total_price)

    return Rates(
        input=usd(input_tokens=_MILLION),
        output=usd(output_tokens=_MILLION),
        cache_read=usd(cache_read_input_tokens=_MILLION),
        cache_write_5m=usd(cache_creation_input_tokens=_MILLION),
        cache_write_1h=usd(
            cache_creation_input_tokens=_MILLION, ephemeral_1h_input_tokens=_MILLION
        ),
    )


def _stepped_rates(model: str, usage: Usage, when: datetime) -> Rates | None:
    """The listed rates that hold for a request of this size; ``None`` where they do not explain the
    whole price."""
    found = _calculated(model, usage, when)
    if found is None:
        return None
    listed = vars(found.model_price)

    def usd(name: str) -> float | None:
        rate = listed.get(f"{name}_mtok")
        for step in getattr(rate, "tiers", ()):  # from the lowest to the highest
            if usage.context_tokens > step.start:
                rate = step.price
        rate = getattr(rate, "base", rate)
        return None if rate is None else float(rate)

    rates = Rates(
        input=usd("input") or 0.0,
        output=usd("output") or 0.0,
        cache_read=usd("cache_read"),
        cache_write_5m=usd("cache_write"),
        cache_write_1h=usd("cache_write_1h"),
    )
    total = _at_rates(rates, usage)
    explained = total is not None and math.isclose(total, float(found.total_price), rel_tol=1e-9)
    return rates if explained else None


def _is_flat(nothing_used: PriceCalculation) -> bool:
    """Whether a price depends on tokens alone: no steps by size, no hours of the day, no fee."""
    from genai_prices.types import TieredPrices, TimeOfDateConstraint

    steps = any(isinstance(rate, TieredPrices) for rate in vars(nothing_used.model_price).values())
    listed = nothing_used.model.prices
    hours = isinstance(listed, list) and any(
        isinstance(one.constraint, TimeOfDateConstraint) for one in listed
    )
    return not steps and not hours and not nothing_used.total_price


def _one_hour(usage: Usage) -> int:
    # At most all of them: some servers report the two figures at odds.
    return min(usage.ephemeral_1h_input_tokens, usage.cache_creation_input_tokens)
