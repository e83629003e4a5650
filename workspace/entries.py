"""A memory file as its entries, and everything else, which stays byte for byte. Pure.

An entry is a list item at the margin: `- text <!-- id date -->`. An item that people wrote has no
id; it gets one that is made from its text, so it stays the same as long as the text does.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from workspace.errors import BadEntry, quoted

MOST_ENTRY_CHARS = 1_000
"""The most characters of one entry that a tool writes: memory is for facts, not for documents."""

_ITEM = re.compile(r"(?P<bullet>[-*+])[ \t]+(?P<text>\S.*)")
_RULE = re.compile(r"(?:[-*_][ \t]*){3,}")
_MARK = re.compile(r"<!--[ \t]*([\w-]{1,40})[ \t]+(\d{4}-\d\d-\d\d)[ \t]*-->\Z", re.ASCII)
_FENCES = ("```", "~~~")
_JOINERS = "\u200c\u200d"  # invisible, but scripts and emoji need them
_NAMED = 8  # entries that an error names
_HEAD = 60  # characters of an entry's text there


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One entry. `date` is when a tool wrote it last, `None` if a person did; `line` counts from 1,
    `lines` is how many it takes up."""

    id: str
    text: str
    date: date | None
    line: int
    lines: int = 1


def entries_of(data: bytes) -> tuple[MemoryEntry, ...]:
    """The entries of a file, in its order, each with an id of its own."""
    return _identified(list(_items(_lines(data))))


def added(data: bytes, text: str, today: date) -> tuple[bytes, MemoryEntry]:
    """The file with one entry more at its end. An entry that has the same text already is the
    answer instead. Raises `BadEntry`."""
    text = plain(text)
    known = entries_of(data)
    if same := next((entry for entry in known if _folded(entry.text) == _folded(text)), None):
        return data, same
    taken = {entry.id.casefold() for entry in known}
    lines = _lines(data)
    end = "\r" if lines[0].endswith("\r") else ""
    entry = MemoryEntry(_new_id(f"{text}\0{today}", taken), text, today, len(lines))
    # The last of `lines` is what follows the last line break: nothing, in most files.
    if lines[-1]:
        entry = replace(entry, line=entry.line + 1)
        lines[-1] += end
        lines.append("")
    lines[-1:] = [_written("-", entry) + end, ""]
    return _data(lines), entry


def updated(data: bytes, wanted: str, text: str, today: date) -> tuple[bytes, MemoryEntry]:
    """The file with another text in one entry, on one line. Raises `BadEntry`."""
    text = plain(text)
    entry = found(entries_of(data), wanted)
    lines = _lines(data)
    own = lines[entry.line - 1 : entry.line - 1 + entry.lines]
    start = "\ufeff" if own[0].startswith("\ufeff") else ""
    bullet = own[0].removeprefix("\ufeff")[0]
    changed = replace(entry, text=text, date=today, lines=1)
    end = "\r" if own[-1].endswith("\r") else ""
    lines[entry.line - 1 : entry.line - 1 + entry.lines] = [start + _written(bullet, changed) + end]
    return _data(lines), changed


def without(data: bytes, wanted: str) -> tuple[bytes, MemoryEntry]:
    """The file without one entry. Raises `BadEntry`."""
    entry = found(entries_of(data), wanted)
    lines = _lines(data)
    return _data(_left(lines, [entry])), entry


def within(data: bytes, most: int) -> tuple[bytes, int]:
    """The file without its oldest dated entries, as few as bring it to `most` characters, and how
    many those are. What people wrote stays, so it may be too long all the same."""
    lines = _lines(data)
    over = len(data.decode("utf-8", "replace")) - most
    dated = sorted((e.date, e.line, e) for e in entries_of(data) if e.date)
    gone = []
    for _, _, entry in dated:
        if over <= 0:
            break
        gone.append(entry)
        over -= sum(len(line) + 1 for line in lines[entry.line - 1 : entry.line - 1 + entry.lines])
    return _data(_left(lines, gone)), len(gone)


def plain(text: str) -> str:
    """`text` as an entry holds it: on one line, with nothing in it that a reader of the file would
    not see. Raises `BadEntry` if nothing is left, or too much."""
    visible = "".join(" " if c.isspace() else c for c in text if _shows(c))
    line = " ".join(visible.encode(errors="replace").decode().replace("<!--", "&lt;!--").split())
    if not line:
        raise BadEntry("the text is empty; nothing was kept")
    if len(line) > MOST_ENTRY_CHARS:
        raise BadEntry(
            f"the text has {len(line):,} characters, an entry at most {MOST_ENTRY_CHARS:,}; keep the "
            "fact itself, and put details into a file whose path you name. Nothing was changed"
        )
    return line


