"""Token accounts: what the provider reported, summed over every request of an agent.

Figures are the provider's own; nothing here estimates. Failed and cut calls count as far as the
provider reported them, and a call that reported nothing is counted as unreported, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Input prices against uncached input: what the provider asks for a cache read and for writes.
READ_PRICE = 0.1
WRITE_5M_PRICE = 1.25
WRITE_1H_PRICE = 2.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more requests. Total input is ``context_tokens``."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0

    @property
    def context_tokens(self) -> int:
        """Everything that the model read: uncached, cache read and cache write."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens

    @property
    def weighted(self) -> float:
        """The input at its weight in price, in tokens of uncached input."""
        one_hour = min(self.ephemeral_1h_input_tokens, self.cache_creation_input_tokens)
        return (
            self.input_tokens
            + READ_PRICE * self.cache_read_input_tokens
            + WRITE_5M_PRICE * (self.cache_creation_input_tokens - one_hour)
            + WRITE_1H_PRICE * one_hour
        )

    @property
    def total_tokens(self) -> int:
        return self.context_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.ephemeral_5m_input_tokens + other.ephemeral_5m_input_tokens,
            self.ephemeral_1h_input_tokens + other.ephemeral_1h_input_tokens,
        )

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Usage:
        """From a provider's ``usage`` object; absent and null fields are zero (local servers)."""
        by_age = reported.get("cache_creation") or {}
        created = reported.get("cache_creation_input_tokens") or 0
        one_hour = by_age.get("ephemeral_1h_input_tokens") or 0
        return cls(
            input_tokens=reported.get("input_tokens") or 0,
            output_tokens=reported.get("output_tokens") or 0,
            cache_read_input_tokens=reported.get("cache_read_input_tokens") or 0,
            cache_creation_input_tokens=created,
            # Without the breakdown a write has the default lifetime, five minutes.
            ephemeral_5m_input_tokens=by_age.get("ephemeral_5m_input_tokens") or created - one_hour,
            ephemeral_1h_input_tokens=one_hour,
        )

    def as_json(self) -> dict[str, Any]:
        """The provider's field names and nesting."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_input_tokens": self.cache_read_input_tokens,
            "cache_creation_input_tokens": self.cache_creation_input_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.ephemeral_5m_input_tokens,
                "ephemeral_1h_input_tokens": self.ephemeral_1h_input_tokens,
            },
        }


@dataclass(frozen=True, slots=True)
class Costs:
    """USD by kind of token, of one or more requests."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write_5m: float = 0.0
    cache_write_1h: float = 0.0

    @property
    def total(self) -> float:
        parts = (self.input, self.output, self.cache_read, self.cache_write_5m, self.cache_write_1h)
        return sum(parts)

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def as_json(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Ledger:
    """One agent's account."""

    usage: Usage = Usage()
    requests: int = 0
    unreported: int = 0
    peak_context_tokens: int = 0

    def with_call(self, usage: Usage | None) -> Ledger:
        """The account after one more request; ``usage`` is ``None`` where nothing was reported."""
        requests, peak = self.requests + 1, self.peak_context_tokens
        if usage is None:
            return Ledger(self.usage, requests, self.unreported + 1, peak)
        peak = max(peak, usage.context_tokens)
        return Ledger(self.usage + usage, requests, self.unreported, peak)
