"""One agent's files on disk: reading, writing, editing, deleting and listing them.

Everything here blocks; `tools` runs it in threads. Writes are checked against what this agent has
read (by content hash), under one lock per file for the whole process. A change made by the shell
or another process is noticed at the next write, but not prevented in between.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from workspace import notebooks
from workspace.access import Access
from workspace.atomic import read_bytes, write_bytes
from workspace.edit import Edited, Missing, replace
from workspace.errors import (
    Conflict,
    Denied,
    EditFailed,
    NotFound,
    Refused,
    WorkspaceError,
    quoted,
    shown,
)
from workspace.paths import Parts, Place, Root
from workspace.text import decode, encode
from workspace.versions import Versions, digest, versions_of

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Entry:
    """One name in a folder. `kind` is folder, file, symlink or other; `size` is in bytes."""

    name: str
    kind: str
    size: int


@dataclass(frozen=True)
class _Read:
    """The content that an agent knows; holding `versions` keeps the file's edits remembered."""

    digest: bytes
    versions: Versions


class Files:
    """The files under `root` that `access` allows, as one agent sees them."""

    def __init__(self, root: str | os.PathLike[str], access: Access | None = None) -> None:
        self.root: Root = Root(root)
        self.access: Access = access or Access()
        self._known: dict[Parts, _Read] = {}
        self._news: dict[str, str] = {}

    def take_news(self) -> dict[str, str]:
        """Files whose content became known since the last call: path and digest."""
        news, self._news = self._news, {}
        return news

    def recall(self, known: Mapping[str, str]) -> None:
        """Know again what `take_news` told in an earlier life of this agent."""
        for path, value in known.items():
            self._known[tuple(path.split("/"))] = _Read(bytes.fromhex(value), Versions())

    def read(self, path: str) -> str:
        """The text of a file; from now on this agent may edit and overwrite it.

        Raises `NotText` for what is not UTF-8. Lone surrogates, which the store of offloaded
        results keeps, are let through.
        """
        return self.look(path, lambda data: decode(path, data))

    def look(self, path: str, show: Callable[[bytes], Shown]) -> Shown:
        """What `show` makes of a file's bytes. Unless it raises, the agent has then read the file:
        it may edit and overwrite it."""
        with self._at(path, self.access.check_read) as place:
            data = read_bytes(place)
            made = show(data)
            self._remember(place, versions_of(place.folder, place.name), data)
            return made

    def write(self, path: str, content: str) -> bool:
        """Create or overwrite a file, missing folders included; whether it was created.

        Raises `Conflict` if the file exists and is not what this agent last read or wrote.
        """
        data = encode(path, content)
        with self._at(path, self.access.check_write, make=True) as place:
            versions = versions_of(place.folder, place.name)
            with versions.lock:
                old = _read_if_there(place)
                if old is not None:
                    self._check_unchanged(path, place, old)
                write_bytes(place, data)
                self._remember(place, versions, data)
                return old is None

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
        """Replace a passage of a file that this agent has read.

        Edits that other agents of this process made since are kept: the passage is looked for in
        the file as it is now. Raises `Conflict` if the file was changed in any other way, or if
        the passage was edited away; `EditFailed` if `old` does not name one passage.
        """
        encode(path, new)
        with self._at(path, self.access.check_write) as place:
            self.access.check_read(place.parts)
            versions = versions_of(place.folder, place.name)
            with versions.lock:
                before = read_bytes(place)
                edited_by_others = self._check_editable(path, place, versions, before)
                text = decode(path, before)
                try:
                    edited = replace(text, old, new, replace_all=replace_all)
                except Missing as missing:
                    if edited_by_others:
                        raise Conflict(path, _PASSAGE_GONE) from None
                    raise Missing(f"{missing}{notebooks.hint(path)}") from None
                if (why := notebooks.spoilt(path, text, edited.text)) is not None:
                    raise EditFailed(f"{shown(path)}: {why}")
                after = edited.text.encode("utf-8", "surrogatepass")
                write_bytes(place, after)
                versions.note_edit(digest(before), digest(after))
                if not edited_by_others:
                    # Otherwise there is text that this agent has not seen, so it may not overwrite.
                    self._remember(place, versions, after)
                return edited

    def delete(self, path: str) -> int:
        """Delete a file, a symlink itself, or a folder with all in it; how many names went.

        Raises `Denied` if anything in the folder may not be written.
        """
        parts = self.root.parse(path)
        if not parts:
            raise Refused(path, "the workspace root itself cannot be deleted")
        with self.root.walk(parts, self.access.check_write, follow=False) as place:
            if place.mode is None:
                raise NotFound(path)
            versions = versions_of(place.folder, place.name)  # held: else others get another lock
            with versions.lock:
                if not place.is_folder:
                    os.unlink(place.name, dir_fd=place.folder)
                    return 1
                count = self._check_descendants(place.parts)
                shutil.rmtree(place.name, dir_fd=place.folder)
                return count

    def entries(self, path: str) -> list[Entry]:
        """What is in a folder, by name, without what may not be read."""
        with (
            self._at(path, self.access.check_list) as place,
            place.opened_folder() as folder,
        ):
            found = (_entry(folder, name) for name in sorted(os.listdir(folder)))
            return [entry for entry in found if entry and not self._hides(place.parts, entry)]

    @contextmanager
    def _at(
        self, path: str, check: Callable[[Parts], None], *, make: bool = False
    ) -> Iterator[Place]:
        with self.root.walk(self.root.parse(path), check, make=make) as place:
            yield place

    def _remember(self, place: Place, versions: Versions, data: bytes) -> None:
        known = self._known[place.parts] = _Read(digest(data), versions)
        self._news["/".join(place.parts)] = known.digest.hex()

    def _check_unchanged(self, path: str, place: Place, now: bytes) -> None:
        known = self._known.get(place.parts)
        if known is None or known.digest != digest(now):
            raise _not_as_read(path, known)

    def _check_editable(self, path: str, place: Place, versions: Versions, now: bytes) -> bool:
        """Whether others edited the file since; raises `Conflict` if it changed otherwise."""
        known = self._known.get(place.parts)
        if known is None or not versions.only_edited(known.digest, digest(now)):
            raise _not_as_read(path, known)
        return known.digest != digest(now)

    def _hides(self, folder: Parts, entry: Entry) -> bool:
        parts = (*folder, entry.name)
        if self.access.hides(parts, folder=entry.kind == "folder"):
            return True
        if entry.kind != "symlink":
            return False
        try:
            with self.root.walk(parts, self.access.check_read):
                return False
        except Denied:
            return True  # A symlink to what is denied.
        except WorkspaceError:
            return False

    def _check_descendants(self, parts: Parts) -> int:
        count = 1
        pending = [parts]
        while pending:
            folder = pending.pop()
            with self.root.walk(folder, follow=False) as place, place.opened_folder() as opened:
                for name in os.listdir(opened):
                    count += 1
                    child = (*folder, name)
                    self.access.check_write(child)
                    status = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(child)
        return count


_PASSAGE_GONE = "another agent edited it since you read it, and old_string is gone; read it again"


def _not_as_read(path: str, known: _Read | None) -> Conflict:
    call = f"call read_file(path={quoted(path)})"
    if known is None:
        return Conflict(path, f"exists, and you have not read it; {call} first")
    return Conflict(path, f"changed since you read it; {call} again first")


def _read_if_there(place: Place) -> bytes | None:
    try:
        return read_bytes(place)
    except FileNotFoundError:
        return None


def _entry(folder: int, name: str) -> Entry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None  # It vanished meanwhile.
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}
    return Entry(name, kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_size)
