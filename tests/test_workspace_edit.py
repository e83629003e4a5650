"""Replacing one passage of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace import EditFailed
from workspace.edit import Missing, replace


def test_one_occurrence_is_replaced_and_its_line_told() -> None:
    edited = replace("a\nb\nc\n", "b\n", "B\nB\n")
    assert (edited.text, edited.count, edited.line) == ("a\nB\nB\nc\n", 1, 2)


def test_two_occurrences_are_an_error_with_the_count_and_lines() -> None:
    """W1."""
    with pytest.raises(EditFailed, match=r"occurs 2 times \(lines 1, 3\)"):
        replace("x\ny\nx\n", "x", "z")


def test_replace_all_replaces_every_occurrence() -> None:
    """W1."""
    edited = replace("x\ny\nx\n", "x", "z", replace_all=True)
    assert (edited.text, edited.count, edited.line) == ("z\ny\nz\n", 2, 1)


def test_overlapping_occurrences_are_ambiguous() -> None:
    """W1: `aa` is in `aaa` at two places."""
    with pytest.raises(EditFailed, match="occurs 2 times"):
        replace("aaa", "aa", "b")


def test_many_occurrences_are_listed_briefly() -> None:
    """W1, W2: the count is whole, the list is not."""
    with pytest.raises(EditFailed, match=r"occurs 500 times \(lines 1, 2, 3, 4, 5, …\)"):
        replace("x\n" * 500, "x", "y")


@pytest.mark.parametrize(
    ("text", "old", "new", "reason"),
    [
        ("abc", "", "x", "old_string is empty"),
        ("", "", "x", "old_string is empty"),
        ("abc", "b", "b", "are the same"),
        ("a\r\nb", "a\nb", "a\r\nb", "are the same"),
        ("alpha\n  beta\n", "beta\ngamma", "x", "its first line is on line 2"),
        ("alpha\n\tbeta = 1\n", "   beta = 1", "x", "line 2 differs in white space"),
        ("def compute(a):\n", "def compute(b):", "x", 'nearest is line 1: "def compute(a):"'),
        ("alpha\n", "zzz qqq", "x", "no line is like it"),
        ("", "x", "y", "no line is like it"),
        ("alpha\n", "\n\n\n", "y", "no line is like it"),
    ],
)
def test_what_is_not_there_is_an_error_that_helps(
    text: str, old: str, new: str, reason: str
) -> None:
    """W2."""
    with pytest.raises(EditFailed) as caught:
        replace(text, old, new)
    assert reason in str(caught.value)


def test_a_newline_mismatch_at_the_end_of_the_file_is_named() -> None:
    """W2."""
    with pytest.raises(Missing, match="the file ends without one"):
        replace("a\nlast", "last\n", "x\n")
    with pytest.raises(Missing, match="only without its final newline"):
        replace("a last b\n", "last\n", "x\n")


@pytest.mark.parametrize("text", ["short\n", "y" * 300_000, "x" * 300_000, "line\n" * 100_000])
def test_the_error_is_bounded_even_for_a_huge_old_string(text: str) -> None:
    """W2: old_string of 200,000 characters."""
    with pytest.raises(EditFailed) as caught:
        replace(text, "z" + "x" * 200_000, "y")
    assert len(str(caught.value)) < 600


def test_in_a_crlf_file_both_spellings_match_and_its_line_ends_are_kept() -> None:
    """R5: what read shows, or the same with plain line feeds."""
    text = "a\r\nb\r\nc\r\n"
    for old in ("a\r\nb", "a\nb"):
        for new in ("X\nY", "X\r\nY"):
            assert replace(text, old, new).text == "X\r\nY\r\nc\r\n"
    assert replace(text, "b", "1\n2").text == "a\r\n1\r\n2\r\nc\r\n"


def test_in_a_file_of_mixed_line_ends_nothing_but_the_passage_changes() -> None:
    """R5."""
    assert replace("a\nb\r\nc\n", "a\n", "x\ny\n").text == "x\ny\nb\r\nc\n"
    assert replace("a\nb\r\nc\n", "b\nc", "x\ny").text == "a\nx\r\ny\n"


@given(st.text("ab\r\n"), st.text("ab\r\n", min_size=1), st.text("ab\n"), st.booleans())
def test_an_edit_is_a_replacement_or_an_error(text: str, old: str, new: str, all_: bool) -> None:
    """W1, W2: never anything in between."""
    try:
        edited = replace(text, old, new, replace_all=all_)
    except EditFailed:
        return
    assert edited.text != text
    assert edited.count == 1 or all_
    if old in text and "\r" not in text:
        assert edited.text == text.replace(old, new)
