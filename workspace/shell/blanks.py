"""Guarded places that are empty when a command begins, and what is in them when it has ended.

bubblewrap can close a name only where something is to be mounted on, and would leave that behind in the
workspace, for the command's own `git add` to find. So what comes to be there is taken away again as soon
as the command has ended, before anything reads it; nothing is deleted, since a person may have made it.

Names are followed step by step from descriptors, never through a link: a link that a command leaves on
the way must not decide what is moved.
"""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from workspace.paths import Parts, joined

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Blank:
    """A guarded place that nothing stands at. ``link``: where a symbolic link leads that ends the way
    there, after ``depth`` folders; a link cannot be mounted over either."""

    parts: Parts
    depth: int = 0
    link: str | None = None


@dataclass(frozen=True)
class Taken:
    """What was taken away: the place, and where it lies now, both from the workspace's root. `kept` is
    empty where it could not be moved and is still there."""

    parts: Parts
    kept: str

    def __str__(self) -> str:
        name = joined(self.parts)
        if not self.kept:
            return f"{name} should not be there, and could not be taken away: look at it"
        return f"{name} was taken away: no command may make it ({self.kept})"


def blanks(root: str, places: Iterable[Parts]) -> list[Blank]:
    """Those of ``places`` that a mount cannot guard. Raises `OSError` where the root is gone."""
    found = []
    for parts in places:
        with ExitStack() as stack:
            depth, _, link = _reached(stack, root, parts)
            if depth < len(parts):
                found.append(Blank(parts, depth, link))
    return found


def emptied(root: str, places: Iterable[Blank], into: str) -> list[Taken]:
    """Make the places as they were. What is taken away goes to the folder ``into``, from the root."""
    found: list[Taken] = []
    with suppress(OSError):  # the root itself is gone, and nothing is read there
        found.extend(filter(None, (_emptied(root, place, into) for place in places)))
    return found


def _emptied(root: str, place: Blank, into: str) -> Taken | None:
    with ExitStack() as stack:
        depth, _, link = _reached(stack, root, place.parts, place.depth)
    new = _new(place, depth, link)
    taken = None if new is None else _moved(root, new, into)
    if place.link is not None:
        _put_back(root, place)
    return taken


def _new(place: Blank, depth: int, link: str | None) -> Parts | None:
    """What a command made on the way to the place, or at it; `None` where nothing leads there now."""
    if (depth, link) == (place.depth, place.link):
        return None
    is_there = link is not None or depth == len(place.parts)
    if place.link is not None and depth > place.depth:
        # A folder stands where the link was: it makes room for that, whatever is in it.
        return place.parts[: place.depth + 1]
    return place.parts[: depth + 1] if is_there else None


def _put_back(root: str, place: Blank) -> None:
    """The link, where the folder that it was in is there still."""
    parts = place.parts[: place.depth + 1]
    with ExitStack() as stack:
        depth, folder, link = _reached(stack, root, parts)
        if depth == place.depth and link is None:
            with suppress(OSError):
                os.symlink(place.link or "", parts[-1], dir_fd=folder)


def _moved(root: str, parts: Parts, into: str) -> Taken:
    kept = f"{into}/{secrets.token_hex(4)}-{parts[-1].lstrip('.')}"
    try:
        os.makedirs(f"{root}/{into}", exist_ok=True)
        with ExitStack() as stack:
            _, folder, _ = _reached(stack, root, parts)
            stack.enter_context(_writable(folder, parts[-1]))
            os.rename(parts[-1], f"{root}/{kept}", src_dir_fd=folder)
    except OSError:
        return Taken(parts, "")
    return Taken(parts, kept)


@contextmanager
def _writable(folder: int, name: str) -> Iterator[None]:
    """A command may have closed what it made, and the folder around it."""
    around = stat.S_IMODE(os.fstat(folder).st_mode)
    _set_mode(folder, around | stat.S_IRWXU)
    try:
        with suppress(OSError):  # a file or a link moves whatever its mode
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _set_mode(below, stat.S_IRWXU)
            finally:
                os.close(below)
        yield
    finally:
        _set_mode(folder, around)


def _set_mode(descriptor: int, mode: int) -> None:
    # A descriptor that only names something cannot be changed by itself.
    with suppress(OSError):
        os.chmod(f"/proc/self/fd/{descriptor}", mode)


def _reached(
    stack: ExitStack, root: str, parts: Parts, new: int | None = None
) -> tuple[int, int, str | None]:
    """(how many of the names are there, the folder of the last one looked at, where the link leads that
    ends the way). A link as the last name counts as what is not there. Folders that a command made, after
    ``new`` of the names, are opened where it closed them."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, folder)
    for depth, name in enumerate(parts):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                return depth, folder, os.readlink(name, dir_fd=folder)
            if depth + 1 == len(parts):
                break
            below = os.open(name, _FOLDER, dir_fd=folder)
        except OSError:  # not there, no folder, or changed under our hands by another command
            return depth, folder, None
        stack.callback(os.close, below)
        folder = below
        if new is not None and depth >= new:
            _set_mode(folder, stat.S_IRWXU)
    return len(parts), folder, None
