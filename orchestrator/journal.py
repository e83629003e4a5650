"""The journal: one SQLite file per run that holds every event, in order, before anything acts on it.

Appending is durable on return. Agents append at the same time; one writer takes all that waits and
commits it together, so that 500 agents cost a few disk flushes and not 500. What depends on the
journal's order (state, log, progress) runs in the writer, after the commit, in that order.

A file of its own carries the run's lock: opening and closing the database file somewhere else in the
process would drop a lock that is held on the database file itself.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import sqlite3
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio.lowlevel
from anyio import to_thread

from orchestrator.errors import JournalError, RunInUse
from orchestrator.events import Fact, Record, from_json, to_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

# Kept in the file's user_version. Readers refuse a higher one.
SCHEMA_VERSION = 1

# Bodies above this many bytes are compressed: below it zlib gains nothing that matters.
_COMPRESS_ABOVE = 400
# How long to wait for a lock that another program holds on the database or, for an instant, on the
# run (a reader that asks whether the run is alive takes the run's lock and lets it go).
_BUSY_SECONDS = 2.0
_LOCK_SECONDS = 0.5
# A read transaction ends after this much: one that stays open lets the WAL file grow without bound.
_READ_ROWS = 500
_READ_BYTES = 4_000_000

_CREATE = f"""
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    ts REAL NOT NULL,
    agent_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    event TEXT NOT NULL,
    packed INTEGER NOT NULL,
    body BLOB NOT NULL,
    digest BLOB NOT NULL
);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_COLUMNS = "seq, ts, agent_id, turn, event, packed, body, digest"
_INSERT = f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = (
    f"SELECT {_COLUMNS} FROM records WHERE seq > ? AND (? IS NULL OR agent_id = ?) ORDER BY seq"
)

Row = tuple[int, float, str, int, str, int, bytes, bytes]
Applied = Callable[[Sequence[Record]], None]


class Entry(NamedTuple):
    """An event before it is recorded: whose it is, in which turn, what happened."""

    agent_id: str
    turn: int
    fact: Fact


class Journal(Protocol):
    """Where events are recorded. Called from many tasks at once."""

    async def append(self, facts: Sequence[tuple[str, int, Fact]], applied: Applied) -> None:
        """Record ``facts``, each an (agent id, turn, event), together and in this order.

        Durable on return. ``applied`` is called once with their records, after the commit and in
        the journal's order over all callers; what it raises is raised here. Once queued, an append
        is not interrupted: a cancellation takes effect when the records are durable and applied.
        Raises `JournalError`; then nothing of ``facts`` is recorded.
        """
        ...


# An entry that waits: when it happened, what, and the event's JSON.
_Waiting = tuple[float, Entry, bytes]


@dataclass
class _Batch:
    """One append that waits for the writer."""

    entries: list[_Waiting]
    applied: Applied
    done: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None

    def settle(self, records: Sequence[Record]) -> None:
        try:
            self.applied(records)
        except Exception as error:  # noqa: BLE001  # the caller's own; it is raised in `append`
            self.error = error


class _SqliteJournal:
    """A `Journal` in an open database. Made by `open_journal`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, last_seq: int) -> None:
        self._path = path
        self._connection = connection
        self._last_seq = last_seq
        self._failure: str | None = None
        self._send, self._receive = anyio.create_memory_object_stream[_Batch](math.inf)
        # A thread of its own: tools may hold all threads of the default limiter while they append.
        self._thread = anyio.CapacityLimiter(1)

    async def append(self, facts: Sequence[tuple[str, int, Fact]], applied: Applied) -> None:
        if not facts:
            return
        now = time.time()
        batch = _Batch([_waiting(now, Entry(*each)) for each in facts], applied)
        try:
            self._send.send_nowait(batch)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise JournalError(self._failure or f"the journal {self._path} is closed") from None
        await _wait_through(batch.done)
        if batch.error is not None:
            raise batch.error
        # An agent that does nothing but append would otherwise never notice its cancellation.
        await anyio.lowlevel.checkpoint_if_cancelled()

    async def write(self) -> None:
        """The writer: runs until `close`, and then until all that was queued is recorded."""
        # Shielded: agents that are being cancelled still wait here for their last records.
        with anyio.CancelScope(shield=True):
            try:
                async for first in self._receive:
                    await self._write_together([first, *self._queued()])
            finally:
                self._failure = self._failure or f"the journal {self._path} is closed"
                self.close()
                self._release(self._queued())
                self._receive.close()

    def close(self) -> None:
        """Take no more appends."""
        self._send.close()

    async def _write_together(self, batches: list[_Batch]) -> None:
        try:
            if self._failure is None:
                await self._commit(batches)
        finally:
            # Whatever happened, a bug of ours included, nobody may wait here for ever.
            self._release(batches)

    async def _commit(self, batches: list[_Batch]) -> None:
        try:
            recorded = await to_thread.run_sync(self._insert, batches, limiter=self._thread)
        except (sqlite3.Error, OSError) as error:
            self._failure = _sentence(self._path, error)
        else:
            for batch, records in zip(batches, recorded, strict=True):
                batch.settle(records)
                batch.done.set()

    def _insert(self, batches: list[_Batch]) -> list[list[Record]]:
        """One transaction, in a worker thread. Returns each batch's records."""
        rows: list[Row] = []
        recorded: list[list[Record]] = []
        seq = self._last_seq
        for batch in batches:
            recorded.append([])
            for ts, entry, data in batch.entries:
                seq += 1
                rows.append(_row(seq, ts, entry, data))
                recorded[-1].append(_record(seq, ts, entry))
        with self._connection:
            self._connection.executemany(_INSERT, rows)
        self._last_seq = seq
        return recorded

    def _queued(self) -> list[_Batch]:
        queued = []
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            while True:
                queued.append(self._receive.receive_nowait())
        return queued

    def _release(self, batches: Sequence[_Batch]) -> None:
        """Tell those that still wait that their records did not become durable."""
        for batch in batches:
            if not batch.done.is_set():
                batch.error = JournalError(self._failure or f"the journal {self._path} stopped")
                batch.done.set()


