"""Reading along with a journal: in batches, without holding it, told when something is new."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator import events as ev
from orchestrator.journal import open_journal
from orchestrator.ledger import Usage
from orchestrator.rundir import RunDir
from orchestrator.viewer import Story
from orchestrator.viewer.watch import Watch
from tests.viewing import crowd, ended, started

pytestmark = pytest.mark.anyio

FIRST = ("main", 0, ev.RunStarted(task="x", task_chars=1, model="m", version="0", root="/"))
END = ("main", 1, ev.RunEnded(status="finished", usage=Usage()))


def place_in(root: Path) -> RunDir:
    place = RunDir(root, "first")
    place.create()
    return place


def watch_of(place: RunDir) -> Watch:
    return Watch(place.journal, Story(place.run_id))


def nobody_reads(path: Path) -> bool:
    """Whether the whole write-ahead log could be taken in: a reader in a transaction prevents it."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        busy, left, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return (busy, left) == (0, 0)


async def test_a_growing_journal_is_read_in_batches_until_its_end(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    facts = list(crowd(5, 1_300))
    async with open_journal(place.journal) as journal:
        await journal.append(facts[:900], lambda records: None)
        watch = watch_of(place)
        assert await watch.look()
        assert 0 < watch.story.seq < 900
        while await watch.look():
            pass
        assert watch.story.seq == 900
        await journal.append(facts[900:], lambda records: None)
        while await watch.look():
            pass
    assert watch.story.seq == len(facts)
    assert watch.story.tally.run.status == "finished"


async def test_between_two_looks_the_journal_is_not_held(tmp_path: Path) -> None:
    """An open reader would let the file grow without bound, and stand in the way of its end."""
    place = place_in(tmp_path)
    async with open_journal(place.journal) as journal:
        await journal.append([FIRST, ("main", 0, started("main"))], lambda records: None)
        watch = watch_of(place)
        await watch.look()
        assert watch.story.seq == 2
        assert nobody_reads(place.journal)
        # The measure itself: a reader that stays shows.
        with closing(sqlite3.connect(place.journal, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM records").fetchone()
            await journal.append([("main", 1, ended())], lambda records: None)
            assert not nobody_reads(place.journal)
    assert not place.journal.with_name("journal.db-wal").exists()


async def test_whoever_waits_is_woken_by_what_is_new(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    seen: list[int] = []
    async with open_journal(place.journal) as journal:
        await journal.append([FIRST], lambda records: None)
        watch = watch_of(place)
        while await watch.look():
            pass

        async def wait() -> None:
            await watch.grown()
            seen.append(watch.story.seq)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await watch.look()
            assert seen == []
            await journal.append([("main", 0, started("main"))], lambda records: None)
            await watch.look()
    assert seen == [2]


async def test_a_run_that_nobody_holds_any_more_has_crashed(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    async with open_journal(place.journal) as journal:
        await journal.append([FIRST, ("main", 0, started("main"))], lambda records: None)
        watch = watch_of(place)
        while await watch.look():
            pass
        assert watch.story.whole()["run"]["status"] == "running"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(watch.follow)
            while watch.story.alive:
                await watch.grown()
            group.cancel_scope.cancel()
    assert watch.story.whole()["run"]["status"] == "crashed"


async def test_a_journal_that_vanishes_is_told_and_what_was_read_stays(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    async with open_journal(place.journal) as journal:
        facts = [FIRST, ("main", 0, started("main")), ("main", 1, ended()), END]
        await journal.append(facts, lambda records: None)
    watch = watch_of(place)
    await watch.look()
    place.journal.unlink()
    await watch.look()
    assert "there is no journal at" in watch.story.problem
    assert watch.story.whole()["run"]["status"] == "finished"
