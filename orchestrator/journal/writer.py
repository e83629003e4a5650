"""The one writer: each append is a transaction of its own, made where it is asked for.

Committing hands the records to the system and takes some 50 µs, less than it would to ask a thread for
it; there they are safe from the end of this process, whatever ends it. Bringing them to the disk, where they
are safe from a loss of power too, takes milliseconds. That is waited for only by those who say so, and
done for all others every second, in a thread.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
from anyio import to_thread

from orchestrator.errors import JournalError
from orchestrator.events import Fact
from orchestrator.journal.database import Opened, flush
from orchestrator.journal.rows import INSERT, encoded, record_of, row_of
from orchestrator.journal.seam import Applied, Entry
from orchestrator.journal.wording import gone, sentence

SYNC_SECONDS = 1.0
"""How much of the newest work a loss of power can take, at most."""


class SqliteJournal:
    """A `Journal` in an open database. Made by `open_journal`."""

    def __init__(self, path: Path, opened: Opened) -> None:
        self._path = path
        self._connection, self._last_seq, self._wal = opened
        self._synced_seq = self._last_seq
        self._file = _identity(path)
        self._failure: str | None = None
        # One flush at a time: whoever waits for the next one shares it.
        self._flushing = anyio.Lock()
        # A thread of its own: tools may hold all threads of the default limiter while they append.
        self._thread = anyio.CapacityLimiter(1)

    async def append(
        self, facts: Sequence[tuple[str, int, Fact]], applied: Applied, *, on_disk: bool = False
    ) -> None:
        if not facts:
            return
        now = time.time()
        # First of all: what cannot be encoded fails by itself.
        entries = [encoded(now, Entry(*each)) for each in facts]
        if self._failure is not None:
            raise JournalError(self._failure)
        first = self._last_seq + 1
        try:
            with self._connection:
                self._connection.executemany(
                    INSERT, [row_of(seq, *each) for seq, each in enumerate(entries, first)]
                )
        except (sqlite3.Error, OSError) as error:
            raise self._failed(sentence(self._path, error)) from None
        if _identity(self._path) != self._file:
            # SQLite goes on writing to a file that nobody will find again.
            raise self._failed(gone(self._path))
        self._last_seq += len(entries)
        applied([record_of(seq, ts, entry) for seq, (ts, entry, _) in enumerate(entries, first)])
        if on_disk:
            await self._sync()
        # An agent that does nothing but append lets others run, and notices its cancellation.
        await anyio.lowlevel.checkpoint()

    async def keep_synced(self) -> None:
        """Bring what was committed to the disk, again and again, until cancelled."""
        while True:
            await anyio.sleep(SYNC_SECONDS)
            with suppress(JournalError):  # the next append says it
                await self._sync()

    def close(self) -> None:
        """Take no more appends."""
        self._failure = self._failure or f"the journal {self._path} is closed"

    async def _sync(self) -> None:
        """Wait until what has been committed is on the disk. Raises `JournalError`."""
        wanted = self._last_seq
        async with self._flushing:
            if self._wal is None or self._synced_seq >= wanted:
                return
            reached = self._last_seq
            try:
                await to_thread.run_sync(flush, self._wal, limiter=self._thread)
            except OSError as error:
                raise self._failed(sentence(self._path, error)) from None
            self._synced_seq = reached

    def _failed(self, why: str) -> JournalError:
        """From now on no append is taken: the order of what is recorded must have no gap."""
        self._failure = self._failure or why
        return JournalError(self._failure)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is; ``None``: there is none, or nobody can say."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
