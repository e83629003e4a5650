"""How the entries of a memory are shown to people and programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from orchestrator.cli.table import Column, number, table
from workspace import SNAPSHOT_CHARS, MemoryEntry, duplicates

# Half a year: what nobody has written anew since is worth a question.
OLD_DAYS = 180

_SHOW = (Column("id"), Column("date"), Column("text", least=20))
_REVIEW = (Column("id"), Column("date"), Column("remarks"), Column("text", least=20))


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An entry, and what makes it worth a look: nothing, mostly."""

    entry: MemoryEntry
    remarks: tuple[str, ...]


def reviewed(entries: Sequence[MemoryEntry], today: date) -> list[Reviewed]:
    """The entries, the oldest first; those that people wrote, of no known age, at the end."""
    same = duplicates(entries)
    ordered = sorted(entries, key=lambda e: (e.date is None, e.date or today))
    return [Reviewed(entry, tuple(_remarks(entry, same, today))) for entry in ordered]


def _remarks(entry: MemoryEntry, same: dict[str, str], today: date) -> list[str]:
    remarks = [f"same as {same[entry.id]}"] if entry.id in same else []
    if entry.date is not None and (days := (today - entry.date).days) > OLD_DAYS:
        remarks.append(f"old: {days:,} days")
    return remarks


def as_table(entries: Sequence[MemoryEntry], width: int | None) -> list[str]:
    return table(_SHOW, [[e.id, _day(e), e.text] for e in entries], width)


def review_table(found: Sequence[Reviewed], width: int | None) -> list[str]:
    rows = [[e.entry.id, _day(e.entry), ", ".join(e.remarks), e.entry.text] for e in found]
    return table(_REVIEW, rows, width)


def question(each: Reviewed, at: int, of: int) -> list[str]:
    """An entry as a review asks about it."""
    facts = [f"{at} of {of}", each.entry.id, _day(each.entry) or "no date", *each.remarks]
    return ["", " · ".join(facts), f"  {each.entry.text}"]


def entry_json(entry: MemoryEntry) -> dict[str, Any]:
    day = None if entry.date is None else entry.date.isoformat()
    return {"id": entry.id, "text": entry.text, "date": day, "line": entry.line}


def shortened(path: str, chars: int) -> str:
    return (
        f"{path} has {number(chars)} characters, of which a session is shown {number(SNAPSHOT_CHARS)}: "
        "the oldest entries are left out (outrider memory review)"
    )


def _day(entry: MemoryEntry) -> str:
    return "" if entry.date is None else entry.date.isoformat()
