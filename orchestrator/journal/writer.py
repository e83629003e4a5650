"""The one writer: it takes all appends that wait and commits them together."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio.lowlevel
from anyio import to_thread

from orchestrator.errors import JournalError
from orchestrator.events import Fact, Record
from orchestrator.journal.rows import INSERT, Row, Waiting, record_of, row_of, waiting
from orchestrator.journal.seam import Applied, Entry
from orchestrator.journal.wording import gone, sentence


class Gone(Exception):
    """The journal's file is not the one any more that was opened."""


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is; ``None``: there is none, or nobody can say."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@dataclass
class _Batch:
    """One append that waits for the writer."""

    entries: list[Waiting]
    applied: Applied
    done: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None

    def settle(self, records: Sequence[Record]) -> None:
        try:
            self.applied(records)
        except Exception as error:  # noqa: BLE001  # the caller's own; it is raised in `append`
            self.error = error


class SqliteJournal:
    """A `Journal` in an open database. Made by `open_journal`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, last_seq: int) -> None:
        self._path = path
        self._connection = connection
        self._last_seq = last_seq
        self._file = _identity(path)
        self._failure: str | None = None
        self._send, self._receive = anyio.create_memory_object_stream[_Batch](math.inf)
        # A thread of its own: tools may hold all threads of the default limiter while they append.
        self._thread = anyio.CapacityLimiter(1)

    async def append(self, facts: Sequence[tuple[str, int, Fact]], applied: Applied) -> None:
        if not facts:
            return
        now = time.time()
        batch = _Batch([waiting(now, Entry(*each)) for each in facts], applied)
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
        except Gone:
            self._failure = gone(self._path)
        except (sqlite3.Error, OSError) as error:
            self._failure = sentence(self._path, error)
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
                rows.append(row_of(seq, ts, entry, data))
                recorded[-1].append(record_of(seq, ts, entry))
        with self._connection:
            self._connection.executemany(INSERT, rows)
        # SQLite goes on writing to a file that nobody will find again.
        if _identity(self._path) != self._file:
            raise Gone
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
