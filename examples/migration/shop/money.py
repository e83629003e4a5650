"""Money, the old way and the new one."""

from dataclasses import dataclass


def to_cents(euros: float) -> int:
    """Old: loses what it is an amount of. Use `Money.of`."""
    return round(euros * 100)


@dataclass(frozen=True)
class Money:
    """New: an amount in cents."""

    cents: int

    @classmethod
    def of(cls, euros: float) -> "Money":
        return cls(round(euros * 100))