def found(entries: Sequence[MemoryEntry], wanted: str) -> MemoryEntry:
    """The entry with that id, or with exactly that text. Raises `BadEntry` that names others."""
    key = wanted.strip().casefold()
    if by_id := next((entry for entry in entries if entry.id.casefold() == key), None):
        return by_id
    by_text = [entry for entry in entries if _folded(entry.text) == _folded(wanted)]
    if len(by_text) == 1:
        return by_text[0]
    if by_text:
        ids = ", ".join(entry.id for entry in by_text)
        raise BadEntry(f"{len(by_text)} entries have this text; give one's id: {ids}")
    raise BadEntry(
        f"there is no entry {quoted(wanted, _HEAD)}; nothing was changed. {_there(entries)}"
    )


def duplicates(entries: Sequence[MemoryEntry]) -> dict[str, str]:
    """Entries that say the same as an earlier one, whatever their case and punctuation: the id of
    each, and the earlier one's."""
    first: dict[str, str] = {}
    twice = {}
    for entry in entries:
        key = "".join(c for c in _folded(entry.text) if c.isalnum()) or _folded(entry.text)
        if key in first:
            twice[entry.id] = first[key]
        first.setdefault(key, entry.id)
    return twice


def _there(entries: Sequence[MemoryEntry]) -> str:
    if not entries:
        return "The memory has no entries."
    heads = [f"{entry.id} {quoted(entry.text, _HEAD)}" for entry in entries[-_NAMED:]]
    count = f"the last {_NAMED} of {len(entries):,}" if len(entries) > _NAMED else "all"
    return f"There are ({count}): {', '.join(heads)}."


# ── lines ──


def _lines(data: bytes) -> list[str]:
    # Bytes that are no UTF-8 survive as lone surrogates; not splitlines(), which breaks at more.
    return data.decode("utf-8", "surrogateescape").split("\n")


def _data(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _left(lines: Sequence[str], gone: Iterable[MemoryEntry]) -> list[str]:
    """The lines without some entries; the mark of byte order and the last line break stay."""
    dropped = {n for e in gone for n in range(e.line - 1, e.line - 1 + e.lines)}
    left = [line for number, line in enumerate(lines) if number not in dropped]
    if len(lines) - 1 in dropped:
        left.append("")
    if 0 in dropped and lines[0].startswith("\ufeff"):
        left[0] = "\ufeff" + left[0]
    return left


def _written(bullet: str, entry: MemoryEntry) -> str:
    return f"{bullet} {entry.text} <!-- {entry.id} {entry.date} -->"


def _items(lines: Sequence[str]) -> Iterator[MemoryEntry]:
    """The list items at the margin, those in fenced code apart; the id is empty where there is none."""
    number = 0
    while number < len(lines):
        line = lines[number].removeprefix("\ufeff" if number == 0 else "").rstrip()
        end = _end_of_fence(lines, number)
        if end is not None:
            number = end
        elif (item := _ITEM.fullmatch(line)) and not _RULE.fullmatch(line):
            count = 1
            while number + count < len(lines) and _continues(lines[number + count]):
                count += 1
            yield _item(item["text"], lines[number + 1 : number + count], number + 1)
            number += count - 1
        number += 1


def _item(text: str, more: Sequence[str], line: int) -> MemoryEntry:
    mark = _MARK.search(text)
    written = _date(mark[2]) if mark else None
    if mark is None or written is None:
        return MemoryEntry("", _shown([text, *more]), None, line, 1 + len(more))
    return MemoryEntry(mark[1], _shown([text[: mark.start()], *more]), written, line, 1 + len(more))


def _shown(parts: Sequence[str]) -> str:
    text = " ".join(part for part in map(str.strip, parts) if part)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _end_of_fence(lines: Sequence[str], number: int) -> int | None:
    """The line that closes the fence which opens here. One that is never closed is none: what is
    added below it must be found again."""
    kind = lines[number].lstrip()[:3]
    if kind not in _FENCES:
        return None
    rest = range(number + 1, len(lines))
    return next((n for n in rest if lines[n].lstrip().startswith(kind)), None)


def _continues(line: str) -> bool:
    return line[:1] in (" ", "\t") and bool(line.strip())


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


# ── ids ──


def _identified(items: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    taken: set[str] = set()
    named = list(items)
    for index, item in enumerate(items):
        # Twice the same id, as a merge of two branches may leave: the later one gets another.
        if item.id.casefold() in taken:
            named[index] = replace(item, id="")
        elif item.id:
            taken.add(item.id.casefold())
    # From the end, so that of equal texts the last one keeps its id when an earlier one goes.
    for index in reversed(range(len(named))):
        if not named[index].id:
            named[index] = replace(named[index], id=_new_id(named[index].text, taken))
            taken.add(named[index].id)
    return tuple(named)


def _new_id(seed: str, taken: set[str]) -> str:
    number = 0
    while True:
        key = f"{seed}\0{number}" if number else seed
        made = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=3).hexdigest()
        if made not in taken:
            return made
        number += 1


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shows(character: str) -> bool:
    """Not control characters, nor those that are invisible or turn the direction of text."""
    category = unicodedata.category(character)
    return character.isspace() or character in _JOINERS or category not in ("Cc", "Cf")
