"""S2, S5: what comes back from a subagent."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents import Conclusion, estimate, limit_each, render
from subagents.conclusion import shorten

DONE = Conclusion("ab12", "explorer", "finished", None, "It is in a.py:3.", "c.md", 7, 1234)


def test_the_first_line_is_fixed() -> None:
    """S2: status, conclusion, tool-call count, tokens."""
    assert render(DONE) == (
        "[explorer ab12 · finished · 7 tool calls · 1234 tokens]\nIt is in a.py:3."
    )


def test_a_reason_stands_on_the_second_line() -> None:
    """S3: what is not finished says why."""
    made = replace(DONE, status="partial", reason="limit:\nmax_turns", text=" ")
    assert render(made).splitlines()[1:] == ["reason: limit: max_turns", "(no conclusion)"]


def test_files_are_named_and_bounded() -> None:
    """S2: handles."""
    made = replace(DONE, artifacts=("a.md", "b.md"))
    assert render(made).splitlines()[-1] == "[files: a.md, b.md]"
    made = replace(DONE, artifacts=tuple(f"{n}.md" for n in range(25)))
    assert render(made).endswith("19.md and 5 more]")
    made = replace(DONE, artifacts=("x" * 300,), text="word " * 200)
    assert "files" not in render(made, 100)


def test_a_long_conclusion_is_cut_and_says_where_it_goes_on() -> None:
    """S5: at most its limit, as head plus handle."""
    made = replace(DONE, text="\n".join(f"line {number}" for number in range(5000)))
    shown = render(made, 500)
    assert estimate(shown) <= 500
    assert shown.endswith("\n[continues in c.md]")
    assert made.text.startswith("\n".join(shown.splitlines()[1:-1]) + "\n")
    assert render(replace(made, path=None), 500).endswith("[cut here, the rest was not kept]")


@given(st.text("ab \n漢字é😀", max_size=400), st.integers(0, 120))
def test_a_head_fits_and_begins_the_text(text: str, limit: int) -> None:
    head = shorten(text, limit)
    assert text.startswith(head)
    assert estimate(head) <= limit


def test_a_head_ends_at_a_line_or_a_word() -> None:
    assert shorten("one two three four", 4) == "one two three"
    assert shorten("one two 3\nthree four five", 4) == "one two 3"
    assert shorten("one two", 1) == "one"
    assert shorten("x" * 100, 5) == "x" * 20


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("漢字", 2), ("é", 1)]
)
def test_tokens_are_estimated_denser_for_cjk(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(st.integers(0, 200))
def test_parallel_conclusions_are_bounded_in_sum(n: int) -> None:
    """S5: the sum over parallel children is limited too."""
    assert limit_each(n) <= 2_000
    assert n * limit_each(n, total=9_000) <= 9_000
