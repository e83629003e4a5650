"""The journal: what was acknowledged is there, in order, whatever happens around it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
import sniffio
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import JournalError, RunInUse
from orchestrator.events import Event, MessageAdded, ModelReplied, Record, ToolReturned, ToolStarted
from orchestrator.journal import Entry, Journal, is_running, open_journal, read_records, writer
from orchestrator.ledger import Usage


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ignore(records: Sequence[Record]) -> None:
    """An ``applied`` that does nothing."""


def said(text: str) -> MessageAdded:
    return MessageAdded(text=text, origin="user")


async def record(path: Path, *texts: str) -> None:
    async with open_journal(path) as journal:
        for text in texts:
            await journal.append([Entry("main", 1, said(text))], ignore)


def texts(path: Path, after: int = 0, agent: str | None = None) -> list[str]:
    facts = [each.fact for each in read_records(path, after=after, agent=agent)]
    return [fact.text for fact in facts if isinstance(fact, MessageAdded)]


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.anyio
async def test_what_was_appended_is_read_back(tmp_path: Path, anyio_backend: str) -> None:
    """L1: an event is in the journal, with its agent, turn and time, when append returns."""
    assert sniffio.current_async_library() == anyio_backend
    path = tmp_path / "journal.db"
    applied: list[Record] = []
    facts: list[Event] = [
        ModelReplied(model="m", blocks=[{"type": "text", "text": "é" * 900}], stop_reason=None,
                     usage=Usage(3, 4)),
        ToolStarted(tool="ls", tool_use_id="t1"),
    ]  # fmt: skip
    async with open_journal(path) as journal:
        await journal.append([Entry("main", 2, fact) for fact in facts], applied.extend)
        assert list(read_records(path)) == applied
    assert [each.fact for each in applied] == facts
    assert [(each.seq, each.agent_id, each.turn) for each in applied] == [
        (1, "main", 2),
        (2, "main", 2),
    ]


@pytest.mark.anyio
async def test_a_journal_is_continued(tmp_path: Path) -> None:
    """L4: a second opening goes on with the next number; reading may begin anywhere."""
    path = tmp_path / "journal.db"
    await record(path, "a", "b")
    await record(path, "c")
    assert [each.seq for each in read_records(path)] == [1, 2, 3]
    assert texts(path, after=1) == ["b", "c"]
    assert texts(path, after=3) == []
    assert texts(path, agent="main") == ["a", "b", "c"]
    assert texts(path, agent="other") == []


@pytest.mark.anyio
async def test_five_hundred_agents_append_in_one_order(tmp_path: Path) -> None:
    """L1: rows equal acknowledgements, and `applied` follows the journal's order."""
    path = tmp_path / "journal.db"
    order: list[int] = []
    acknowledged: list[str] = []

    async with open_journal(path) as journal:

        def applied(records: Sequence[Record]) -> None:
            order.extend(each.seq for each in records)

        async def agent(name: str) -> None:
            for turn in range(20):
                await journal.append([Entry(name, turn, said(f"{name} {turn}"))], applied)
                acknowledged.append(f"{name} {turn}")

        async with anyio.create_task_group() as group:
            for number in range(500):
                group.start_soon(agent, f"main.{number}")

    assert order == list(range(1, 10_001))
    assert sorted(texts(path)) == sorted(acknowledged)
    assert texts(path, agent="main.7") == [f"main.7 {turn}" for turn in range(20)]