@asynccontextmanager
async def open_journal(path: Path) -> AsyncIterator[Journal]:
    """Create the journal ``path``, or continue it, and hold the run's lock meanwhile.

    Raises `RunInUse` when another process (or another part of this one)
    holds the run, and `JournalError` when the file cannot be opened or is none of ours.
    """
    thread = anyio.CapacityLimiter(1)
    failure: BaseException | None = None
    lock = await to_thread.run_sync(_take_lock, path, limiter=thread)
    try:
        connection, last = await to_thread.run_sync(_open, path, limiter=thread)
        try:
            journal = _SqliteJournal(path, connection, last)
            async with anyio.create_task_group() as group:
                group.start_soon(journal.write)
                try:
                    yield journal
                # Carried past the task group, which would wrap it in an exception group.
                except BaseException as error:  # noqa: BLE001  # raised below
                    failure = error
                finally:
                    journal.close()
            if failure is not None:
                raise failure
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_close, connection, limiter=thread)
    finally:
        _let_lock_go(path, lock)


def read_records(path: Path, *, after: int = 0, agent: str | None = None) -> Iterator[Record]:
    """The records of the journal ``path`` in order, from the one after seq ``after``.

    ``agent`` keeps one agent's records only. Reads in bounded steps and holds no transaction
    between them, so a run may go on writing; what it commits meanwhile is read too. Raises
    `JournalError` at the first record that is missing or damaged, after all before it.
    """
    connection = _open_to_read(path)
    if connection is None:
        return
    with closing(connection):
        last = after
        while rows := _read_some(path, connection, last, agent):
            for row in rows:
                if agent is None and row[0] != last + 1:
                    raise JournalError(_damaged(path, last, f"record {last + 1} is missing"))
                yield _decode(path, row, last)
                last = row[0]


def is_running(path: Path) -> bool:
    """Whether some process holds the run whose journal is ``path``."""
    if not _lock_file(path).is_file():
        return False
    lock = _lock_of(path)
    try:
        lock.acquire(timeout=0)
    except TimeoutError:
        return True
    except OSError:
        return False  # nobody can run in a folder where nobody can lock
    lock.release()
    return False


# ── rows ──


def _waiting(ts: float, entry: Entry) -> _Waiting:
    """Encoded in the caller's task: what cannot be encoded fails there, not in the writer."""
    entry.agent_id.encode()
    return ts, entry, to_json(entry.fact)


def _row(seq: int, ts: float, entry: Entry, data: bytes) -> Row:
    packed = len(data) > _COMPRESS_ABOVE
    body = zlib.compress(data) if packed else data
    event: str = entry.fact.event  # type: ignore[attr-defined]  # every subclass has it
    head = (seq, ts, entry.agent_id, entry.turn, event, int(packed))
    return (*head, body, _digest(head, body))


def _record(seq: int, ts: float, entry: Entry) -> Record:
    # Constructed, not validated: the fact is an event already.
    agent_id, turn, fact = entry
    return Record.model_construct(seq=seq, ts=ts, agent_id=agent_id, turn=turn, fact=fact)


def _digest(head: tuple[Any, ...], body: bytes) -> bytes:
    """16 bytes over the whole row, its place included: a changed or moved row does not match."""
    return hashlib.blake2b(repr(head).encode() + body, digest_size=16).digest()


