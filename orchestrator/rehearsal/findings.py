"""What was found in an area, and its form as Markdown, which is read back from a subagent's
conclusion and from a summary of earlier turns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

COVERED = "Covered"
SIZE = "Size"
READ = "Read"
PURPOSE = "Purpose"
LARGEST = "Largest files"
NAMES = "Public names"
MARKED = "TODO/FIXME lines"
GAPS = "Not covered"

_MOST_LARGEST = 8
_MOST_NAMES = 10  # of one file

_SECTION = re.compile(r"\*\*([^*]+):\*\*\s*(.*)")
_ITEM = re.compile(r"- `([^`]+)` – (.+)")
_LEFT_OUT = re.compile(r"- … and ([\d,]+) more")
_MARKED_LINE = re.compile(r"- (.+?):(\d+): (.+)")
_TOTAL = re.compile(r"([\d,]+) files?, ([\d,]+) lines?")
_LINES = re.compile(r"([\d,]+) lines?")


@dataclass(slots=True)
class Findings:
    """``lines`` counts the lines of each file; ``marked`` are the TODO/FIXME lines by path and
    line; ``total`` is (files, lines) where more is known than ``lines`` lists; ``read`` is the last
    line that was read of a file, 0 where an earlier turn read it. ``is_counted``: a
    file without lines is empty, or no text."""

    covered: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    total: tuple[int, int] = (0, 0)
    purposes: dict[str, str] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    marked: dict[tuple[str, int], str] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    is_counted: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Files and lines in all."""
        return max(self.total, (len(self.lines), sum(self.lines.values())))

    def largest(self) -> list[tuple[str, int]]:
        """Paths with their lines, the longest first; without what is empty or was not counted."""
        counted = ((path, lines) for path, lines in self.lines.items() if lines)
        return sorted(counted, key=lambda item: (-item[1], item[0]))

    def add_name(self, path: str, name: str) -> None:
        known = self.names.setdefault(path, [])
        if name not in known:
            known.append(name)

    def add_gap(self, gap: str) -> None:
        if gap not in self.gaps:
            self.gaps.append(gap)


def merged(parts: Iterable[Findings]) -> Findings:
    """All of ``parts`` in one; their totals are added, since areas do not overlap."""
    whole = Findings()
    files = lines = 0
    for part in parts:
        absorb(whole, part)
        files, lines = files + part.size[0], lines + part.size[1]
    whole.total = (files, lines)
    return whole


def absorb(into: Findings, part: Findings) -> None:
    """Take over everything that ``part`` lists; what is known already stays."""
    into.covered += [path for path in part.covered if path not in into.covered]
    into.lines = part.lines | into.lines
    into.purposes = part.purposes | into.purposes
    into.marked = part.marked | into.marked
    into.read = part.read | into.read
    into.total = max(into.total, part.total)
    for path, names in part.names.items():
        for name in names:
            into.add_name(path, name)
    for gap in part.gaps:
        into.add_gap(gap)


# ── as Markdown ──────────────────────────────────────────────────────────────────────────────────


def render(found: Findings, room: int) -> str:
    """The findings in about ``room`` bytes: what matters most to a reader goes in first.

    A section that does not fit ends with the number of lines left out.
    """
    shares: list[tuple[str, list[str], float]] = [
        (MARKED, marked_lines(found), 0.45),
        (LARGEST, sized_lines(found)[:_MOST_LARGEST], 0.25),
        (PURPOSE, purpose_lines(found), 0.55),
        (NAMES, named_lines(found), 0.8),
        (GAPS, found.gaps, 1.0),
    ]
    head = [f"**{COVERED}:** {_paths(found.covered)}", f"**{SIZE}:** {sized(found)}"]
    if found.read:
        head.append(f"**{READ}:** {', '.join(f'`{path}`' for path in found.read)}")
    left = room - sum(map(width, head))
    chosen: dict[str, list[str]] = {}
    for title, items, share in shares:
        chosen[title] = fitting(items, int(left * share))
        left -= sum(map(width, chosen[title]))
    order = (PURPOSE, LARGEST, NAMES, MARKED, GAPS)
    return "\n".join([*head, *(line for title in order for line in section(title, chosen[title]))])


def section(title: str, items: list[str]) -> list[str]:
    return ["", f"**{title}:**", *(f"- {item}" for item in items)] if items else []


