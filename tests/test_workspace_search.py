"""Regular expressions as ripgrep writes them, and showing a line that matches."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace import BadPattern
from workspace.search import EXCERPT_CHARS, excerpt, regex


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        (r"fo+\b", "foo bar", "fo_"),
        ("[[:digit:]]+x", "12x", "x"),
        ("[^[:space:]]x", "ax", " x"),
        ("[[:alpha:]_]1", "_1", "11"),
        (r"end\z", "the end", "end."),
        (r"(?<word>a)b", "ab", "b"),
        (r"(?<=a)b", "ab", "b"),
        (r"(?i)FOO", "foo", "fo"),
        ("a[b[]c", "a[c", "abb"),
        ("[]a]x", "]x", "bx"),
        ("[^]a]x", "bx", "]x"),
        ("[a&&b]", "&", "c"),
        ("[a--]", "-", "b"),
        ("[~~|]", "|", "b"),
        (r"\[x", "[x", "x"),
        (r"[\]]x", "]x", "x"),
        ("[[:nope:]]", "n]", "x]"),
        ("", "anything", None),
    ],
)
def test_a_regular_expression_reads_as_in_ripgrep(
    pattern: str, found: str, not_found: str | None
) -> None:
    """G1."""
    assert regex(pattern).expression.search(found)
    assert not_found is None or not regex(pattern).expression.search(not_found)


def test_literal_switches_the_expression_off() -> None:
    """G1."""
    assert regex("a.c(", literal=True).expression.search("xa.c(")
    assert not regex("a.c(", literal=True).expression.search("abc(")


@pytest.mark.parametrize(
    ("pattern", "column"),
    [
        ("foo(", 4),
        ("a**", 3),
        ("[[:alpha:]](", 12),
        ("[a", 1),
        ("(?<x>a)(", 8),
        ("a)", 2),
        ("a{1,99999999999}", 1),
        ("\\", 1),
    ],
)
def test_a_bad_pattern_shows_the_column_in_what_was_written(pattern: str, column: int) -> None:
    """G1: also after parts that are spelt otherwise in `re`."""
    with pytest.raises(BadPattern, match=rf"\(column {column}\)") as caught:
        regex(pattern)
    assert caught.value.column == column


@given(st.text(alphabet="a()[]{}*+?|^$\\:-&~1,<>P!=.z"))
def test_any_pattern_compiles_or_is_a_bad_pattern(pattern: str) -> None:
    """G1: an error result, never a crash or a warning."""
    with contextlib.suppress(BadPattern):
        assert regex(pattern).expression


@pytest.mark.parametrize(
    ("pattern", "length", "quick"),
    [
        ("foo", 1_000_000, True),
        ("foo.*bar", 1_000, True),
        ("foo.*bar", 250_000, False),
        (".*a.*b", 100, True),
        (".*a.*b", 5_000, False),
        ("(a+)+$", 10, False),
        ("(a|a){20,}", 10, False),
        ("[*+]x", 100_000, True),
        ("a?" * 25, 10, False),
    ],
)
def test_what_may_take_long_is_known_beforehand(pattern: str, length: int, quick: bool) -> None:
    """G2: so that it runs where it can be stopped."""
    assert regex(pattern).is_quick(length) == quick


def test_a_long_line_is_shown_around_the_match() -> None:
    """G1: bounded, and it says where to read on."""
    line = "x" * 100_000 + "needle" + "y" * 100_000
    shown = excerpt(line, 100_000)
    assert "needle" in shown
    assert "match at char_offset=100000" in shown
    assert len(shown) < EXCERPT_CHARS + 100
    assert "needle" in excerpt("x" * 1_000 + "needle", 1_000)
    assert excerpt("short", 0) == "short"
