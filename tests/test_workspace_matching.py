"""Running a regular expression where it can be stopped."""

import re

import pytest

from workspace.matching import TimeUp, matching
from workspace.search import Regex, regex

LINES = [(1, "aaa"), (2, "bbb"), (3, "xaa" + "a" * 4_000), (4, "a")]


@pytest.mark.parametrize("pattern", ["a", "a+", "(a)+", ".*a"])
def test_matches_come_in_order_wherever_they_are_found(pattern: str) -> None:
    """G1: here and in the helper process alike."""
    with matching(regex(pattern), lambda: True) as matcher:
        found = list(matcher.matches(LINES))
    expected = [(n, line, re.search(pattern, line)) for n, line in LINES]
    assert found == [(n, line, match.start()) for n, line, match in expected if match]


def test_waiting_ends_when_the_time_is_up() -> None:
    """G2."""
    with matching(regex("(a+)+$"), lambda: False) as matcher, pytest.raises(TimeUp):
        list(matcher.matches([(1, "a" * 60 + "b")]))


def test_a_helper_that_dies_is_an_error_of_the_system() -> None:
    """G3: the search notes it and goes on; here it dies of a pattern it cannot compile."""
    broken = Regex(re.compile("a"), nested=True)
    object.__setattr__(broken, "expression", _Unreadable())
    with matching(broken, lambda: True) as matcher, pytest.raises(BrokenPipeError):
        list(matcher.matches([(1, "a")]))


class _Unreadable:
    pattern = 0
