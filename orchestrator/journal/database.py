"""The database file: opened to write or to read, and closed as one plain file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import JournalError
from orchestrator.journal.rows import CREATE, SCHEMA_VERSION
from orchestrator.journal.wording import sentence

# How long to wait for a lock that another program holds on the database.
_BUSY_SECONDS = 2.0
# A packed tool result takes one to two thousand bytes: of SQLite's usual 4,096 such rows leave a tenth
# of every page empty, and larger pages than this one gain nothing more.
_PAGE_BYTES = 8_192


def open_to_write(path: Path) -> tuple[sqlite3.Connection, int]:
    """The database, made if it is new, and the seq of its last record."""
    with _explained(path):
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False
        )
    with _explained(path), _closed_on_error(connection):
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a file that is new
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if _known_version(path, connection) == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {CREATE} COMMIT;")
        last = connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0]
    return connection, last


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """``None``: the journal is being made at this moment and holds nothing yet."""
    if not path.is_file():
        raise JournalError(f"there is no journal at {path}")
    with _explained(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    with _explained(path), _closed_on_error(connection):
        # SQLite refuses a file that is shorter than its header says, except in this mode; here
        # nothing is written, and what a torn file still holds can be read.
        connection.execute("PRAGMA writable_schema = ON")
        if _known_version(path, connection) > 0:
            return connection
    connection.close()
    return None


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


def close(connection: sqlite3.Connection) -> None:
    """Leave one plain file, which can be copied and read where nothing can be written.

    Everything is durable already: what fails here (a reader is connected) stays in the WAL file,
    and the next opening takes it from there.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
