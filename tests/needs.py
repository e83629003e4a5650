"""Tools that some tests need and that may be missing: then they are skipped, or fail where
``OUTRIDER_TESTS_NEED`` names the tool, as in CI, where a test that does not run shows nothing."""

from __future__ import annotations

import os

import pytest

NAMES = ("sandbox", "groups", "setpriv", "browser", "localserver", "pyright")
_VARIABLE = "OUTRIDER_TESTS_NEED"


def needs(name: str, why_not: str | None) -> pytest.MarkDecorator:
    """A mark for tests that need the tool ``name``. ``why_not``: what is missing; ``None``: nothing is."""
    assert name in NAMES
    return pytest.mark.needs(name, why_not)


def missing(name: str, why_not: str) -> None:
    """Skip the test that is running, or let it fail where the tool has to be there."""
    if name in needed():
        pytest.fail(f"{_VARIABLE} names {name}: {why_not}", pytrace=False)
    pytest.skip(why_not)


def needed() -> frozenset[str]:
    """The tools that have to be there. Raises ``pytest.UsageError`` for a name that is none."""
    names = frozenset(filter(None, os.environ.get(_VARIABLE, "").replace(",", " ").split()))
    if unknown := sorted(names - {*NAMES}):
        raise pytest.UsageError(f"{_VARIABLE}: no {unknown[0]!r}; there are: {', '.join(NAMES)}")
    return names
