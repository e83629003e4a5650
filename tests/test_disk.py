"""A disk that is full or read-only: a clear error, what was there stays, and the run goes on later."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Report, Request, resume, run
from orchestrator.errors import ConfigError, JournalError
from orchestrator.events import Record
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results

Mount = Callable[[str], None]
STEPS = 6


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Mount]]:
    """A small file system of its own, and what mounts it anew with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "outrider-test", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")

    mount("size=50m")
    try:
        yield folder, lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Work:
    """Notes outside of the disk, and pages that are offloaded onto it."""

    def __init__(self, effects: Path) -> None:
        self.effects = effects

    def script(self, request: Request) -> Any:
        done = len(results(request)) // 2
        both = [call("note", what=str(done)), call("page", number=done)]
        return both if done < STEPS else "all is done"

    def tools(self) -> list[Callable[..., Any]]:
        def note(what: str) -> str:
            """Note."""
            with self.effects.open("a") as file:
                file.write(f"{what}\n")
            return f"noted {what}"

        def page(number: int) -> str:
            """A page that hardly can be compressed."""
            return random.Random(number).randbytes(15_000).hex()

        return [note, page]

    async def begin(self, root: Path) -> Report:
        model = ScriptedModel(self.script)
        return await run("go", model=model, root=root, run_id="r", tools=self.tools())

    async def go_on(self, root: Path) -> Report:
        model = ScriptedModel(self.script)
        return await resume("r", model=model, root=root, tools=self.tools())


def recorded(root: Path) -> list[Record]:
    journal = RunDir(root, "r").journal
    return list(read_records(journal)) if journal.is_file() else []


@pytest.mark.parametrize("kilobytes", [24, 72, 120, 168, 232, 296])
def test_a_full_disk_ends_the_run_with_one_sentence_and_it_goes_on_when_there_is_room(
    disk: tuple[Path, Mount], tmp_path: Path, kilobytes: int
) -> None:
    """L5. The sizes let the disk be full at different writes: making the run, its journal, its log,
    stored results. A result that cannot be stored stays in the history; a journal that cannot be
    written ends the run."""
    root, mount = disk
    work = Work(tmp_path / "effects.txt")
    mount(f"size={kilobytes}k")
    failed: Exception | None = None
    try:
        report = anyio.run(work.begin, root)
    except (JournalError, ConfigError) as error:
        failed = error
    mount("size=50m")
    if failed is not None:
        assert "\n" not in str(failed)
        assert any(word in str(failed).lower() for word in ("disk", "space", "full")), failed
        before = recorded(root)
        if not before:
            return  # nothing was run
        report = anyio.run(work.go_on, root)
        assert recorded(root)[: len(before)] == before, "what was recorded stays as it was"
    assert report.conclusion == "all is done"
    done = Counter(work.effects.read_text().split())
    assert max(done.values()) == 1, f"done twice: {done}"


def test_a_disk_that_becomes_read_only_is_said_and_the_run_goes_on_afterwards(
    disk: tuple[Path, Mount], tmp_path: Path
) -> None:
    root, mount = disk
    work = Work(tmp_path / "effects.txt")
    plain = work.script

    def then_read_only(request: Request) -> Any:
        if len(results(request)) == 4:
            # What is open for writing keeps a file system from being mounted read-only; full is the
            # nearest that can be had while the run goes on.
            found = os.statvfs(root)
            mount(f"size={(found.f_blocks - found.f_bfree) * found.f_bsize}")
        return plain(request)

    work.script = then_read_only  # type: ignore[method-assign]
    with pytest.raises(JournalError):
        anyio.run(work.begin, root)
    work.script = plain  # type: ignore[method-assign]
    mount("ro")
    with pytest.raises(JournalError, match=r"[Rr]ead-only|written"):
        anyio.run(work.go_on, root)
    mount("rw,size=50m")
    assert anyio.run(work.go_on, root).conclusion == "all is done"


def test_a_run_is_not_begun_where_nothing_can_be_written(
    disk: tuple[Path, Mount], tmp_path: Path
) -> None:
    root, mount = disk
    work = Work(tmp_path / "effects.txt")
    mount("ro")
    with pytest.raises(ConfigError, match="cannot make the run's folder"):
        anyio.run(work.begin, root)
    assert not work.effects.exists()


def test_a_journal_that_another_program_locks_ends_the_run_and_it_goes_on_afterwards(
    tmp_path: Path,
) -> None:
    """L5: one sentence that says so, instead of waiting for ever."""
    work = Work(tmp_path / "effects.txt")
    plain, held = work.script, list[sqlite3.Connection]()

    def then_locked(request: Request) -> Any:
        if len(results(request)) == 4:
            journal = RunDir(tmp_path, "r").journal
            held.append(sqlite3.connect(journal, isolation_level=None, check_same_thread=False))
            held[0].execute("BEGIN IMMEDIATE")
        return plain(request)

    work.script = then_locked  # type: ignore[method-assign]
    with pytest.raises(JournalError, match="another program holds it locked"):
        anyio.run(work.begin, tmp_path)
    held[0].close()
    before = recorded(tmp_path)
    work.script = plain  # type: ignore[method-assign]
    assert anyio.run(work.go_on, tmp_path).conclusion == "all is done"
    assert recorded(tmp_path)[: len(before)] == before
    assert max(Counter(work.effects.read_text().split()).values()) == 1