class Flushes:
    """Counts what is brought to the disk, and what stood in the file at that time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.seen: list[int] = []
        real = os.fdatasync

        def counted(descriptor: int) -> None:
            assert os.readlink(f"/proc/self/fd/{descriptor}") == f"{path}-wal"
            self.seen.append(len(texts(path)))
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", counted)

    async def wait_for(self, seen: list[int]) -> None:
        with anyio.fail_after(20):
            while self.seen != seen:  # noqa: ASYNC110  # they come in a thread
                await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_those_that_wait_for_the_disk_share_its_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: what precedes an effect is on the disk first; 500 effects at once cost two flushes."""
    path = tmp_path / "journal.db"
    flushes = Flushes(monkeypatch, path)
    async with open_journal(path) as journal:

        async def act(number: int) -> None:
            begun = ToolStarted(tool="write", tool_use_id=f"t{number}")
            await journal.append([Entry("main", 1, begun)], ignore)
            await journal.append([Entry("main", 1, said("go"))], ignore, on_disk=True)
            assert flushes.seen

        async with anyio.create_task_group() as group:
            for number in range(500):
                group.start_soon(act, number)
        assert len(flushes.seen) <= 3
        assert flushes.seen[-1] == 500
        await journal.append([Entry("main", 1, said("rests"))], ignore)
        assert flushes.seen[-1] == 500


@pytest.mark.anyio
async def test_what_nobody_waits_for_is_on_the_disk_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: a loss of power takes the last second of work at most, and an idle run flushes nothing."""
    monkeypatch.setattr(writer, "SYNC_SECONDS", 0.01)
    path = tmp_path / "journal.db"
    flushes = Flushes(monkeypatch, path)
    async with open_journal(path) as journal:
        await journal.append([Entry("main", 1, said("a")), Entry("main", 1, said("b"))], ignore)
        await flushes.wait_for([2])
        await anyio.sleep(0.1)
        assert flushes.seen == [2]
    assert flushes.seen == [2, 2]  # and once more at the end, whatever there is


@pytest.mark.anyio
async def test_a_disk_that_fails_ends_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: where a flush fails, nothing begins that relies on it, and no later append is taken."""
    path = tmp_path / "journal.db"

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with open_journal(path) as journal:
        monkeypatch.setattr(os, "fdatasync", broken)
        with pytest.raises(JournalError, match="Input/output error"):
            await journal.append([Entry("main", 1, said("x"))], ignore, on_disk=True)
        with pytest.raises(JournalError, match="Input/output error"):
            await journal.append([Entry("main", 1, said("y"))], ignore)
    assert texts(path) == ["x"]


@pytest.mark.anyio
async def test_where_there_can_be_no_wal_file_each_commit_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: on a file system without shared memory, SQLite's older and slower way holds as much."""
    path = tmp_path / "journal.db"
    plain = sqlite3.connect

    def connect(name: object, **options: object) -> sqlite3.Connection:
        # This one locks by a file beside the database and has no shared memory.
        uri = name if isinstance(name, str) else f"{path.as_uri()}?vfs=unix-dotfile"
        return plain(uri, **{**options, "uri": True})  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect)
    async with open_journal(path) as journal:
        await journal.append([Entry("main", 1, said("x"))], ignore, on_disk=True)
        assert "journal.db-wal" not in os.listdir(tmp_path)
    monkeypatch.undo()
    assert texts(path) == ["x"]


@pytest.mark.anyio
async def test_a_cancelled_append_is_durable_first(tmp_path: Path) -> None:
    """L4: cancelling agents in the middle leaves rows equal to what was applied, and stops them."""
    path = tmp_path / "journal.db"
    applied: list[Record] = []
    finished: list[int] = []

    async with open_journal(path) as journal:
        with anyio.CancelScope() as scope:

            def cancel_midway(records: Sequence[Record]) -> None:
                applied.extend(records)
                if len(applied) > 300:
                    scope.cancel()

            async def agent(number: int) -> None:
                for turn in range(20):
                    await journal.append([Entry(f"a{number}", turn, said("x"))], cancel_midway)
                finished.append(number)

            async with anyio.create_task_group() as group:
                for number in range(100):
                    group.start_soon(agent, number)
        assert scope.cancelled_caught
    assert 300 < len(applied) < 2_000
    assert finished == []
    assert list(read_records(path)) == applied


