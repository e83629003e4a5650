"""Deleting recorded runs: which, and each so that no half of it is ever found. Blocking file work."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from orchestrator.errors import ConfigError, JournalError, RunInUse
from orchestrator.events import RunForked
from orchestrator.journal import is_running, let_lock_go, read_records, take_lock
from orchestrator.rundir import RUNS, RunDir, list_runs

_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_AGE = re.compile(r"(\d{1,6})([mhdw])")
_LEFTOVER = ".pruned-"
# How far into its journal a run says that it was forked.
_FIRST_RECORDS = 4


@dataclass(frozen=True, slots=True)
class Doomed:
    """A run that is old enough to be deleted. ``size``: bytes on disk; ``age``: seconds since it was
    last written to; ``why_kept``: why it is not deleted all the same."""

    run: RunDir
    size: int
    age: float
    why_kept: str | None = None


def age_of(text: str) -> float:
    """Seconds of ``30d``, ``12h``, ``2w`` or ``90m``. Raises `ConfigError`."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"--older-than {text}: write a number and m, h, d or w, such as 30d")
    return int(found[1]) * _UNITS[found[2]]


def size_of(folder: Path) -> int:
    """Bytes on disk of everything in ``folder``; links count as links and are not followed."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += size_of(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def doomed(root: Path, older_than: float | None, keep: int, *, now: float) -> list[Doomed]:
    """The runs of the workspace that fit: not among the ``keep`` newest, and not written to for
    ``older_than`` seconds; newest first."""
    runs = list_runs(root)
    old = [
        (run, age)
        for run in runs[keep:]
        if (age := now - _last_written(run)) >= (older_than or 0.0) or older_than is None
    ]
    needed = _forked_from(runs, {run.run_id for run, _ in old})
    return [
        Doomed(run, size_of(run.folder), age, _why_kept(run, needed.get(run.run_id)))
        for run, age in old
    ]


def delete(run: RunDir) -> None:
    """Delete a run that is not going on. Raises `RunInUse`, `JournalError` and ``OSError``."""
    if run.folder.is_symlink():
        raise RunInUse(f"{run.run_id} is a link to another place")
    lock = take_lock(run.journal)
    gone = run.folder.with_name(f"{_LEFTOVER}{run.run_id}-{secrets.token_hex(4)}")
    try:
        run.folder.rename(gone)  # from here on no list names it, however far the rest comes
    finally:
        let_lock_go(run.journal, lock)
    shutil.rmtree(gone)  # which unlinks links and follows none


def delete_leftovers(root: Path) -> None:
    """What an earlier deletion that was cut short has left."""
    for folder in (root.absolute() / RUNS).glob(f"{_LEFTOVER}*"):
        with suppress(OSError):
            shutil.rmtree(folder)


def _why_kept(run: RunDir, fork: str | None) -> str | None:
    if run.folder.is_symlink():
        return "a link to another place"
    if is_running(run.journal):
        return "running"
    return None if fork is None else f"its fork {fork} reads its files"


def _last_written(run: RunDir) -> float:
    written = [0.0]
    for path in (run.journal, run.journal.with_name(f"{run.journal.name}-wal")):
        with suppress(OSError):
            written.append(path.stat().st_mtime)
    return max(written)


def _forked_from(runs: Sequence[RunDir], going: set[str]) -> dict[str, str]:
    """Runs whose files a fork that stays may read, with that fork."""
    needed = dict[str, str]()
    for run in runs:
        if run.run_id in going:
            continue
        with suppress(JournalError):
            for record in islice(read_records(run.journal), _FIRST_RECORDS):
                if isinstance(record.fact, RunForked):
                    needed[record.fact.from_run] = run.run_id
    return needed


def ages(seconds: float) -> str:
    """An age in words: ``3 days``."""
    days, hours = int(seconds // 86_400), int(seconds // 3_600)
    if days:
        return f"{days} day" + ("" if days == 1 else "s")
    return f"{hours} hour" + ("" if hours == 1 else "s")