def _decode(path: Path, row: Row, last: int) -> Record:
    seq, ts, agent_id, turn, event, packed, body, digest = row
    if not isinstance(body, bytes) or _digest(row[:6], body) != digest:
        raise JournalError(_damaged(path, last, f"record {seq} is not as it was written"))
    try:
        fact = from_json(zlib.decompress(body) if packed else body)
    except (ValueError, zlib.error):  # pydantic's ValidationError is a ValueError
        raise JournalError(
            f"the journal {path} holds a {event} record ({seq}) that this version of Outrider does "
            "not understand: read it with the version that wrote it"
        ) from None
    return Record(seq=seq, ts=ts, agent_id=agent_id, turn=turn, fact=fact)


def _read_some(
    path: Path, connection: sqlite3.Connection, after: int, agent: str | None
) -> list[Row]:
    """The next rows, at most about 4 MB of them; the transaction ends with the cursor."""
    rows: list[Row] = []
    size = 0
    try:
        with closing(connection.execute(_SELECT, (after, agent, agent))) as cursor:
            for row in cursor:
                rows.append(row)
                size += len(row[6])
                if size > _READ_BYTES or len(rows) == _READ_ROWS:
                    break
    except sqlite3.Error as error:
        if not rows:
            raise JournalError(_unreadable(path, after, error)) from error
    return rows


# ── the database file ──


def _open(path: Path) -> tuple[sqlite3.Connection, int]:
    """The database, made if it is new, and the seq of its last record."""
    with _explained(path):
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level="IMMEDIATE", check_same_thread=False
        )
    with _explained(path), _closed_on_error(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if _known_version(path, connection) == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_CREATE} COMMIT;")
        last = connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()[0]
    return connection, last


def _open_to_read(path: Path) -> sqlite3.Connection | None:
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
        raise JournalError(_sentence(path, error)) from error


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


def _close(connection: sqlite3.Connection) -> None:
    """Leave one plain file, which can be copied and read where nothing can be written.

    Everything is durable already: what fails here (a reader is connected) stays in the WAL file,
    and the next opening takes it from there.
    """
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


# ── the lock ──


def _lock_file(path: Path) -> Path:
    return path.with_suffix(".lock")


def _lock_of(path: Path) -> BaseFileLock:
    from filelock import FileLock  # late: a heavy import

    # The lock is taken in one thread and let go in another.
    return FileLock(_lock_file(path), thread_local=False)


def _holder_of(path: Path) -> Path:
    # Not in the lock file: some versions of filelock empty that when they try it.
    return path.with_suffix(".pid")


def _take_lock(path: Path) -> BaseFileLock:
    lock = _lock_of(path)
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
        _holder_of(path).write_text(f"{os.getpid()}\n")
    except TimeoutError:
        raise RunInUse(
            f"the run of {path} is in use by {_holder(path)}: wait until that has ended, or stop it"
        ) from None
    except OSError as error:
        lock.release()
        raise JournalError(_sentence(path, error)) from error
    return lock


def _holder(path: Path) -> str:
    try:
        pid = int(_holder_of(path).read_text())
    except (OSError, ValueError):
        return "another process"
    return f"this process ({pid})" if pid == os.getpid() else f"process {pid}"


def _let_lock_go(path: Path, lock: BaseFileLock) -> None:
    with suppress(OSError):
        _holder_of(path).unlink(missing_ok=True)
    lock.release()


# ── waiting and wording ──


async def _wait_through(event: anyio.Event) -> None:
    """Wait for ``event``. A cancellation that arrives meanwhile is raised afterwards."""
    cancelled: BaseException | None = None
    with anyio.CancelScope(shield=True):
        while not event.is_set():
            try:
                await event.wait()
            # asyncio's own Task.cancel() does not know the shield.
            except anyio.get_cancelled_exc_class() as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


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


def _sentence(path: Path, error: sqlite3.Error | OSError) -> str:
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        advice = f"{reason}: check that its folder exists and is writable"
        return f"cannot use the journal {path}: {_OS_ADVICE.get(error.errno or 0, advice)}"
    return f"cannot use the journal {path}: {_ADVICE.get(_code(error), str(error))}"


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; 0 where the error is Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _unreadable(path: Path, last: int, error: sqlite3.Error) -> str:
    if _code(error) in _PASSING:
        return _sentence(path, error)
    return _damaged(path, last, str(error))


def _damaged(path: Path, last: int, what: str) -> str:
    return (
        f"the journal {path} is damaged after record {last}: {what}. What comes before can be read; "
        "keep a copy of the file"
    )
