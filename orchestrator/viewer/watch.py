"""Reading along with a run: its journal, looked at again and again, folded into a `Story`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from orchestrator.errors import JournalError
from orchestrator.events import Record
from orchestrator.journal import is_running, read_records
from orchestrator.viewer.story import Story

# Seconds between two looks at a journal, and between two at whether somebody still writes it.
LOOK_SECONDS = 0.25
_ALIVE_SECONDS = 2.0
# Records that are read and folded at once: the server answers between two batches.
_BATCH = 500


class Watch:
    """Keeps ``story`` up to date while `follow` runs. Nothing is written, and no transaction of the
    journal is held between two looks, so the run is not disturbed."""

    def __init__(self, journal: Path, story: Story) -> None:
        self.story = story
        # Counts how often the story has said something new.
        self.version: int = 0
        self._journal = journal
        self._grown = anyio.Event()
        self._quiet = _ALIVE_SECONDS

    async def follow(self) -> None:
        """Look until cancelled."""
        while True:
            if not await self.look():
                await anyio.sleep(LOOK_SECONDS)
                self._quiet += LOOK_SECONDS

    async def look(self) -> bool:
        """Take in a batch of what is new; returns whether there was anything."""
        records, problem = await run_sync(_read, self._journal, self.story.seq)
        if records:
            self.story.take_all(records)
            self._quiet = 0.0
        told = problem != self.story.problem
        self.story.problem = problem
        if records or told or await self._ask_alive():
            self.version += 1
            self._grown.set()
            self._grown = anyio.Event()
        return bool(records)

    async def grown(self) -> None:
        """Wait until the story says something else than now."""
        await self._grown.wait()

    async def _ask_alive(self) -> bool:
        """Whether somebody holds the run, asked rarely: asking takes the lock for an instant.
        Returns whether that has changed."""
        story = self.story
        known = story.alive is not None and self._quiet < _ALIVE_SECONDS
        if known or story.tally.run.status is not None:
            return False
        self._quiet = 0.0
        alive = await run_sync(is_running, self._journal)
        changed = alive != story.alive
        story.alive = alive
        return changed


def _read(journal: Path, after: int) -> tuple[list[Record], str]:
    """The next records; and why there are no more, where that is not their end."""
    records: list[Record] = []
    try:
        for record in islice(read_records(journal, after=after), _BATCH):
            records.append(record)  # noqa: PERF402  # what came before an error counts
    except JournalError as error:
        return records, "" if records else str(error)
    return records, ""
