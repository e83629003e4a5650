"""Reading a journal, also while a run goes on writing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from orchestrator.errors import JournalError
from orchestrator.events import Record
from orchestrator.journal.database import open_to_read
from orchestrator.journal.rows import SELECT, Row, decode
from orchestrator.journal.wording import damaged, unreadable

# A read transaction ends after this much: one that stays open lets the WAL file grow without bound.
_READ_ROWS = 500
_READ_BYTES = 4_000_000


def read_records(path: Path, *, after: int = 0, agent: str | None = None) -> Iterator[Record]:
    """The records of the journal ``path`` in order, from the one after seq ``after``.

    ``agent`` keeps one agent's records only. Reads in bounded steps and holds no transaction
    between them, so a run may go on writing; what it commits meanwhile is read too. Raises
    `JournalError` at the first record that is missing or damaged, after all before it.
    """
    connection = open_to_read(path)
    if connection is None:
        return
    with closing(connection):
        last = after
        while rows := _read_some(path, connection, last, agent):
            for row in rows:
                if agent is None and row[0] != last + 1:
                    raise JournalError(damaged(path, last, f"record {last + 1} is missing"))
                yield decode(path, row, last)
                last = row[0]


def _read_some(
    path: Path, connection: sqlite3.Connection, after: int, agent: str | None
) -> list[Row]:
    """The next rows, at most about 4 MB of them; the transaction ends with the cursor."""
    rows: list[Row] = []
    size = 0
    try:
        with closing(connection.execute(SELECT, (after, agent, agent))) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[6])
                if size > _READ_BYTES or len(rows) == _READ_ROWS:
                    break
    except sqlite3.Error as error:
        if not rows:
            raise JournalError(unreadable(path, after, error)) from error
    return rows