def marked_lines(found: Findings) -> list[str]:
    return [f"{path}:{line}: {text}" for (path, line), text in sorted(found.marked.items())]


def sized_lines(found: Findings) -> list[str]:
    return [f"`{path}` – {count_of(lines, 'line')}" for path, lines in found.largest()]


def purpose_lines(found: Findings) -> list[str]:
    return [f"`{path}` – {text}" for path, text in sorted(found.purposes.items())]


def named_lines(found: Findings) -> list[str]:
    listed = ((path, _first(names)) for path, names in sorted(found.names.items()))
    return [f"`{path}` – {', '.join(names)}" for path, names in listed]


def _first(names: list[str]) -> list[str]:
    # Read back, the dots count as one name: they come out again, and last.
    return names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], "…"]


def sized(found: Findings) -> str:
    """Files and lines in words."""
    files, lines = found.size
    return f"{count_of(files, 'file')}, {count_of(lines, 'line')}"


def count_of(number: int, unit: str) -> str:
    return f"{number:,} {unit}" + ("" if number == 1 else "s")


def fitting(items: list[str], room: int) -> list[str]:
    """The first items that fit into ``room`` bytes, and how many do not."""
    for count, item in enumerate(items):
        room -= width(item)
        if room < 0:
            return [*items[:count], f"… and {len(items) - count:,} more"]
    return items


def width(item: str) -> int:
    """Bytes of an item: what its tokens are estimated by."""
    return len(item.encode("utf-8", "surrogatepass")) + 3


def _paths(paths: list[str]) -> str:
    if len(paths) > 6:
        return f"`{paths[0]}` … `{paths[-1]}` ({len(paths)} paths)"
    return ", ".join(f"`{path}`" for path in paths)


# ── read back ────────────────────────────────────────────────────────────────────────────────────


def parse(text: str) -> Findings | None:
    """What a rendering says; ``None`` for a text that holds none."""
    found = Findings()
    seen = False
    for title, line in _sectioned(text):
        seen = True
        if match := _LEFT_OUT.fullmatch(line):
            found.add_gap(f"{title}: {match[1]} more did not fit into the conclusion")
        else:
            _READERS[title](found, line)
    return found if seen else None


def _sectioned(text: str) -> Iterator[tuple[str, str]]:
    """Each line of a known section with its title; a section ends at the next empty line."""
    title = ""
    for line in text.splitlines():
        if match := _SECTION.fullmatch(line):
            title = match[1] if match[1] in _READERS else ""
            line = match[2]
        elif not line:
            title = ""
        if title and line:
            yield title, line


def _read_covered(found: Findings, line: str) -> None:
    found.covered += re.findall(r"`([^`]+)`", line)


def _read_size(found: Findings, line: str) -> None:
    if match := _TOTAL.search(line):
        found.total = (_number(match[1]), _number(match[2]))


def _read_purpose(found: Findings, line: str) -> None:
    if match := _ITEM.fullmatch(line):
        found.purposes[match[1]] = match[2]


def _read_largest(found: Findings, line: str) -> None:
    match = _ITEM.fullmatch(line)
    if match and (lines := _LINES.fullmatch(match[2])):
        found.lines[match[1]] = _number(lines[1])


def _read_names(found: Findings, line: str) -> None:
    if match := _ITEM.fullmatch(line):
        for name in match[2].split(", "):
            found.add_name(match[1], name)


def _read_marked(found: Findings, line: str) -> None:
    if match := _MARKED_LINE.fullmatch(line):
        found.marked[match[1], int(match[2])] = match[3]


def _read_gap(found: Findings, line: str) -> None:
    # A summary is followed by a line that is not ours.
    if line.startswith("- "):
        found.add_gap(line[2:])


def _read_read(found: Findings, line: str) -> None:
    # How far is not said, and not needed: those files are done with.
    found.read |= dict.fromkeys(re.findall(r"`([^`]+)`", line), 0)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_READERS: dict[str, Callable[[Findings, str], None]] = {
    COVERED: _read_covered,
    SIZE: _read_size,
    READ: _read_read,
    PURPOSE: _read_purpose,
    LARGEST: _read_largest,
    NAMES: _read_names,
    MARKED: _read_marked,
    GAPS: _read_gap,
}
