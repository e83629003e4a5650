"""Bytes of a definition file → its front matter and body, tolerant of how people write them.

Strict YAML is tried first. Only where it fails, or where it would hide a field, is the block read
again line by line (`subagents.repairs`), and every such reading leaves a warning.
"""

import codecs
import re
from collections.abc import Sequence

from subagents import repairs, yamlread
from subagents.block import Block, Entry, Notes, known_key
from subagents.definition import Rejected
from subagents.fields import GRANTS

_FENCE = re.compile(r"(?:-{3,}|[–—]+-*)[ \t]*")
_NEAR_TOP = 10  # a fence further down belongs to an example in a document
_BLANK = str.maketrans(dict.fromkeys("\x85\u2028\u2029", " "))  # YAML would break lines at them


def decode(data: bytes, notes: Notes) -> str:
    """UTF-8, with or without a mark, else UTF-16 by its mark, else cp1252; newlines as `\\n`."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        notes.add(1, "file", "is UTF-16 – save it as UTF-8")
        text = data.decode("utf-16", "replace")
    else:
        text = _decode_bytes(data, notes)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Rejected(line, "file", "holds a NUL byte – save it as plain text")
    return text


def _decode_bytes(data: bytes, notes: Notes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notes.add(line, "file", "is not UTF-8, read as cp1252 – save it as UTF-8")
        return data.decode("cp1252", "replace")


def split(text: str, notes: Notes) -> Block:
    """Find the fences. Raises `Rejected` where there are none, or where one is missing."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise Rejected(1, "file", "is empty – not a definition", "info")
    if not _FENCE.fullmatch(lines[start]):
        raise _no_fence(lines, start)
    if start:
        notes.add(start + 1, "fence", "stands after blank lines – put --- on line 1")
    end = next((n for n in range(start + 1, len(lines)) if _closes(lines[n])), None)
    if end is None:
        raise Rejected(start + 1, "fence", "is never closed – add a line --- after the last field")
    _check_fence(lines[start], start + 1, "opening", notes)
    _check_fence(lines[end], end + 1, "closing", notes)
    _check_early_close(lines, end)
    block = tuple(line.translate(_BLANK) for line in lines[start + 1 : end])
    body = "\n".join(lines[end + 1 :]).strip()
    return Block(block, start + 2, body, end + 1)


def read(block: Block, notes: Notes) -> list[Entry]:
    """The entries of the block, in order and with doubles. Raises `Rejected`."""
    text = "\n".join(block.lines)
    try:
        entries = yamlread.entries(text, block.first_line)
    except yamlread.Unreadable as error:
        return repairs.entries(block, str(error), notes)
    # An open quote or bracket can swallow the next lines and still be YAML: a field that it hides,
    # `tools` above all, must not be lost.
    seen = {entry.line for entry in entries}
    for number, line in enumerate(block.lines, block.first_line):
        if known_key(line) and number not in seen:
            return repairs.entries(block, f"line {number} is inside another value", notes)
    return entries


def _closes(line: str) -> bool:
    return _FENCE.fullmatch(line) is not None or line.rstrip() == "..."


def _check_fence(line: str, number: int, which: str, notes: Notes) -> None:
    if line.rstrip() != "---":
        notes.add(number, "fence", f"{which} fence is {line.strip()[:20]!r} – write ---")


def _check_early_close(lines: Sequence[str], end: int) -> None:
    """A grant below the fence, with only fields between or a second fence further down, means
    that the block was cut in two. As text of the body it would restrict nothing."""
    only_fields = True
    for number in range(end + 1, min(end + 30, len(lines))):
        line = lines[number]
        if line.startswith("#"):
            return
        if (key := known_key(line, GRANTS)) and (only_fields or any(map(_closes, lines[number:]))):
            raise Rejected(
                number + 1, key, f"stands below the fence of line {end + 1} – move it up"
            )
        only_fields = only_fields and (not line.strip() or known_key(line) is not None)


def _no_fence(lines: Sequence[str], start: int) -> Rejected:
    head = lines[start : start + _NEAR_TOP]
    keys = {known_key(line) for line in lines[start : start + 30]}
    if known_key(lines[start]) and keys & {"name", "description"}:
        return Rejected(start + 1, "fence", "has no opening --- on line 1 – add it")
    for offset, line in enumerate(head):
        if _FENCE.fullmatch(line) and _fields_follow(lines, start + offset + 1):
            where = f"text stands before the opening --- of line {start + offset + 1}"
            return Rejected(start + 1, "fence", f"{where} – move the fields to line 1")
    return Rejected(start + 1, "file", "has no front matter – not a definition", "info")


def _fields_follow(lines: Sequence[str], first: int) -> bool:
    for number in range(first, min(first + 60, len(lines))):
        if _closes(lines[number]):
            keys = {known_key(line) for line in lines[first:number]}
            return bool(keys & {"name", "description"})
    return False
