"""Prices of the shop."""

from shop.money import to_cents


def total(prices: list[float]) -> int:
    """The sum in cents. TODO: migrate from to_cents to Money.of."""
    return sum(to_cents(price) for price in prices)
