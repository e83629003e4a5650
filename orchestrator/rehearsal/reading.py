"""Answers as they were before they were moved to files, and the calls that read them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.rehearsal import formats
from orchestrator.rehearsal.conversation import READ, Call, Wish

# How much of one moved answer is read back: a rehearsal shows that it works and stays cheap.
_MOST_PAGES = 4
# `read_file` gives pages of 5,000 characters, its header line included, and 200 lines by default.
_PAGE_CHARS = 4_400
_PAGE_LINES = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to ``call`` as far as it is known; ``whole`` if that is all of it."""

    call: Call
    text: str
    whole: bool


def answers(calls: Iterable[Call]) -> list[Answer]:
    """The answers that are no errors, those that were moved away put together from their pages."""
    calls = [call for call in calls if not call.failed]
    pages = pages_by_path(calls)
    return [_answer(call, pages) for call in calls]


def _answer(call: Call, pages: Mapping[str, Mapping[int, str]]) -> Answer:
    moved = formats.placeholder(call.answer)
    if moved is None:
        return Answer(call, call.answer, not formats.is_incomplete(call.answer))
    lines = pages.get(moved.path, {})
    text = "\n".join(lines[number] for number in sorted(lines))
    return Answer(call, text, len(lines) >= moved.lines and not formats.is_incomplete(text))


def pages_by_path(calls: Iterable[Call]) -> dict[str, dict[int, str]]:
    """The lines of each file that was read, by number."""
    read: dict[str, dict[int, str]] = {}
    for call in calls:
        if call.tool == READ and not call.failed and (page := formats.page(call.answer)):
            lines = read.setdefault(call.argument("path"), {})
            lines.update(enumerate(page.lines, page.first))
    return read


def read_back(calls: Iterable[Call]) -> Iterator[Wish]:
    """The calls that fetch what is still missing of the answers that were moved to files."""
    calls = list(calls)
    pages = pages_by_path(calls)
    for call in calls:
        # A page that was moved away is not fetched again: that would have no end.
        if call.tool != READ and (moved := formats.placeholder(call.answer)):
            yield from _missing(moved, pages.get(moved.path, {}))


def is_within_reach(moved: formats.Placeholder) -> bool:
    """Whether `read_back` fetches all of it."""
    return moved.lines <= _lines_per_page(moved) * _MOST_PAGES


def _missing(moved: formats.Placeholder, have: Mapping[int, str]) -> Iterator[Wish]:
    per_page = _lines_per_page(moved)
    number = 1
    while number <= min(moved.lines, per_page * _MOST_PAGES):
        if number in have:
            number += 1
        else:
            yield Wish(READ, {"path": moved.path, "offset": number, "limit": per_page})
            number += per_page


def _lines_per_page(moved: formats.Placeholder) -> int:
    return min(_PAGE_LINES, max(1, _PAGE_CHARS * moved.lines // max(moved.chars, 1)))