@pytest.mark.anyio
async def test_cancelling_the_whole_run_records_what_was_appended(tmp_path: Path) -> None:
    """L4: a cancelled task records its last words all the same."""
    path = tmp_path / "journal.db"
    with anyio.CancelScope() as scope:
        async with open_journal(path) as journal:
            scope.cancel()
            await journal.append([Entry("main", 1, said("last words"))], ignore)
            pytest.fail("the cancellation was swallowed")
    assert scope.cancelled_caught
    assert texts(path) == ["last words"]


async def _append_in_a_cancelled_task(path: Path) -> None:
    async with open_journal(path) as journal:
        waits = journal.append([Entry("main", 1, said("x"))], ignore, on_disk=True)
        task = asyncio.create_task(waits)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts(path) == ["x"]


def test_asyncios_own_cancel_waits_as_well(tmp_path: Path) -> None:
    """L4: a task cancelled by asyncio itself (a timeout around `run`) leaves its records whole."""
    asyncio.run(_append_in_a_cancelled_task(tmp_path / "journal.db"))


@pytest.mark.anyio
async def test_an_error_in_applied_is_its_callers(tmp_path: Path) -> None:
    """What `applied` raises reaches the one who appended; the record stays, the others go on."""
    path = tmp_path / "journal.db"

    def fail(records: Sequence[Record]) -> None:
        raise ZeroDivisionError

    async with open_journal(path) as journal:
        with pytest.raises(ZeroDivisionError):
            await journal.append([Entry("main", 1, said("a"))], fail)
        await journal.append([Entry("main", 1, said("b"))], ignore)
    assert texts(path) == ["a", "b"]


@pytest.mark.anyio
async def test_an_error_in_the_body_comes_out_as_it_is(tmp_path: Path) -> None:
    """H3: the writer's task group wraps nothing that the run raises."""
    with pytest.raises(LookupError):
        async with open_journal(tmp_path / "journal.db"):
            raise LookupError


@pytest.mark.anyio
async def test_nothing_and_the_unspeakable(tmp_path: Path) -> None:
    """An empty append records nothing; one that cannot be encoded fails alone."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.append([], ignore)
        with pytest.raises(UnicodeEncodeError):
            await journal.append([Entry("\ud800", 1, said("a"))], ignore)
        await journal.append([Entry("main", 1, said("b"))], ignore)
    assert texts(path) == ["b"]


@pytest.mark.anyio
async def test_a_closed_journal_refuses(tmp_path: Path) -> None:
    """L5: an append after the end says so at once."""
    async with open_journal(tmp_path / "journal.db") as journal:
        kept = journal
    with pytest.raises(JournalError, match=r"journal\.db is closed"):
        await kept.append([Entry("main", 1, said("late"))], ignore)


# ── other processes ──

WRITER = """
import os, sys, anyio
from pathlib import Path
from orchestrator.events import MessageAdded
from orchestrator.journal import open_journal

async def main(path):
    async with open_journal(path) as journal, anyio.create_task_group() as group:
        async def agent(name):
            for turn in range(1_000_000):
                text = f"{name} {turn}"
                fact = MessageAdded(text=text, origin="user")
                await journal.append([(name, turn, fact)], lambda records: None)
                os.write(1, (text + "\\n").encode())
        for number in range(20):
            group.start_soon(agent, f"a{number}")

anyio.run(main, Path(sys.argv[1]), backend=sys.argv[2])
"""

HOLDER = """
import sys, anyio
from pathlib import Path
from orchestrator.journal import open_journal

async def main(path):
    async with open_journal(path):
        print("open", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)

anyio.run(main, Path(sys.argv[1]))
"""

# A file may not grow beyond 64 KiB here, which SQLite meets as a failing disk.
FULL = """
import resource, sys, anyio
from pathlib import Path
from orchestrator.errors import JournalError
from orchestrator.events import MessageAdded
from orchestrator.journal import open_journal

