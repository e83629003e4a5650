"""A memory file as entries: what is read, what a change leaves alone, what an entry may hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspace import BadEntry
from workspace.entries import (
    MOST_ENTRY_CHARS,
    added,
    duplicates,
    entries_of,
    found,
    plain,
    updated,
    within,
    without,
)

TODAY = date(2026, 11, 30)
BY_PEOPLE = """# Our project

We build on Debian. Ask Ann about releases.

- Likes tabs.
* wraps
  over two lines
- `make check` before each commit <!-- and lint -->

```
- no entry: code
```
- [ ] a task
---
- - -
- a fact <!-- a1 2026-01-02 -->

1. numbered, no entry
  - indented, part of nothing
"""


def shown(data: bytes) -> list[tuple[str, date | None, int, int]]:
    return [(e.text, e.date, e.line, e.lines) for e in entries_of(data)]


def test_items_at_the_margin_are_entries_and_nothing_else_is() -> None:
    assert shown(BY_PEOPLE.encode()) == [
        ("Likes tabs.", None, 5, 1),
        ("wraps over two lines", None, 6, 2),
        ("`make check` before each commit <!-- and lint -->", None, 8, 1),
        ("[ ] a task", None, 13, 1),
        ("a fact", date(2026, 1, 2), 16, 1),
    ]


def test_an_entry_without_an_id_gets_one_that_stays_while_its_text_does() -> None:
    before = {e.text: e.id for e in entries_of(BY_PEOPLE.encode())}
    assert before["a fact"] == "a1"
    assert len(set(before.values())) == len(before)
    moved = "- another\n\n" + BY_PEOPLE.replace("# Our project", "# Your project")
    after = {e.text: e.id for e in entries_of(moved.encode())}
    assert {text: after[text] for text in before} == before


def test_what_people_wrote_is_changed_and_deleted_by_the_id_it_is_listed_with() -> None:
    data = BY_PEOPLE.encode()
    wraps = entries_of(data)[1]
    changed, entry = updated(data, wraps.id, "wraps no more", TODAY)
    assert entry.id == wraps.id
    line = f"* wraps no more <!-- {wraps.id} 2026-11-30 -->\n"
    assert changed.decode() == BY_PEOPLE.replace("* wraps\n  over two lines\n", line)
    gone, _ = without(changed, wraps.id)
    assert gone.decode() == BY_PEOPLE.replace("* wraps\n  over two lines\n", "")


def test_an_entry_is_found_by_its_text_too() -> None:
    entries = entries_of(BY_PEOPLE.encode())
    assert found(entries, " LIKES  tabs. ").text == "Likes tabs."


def test_equal_texts_are_told_apart_and_the_error_names_their_ids() -> None:
    data = b"- one\n- two\n- one\n"
    first, _, last = entries_of(data)
    assert first.id != last.id
    with pytest.raises(
        BadEntry, match=f"2 entries have this text; give one's id: {first.id}, {last.id}"
    ):
        without(data, "one")
    assert without(data, first.id)[0] == b"- two\n- one\n"
    assert [e.id for e in entries_of(b"- two\n- one\n")][1] == last.id


def test_an_id_that_a_merge_has_left_twice_names_the_first_and_the_other_gets_its_own() -> None:
    data = b"- one <!-- a1 2026-01-01 -->\n- two <!-- a1 2026-01-01 -->\n"
    one, two = entries_of(data)
    assert (one.id, one.text) == ("a1", "one")
    assert without(data, two.id)[0] == b"- one <!-- a1 2026-01-01 -->\n"


def test_m2_a_missing_entry_and_one_deleted_twice_are_errors_that_name_what_there_is() -> None:
    data, entry = added(b"", "first", TODAY)
    data, _ = added(data, "second", TODAY)
    data, _ = without(data, entry.id)
    changes: list[Callable[[], object]] = [
        lambda: without(data, entry.id),
        lambda: updated(data, entry.id, "x", TODAY),
    ]
    for change in changes:
        with pytest.raises(BadEntry) as caught:
            change()
        assert str(caught.value).startswith(f'there is no entry "{entry.id}"; nothing was changed.')
        assert '"second"' in str(caught.value)
    with pytest.raises(BadEntry, match="The memory has no entries"):
        without(b"# Only a heading\n", "x")


def test_the_error_for_a_missing_entry_is_bounded() -> None:
    data = b""
    for number in range(50):
        data, _ = added(data, f"{number} " + "x" * 900, TODAY)
    with pytest.raises(BadEntry) as caught:
        without(data, "y" * 100_000)
    assert len(str(caught.value)) < 1_200
    assert "the last 8 of 50" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("# not a heading", "# not a heading"),
        ("one\ntwo\r\nthree\u2028four", "one two three four"),
        ("- - item", "- - item"),
        ("a <!-- b1 2026-01-01 -->", "a &lt;!-- b1 2026-01-01 -->"),
        ("--> x <!--", "--> x &lt;!--"),
        ("```", "```"),
        ("<\u200b!-- hidden", "&lt;!-- hidden"),
        ("red\x1b[31m \x00\u202eturned", "red[31m turned"),
        ("lone \ud800", "lone ?"),
        ("क्\u200dष", "क्\u200dष"),
    ],
)
def test_m2_whatever_a_text_holds_it_becomes_one_line_that_hides_nothing(
    text: str, kept: str
) -> None:
    data, entry = added(b"# Head\n", text, TODAY)
    assert data.decode() == f"# Head\n- {kept} <!-- {entry.id} 2026-11-30 -->\n"
    assert entries_of(data)[-1].text == kept


def test_m2_a_very_long_text_and_an_empty_one_are_refused() -> None:
    assert entries_of(added(b"", "x" * MOST_ENTRY_CHARS, TODAY)[0])
    with pytest.raises(BadEntry, match="1,001 characters, an entry at most 1,000"):
        added(b"", "x" * (MOST_ENTRY_CHARS + 1), TODAY)
    for empty in ("", " \n", "\u200b"):
        with pytest.raises(BadEntry, match="empty"):
            added(b"", empty, TODAY)


def test_what_is_there_already_is_not_added_again() -> None:
    data, entry = added(b"- Likes tabs.\n", "likes  TABS.", TODAY)
    assert data == b"- Likes tabs.\n"
    assert entry.text == "Likes tabs."


def test_line_ends_and_a_mark_of_byte_order_are_kept() -> None:
    data = b"\xef\xbb\xbf- one\r\n# two"
    more, entry = added(data, "three", TODAY)
    assert more == data + f"\r\n- three <!-- {entry.id} 2026-11-30 -->\r\n".encode()
    assert without(more, "one")[0].startswith(b"\xef\xbb\xbf# two\r\n")
    changed, one = updated(more, "one", "uno", TODAY)
    assert changed.startswith(
        f"\xef\xbb\xbf- uno <!-- {one.id} 2026-11-30 -->\r\n# two".encode("latin-1")
    )


def test_deleting_the_last_entry_keeps_the_line_break_before_it() -> None:
    assert without(b"# A\n- x", "x")[0] == b"# A\n"
    assert without(b"- x", "x")[0] == b""


def test_duplicates_are_found_whatever_their_case_and_punctuation() -> None:
    one, two, three = entries_of(b"- Use tabs!\n- use *tabs*\n- use spaces\n")
    assert duplicates([one, two, three]) == {two.id: one.id}


def test_of_a_file_that_is_too_long_the_oldest_dated_entries_go_first() -> None:
    data = b"# Head\n" + b"- by hand\n" * 2
    for day in (3, 1, 2):
        data, _ = added(data, f"of day {day}", date(2026, 1, day))
    left, gone = within(data, len(data) - 1)
    assert (gone, [e.text for e in entries_of(left)]) == (
        1,
        ["by hand", "by hand", "of day 3", "of day 2"],
    )
    left, gone = within(data, 0)
    assert (left, gone) == (b"# Head\n- by hand\n- by hand\n", 3)
    assert within(data, len(data)) == (data, 0)


# ── laws ──

PIECES = st.sampled_from(
    [
        *(
            b"- ",
            b"* ",
            b"-",
            b"\n",
            b"\n",
            b"\r\n",
            b"  ",
            b"\t",
            b"# ",
            b"```\n",
            b"~~~",
            b"word",
            b"x",
        ),
        *(
            b" <!-- ",
            b"a1",
            b" 2026-01-02",
            b" -->",
            b"\xff",
            b"\xef\xbb\xbf",
            "\u2028".encode(),
            b"\x0c",
        ),
        b"- fact <!-- a1 2026-01-02 -->\n",
    ]
)
FILES = st.lists(PIECES, max_size=40).map(b"".join) | st.binary(max_size=60)
TEXTS = st.text(max_size=30).filter(lambda text: bool(_kept(text)))


def _kept(text: str) -> str:
    try:
        return plain(text)
    except BadEntry:
        return ""


def rest(data: bytes, *entries: tuple[int, int]) -> list[bytes]:
    """The lines outside of some entries, given as (line, lines)."""
    own = {n for line, lines in entries for n in range(line - 1, line - 1 + lines)}
    return [line for n, line in enumerate(data.split(b"\n")) if n not in own]


@settings(deadline=None)
@given(FILES, TEXTS)
def test_what_is_added_is_found_again_and_everything_before_it_stays(
    data: bytes, text: str
) -> None:
    after, entry = added(data, text, TODAY)
    assert found(entries_of(after), entry.id) == entry
    assert after == data or after.startswith(data)
    assert after == data or entry.text == plain(text)


@settings(deadline=None)
@given(FILES, TEXTS, st.data())
def test_an_update_leaves_every_other_line_byte_for_byte(
    data: bytes, text: str, choice: st.DataObject
) -> None:
    entries = entries_of(data)
    if not entries:
        return
    old = choice.draw(st.sampled_from(entries))
    after, new = updated(data, old.id, text, TODAY)
    assert rest(after, (new.line, 1)) == rest(data, (old.line, old.lines))
    assert found(entries_of(after), old.id).text == plain(text)


@settings(deadline=None)
@given(FILES, st.data())
def test_a_deletion_leaves_every_other_line_byte_for_byte(
    data: bytes, choice: st.DataObject
) -> None:
    entries = entries_of(data)
    if not entries:
        return
    old = choice.draw(st.sampled_from(entries))
    after, _ = without(data, old.id)
    mark = b"\xef\xbb\xbf"
    left = b"\n".join(rest(data, (old.line, old.lines)))
    assert after.removeprefix(mark).rstrip(b"\n") == left.removeprefix(mark).rstrip(b"\n")
    assert after.startswith(mark) or not data.startswith(mark)


@settings(deadline=None)
@given(FILES)
def test_ids_are_unique_and_reading_again_gives_the_same_ones(data: bytes) -> None:
    ids = [entry.id.casefold() for entry in entries_of(data)]
    assert len(set(ids)) == len(ids)
    assert entries_of(data) == entries_of(data)


@settings(deadline=None)
@given(TEXTS)
def test_an_entrys_text_is_its_own_plain_form(text: str) -> None:
    assert plain(plain(text)) == plain(text)
