"""The store of offloaded content: what left one agent's context, whole, as files it can read."""

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from workspace.atomic import read_bytes, sync_folder, write_bytes
from workspace.errors import NotFound, NotText, WorkspaceError
from workspace.paths import Parts, Place, Root, joined

_HINT_CHARS = 40


@dataclass(frozen=True)
class StoredFile:
    """Where content lies. `path` is relative to the workspace root; `sha256` is of its bytes.

    Of a text, `chars` and `lines` are counted in the text; of bytes, `chars` is their number and
    `lines` is 0.
    """

    path: str
    chars: int
    lines: int
    sha256: str


class ResultStore:
    """Keeps texts and bytes under `folder` (a path from the workspace root), each content once.

    On disk they are exactly the bytes, or the text in UTF-8; lone surrogates survive. Names are
    unique because they are counted and created exclusively, whatever the hint. Works under asyncio
    and trio.
    """

    def __init__(self, root: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
        self._root = Root(root)
        self._folder: Parts = self._root.parse(os.fspath(folder))
        self._lock = threading.Lock()
        self._names: dict[str, str] | None = None  # sha256 → name; None until the first use

    @property
    def folder(self) -> str:
        """The folder, as a path from the workspace root."""
        return joined(self._folder)

    @property
    def path(self) -> Path:
        """The folder on disk; it exists once something was written."""
        return self._root.path.joinpath(*self._folder)

    async def write(self, hint: str, data: str) -> StoredFile:
        """Store `data` durably, or find it stored already. `hint` makes the name tell something.

        Raises `WorkspaceError` if the store cannot be written.
        """

        def write() -> StoredFile:
            path, sha256 = self._write(hint, data.encode("utf-8", "surrogatepass"), ".txt")
            lines = data.count("\n") + (not data.endswith("\n") and data != "")
            return StoredFile(path, len(data), lines, sha256)

        return await anyio.to_thread.run_sync(write)

    async def write_bytes(self, hint: str, data: bytes, suffix: str) -> StoredFile:
        """The same for bytes. `suffix`, such as ".png", ends the name; what is stored already keeps
        the name that it has.

        Raises `WorkspaceError` if the store cannot be written.
        """

        def write() -> StoredFile:
            path, sha256 = self._write(hint, data, suffix)
            return StoredFile(path, len(data), 0, sha256)

        return await anyio.to_thread.run_sync(write)

    def begin(self, hint: str) -> tuple[str, int]:
        """A new empty file, for content that comes bit by bit: its path, and a descriptor to write
        it, which the caller closes. Blocks.

        Raises `WorkspaceError` if the store cannot be written.
        """
        with self._lock:
            names = self._known()
            with self._reserved(f"{_safe(hint)}.txt") as (place, descriptor):
                names[f"begun {place.name}"] = place.name
        return joined((*self._folder, place.name)), descriptor

    def keep(self, path: str) -> None:
        """Make what was written to a file that `begin` gave durable. Blocks.

        Raises `WorkspaceError` if that fails.
        """
        with self._root.walk(self._root.parse(path), follow=False) as place:
            descriptor = place.open(os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(place.folder)

    def remove(self, path: str) -> None:
        """Take a file of this store away, if it is there: what is in it stands elsewhere. Blocks.

        Raises `NotFound` for what is not in this store.
        """
        parts = self._root.parse(path)
        if parts[:-1] != self._folder:
            raise NotFound(path)
        with self._root.walk(parts, follow=False) as place, suppress(FileNotFoundError):
            os.unlink(place.name, dir_fd=place.folder)

    async def read(self, path: str) -> str:
        """The text stored at `path`, exactly. Raises `NotFound` for what is not in this store, and
        `NotText` for bytes that are no text."""
        data = await self.read_bytes(path)
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise NotText(path, f"is stored as bytes ({len(data):,}), not as text") from None

    async def read_bytes(self, path: str) -> bytes:
        """The bytes stored at `path`. Raises `NotFound` for what is not in this store."""
        return await anyio.to_thread.run_sync(self._read, path)

    def _read(self, path: str) -> bytes:
        parts = self._root.parse(path)
        if parts[:-1] != self._folder:
            raise NotFound(path)
        with self._root.walk(parts) as place:
            return read_bytes(place)

    def _write(self, hint: str, content: bytes, suffix: str) -> tuple[str, str]:
        """The path and the hash of the content."""
        sha256 = hashlib.sha256(content).hexdigest()
        with self._lock:
            names = self._known()
            name = names.get(sha256)
            if name is None or not self._is_whole(name, len(content)):
                name = self._put(f"{_safe(hint)}{_safe_suffix(suffix)}", content)
                names[sha256] = name
        return joined((*self._folder, name)), sha256

    def _known(self) -> dict[str, str]:
        if self._names is None:
            self._names = self._stored()
        return self._names

    def _put(self, label: str, content: bytes) -> str:
        with self._reserved(label) as (place, descriptor):
            os.close(descriptor)
            write_bytes(place, content)
            return place.name

    @contextmanager
    def _reserved(self, label: str) -> Iterator[tuple[Place, int]]:
        """A name that was free, now taken by an empty file, and a descriptor to write that file."""
        number = len(self._names or ())
        while True:
            number += 1
            parts = (*self._folder, f"{number:04d}-{label}")
            with self._root.walk(parts, make=True, follow=False) as place:
                descriptor = _reserve(place)
                if descriptor is not None:
                    yield place, descriptor
                    return

    def _stored(self) -> dict[str, str]:
        """What an earlier session of this agent stored, by its hash."""
        names: dict[str, str] = {}
        try:
            with self._root.walk(self._folder) as place, place.opened_folder() as folder:
                found = sorted(os.listdir(folder))
        except NotFound:
            return names
        for name in found:
            if re.match(r"\d{4,}-", name):
                # What cannot be read is not ours, or too large to hash: it is stored once more.
                with suppress(WorkspaceError), self._root.walk((*self._folder, name)) as place:
                    names[hashlib.sha256(read_bytes(place)).hexdigest()] = name
        return names

    def _is_whole(self, name: str, size: int) -> bool:
        """Whether the file is still there: the shell may have removed it."""
        try:
            with self._root.walk((*self._folder, name), follow=False) as place:
                status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
                return status.st_size == size
        except NotFound:
            return False


def _safe(hint: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "-", hint[: 4 * _HINT_CHARS]).strip("-")
    return cleaned[:_HINT_CHARS] or "result"


def _safe_suffix(suffix: str) -> str:
    return suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else ".bin"


def _reserve(place: Place) -> int | None:
    """A descriptor of the new file, if the name was free."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(place.name, flags, 0o666, dir_fd=place.folder)
    except FileExistsError:
        return None
