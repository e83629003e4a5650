"""The database file: opened to write or to read, and closed as one plain file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import JournalError
from orchestrator.journal.rows import CREATE, SCHEMA_VERSION
from orchestrator.journal.wording import sentence

# How long to wait for a lock that another program holds on the database.
_BUSY_SECONDS = 2.0
# A packed tool result takes one to two thousand bytes: of SQLite's usual 4,096 such rows leave a tenth
# of every page empty, and larger pages than this one gain nothing more.
_PAGE_BYTES = 8_192


class Opened(NamedTuple):
    """A database to append to. ``last_seq``: of its last record. ``wal``: descriptor of the file that
    takes what is committed; ``None`` where each commit waits for the disk."""

    connection: sqlite3.Connection
    last_seq: int
    wal: int | None


def open_to_write(path: Path) -> Opened:
    """The database, made if it is new."""
    with _explained(path):
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False
        )
    with _explained(path), _closed_on_error(connection):
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a file that is new
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        if _known_version(path, connection) == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {CREATE} COMMIT;")
        last = connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0]
        wal = _wal(path, connection) if mode == "wal" else None
    return Opened(connection, last, wal)


def _wal(path: Path, connection: sqlite3.Connection) -> int:
    """From here on a commit hands over to the system only, in order; the WAL file and its name are on
    the disk by then."""
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")  # a write that changes nothing
    connection.execute("PRAGMA synchronous = NORMAL")
    return os.open(f"{path}-wal", os.O_RDWR)


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """``None``: the journal is being made at this moment and holds nothing yet."""
    if not path.is_file():
        raise JournalError(f"there is no journal at {path}")
    with _explained(path):
        try:
            return _reader(path)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            _roll_back(path)
            return _reader(path)


def _reader(path: Path) -> sqlite3.Connection | None:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    with _closed_on_error(connection):
        # SQLite refuses a file that is shorter than its header says, except in this mode; here
        # nothing is written, and what a torn file still holds can be read.
        connection.execute("PRAGMA writable_schema = ON")
        if _known_version(path, connection) > 0:
            return connection
    connection.close()
    return None


def _roll_back(path: Path) -> None:
    """Whoever was killed while the journal was opened or closed left a change half made, which only one
    that may write can take back. SQLite does so by itself, and leaves a change of the living alone."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA user_version").fetchone()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors and the system's, as a `JournalError` that says what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise JournalError(sentence(path, error)) from error


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _known_version(path: Path, connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise JournalError(
            f"the journal {path} has format {version}, and this version of Outrider knows "
            f"{SCHEMA_VERSION}: use a newer Outrider"
        )
    return version


def close(opened: Opened) -> None:
    """Leave one plain file, on the disk, which can be copied and read where nothing can be written.

    Everything is committed already: what fails here (a reader is connected) stays in the WAL file,
    and the next opening takes it from there.
    """
    connection, _, wal = opened
    if wal is not None:
        with suppress(OSError):
            flush(wal)
        os.close(wal)
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def flush(descriptor: int) -> None:
    """Bring a file's content to the disk."""
    # What macOS has no name for, it does not tell apart either.
    getattr(os, "fdatasync", os.fsync)(descriptor)