async def main(path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    async with open_journal(path) as journal:
        async def agent(name):
            for turn in range(1_000):
                fact = MessageAdded(text=f"{name} {turn} " + "é" * 100, origin="user")
                try:
                    await journal.append([(name, turn, fact)], lambda records: None)
                except JournalError as error:
                    print("error", error, flush=True)
                    return
                print("ok", name, turn, flush=True)
        for _ in range(2):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(agent, f"a{number}")

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("acknowledged", [1, 100, 1_000])
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, backend: str, acknowledged: int) -> None:
    """L4: after SIGKILL every acknowledged record is there, and the journal goes on."""
    path = tmp_path / "journal.db"
    with start(WRITER, str(path), backend) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(acknowledged)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    seen = {line.strip() for line in lines if line.endswith("\n")}
    assert not is_running(path)
    assert seen <= set(texts(path))
    anyio.run(record, path, "afterwards", backend=backend)
    found = list(read_records(path))
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    assert texts(path)[-1] == "afterwards"


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path: Path) -> None:
    """L5: two processes on one run: the second gets one sentence with the holder's id."""
    path = tmp_path / "journal.db"
    assert not is_running(path)
    with start(HOLDER, str(path)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        assert is_running(path)
        with pytest.raises(RunInUse, match=f"in use by process {holder.pid}: wait"):
            anyio.run(record, path, "x")
        assert texts(path) == []
        holder.communicate("\n")
    assert not is_running(path)
    anyio.run(record, path, "x")
    assert texts(path) == ["x"]


@pytest.mark.anyio
async def test_a_second_opening_in_this_process_is_refused(tmp_path: Path) -> None:
    """L5: also inside one process, and reading it meanwhile does not drop the lock."""
    path = tmp_path / "journal.db"
    async with open_journal(path):
        assert texts(path) == []
        with pytest.raises(RunInUse, match=rf"this process \({os.getpid()}\)"):
            await record(path, "x")
        assert is_running(path)


def test_a_full_disk_stops_every_append_and_loses_nothing(tmp_path: Path) -> None:
    """L5: the disk refuses: each waiting and later append says so, what was acknowledged is there."""
    path = tmp_path / "journal.db"
    with start(FULL, str(path)) as writer:
        output, _ = writer.communicate(timeout=60)
    lines = output.splitlines()
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 6  # three that waited, three that came later
    assert all("disk" in line and "resume the run" in line for line in errors)
    acknowledged = {line.removeprefix("ok ") for line in lines if line.startswith("ok")}
    assert acknowledged
    assert acknowledged <= {text.rpartition(" ")[0] for text in texts(path)}
    anyio.run(record, path, "with room again")
    assert texts(path)[-1] == "with room again"


@pytest.mark.anyio
async def test_a_database_locked_by_another_program(tmp_path: Path) -> None:
    """L5: an outsider's write lock ends in a clear error, not in waiting for ever."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        outsider = sqlite3.connect(path, isolation_level=None)
        outsider.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="another program holds it locked"):
            await journal.append([Entry("main", 1, said("x"))], ignore)
        outsider.close()


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_a_journal_that_is_taken_away_from_under_a_run_stops_it(
    tmp_path: Path, how: str
) -> None:
    """L5: SQLite would go on writing to a file that nobody finds again; nothing more is acknowledged."""
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "journal.db"
    applied: list[Sequence[Record]] = []
    async with open_journal(path) as journal:
        await journal.append([Entry("main", 1, said("before"))], applied.append)
        if how == "moved":
            folder.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        if how == "replaced":
            path.write_bytes(b"")
        for _ in range(2):
            with pytest.raises(JournalError, match="is gone: it was deleted, moved or replaced"):
                await journal.append([Entry("main", 1, said("after"))], applied.append)
    assert len(applied) == 1
    if how == "moved":
        assert texts(tmp_path / "elsewhere/journal.db")[0] == "before"


@pytest.mark.anyio
async def test_two_writers_on_one_journal_cannot_mix_their_records(tmp_path: Path) -> None:
    """L5: whoever deletes the lock file lets a second process in; the first one ends at its next record."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as first:
        await first.append([Entry("main", 1, said("one"))], ignore)
        (tmp_path / "journal.lock").unlink()
        await record(path, "two", "three")
        with pytest.raises(JournalError, match="another process has gone on with this run"):
            await first.append([Entry("main", 1, said("four"))], ignore)
    assert texts(path) == ["one", "two", "three"]


# ── damage ──


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("folder is a file", "check that its folder exists"),
        ("journal is a folder", "it cannot be opened"),
        ("journal is something else", "it is no journal"),
    ],
)
def test_a_journal_that_cannot_be_opened(tmp_path: Path, place: str, sentence: str) -> None:
    """L5: one clear sentence that names the path and what to do."""
    path = tmp_path / "run" / "journal.db"
    if place == "folder is a file":
        path.parent.write_text("")
    elif place == "journal is a folder":
        path.mkdir(parents=True)
    elif place == "journal is something else":
        path.parent.mkdir()
        path.write_text("not a database " * 1_000)
    with pytest.raises(JournalError, match=sentence) as caught:
        anyio.run(record, path, "x")
    assert str(path) in str(caught.value)


