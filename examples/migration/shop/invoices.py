"""Invoices of the shop."""

from shop import money


def line(name: str, euros: float) -> str:
    """A line of an invoice. TODO: migrate from to_cents to Money.of."""
    return f"{name}: {money.to_cents(euros)} ct"
