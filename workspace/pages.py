"""Cutting a text into pages of bounded size that join to the text exactly. Pure."""

import json
from dataclasses import dataclass

from workspace.errors import OutOfRange

PAGE_CHARS = 5_000
"""The most characters that one answer of `read_file` has, header included."""
PAGE_LINES = 200
_HEADER_CHARS = 300  # what a header needs beside the path
_LEAST_CHARS = 500  # of content, however long the path


@dataclass(frozen=True)
class Page:
    """A stretch of a text. Lines count from 1 and end at `\\n`, which belongs to them.

    `content` begins at character `char_offset` of line `first` and reaches into line `last`
    (`first - 1` if it is empty). `next` is the (offset, char_offset) of what follows, None at the
    end of the text. `notes` says what was put right in the request.
    """

    content: str
    first: int
    char_offset: int
    last: int
    total: int
    next: tuple[int, int] | None
    notes: tuple[str, ...] = ()


def page(
    text: str,
    offset: int = 1,
    limit: int = PAGE_LINES,
    char_offset: int = 0,
    *,
    max_chars: int = PAGE_CHARS,
) -> Page:
    """The page that begins at character `char_offset` of line `offset`.

    It holds at most `limit` lines and `max_chars` characters; whole lines, unless the first alone
    is longer. Following `next` from the start, all contents joined are `text`.
    Raises `OutOfRange` past the end.
    """
    notes = []
    if offset < 1:
        notes.append(f"offset {offset} taken as 1")
    if char_offset < 0:
        notes.append(f"char_offset {char_offset} taken as 0")
    if limit < 0:
        notes.append(f"limit {limit} taken as 0")
    offset, char_offset, limit = max(offset, 1), max(char_offset, 0), max(limit, 0)
    lines = _lines(text)
    if not lines and offset == 1 and char_offset == 0:
        return Page("", 1, 0, 0, 0, None, tuple(notes))
    _check(lines, offset, char_offset)
    if limit == 0:
        start = (offset, char_offset)
        return Page("", offset, char_offset, offset - 1, len(lines), start, tuple(notes))
    content, following = _fill(lines, offset, limit, char_offset, max_chars)
    last = following[0] - (following[1] == 0)
    end = following if following[0] <= len(lines) else None
    return Page(content, offset, char_offset, last, len(lines), end, tuple(notes))


def _lines(text: str) -> list[str]:
    # Not splitlines(): form feed, U+2028 and a lone \r are characters of a line like any other.
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _check(lines: list[str], offset: int, char_offset: int) -> None:
    if offset > len(lines):
        raise OutOfRange(f"offset {offset} is past the end: the file has {len(lines)} lines")
    length = len(lines[offset - 1])
    if char_offset >= length:
        raise OutOfRange(
            f"char_offset {char_offset} is past the end of line {offset}, "
            f"which has {length} characters"
        )


def _fill(
    lines: list[str], offset: int, limit: int, char_offset: int, max_chars: int
) -> tuple[str, tuple[int, int]]:
    """The content, and the (offset, char_offset) that follow it."""
    head = lines[offset - 1][char_offset:]
    if len(head) > max_chars:
        return head[:max_chars], (offset, char_offset + max_chars)
    taken = [head]
    size = len(head)
    for line in lines[offset : offset - 1 + limit]:
        size += len(line)
        if size > max_chars:
            break
        taken.append(line)
    return "".join(taken), (offset + len(taken), 0)


def show(
    path: str,
    text: str,
    offset: int = 1,
    limit: int = PAGE_LINES,
    char_offset: int = 0,
    *,
    about: str = "",
) -> str:
    """A page as `read_file` answers it: one header line in brackets, then the raw content.

    `about` is what else the header says of the file, on one short line.
    """
    room = max(PAGE_CHARS - _HEADER_CHARS - len(json.dumps(path)) - len(about), _LEAST_CHARS)
    part = page(text, offset, limit, char_offset, max_chars=room)
    facts = [about] if about else []
    facts += [_span(part), *part.notes]
    if "\r\n" in text:
        facts.append("CRLF line ends")
    if part.next is not None:
        facts.append(f"go on: {_call(path, part.next, limit if limit > 0 else PAGE_LINES)}")
    elif text and not text.endswith("\n"):
        facts.append("end, without a final newline")
    else:
        facts.append("end")
    return f"[{' · '.join(facts)}]\n{part.content}"


def _span(part: Page) -> str:
    if part.total == 0:
        return "the file is empty"
    if part.last < part.first:
        return f"nothing was read: limit is 0 · {_count(part.total)}"
    span = f"lines {part.first}–{part.last} of {part.total}"
    if part.char_offset or (part.next is not None and part.next[1]):
        span += f", from character {part.char_offset} of line {part.first}"
    return span


def _count(lines: int) -> str:
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def _call(path: str, start: tuple[int, int], limit: int) -> str:
    arguments = [f"path={json.dumps(path, ensure_ascii=False)}", f"offset={start[0]}"]
    if limit != PAGE_LINES:
        arguments.append(f"limit={limit}")
    if start[1]:
        arguments.append(f"char_offset={start[1]}")
    return f"read_file({', '.join(arguments)})"
