"""The page's colours: readable in light and dark (WCAG 2.2, AA)."""

from __future__ import annotations

import re
from itertools import product

import pytest

from orchestrator.viewer import pagefiles

TEXTS = ("text", "soft", "accent", "good", "warn", "bad")
SURFACES = ("bg", "panel", "hover", "chosen")
BARS = ("read", "write", "input", "output", "tool", "accent", "bad", "soft")
# What bars stand on: a panel, their own track, a chosen row.
GROUNDS = ("panel", "line", "chosen")


def colours(scheme: int) -> dict[str, str]:
    """By name; ``scheme``: 0 light, 1 dark."""
    pairs = re.findall(r"--(\w+): light-dark\(#(\w+), #(\w+)\)", pagefiles.text("style.css"))
    return {name: _six((light, dark)[scheme]) for name, light, dark in pairs}


def _six(code: str) -> str:
    return "".join(digit * 2 for digit in code) if len(code) == 3 else code


def luminance(code: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1() -> None:
    assert contrast("000000", "ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_stand_out_from_every_surface(scheme: int) -> None:
    found = colours(scheme)
    for text, surface in product(TEXTS, SURFACES):
        assert contrast(found[text], found[surface]) >= 4.5, (text, surface)
    # The line that says what is wrong with a journal.
    assert contrast(found["panel"], found["bad"]) >= 4.5


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_bars_stand_out_from_what_they_are_on(scheme: int) -> None:
    found = colours(scheme)
    for bar, ground in product(BARS, GROUNDS):
        assert contrast(found[bar], found[ground]) >= 3, (bar, ground)
