"""Replacing one passage of a text by another. Pure."""

import difflib
from dataclasses import dataclass

from workspace.errors import EditFailed, quoted

_SEARCHED_LINES = 5_000  # bounds the work of finding a nearest line
_SHOWN_PLACES = 5
_NOTHING_LIKE_IT = "no line is like it; read the file again"


@dataclass(frozen=True)
class Edited:
    """The text after an edit, how many passages were replaced, and the line of the first (from 1)."""

    text: str
    count: int
    line: int


class Missing(EditFailed):
    """`old_string` does not occur."""


def replace(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    r"""Replace `old`, which must occur exactly once unless `replace_all`, by `new`.

    In a file whose lines end in CRLF, `old` may be written with plain line feeds, and `new` is
    written with the file's line ends. Raises `EditFailed`; `Missing` if `old` does not occur.
    """
    if not old:
        raise EditFailed("old_string is empty; to create or overwrite a file use write_file")
    found = old if old in text or "\r\n" not in text else _crlf(old)
    if found not in text:
        raise Missing(_why_missing(text, old))
    if found != old or _is_crlf(text):
        new = _crlf(new)
    if found == new:
        raise EditFailed("old_string and new_string are the same; nothing to change")
    starts = _starts(text, found, at_most=None if replace_all else _SHOWN_PLACES + 1)
    if len(starts) > 1 and not replace_all:
        raise EditFailed(_why_ambiguous(text, found, starts))
    count = text.count(found) if replace_all else 1
    return Edited(text.replace(found, new), count, _line_at(text, starts[0]))


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _is_crlf(text: str) -> bool:
    return "\n" in text and text.count("\r\n") == text.count("\n")


def _line_at(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _starts(text: str, passage: str, at_most: int | None) -> list[int]:
    """Where `passage` begins, overlaps included: `aa` in `aaa` is ambiguous too."""
    starts: list[int] = []
    index = text.find(passage)
    while index >= 0 and (at_most is None or len(starts) < at_most):
        starts.append(index)
        index = text.find(passage, index + 1)
    return starts


def _why_ambiguous(text: str, found: str, starts: list[int]) -> str:
    count = max(text.count(found), 2)
    lines = ", ".join(str(_line_at(text, start)) for start in starts[:_SHOWN_PLACES])
    more = ", …" if len(starts) > _SHOWN_PLACES else ""
    return (
        f"old_string occurs {count} times (lines {lines}{more}); "
        "add surrounding lines to make it unique, or set replace_all"
    )


def _why_missing(text: str, old: str) -> str:
    bare = old.rstrip("\r\n")
    if bare and bare != old and bare in text:
        if text.endswith(bare):
            return (
                "old_string not found: it ends with a newline, but the file ends without one; "
                "leave the final newline out of old_string"
            )
        return "old_string not found: it is there only without its final newline"
    return f"old_string not found: {_nearest(text, old)}"


def _nearest(text: str, old: str) -> str:
    """What in `text` comes closest to the first line of `old` that has something on it."""
    wanted = next((line for line in old.split("\n") if line.strip()), "")
    if not wanted:
        return _NOTHING_LIKE_IT
    lines = text.split("\n", _SEARCHED_LINES)[:_SEARCHED_LINES]
    for number, line in enumerate(lines, 1):
        if wanted in line:
            return (
                f"its first line is on line {number}, but what follows differs; read the file there"
            )
    for number, line in enumerate(lines, 1):
        if line.strip() == wanted.strip():
            return f"line {number} differs in white space: {quoted(line)}"
    short = {line[:200]: number for number, line in reversed(list(enumerate(lines, 1)))}
    close = difflib.get_close_matches(wanted[:200], list(short), n=1)
    if close:
        return f"the nearest is line {short[close[0]]}: {quoted(close[0])}"
    return _NOTHING_LIKE_IT
