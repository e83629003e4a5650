"""Confinement: which file a path means, and opening it without leaving the root.

Names are decided purely (`parse`). Opening walks one component at a time from a descriptor of the
root, never follows a symlink by itself, and resolves symlinks here, so that no change on disk
between the check and the use can lead outside.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workspace.errors import NotFound, Refused, WrongKind, from_os

Parts = tuple[str, ...]
"""Names below the root, as they are or will be on disk; empty for the root itself."""

_MAX_HOPS = 40  # as Linux allows in one resolution (path_resolution(7))
_HOME = re.compile(r"~[A-Za-z0-9_.+-]*(/|$)")
_DRIVE = re.compile(r"[A-Za-z]:")
_LEADS_OUTSIDE = "a symbolic link that leads outside the workspace"


def parse(path: str, roots: Sequence[Parts]) -> Parts:
    """The names below the root that `path` means, by its text alone.

    `roots` are the names of the root from `/`, in every spelling that is accepted.
    Raises `Refused` for a path that is outside or could be read as such.
    """
    if "\0" in path:
        raise Refused(path, "a path cannot contain a NUL byte")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise Refused(path, "a path cannot contain a lone surrogate") from None
    if _HOME.match(path):
        raise Refused(
            path, "~ is not expanded; give a path inside the workspace (./~name if meant)"
        )
    if _DRIVE.match(path):
        raise Refused(
            path,
            "drive letters do not exist here; give a path inside the workspace (./a:b if meant)",
        )
    names = _names(path)
    if ".." in names:
        raise Refused(path, "'..' is not allowed; give the path from the workspace root")
    if not path.startswith("/"):
        return names
    inside = below(names, roots)
    if inside is None:
        raise Refused(path, f"outside the workspace, which is /{'/'.join(roots[0])}")
    return inside


def below(names: Parts, roots: Sequence[Parts]) -> Parts | None:
    """`names` (counted from `/`) counted from the root; None if they are not inside it."""
    for root in roots:
        if names[: len(root)] == root:
            return names[len(root) :]
    return None


def joined(parts: Sequence[str]) -> str:
    """The path of `parts` as a model sees it: relative to the root, `.` for the root."""
    return "/".join(parts) or "."


def _names(path: str) -> Parts:
    return tuple(name for name in path.split("/") if name not in ("", "."))


@dataclass(frozen=True)
class Place:
    """A name inside an open folder: where a path led. Valid inside the `with` that gave it.

    `parts` is the real path, with no symlink in it except a last one that was not to be followed;
    `mode` is the type and permission bits, None if nothing is there.
    """

    folder: int
    name: str
    parts: Parts
    mode: int | None

    @property
    def path(self) -> str:
        return joined(self.parts)

    @property
    def is_folder(self) -> bool:
        return self.mode is not None and stat.S_ISDIR(self.mode)

    def open(self, flags: int) -> int:
        """A descriptor of what is there; the caller closes it. A fifo does not block."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(self.name, flags, dir_fd=self.folder)

    @contextmanager
    def opened_folder(self) -> Iterator[int]:
        """A readable descriptor of the folder that is there."""
        if self.mode is None:
            raise NotFound(self.path)
        if not self.is_folder:
            raise WrongKind(self.path, "is a file, not a folder")
        descriptor = self.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class Root:
    """The folder that paths are confined to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `NotADirectoryError` if `path` is not a folder."""
        self.path: Path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is not a folder")
        # The spelling that people use may itself be a symlink (/tmp on some systems).
        self.spellings: tuple[Parts, Parts] = (
            _names(str(self.path)),
            _names(os.path.abspath(path)),
        )

    def parse(self, path: str) -> Parts:
        """The names below this root that `path` means. Raises `Refused` as `parse` does."""
        return parse(path, self.spellings)

    @contextmanager
    def walk(
        self,
        parts: Parts,
        check: Callable[[Parts], None] = lambda parts: None,
        *,
        follow: bool = True,
        make: bool = False,
    ) -> Iterator[Place]:
        """Go to `parts` and hold the way there open.

        `check` sees the named path and the real one, the latter before anything is created, and
        raises to refuse. `follow` follows a symlink in last place, `make` creates missing folders
        on the way. Every `OSError`, also of the body, comes out as the `WorkspaceError` that `from_os`
        makes of it.
        """
        check(parts)
        way = _Way(self, parts, check, follow, make)
        try:
            yield way.go()
        except OSError as error:
            raise from_os(error, joined(parts)) from error
        finally:
            way.close()


class _Way:
    """One resolution: descriptors of the folders entered so far, and the names still to come."""

    def __init__(
        self, root: Root, parts: Parts, check: Callable[[Parts], None], follow: bool, make: bool
    ) -> None:
        self._root = root
        self._named = joined(parts)
        self._check = check
        self._follow = follow
        self._make = make
        self._steps = 0
        self._pending = list(reversed(parts))
        self._names: list[str] = []
        self._folders: list[int] = []
        self._leaf: tuple[str, int | None] | None = None

    def go(self) -> Place:
        self._folders.append(os.open(self._root.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        while self._pending:
            name = self._pending.pop()
            if name == "..":
                self._leave()
            else:
                self._enter(name)
        name, mode = self._leaf or (".", stat.S_IFDIR)
        parts = (*self._names, name) if self._leaf else tuple(self._names)
        self._check(parts)
        return Place(self._folders[-1], name, parts, mode)

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.pop())

    def _enter(self, name: str) -> None:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._folders[-1])
        except FileNotFoundError:
            return self._missing(name)
        kept = False
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(mode) and (self._pending or self._follow):
                self._redirect(os.readlink("", dir_fd=descriptor))
            elif not self._pending:
                self._leaf = (name, mode)
            elif stat.S_ISDIR(mode):
                self._folders.append(descriptor)
                self._names.append(name)
                kept = True
            else:
                raise WrongKind(joined([*self._names, name]), "is a file, not a folder")
        finally:
            if not kept:
                os.close(descriptor)

    def _leave(self) -> None:
        # Only a symlink's target brings '..' here.
        if not self._names:
            raise Refused(self._named, _LEADS_OUTSIDE)
        self._names.pop()
        os.close(self._folders.pop())

    def _redirect(self, target: str) -> None:
        self._count()
        names: Parts | None = _names(target)
        if target.startswith("/"):
            names = below(_names(target), self._root.spellings)
            if names is None:
                raise Refused(self._named, _LEADS_OUTSIDE)
            while self._names:
                self._leave()
        self._pending.extend(reversed(names or ()))

    def _missing(self, name: str) -> None:
        if not self._pending:
            self._leaf = (name, None)
            return
        self._check((*self._names, name, *reversed(self._pending)))
        if not self._make or ".." in self._pending:
            raise NotFound(self._named)
        self._count()
        # If another agent makes it first, it is entered like any other, checks included.
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._folders[-1])
        self._pending.append(name)

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MAX_HOPS + len(self._named):
            raise Refused(self._named, "symbolic links form a loop")
