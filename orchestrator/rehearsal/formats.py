"""Reading what tools answer: listings, matches, pages, placeholders, reports of subagents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"\[offloaded (.+?) · ([\d,]+) characters, ([\d,]+) lines?\b[^\n]*\]")
_PAGE = re.compile(r"\[(?:lines? (\d+)|the file is empty|nothing was read)[^\n]*\]\n?")
_OF = re.compile(r" of (\d+)")
_REPORT = re.compile(r"\[(\S+) (\S+) · (\w+) · [^\n]*\]\n?")
# Behind the cut there may be the files that were made, and a note on the to-do item.
_CONTINUES = re.compile(r"^\[continues in ([^\]\n]+)\](?:\n\[[^\n]*\])*\s*\Z", re.MULTILINE)
_REASON = re.compile(r"reason: ([^\n]*)\n?")
_MATCH = re.compile(r"(.+?):(\d+):(.*)")
_COUNT = re.compile(r"(.+):(\d+)")
_NOTE = re.compile(r"\[.*\]")
_TODO = re.compile(r"^- \[.\] (.+) <!-- (\S+) -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Where an answer was moved to; sizes in characters and lines."""

    path: str
    chars: int
    lines: int


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a file: ``lines`` from number ``first`` on; ``total`` is the file's lines."""

    first: int
    lines: list[str]
    total: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class ChildReport:
    """What came back from a subagent; ``continues`` is the file with the whole, where it was cut."""

    agent_type: str
    status: str
    reason: str
    text: str
    continues: str | None


def placeholder(answer: str) -> Placeholder | None:
    match = _PLACEHOLDER.match(answer)
    if match is None:
        return None
    chars, lines = (int(match[i].replace(",", "")) for i in (2, 3))
    return Placeholder(match[1], chars, lines)


def page(answer: str) -> Page | None:
    """A page of `read_file`; ``None`` for anything else, an error for instance."""
    match = _PAGE.match(answer)
    if match is None:
        return None
    content = answer[match.end() :]
    # Only "\n" ends a line, as it does for the tool.
    lines = content.removesuffix("\n").split("\n") if content else []
    of = _OF.search(match[0])
    total = int(of[1]) if of else 0
    return Page(int(match[1] or 1), lines, total, goes_on=" · go on: " in match[0])


def folder_entries(answer: str) -> tuple[list[str], list[str]]:
    """Names of the folders and of the files in an answer of `ls`."""
    lines = list(_rows(answer))
    folders = [line.removesuffix("/") for line in lines if line.endswith("/")]
    files = [line.rpartition(" (")[0] for line in lines if line.endswith(" bytes)")]
    return folders, files


def paths(answer: str) -> list[str]:
    """The paths in an answer of `glob`, or of `grep` with output="files"."""
    return list(_rows(answer))


def matches(answer: str) -> list[tuple[str, int, str]]:
    """Path, line number and text of each line in an answer of `grep` with output="content"."""
    found = (_MATCH.fullmatch(line) for line in _rows(answer))
    return [(match[1], int(match[2]), match[3]) for match in found if match]


def counts(answer: str) -> list[tuple[str, int]]:
    """Path and number of matching lines in an answer of `grep` with output="count"."""
    found = (_COUNT.fullmatch(line) for line in _rows(answer))
    return [(match[1], int(match[2])) for match in found if match]


def is_incomplete(answer: str) -> bool:
    """Whether a listing or search says that it stopped early."""
    return any(line.startswith("[incomplete") for line in answer.split("\n")[-3:])


def child_report(answer: str) -> ChildReport | None:
    """A subagent's report; ``None`` for a refusal or an error."""
    match = _REPORT.match(answer)
    if match is None:
        return None
    reason = _REASON.match(answer, match.end())
    text = answer[(reason or match).end() :].strip()
    cut = _CONTINUES.search(text)
    if cut:
        text = text[: cut.start()].rstrip()
    because = reason[1] if reason else ""
    return ChildReport(match[1], match[3], because, text, cut[1] if cut else None)


def todo_ids(text: str) -> dict[str, str]:
    """Ids by content of the to-do items that a text shows."""
    return {match[1]: match[2] for match in _TODO.finditer(text)}


def _rows(answer: str) -> Iterator[str]:
    """The lines that are no notes of the tool."""
    return (line for line in answer.split("\n") if line and not _NOTE.fullmatch(line))
