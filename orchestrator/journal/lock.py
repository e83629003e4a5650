"""The run's lock, and who holds it.

A file of its own carries the run's lock: opening and closing the database file somewhere else in the
process would drop a lock that is held on the database file itself.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import JournalError, RunInUse
from orchestrator.journal.wording import sentence

if TYPE_CHECKING:
    from filelock import BaseFileLock

# How long to wait for a lock that another program holds, for an instant, on the run (a reader that
# asks whether the run is alive takes the run's lock and lets it go).
_LOCK_SECONDS = 0.5


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


def take_lock(path: Path) -> BaseFileLock:
    """Hold the run whose journal is ``path``. Raises `RunInUse` and `JournalError`."""
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
        raise JournalError(sentence(path, error)) from error
    return lock


def let_lock_go(path: Path, lock: BaseFileLock) -> None:
    """Leave the run to others."""
    with suppress(OSError):
        _holder_of(path).unlink(missing_ok=True)
    lock.release()


def _lock_file(path: Path) -> Path:
    return path.with_suffix(".lock")


def _lock_of(path: Path) -> BaseFileLock:
    from filelock import FileLock  # late: a heavy import

    # The lock is taken in one thread and let go in another.
    return FileLock(_lock_file(path), thread_local=False)


def _holder_of(path: Path) -> Path:
    # Not in the lock file: some versions of filelock empty that when they try it.
    return path.with_suffix(".pid")


def _holder(path: Path) -> str:
    try:
        pid = int(_holder_of(path).read_text())
    except (OSError, ValueError):
        return "another process"
    return f"this process ({pid})" if pid == os.getpid() else f"process {pid}"