def test_reading_what_is_no_journal(tmp_path: Path) -> None:
    """L5: a missing file, another program's file and one that is just being made."""
    with pytest.raises(JournalError, match="there is no journal at"):
        texts(tmp_path / "missing.db")
    (tmp_path / "text.db").write_text("not a database " * 1_000)
    with pytest.raises(JournalError, match="it is no journal"):
        texts(tmp_path / "text.db")
    (tmp_path / "new.db").touch()
    assert texts(tmp_path / "new.db") == []


def test_a_torn_file_gives_what_comes_before(tmp_path: Path) -> None:
    """L5: a file cut in the middle is detected, and the records before the cut can be read."""
    path = tmp_path / "journal.db"
    anyio.run(record, path, *(f"{number} " + os.urandom(400).hex() for number in range(200)))
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
    found: list[Record] = []
    with pytest.raises(JournalError, match=r"is damaged after record \d+"):
        found.extend(read_records(path))
    assert len(found) > 50
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    with pytest.raises(JournalError, match="it is damaged: keep a copy"):
        anyio.run(record, path, "x")


def test_a_change_that_a_kill_left_half_made_is_taken_back(tmp_path: Path) -> None:
    """L4: killed while SQLite rewrote the file in its older way, as at opening: it can be read."""
    path, left = tmp_path / "journal.db", tmp_path / "left"
    anyio.run(record, path, "first", "second")
    writing = sqlite3.connect(path, isolation_level=None)
    writing.execute("PRAGMA cache_size = 1")  # so that what is not committed stands in the file
    writing.execute("BEGIN IMMEDIATE")
    writing.execute("UPDATE records SET body = zeroblob(90000), turn = 9")
    left.mkdir()
    for name in ("journal.db", "journal.db-journal"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    writing.close()
    assert (left / "journal.db").read_bytes() != path.read_bytes()
    assert texts(left / "journal.db") == ["first", "second"]
    anyio.run(record, left / "journal.db", "third")
    assert texts(left / "journal.db") == ["first", "second", "third"]


def test_a_changed_row_is_detected(tmp_path: Path) -> None:
    """L5: one byte changed on disk inside a record is found by its digest."""
    path = tmp_path / "journal.db"
    anyio.run(record, path, "first", "second", "third")
    data = path.read_bytes()
    assert data.count(b"second") == 1
    path.write_bytes(data.replace(b"second", b"sekond"))
    found: list[Record] = []
    with pytest.raises(JournalError, match="damaged after record 1: record 2 is not as it was"):
        found.extend(read_records(path))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("DELETE FROM records WHERE seq = 2", "after record 1: record 2 is missing"),
        ("UPDATE records SET turn = 9 WHERE seq = 2", "record 2 is not as it was written"),
        ("UPDATE records SET agent_id = 'a' WHERE seq = 2", "record 2 is not as it was written"),
        ("UPDATE records SET body = 'text' WHERE seq = 2", "record 2 is not as it was written"),
        ("PRAGMA user_version = 99", "has format 99, and this version of Outrider knows 1"),
    ],
)
def test_a_tampered_table_is_detected(tmp_path: Path, change: str, sentence: str) -> None:
    """L5: rows that are missing, moved or rewritten, and a format from the future."""
    path = tmp_path / "journal.db"
    anyio.run(record, path, "first", "second", "third")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(change)
    connection.close()
    with pytest.raises(JournalError, match=sentence):
        texts(path)


