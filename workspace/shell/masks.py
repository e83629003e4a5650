"""Which parts of the workspace a command sees otherwise than they are, by the rules about paths."""

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from workspace.access import Access, is_private
from workspace.errors import ShellRefused
from workspace.paths import Parts
from workspace.shell.sandbox import Mount

MOST_MOUNTS = 5_000


@dataclass
class _Walk:
    """One look through the workspace. `unlikely` stands for any name that may yet come to be."""

    root: str
    access: Access
    mounts: list[Mount] = field(default_factory=list)
    unlikely: str = field(default_factory=lambda: f"any-{secrets.token_hex(8)}")

    def path(self, parts: Parts) -> str:
        return "/".join((self.root, *parts))

    def is_unwritable(self, parts: Parts) -> bool:
        return self.access.keeps(parts)

    def is_closed(self, parts: Parts) -> bool:
        """Whether nothing new may come to be in the folder."""
        return self.is_unwritable((*parts, self.unlikely))


def masks(root: str, access: Access) -> tuple[bool, list[Mount]]:
    """Whether nothing at all may be written, and what is hidden or read-only, in an order in which
    bubblewrap can mount it.

    Rules hold for what is there now: a file that comes to be while a command runs, and a file that
    the command itself makes, are not covered, unless their folder is. Raises `ShellRefused` where
    the rules cover too many names one by one.
    """
    if not access.has_rules:
        return False, _guarded(root, access.guarded)
    walk = _Walk(root, access)
    is_read_only = walk.is_closed(())
    _look(walk, (), is_read_only)
    if len(walk.mounts) > MOST_MOUNTS:
        raise ShellRefused(
            f"the rules cover {len(walk.mounts):,} files and folders one by one, and a sandbox takes "
            f"at most {MOST_MOUNTS:,}: write rules that cover whole folders"
        )
    return is_read_only, walk.mounts


def _guarded(root: str, paths: Iterable[Parts]) -> list[Mount]:
    """What is read-only whatever the rules say, where it is there; the folders that it is in must keep
    their names."""
    mounts: dict[str, Mount] = {}
    for parts in sorted(paths):
        steps = ["/".join((root, *parts[:depth])) for depth in range(1, len(parts) + 1)]
        if os.path.lexists(steps[-1]) and not any(map(os.path.islink, steps)):
            pins = {step: Mount("pin", step) for step in steps[:-1]}
            mounts = {**mounts, **{k: v for k, v in pins.items() if k not in mounts}}
            mounts[steps[-1]] = Mount("read_only", steps[-1])
    return list(mounts.values())


def _look(walk: _Walk, folder: Parts, is_read_only: bool) -> bool:
    """Look at what is in `folder`; returns whether there is something to mount."""
    found = False
    for name, is_folder in _entries(walk.path(folder)):
        parts = (*folder, name)
        if not is_private(parts):
            found |= _look_at(walk, parts, is_folder, is_read_only)
    return found


def _look_at(walk: _Walk, parts: Parts, is_folder: bool, is_read_only: bool) -> bool:
    path = walk.path(parts)
    if walk.access.hides(parts, folder=is_folder):
        walk.mounts.append(Mount("hidden_folder" if is_folder else "hidden_file", path))
        return True
    if not is_read_only and (walk.is_unwritable(parts) or (is_folder and walk.is_closed(parts))):
        walk.mounts.append(Mount("read_only", path))
        if is_folder:
            _look(walk, parts, True)
        return True
    if not is_folder:
        return False
    return _look_into(walk, parts, is_read_only)


def _look_into(walk: _Walk, parts: Parts, is_read_only: bool) -> bool:
    # Where something inside is covered, the folder's own name must stay: under another one the
    # rule would not know it again. What is read-only as a whole cannot be renamed anyway.
    if is_read_only:
        return _look(walk, parts, True)
    place = len(walk.mounts)
    if not _look(walk, parts, False):
        return False
    walk.mounts.insert(place, Mount("pin", walk.path(parts)))
    return True


def _entries(path: str) -> Iterator[tuple[str, bool]]:
    """Names in a folder and whether they are folders. Links are left out: they lead to what is
    looked at where it is, or out of what the sandbox shows."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_symlink():
                    yield entry.name, entry.is_dir(follow_symlinks=False)
    except OSError:  # gone, or closed to us and so to the command
        return
