"""Pages of a text, and how `read_file` shows them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workspace import OutOfRange, page
from workspace.pages import PAGE_CHARS, show

LINES_250 = "".join(f"line {n}\n" for n in range(1, 251))


def walk(text: str, limit: int, max_chars: int) -> list[str]:
    contents = []
    start: tuple[int, int] | None = (1, 0)
    while start is not None:
        part = page(text, start[0], limit, start[1], max_chars=max_chars)
        assert part.next is None or part.next > start
        contents.append(part.content)
        start = part.next
    return contents


@given(st.text(alphabet="ab\n\r\f\u2028\ud800é"), st.integers(1, 9), st.integers(1, 9))
@example("a\r\nb", 1, 2)
@example("\n\n", 2, 1)
@example("", 1, 1)
def test_all_pages_joined_equal_the_text(text: str, limit: int, max_chars: int) -> None:
    """R2, R3: whatever the line ends and lengths; each page within both bounds."""
    contents = walk(text, limit, max_chars)
    assert "".join(contents) == text
    assert all(len(content) <= max_chars for content in contents)
    assert all(content.rstrip("\n").count("\n") < limit for content in contents)


@pytest.mark.parametrize("limit", [1, 7, 100, 200, 249, 250, 1_000])
def test_a_page_tells_total_and_next(limit: int) -> None:
    """R2: 250 lines with limit L give 1..L, and going on gives L + 1."""
    part = page(LINES_250, limit=limit)
    last = min(limit, 250)
    assert (part.first, part.last, part.total) == (1, last, 250)
    assert part.next == (None if limit >= 250 else (limit + 1, 0))
    if part.next:
        assert page(LINES_250, part.next[0]).content.startswith(f"line {limit + 1}\n")


def test_every_character_of_one_long_line_can_be_reached() -> None:
    """R3: 250,000 characters by bounded reads."""
    text = "".join(chr(97 + n % 26) for n in range(250_000))
    contents = walk(text, 200, PAGE_CHARS)
    assert "".join(contents) == text
    assert len(contents) == 50
    assert page(text, 1, 200, 249_999).content == text[-1]


def test_a_short_page_stops_before_a_long_line() -> None:
    """R3: lines are cut only where they must be."""
    part = page("ab\n" + "x" * 50, max_chars=10)
    assert (part.content, part.next) == ("ab\n", (2, 0))


def test_what_is_past_the_end_is_an_error_stating_the_length() -> None:
    """R1."""
    with pytest.raises(OutOfRange, match="offset 251 is past the end: the file has 250 lines"):
        page(LINES_250, 251)
    with pytest.raises(OutOfRange, match="line 2, which has 7 characters"):
        page(LINES_250, 2, 1, 7)
    with pytest.raises(OutOfRange, match="has 0 lines"):
        page("", 2)


def test_odd_requests_are_put_right_with_a_note() -> None:
    """R4."""
    part = page("a\nb\n", -3, -1, -5)
    assert part.notes == (
        "offset -3 taken as 1",
        "char_offset -5 taken as 0",
        "limit -1 taken as 0",
    )
    assert show("a", "a\nb\n", -3).startswith("[lines 1–2 of 2 · offset -3 taken as 1 · end]\na\n")
    assert page("a\n", 0).notes == ("offset 0 taken as 1",)


def test_nothing_read_and_nothing_there_are_said() -> None:
    """R4."""
    assert show("a", "x\n", 1, 0) == (
        '[nothing was read: limit is 0 · 1 line · go on: read_file(path="a", offset=1)]\n'
    )
    assert show("a", "") == "[the file is empty · end]\n"


def test_form_feed_and_line_separator_do_not_split_a_line() -> None:
    """R5."""
    part = page("a\fb\u2028c\u2029d\x85e\rf\x0bg\nh")
    assert (part.total, part.last) == (2, 2)


def test_the_header_says_how_to_go_on_with_a_call_that_works() -> None:
    """R2: the literal call."""
    assert show("a b.txt", LINES_250).split("\n")[0] == (
        '[lines 1–200 of 250 · go on: read_file(path="a b.txt", offset=201)]'
    )
    assert 'read_file(path="x", offset=3, limit=2)]' in show("x", LINES_250, 1, 2)
    assert show("x", LINES_250, 201).startswith("[lines 201–250 of 250 · end]\nline 201\n")
    shown = show("x", "y" * 9_000).split("\n")[0]
    assert "lines 1–1 of 1, from character 0 of line 1" in shown
    assert 'read_file(path="x", offset=1, char_offset=' in shown


def test_crlf_and_a_missing_final_newline_are_named() -> None:
    """R5, W2: facts that an edit needs."""
    shown = show("x", "a\r\nb")
    assert shown == "[lines 1–2 of 2 · CRLF line ends · end, without a final newline]\na\r\nb"


@given(
    st.text(alphabet='ab\n"é', max_size=200), st.sampled_from([1, 40, 3_000]), st.integers(0, 300)
)
def test_an_answer_is_small_whatever_the_line_lengths(path: str, width: int, limit: int) -> None:
    """R3: at most 5,000 characters, header included."""
    assert len(show(path, ("x" * width + "\n") * 500, 1, limit)) <= PAGE_CHARS
