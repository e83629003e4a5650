"""A memory file: what agents and people keep for later sessions, one entry a line.

Everything here blocks. Many tasks and processes may write at once: each change is read, made and
written under one lock for all memory files of the workspace, and the file is replaced as a whole.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial

from workspace import entries
from workspace.atomic import read_bytes, write_bytes
from workspace.entries import MemoryEntry
from workspace.errors import NotFound, Unavailable, WorkspaceError, from_os
from workspace.paths import Root
from workspace.text import SNAPSHOT_CHARS, bounded
from workspace.versions import versions_of

MEMORY_FILE = ".outrider/MEMORY.md"
_AGENTS_FOLDER = ".outrider/memory"
# Beside the runs, which git ignores: a lock is nobody's file.
_LOCK_FILE = ".outrider/runs/memory.lock"
_IGNORE_FILE = ".outrider/runs/.gitignore"
_LOCK_SECONDS = 10.0
_POLL_SECONDS = 0.01

Change = Callable[[bytes], tuple[bytes, MemoryEntry]]


class Memory:
    """The memory of the workspace `root`, or of one type of agent in it."""

    def __init__(self, root: str | os.PathLike[str], agent: str | None = None) -> None:
        self._root = Root(root)
        self.path: str = MEMORY_FILE if agent is None else f"{_AGENTS_FOLDER}/{_file_name(agent)}"
        self._parts = self._root.parse(self.path)

    def entries(self) -> tuple[MemoryEntry, ...]:
        """All entries, in the file's order. Raises `WorkspaceError` if the file cannot be read."""
        return entries.entries_of(self._read())

    def size(self) -> int:
        """Characters of the file."""
        return len(self._read().decode("utf-8", "replace"))

    def snapshot(self) -> str:
        """What a prompt shows of the file: all of it, or what fits and a note of what is left out.

        Empty if there is none; a note if it cannot be read.
        """
        try:
            data = self._read()
        except WorkspaceError as error:
            return f"[not read: {error}]\n"
        # Foreign bytes become U+FFFD: better than leaving a person's notes out.
        text = data.decode("utf-8", "replace")
        if len(text) <= SNAPSHOT_CHARS:
            return text
        left, gone = entries.within(data, SNAPSHOT_CHARS)
        shown = left.decode("utf-8", "replace")
        if not gone or len(shown) > SNAPSHOT_CHARS:
            return bounded(text, self.path)
        return f"{shown.rstrip()}\n[shortened: {_left_out(gone, shown, text, self.path)}]\n"

    def add(self, text: str, today: date) -> tuple[MemoryEntry, bool]:
        """Add an entry at the end; the entry, and whether it is new: what is there already is not
        added again. Raises `WorkspaceError`."""
        return self._change(partial(entries.added, text=text, today=today))

    def update(self, wanted: str, text: str, today: date) -> MemoryEntry:
        """Give the entry of that id or text another text. Raises `WorkspaceError`."""
        return self._change(partial(entries.updated, wanted=wanted, text=text, today=today))[0]

    def forget(self, wanted: str) -> MemoryEntry:
        """Delete the entry of that id or text. Raises `WorkspaceError`."""
        return self._change(partial(entries.without, wanted=wanted))[0]

    def _change(self, change: Change) -> tuple[MemoryEntry, bool]:
        # What cannot be done is refused before anything is made or waited for.
        change(self._read())
        with self._locked(), self._root.walk(self._parts, make=True) as place:
            before = b"" if place.mode is None else read_bytes(place)
            after, entry = change(before)
            if after != before:
                write_bytes(place, after)
            return entry, after != before

    def _read(self) -> bytes:
        try:
            with self._root.walk(self._parts) as place:
                return read_bytes(place)
        except NotFound:
            return b""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout  # late: a heavy import

        with self._root.walk(self._root.parse(_IGNORE_FILE), make=True) as ignore:
            if ignore.mode is None:
                write_bytes(ignore, b"*\n")
        with self._root.walk(self._root.parse(_LOCK_FILE)) as place:
            path = self._root.path.joinpath(*place.parts)
            lock = FileLock(path)
            # The threads of this process wait for each other without polling. Held by its name: the
            # lock is theirs only as long as somebody holds the versions.
            versions = versions_of(place.folder, place.name)
            with versions.lock:
                try:
                    lock.acquire(_LOCK_SECONDS, _POLL_SECONDS)
                except Timeout:
                    raise Unavailable(
                        self.path, "another process is changing it; try again"
                    ) from None
                except OSError as error:
                    raise from_os(error, _LOCK_FILE) from error
                try:
                    yield
                finally:
                    lock.release()


def _left_out(gone: int, shown: str, text: str, path: str) -> str:
    what = "the oldest entry is" if gone == 1 else f"the {gone:,} oldest entries are"
    return f"{what} left out, {len(shown):,} of {len(text):,} characters of {path} are shown"


def _file_name(agent: str) -> str:
    """The file of one type of agent; names are told apart without case, as definitions are."""
    name = agent.strip().casefold()
    plain = re.sub(r"[^a-z0-9_-]+", "-", name)[:60]
    if plain == name:
        return f"{name}.md"
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=3).hexdigest()
    return f"{plain}-{digest}.md"
