"""What a journal still holds, whatever happened to its file: each record that is whole, and what is
lost. Nothing is written."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import JournalError
from orchestrator.events import Record
from orchestrator.journal.database import open_to_read
from orchestrator.journal.rows import SELECT_ONE, SELECT_SOME, Row, decode, is_whole, text_of

# Rows of one read: a transaction that stays open lets the WAL file grow.
_STEP = 500
# A file whose own figures are damaged may claim any number of records.
_MOST_LOOKED_FOR = 1_000_000
_MOST_SAID = 20


@dataclass(frozen=True, slots=True)
class Whole:
    """A record that is as it was written, and its event's JSON object."""

    record: Record
    written: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that cannot be read, by their numbers, ``first`` to ``last``, and why."""

    first: int
    last: int
    why: str

    def __str__(self) -> str:
        one = self.first == self.last
        names = f"record {self.first}" if one else f"records {self.first}–{self.last}"
        return f"{names}: {self.why}"


@dataclass
class Salvage:
    """``structure``: what SQLite says of the file itself; ``unreadable``: why nothing can be read."""

    whole: list[Whole] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    structure: list[str] = field(default_factory=list)
    unreadable: str | None = None

    def ranges(self) -> list[tuple[int, int]]:
        """The records that are whole, as first and last number of each unbroken row of them."""
        found: list[tuple[int, int]] = []
        for each in self.whole:
            seq = each.record.seq
            if found and found[-1][1] == seq - 1:
                found[-1] = (found[-1][0], seq)
            else:
                found.append((seq, seq))
        return found


def salvage(path: Path, *, known: int = 0) -> Salvage:
    """Everything that the journal ``path`` still holds. ``known``: a number up to which records are
    known to have been written, from elsewhere."""
    try:
        connection = open_to_read(path)
    except JournalError as error:
        unreadable = Salvage(unreadable=str(error))
        if known:
            unreadable.lost.append(Lost(1, known, "the file cannot be read"))
        return unreadable
    found = Salvage()
    if connection is None:
        return found
    with closing(connection):
        found.structure = _structure(connection)
        rows = _Rows(path, connection, found)
        rows.read(max(known, _top(connection)))
    return found


class _Rows:
    """Reads rows in order; where the file gives none, looks for each by its number."""

    def __init__(self, path: Path, connection: sqlite3.Connection, found: Salvage) -> None:
        self._path = path
        self._connection = connection
        self._found = found
        self._last = 0

    def read(self, top: int) -> None:
        while True:
            error = self._read_on()
            if error is None:
                break
            if not self._look_for_next(top, error):
                return
        if top > self._last:
            self._lose(self._last + 1, top, "missing")

    def _read_on(self) -> sqlite3.Error | None:
        """Read to the end, or to the first place that cannot be read: then the error."""
        try:
            while self._some(SELECT_SOME, (self._last, _STEP)) > 0:
                pass
        except sqlite3.Error as error:
            return error
        return None

    def _look_for_next(self, top: int, error: sqlite3.Error) -> bool:
        """Behind a place that cannot be read: whether a record was found."""
        began = self._last + 1
        for seq in range(began, min(top, began + _MOST_LOOKED_FOR) + 1):
            with suppress(sqlite3.Error):
                if self._some(SELECT_ONE, (seq,), gap=str(error)):
                    return True
        if top >= began:
            self._lose(began, top, str(error))
        return False

    def _some(self, select: str, values: tuple[int, ...], gap: str = "missing") -> int:
        """How many rows were read; those before an error count."""
        count = 0
        with closing(self._connection.execute(select, values)) as cursor:
            for row in cursor:
                self._take(row, gap)
                count += 1
        return count

    def _take(self, row: Row, gap: str) -> None:
        seq = row[0]
        if seq <= self._last:
            raise sqlite3.DatabaseError("records are out of order")
        if seq > self._last + 1:
            self._lose(self._last + 1, seq - 1, gap)
        self._last = seq
        if not is_whole(row):
            self._lose(seq, seq, "not as it was written")
            return
        try:
            record, written = decode(self._path, row, seq), json.loads(text_of(row))
        except (JournalError, ValueError, zlib.error):
            self._lose(seq, seq, "written by a version of Outrider that this one does not know")
        else:
            self._found.whole.append(Whole(record, written))

    def _lose(self, first: int, last: int, why: str) -> None:
        lost = self._found.lost
        if lost and lost[-1].last == first - 1 and lost[-1].why == why:
            first = lost.pop().first
        lost.append(Lost(first, last, why))


def _structure(connection: sqlite3.Connection) -> list[str]:
    try:
        said = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST_SAID})")]
    except sqlite3.Error as error:
        return [str(error)]
    return [] if said == ["ok"] else said


def _top(connection: sqlite3.Connection) -> int:
    """The highest number that the file names; 0 where it cannot say."""
    with suppress(sqlite3.Error, TypeError):
        return int(connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0])
    return 0


def spelled(ranges: Sequence[tuple[int, int]]) -> str:
    """Ranges of numbers in words: ``1–40, 52``."""
    return ", ".join(_spelled(ranges)) or "none"


def _spelled(ranges: Sequence[tuple[int, int]]) -> Iterator[str]:
    for first, last in ranges:
        yield str(first) if first == last else f"{first}–{last}"
