"""What is said when a journal cannot be used: what happened and what to do. Pure."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

# What happened and what to do, by SQLite's primary result code.
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space, then resume the run",
    sqlite3.SQLITE_IOERR: "the disk refuses to read or write: check it, then resume the run",
    sqlite3.SQLITE_READONLY: "it is read-only: make its folder writable, then resume the run",
    sqlite3.SQLITE_PERM: "access is denied: check the permissions of its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and is writable",
    sqlite3.SQLITE_BUSY: "another program holds it locked: close that, then resume the run",
    sqlite3.SQLITE_LOCKED: "another program holds it locked: close that, then resume the run",
    sqlite3.SQLITE_CORRUPT: "it is damaged: keep a copy; `outrider log` shows what can be read",
    sqlite3.SQLITE_NOTADB: "it is no journal: move that file away or name another run",
    sqlite3.SQLITE_CONSTRAINT: "another process has gone on with this run: this one ends here",
}
# Errors of reading that say nothing about the file itself.
_PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
}
_OS_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space, then resume the run",
    errno.EROFS: "it is read-only: make its folder writable, then resume the run",
}


def sentence(path: Path, error: sqlite3.Error | OSError) -> str:
    """The journal cannot be used: why, and what to do."""
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        advice = f"{reason}: check that its folder exists and is writable"
        return f"cannot use the journal {path}: {_OS_ADVICE.get(error.errno or 0, advice)}"
    return f"cannot use the journal {path}: {_ADVICE.get(_code(error), str(error))}"


def gone(path: Path) -> str:
    """The file that a run writes to was taken away from under it."""
    return (
        f"the journal {path} is gone: it was deleted, moved or replaced while the run went on. The run "
        "ends here, since nothing that it does would be recorded"
    )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the error is Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unreadable(path: Path, last: int, error: sqlite3.Error) -> str:
    """An error of reading after record ``last``: a passing one, or damage."""
    if _code(error) in _PASSING:
        return sentence(path, error)
    return damaged(path, last, str(error))


def damaged(path: Path, last: int, what: str) -> str:
    """The journal is damaged after record ``last``."""
    return (
        f"the journal {path} is damaged after record {last}: {what}. What comes before can be read; "
        "keep a copy of the file"
    )
