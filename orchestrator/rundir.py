"""A run on disk: its names, its folders, finding it again, and the two ways of writing into it.

Everything here is plain blocking file work; async code calls it in a thread.

::

    .outrider/runs/<run>/    journal.db   log.jsonl   todos.md   result.md
        agents/<agent>/      history.md   results/    conclusion.md   todos.md
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.ids import named
from orchestrator.messages import Message, encode

RUNS = ".outrider/runs"
MAIN = "main"

# A run id is a folder's name, and people type it: no separators, no leading dot or dash.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OUR_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}(?:[0-9a-f]{3})?")
# Agent ids that serve as folder names as they are. Others get a digest, and those that look as if
# they had one get another, so that two ids never share a folder.
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"-[0-9a-f]{12}")
_LATEST = "latest"
# How many runs a message names.
_SHOWN = 5

_FENCE = b"```"
_CLOSING = b"\n```\n\n"


@dataclass(frozen=True)
class AgentDir:
    """One agent's files. Paths are absolute; the main agent's list and conclusion are the run's."""

    folder: Path
    todos: Path
    conclusion: Path

    @property
    def history(self) -> Path:
        """The archive: raw messages that compactions took out of the history."""
        return self.folder / "history.md"

    @property
    def results(self) -> Path:
        """The folder of offloaded results."""
        return self.folder / "results"


@dataclass(frozen=True)
class RunDir:
    """The files of run ``run_id`` in the workspace ``root``. Paths are absolute; `shown` gives the
    form that people and models see."""

    root: Path
    run_id: str

    @property
    def folder(self) -> Path:
        return self.root.absolute() / RUNS / self.run_id

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def todos(self) -> Path:
        """The main agent's to-do list."""
        return self.folder / "todos.md"

    @property
    def result(self) -> Path:
        """The main agent's conclusion."""
        return self.folder / "result.md"

    def agent(self, agent_id: str) -> AgentDir:
        """The files of one agent; different ids never share a folder."""
        folder = self.folder / "agents" / _folder_name(agent_id)
        if agent_id == MAIN:
            return AgentDir(folder, todos=self.todos, conclusion=self.result)
        return AgentDir(folder, todos=folder / "todos.md", conclusion=folder / "conclusion.md")

    def shown(self, path: Path) -> str:
        """``path`` relative to the workspace, with ``/``: the same in tools, shell and reports."""
        return path.relative_to(self.root.absolute()).as_posix()

    def create(self) -> None:
        """Make the run's folders, and a ``.gitignore`` by which runs ignore themselves.

        Raises `ConfigError` when the run exists already or the folders cannot be made.
        """
        runs = self.folder.parent
        try:
            runs.mkdir(parents=True, exist_ok=True)
            _write_once(runs / ".gitignore", "*\n")
            self.folder.mkdir()
            (self.folder / "agents").mkdir()
        except FileExistsError:
            if not self.folder.exists():
                raise ConfigError(_not_made(runs, "a file is in its place")) from None
            raise ConfigError(
                f"run {self.run_id} exists already: choose another --run-id"
            ) from None
        except OSError as error:
            raise ConfigError(_not_made(self.folder, error.strerror or str(error))) from error

    def discard(self) -> None:
        """Remove the folder of a run that never began."""
        shutil.rmtree(self.folder, ignore_errors=True)


def new_run_id(now: datetime, random: Callable[[int], str] = secrets.token_hex) -> str:
    """An id that sorts by time: ``20261130-142501-800a1b2c3`` (UTC; three digits for the part of the
    second, so that the newest of two runs in one second is known; then three random bytes)."""
    part = now.microsecond * 4096 // 1_000_000
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{part:03x}{random(3)}"


def check_run_id(text: str) -> str:
    """``text`` if it can name a run, else `ConfigError`."""
    if text == _LATEST:
        raise ConfigError(f"a run cannot be called {_LATEST!r}: that means the newest run")
    if not _RUN_ID.fullmatch(text):
        raise ConfigError(
            f"{text!r} cannot name a run: use up to 64 letters, digits, '.', '_' and '-', beginning "
            "with a letter or digit"
        )
    return text


def list_runs(root: Path) -> list[RunDir]:
    """The workspace's recorded runs, newest first."""
    runs = root.absolute() / RUNS
    try:
        names = [entry.name for entry in os.scandir(runs) if entry.is_dir()]
    except OSError:
        return []
    found = [RunDir(root, name) for name in names if _RUN_ID.fullmatch(name)]
    recorded = [run for run in found if run.journal.is_file()]
    return sorted(recorded, key=lambda run: (_started(run), run.run_id), reverse=True)


def none_here(root: Path) -> str:
    """That there are no runs, and where the nearest are: runs belong to the folder that they worked in."""
    where = root.absolute()
    above = next((folder for folder in where.parents if _has_runs(folder)), None)
    advice = (
        "start one, or give --root"
        if above is None
        else f"start one; there are runs in {above}: give --root {os.path.relpath(above)}"
    )
    return f"no run is recorded in {where / RUNS}: {advice}"


