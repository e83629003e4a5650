"""Opening a journal to append: its lock, its file and its writer, for as long as the run goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.journal.database import close, open_to_write
from orchestrator.journal.lock import let_lock_go, take_lock
from orchestrator.journal.seam import Journal
from orchestrator.journal.writer import SqliteJournal


@asynccontextmanager
async def open_journal(path: Path) -> AsyncIterator[Journal]:
    """Create the journal ``path``, or continue it, and hold the run's lock meanwhile.

    Raises `RunInUse` when another process (or another part of this one)
    holds the run, and `JournalError` when the file cannot be opened or is none of ours.
    """
    thread = anyio.CapacityLimiter(1)
    failure: BaseException | None = None
    lock = await to_thread.run_sync(take_lock, path, limiter=thread)
    try:
        opened = await to_thread.run_sync(open_to_write, path, limiter=thread)
        try:
            journal = SqliteJournal(path, opened)
            async with anyio.create_task_group() as group:
                group.start_soon(journal.keep_synced)
                try:
                    yield journal
                # Carried past the task group, which would wrap it in an exception group.
                except BaseException as error:  # noqa: BLE001  # raised below
                    failure = error
                finally:
                    journal.close()
                    group.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(close, opened, limiter=thread)
    finally:
        let_lock_go(path, lock)
