"""Reading a front matter that is not YAML: line by line, each reading with a warning.

A known field at column 0 owns the lines up to the next known field. What cannot be read is never
dropped where that would grant more than was written.
"""

import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from subagents import yamlread
from subagents.block import Block, Entry, Notes, known_key
from subagents.definition import Rejected
from subagents.fields import GRANTS

_TEXTS = frozenset({"name", "description"})
_ANY_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?=\s|$)")
_BLOCK_SIGN = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*\n")
_ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}


def entries(block: Block, why: str, notes: Notes) -> list[Entry]:
    """The entries of a block that strict YAML refused because of `why`. Raises `Rejected`."""
    lines = textwrap.dedent("\n".join(block.lines)).split("\n")
    if (untabbed := [_untab(line) for line in lines]) != lines:
        number = next(n for n, line in enumerate(lines) if _untab(line) != line)
        notes.add(block.first_line + number, "yaml", "a tab indents the line – use spaces")
        lines = untabbed
        if (found := _strict(lines, block.first_line)) is not None:
            return found
    _check_closed(lines, block)
    read: list[Entry] = []
    for first, chunk in _chunks(lines, _owner):
        read += _chunk(chunk, block.first_line + first, why, notes)
    return read


def _chunk(lines: list[str], number: int, why: str, notes: Notes) -> Iterator[Entry]:
    owner = _owner(lines[0])
    found = _strict(lines, number)
    if found is not None and (owner not in _TEXTS or isinstance(found[0].value, str)):
        yield from found
    elif owner in _TEXTS:
        yield _literal(lines, number, why, notes)
    else:
        for first, part in _chunks(lines, _any_key):
            strict = _strict(part, number + first) if len(part) < len(lines) else None
            yield from strict or _literals(part, number + first, why, notes)


def _strict(lines: Sequence[str], number: int) -> list[Entry] | None:
    """The entries of some lines, if they are YAML and hide no known field."""
    try:
        found = yamlread.entries("\n".join(lines), number)
    except yamlread.Unreadable:
        return None
    seen = {entry.line for entry in found}
    owned = {number + n for n, line in enumerate(lines) if known_key(line)}
    return found if owned <= seen else None


def _literals(lines: list[str], number: int, why: str, notes: Notes) -> Iterator[Entry]:
    if _any_key(lines[0]):
        yield _literal(lines, number, why, notes)
    elif any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        notes.add(number, "yaml", f"no field, passed over: {lines[0].strip()[:40]!r} – remove it")


def _literal(lines: list[str], number: int, why: str, notes: Notes) -> Entry:
    key, _, first = lines[0].strip().partition(":")
    if known_key(lines[0].lstrip(), GRANTS):
        lines = [lines[0], *(line for line in lines[1:] if _continues(line, first))]
    text = _unquote("\n".join([first.strip(), *lines[1:]]).strip())
    notes.add(
        number, key.strip(" \"'"), f"is not YAML ({why}), read as it stands – quote the value"
    )
    return Entry(key.strip(" \"'"), number, text, text)


def _continues(line: str, first: str) -> bool:
    """Whether a line goes on with a grant whose own line says `first`. A stray word at column 0 is no
    entry, nor is an item of a list where there is an entry on the own line already."""
    if line.lstrip().startswith("-"):
        return not first.strip()
    return line.startswith((" ", "]"))


def _unquote(text: str) -> str:
    if _BLOCK_SIGN.match(text):
        return textwrap.dedent(_BLOCK_SIGN.sub("", text, count=1))
    quote = text[:1]
    if quote not in ('"', "'"):
        return text
    inside = re.sub(r"\\.", "", text[1:])
    if quote == '"':
        text = re.sub(r"\\[\"\\nt]", lambda match: _ESCAPES[match[0]], text)
    if text.endswith(quote) and len(text) > 1:
        return text[1:-1]
    # Opened and never closed. `"Quick" is the word` only begins with a quoted word.
    return text if quote in inside else text[1:]


def _chunks(
    lines: list[str], owner: Callable[[str], str | None]
) -> Iterator[tuple[int, list[str]]]:
    starts = [n for n, line in enumerate(lines) if owner(line)]
    if lines and (not starts or starts[0] > 0):
        starts.insert(0, 0)
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start, lines[start:end]


def _owner(line: str) -> str | None:
    # A grant that was indented by mistake would otherwise be part of the text above it.
    return known_key(line) or (known_key(line.lstrip(), GRANTS) if line[:3].strip() else None)


def _any_key(line: str) -> str | None:
    match = _ANY_KEY.match(line)
    return match[1] if match else None


def _untab(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return indent.replace("\t", "  ") + line[len(indent) :]


def _check_closed(lines: Sequence[str], block: Block) -> None:
    """Prose below a blank line, after the last field, is a body: the fence is missing."""
    last = max((n for n, line in enumerate(lines) if known_key(line)), default=0)
    owner = known_key(lines[last]) if lines else None
    for above, line in itertools.pairwise(lines[last:]):
        if not above.strip() and _is_prose(line, owner):
            raise Rejected(
                block.first_line - 1,
                "fence",
                f"is closed only on line {block.end_line}, below prose – add --- after the fields",
            )


def _is_prose(line: str, owner: str | None) -> bool:
    if not line.strip() or line[0].isspace():
        return False
    return line.startswith(("# ", "## ")) or (owner != "description" and not _any_key(line))