def find_run(root: Path, text: str) -> RunDir:
    """The run that ``text`` names: its id, the only one that begins so, or ``latest``.

    Raises `ConfigError` that names the runs there are.
    """
    runs = list_runs(root)
    if not runs:
        raise ConfigError(none_here(root))
    if text == _LATEST:
        return runs[0]
    by_id = {run.run_id: run for run in runs}
    matching = [by_id[run_id] for run_id in named(text, by_id)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ConfigError(f"{text!r} fits {len(matching)} runs: {_names(matching)}")
    raise ConfigError(f"no run {text!r} here; there are: {_names(runs)}")


def _has_runs(folder: Path) -> bool:
    with suppress(OSError):
        return bool(list_runs(folder))
    return False


def write_text_atomic(path: Path, text: str) -> None:
    """Replace the file's content: after a crash it is the old one or the new one.

    Mode bits stay. Characters that UTF-8 cannot hold (lone surrogates) are written as escapes.
    Raises `OSError`; the old content is then still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode(errors="backslashreplace"))
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def append_archive(path: Path, messages: Sequence[Message], heading: str) -> None:
    """Add ``messages`` to the archive ``path`` under ``heading``, whole; durable on return.

    Nothing that was there is touched, so an archive costs what it holds. One message is one line of
    JSON inside a fence: text that contains fences or headings cannot break the layout. Raises
    `OSError`; then nothing may be dropped from the history.
    """
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    title = " ".join(heading.split())
    opening = b"## " + title.encode(errors="backslashreplace") + b"\n\n" + _FENCE + b"jsonl"
    section = b"\n".join([opening, *map(encode, messages)]) + _CLOSING
    with path.open("ab") as file:
        file.write(_repair(path) + section)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _flush_folder(path.parent)


def drop_section(path: Path, heading: str) -> None:
    """Take the section ``heading`` out of the archive ``path`` where it is the last one: a crash came
    between it and the record of its compaction, which is made again. Raises `OSError`."""
    title = b"## " + " ".join(heading.split()).encode(errors="backslashreplace") + b"\n"
    with suppress(FileNotFoundError), path.open("rb+") as file:
        begin, last = 0, -1
        for line in file:  # messages are lines of JSON: none begins like a heading
            if line.startswith(b"## "):
                last = begin if line == title else -1
            begin += len(line)
        if last >= 0:
            file.truncate(last)
            os.fsync(file.fileno())


def read_archive(path: Path) -> Iterator[Message]:
    """The messages of `append_archive`, in order. A line torn by a crash is left out: its message
    had not been dropped."""
    inside = False
    with path.open("rb") as file:
        for line in file:
            if line.startswith(_FENCE):
                inside = not inside
            elif inside:
                with suppress(ValueError):
                    yield json.loads(line)


# ── inside ──


def _folder_name(agent_id: str) -> str:
    if _FOLDER.fullmatch(agent_id) and not _DIGEST.search(agent_id):
        return agent_id
    readable = re.sub(r"[^A-Za-z0-9_]+", "_", agent_id)[:40] or "agent"
    data = agent_id.encode(errors="surrogatepass")
    return f"{readable}-{hashlib.blake2b(data, digest_size=6).hexdigest()}"


def _not_made(folder: Path, reason: str) -> str:
    return (
        f"cannot make the run's folder {folder}: {reason}; choose a writable workspace with --root"
    )


def _names(runs: Sequence[RunDir]) -> str:
    names = ", ".join(run.run_id for run in runs[:_SHOWN])
    return f"{names}, … ({len(runs)} in all)" if len(runs) > _SHOWN else names


def _started(run: RunDir) -> float:
    """When the run began: its id says so, or (ids that people chose) its folder's age."""
    if _OUR_RUN_ID.fullmatch(run.run_id):
        with suppress(ValueError):
            began = datetime.strptime(run.run_id[:15], "%Y%m%d-%H%M%S")
            return began.replace(tzinfo=UTC).timestamp()
    with suppress(OSError):
        return run.folder.stat().st_mtime
    return 0.0


def _write_once(path: Path, text: str) -> None:
    with suppress(FileExistsError), path.open("x") as file:
        file.write(text)


def _repair(path: Path) -> bytes:
    """What closes a section that a crash tore off, so that it does not swallow the next one."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_CLOSING)))
        if size == 0 or file.read() == _CLOSING:
            return b""
        file.seek(0)
        inside, last = False, b""
        for line in file:
            inside ^= line.startswith(_FENCE)
            last = line
    return (b"" if last.endswith(b"\n") else b"\n") + (_FENCE + b"\n\n" if inside else b"")


def _flush_folder(folder: Path) -> None:
    """Make a new name in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