# ── growth and readers ──


@pytest.mark.anyio
async def test_a_slow_reader_does_not_keep_the_wal_file(tmp_path: Path) -> None:
    """L6: a reader that stands still between records holds no transaction open."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.append([Entry("main", 1, said("x" * 9_000)) for _ in range(900)], ignore)
        reader = read_records(path)
        assert next(reader).seq == 1
        await journal.append([Entry("main", 1, said("late"))], ignore)
    assert not os.path.exists(f"{path}-wal") or os.path.getsize(f"{path}-wal") == 0  # noqa: ASYNC240
    assert [each.seq for each in reader] == list(range(2, 902))


def test_a_closed_journal_is_one_file(tmp_path: Path) -> None:
    """L6: after the end a run's journal is a single file, and reading it leaves nothing beside it."""
    path = tmp_path / "journal.db"
    anyio.run(record, path, "a")
    assert texts(path) == ["a"]
    assert {file.name for file in tmp_path.iterdir()} == {"journal.db", "journal.lock"}


async def _grow(path: Path, steps: int) -> None:
    async with open_journal(path) as journal:
        for step in range(steps):
            fact = ToolReturned(tool="t", tool_use_id=f"t{step}", index=0, result="word " * 400)
            await journal.append([Entry("main", step, fact)], ignore)


def test_the_file_grows_with_the_work(tmp_path: Path) -> None:
    """L6: ten times the steps, at most ten times the bytes, and never more than the text."""
    small, large = tmp_path / "small.db", tmp_path / "large.db"
    anyio.run(_grow, small, 80)
    anyio.run(_grow, large, 800)
    assert large.stat().st_size < 10 * small.stat().st_size
    assert large.stat().st_size < 800 * len("word " * 400)


ANY_TEXT = st.text(st.characters(exclude_categories=()))
BLOCKS = st.lists(
    st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers() | st.booleans() | st.none(), max_size=4),
    max_size=3,
)
FACTS = st.one_of(
    ANY_TEXT.map(said),
    st.builds(
        ModelReplied,
        model=ANY_TEXT,
        blocks=BLOCKS,
        stop_reason=st.none() | ANY_TEXT,
        usage=st.builds(Usage, st.integers(0, 10**9), st.integers(0, 10**9)),
    ),
    st.builds(
        ToolReturned,
        tool=ANY_TEXT,
        tool_use_id=ANY_TEXT,
        index=st.integers(0, 99),
        result=ANY_TEXT.map(lambda text: text * 50) | BLOCKS,
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), FACTS), max_size=3), max_size=6))
def test_any_record_comes_back_equal_and_in_order(appends: list[list[tuple[str, Event]]]) -> None:
    """L6: a replay equals what was applied live, whatever the text, lone surrogates included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.db")
        applied: list[Record] = []

        async def append_all() -> None:
            async with open_journal(path) as journal:
                for turn, facts in enumerate(appends):
                    entries = [Entry(agent, turn, fact) for agent, fact in facts]
                    await journal.append(entries, applied.extend)

        anyio.run(append_all)
        assert list(read_records(path)) == applied
        assert [each.fact for each in applied] == [fact for facts in appends for _, fact in facts]
        for agent in "abc":
            expected = [each for each in applied if each.agent_id == agent]
            assert list(read_records(path, agent=agent)) == expected


def test_a_journal_is_a_protocol() -> None:
    """Another journal is another object with `append`; nothing has to be inherited."""

    class Forgetful:
        async def append(
            self, facts: object, applied: object, *, on_disk: bool = False
        ) -> None: ...

    journal: Journal = Forgetful()
    assert journal.append is not None
