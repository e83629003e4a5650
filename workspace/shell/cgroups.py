"""Control groups: bounds that the kernel keeps for all processes of a command, root's included.

Used where this process may make a group, which is seldom: as root, or in a part of the tree that was
handed over to the user. Elsewhere `watch` looks now and then.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from workspace.shell.bounds import Bounds

_PREFIX = "outrider-"
_TRIES = 200
_TRY_SECONDS = 0.01


@dataclass(frozen=True)
class Place:
    """A folder of the tree in which a group could be made that has these `controllers`. `enabled` is
    a file that must name them, if there is one."""

    folder: str
    controllers: tuple[str, ...]
    enabled: str | None = None


def places(membership: str, mounts: str) -> list[Place]:
    """Where a group could be made, nearest first. Pure.

    `membership` is the text of `/proc/self/cgroup`, `mounts` of `/proc/self/mountinfo`.
    """
    own = dict(_membership(membership))
    found = []
    for kind, options, root, point in _mounted(mounts):
        if kind == "cgroup2" and (below := _below(own.get(""), root)) is not None:
            for path in (below, *below.parents):
                folder = str(PurePosixPath(point) / path)
                found.append(Place(folder, ("pids", "memory"), f"{folder}/cgroup.subtree_control"))
        elif (
            kind == "cgroup"
            and "pids" in options.split(",")
            and (below := _below(own.get("pids"), root)) is not None
        ):
            found.append(Place(str(PurePosixPath(point) / below), ("pids",)))
    return sorted(found, key=lambda place: -len(place.controllers))


def _membership(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, path


def _mounted(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Type, options, root and mount point."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, more = before.split(), after.split()
        if len(fields) > 4 and len(more) > 2:
            yield more[0], more[2], fields[3], fields[4]


def _below(path: str | None, root: str) -> PurePosixPath | None:
    if path is None:
        return None
    with suppress(ValueError):
        return PurePosixPath(path).relative_to(root)
    return None


@dataclass
class Group:
    """The group of one command."""

    folder: Path
    controllers: tuple[str, ...]

    def take_in(self, pid: int) -> None:
        """From now on `pid` and what it starts are bounded. Where that is refused, nothing is."""
        with suppress(OSError):
            (self.folder / "cgroup.procs").write_text(str(pid))

    @property
    def ran_out_of_memory(self) -> bool:
        with suppress(OSError):
            lines = (self.folder / "memory.events").read_text().splitlines()
            return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)
        return False

    def remove(self) -> None:
        """Its processes are gone, or just about to be."""
        for _ in range(_TRIES):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_TRY_SECONDS)
            else:
                return


def make(bounds: Bounds, memory: int) -> Group | None:
    """A group with these bounds; `None` where none can be made. Blocks for a moment."""
    for place in _places_here():
        if _is_enabled(place) and (group := _made(place, bounds, memory)) is not None:
            return group
    return None


def _places_here() -> list[Place]:
    with suppress(OSError, ValueError):
        return places(
            Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
        )
    return []


def _is_enabled(place: Place) -> bool:
    if place.enabled is None:
        return True
    with suppress(OSError):
        return {*place.controllers} <= {*Path(place.enabled).read_text().split()}
    return False


def _made(place: Place, bounds: Bounds, memory: int) -> Group | None:
    _clear(place)
    group = Group(
        Path(place.folder, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"), place.controllers
    )
    try:
        group.folder.mkdir()
    except OSError:
        return None
    try:
        for name, value in _limits(place, bounds, memory).items():
            (group.folder / name).write_text(value)
    except OSError:
        group.remove()
        return None
    # Not everywhere, and nothing depends on them.
    for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        if (group.folder / name).exists():
            with suppress(OSError):
                (group.folder / name).write_text(value)
    return group


def _limits(place: Place, bounds: Bounds, memory: int) -> Mapping[str, str]:
    limits = {"pids": ("pids.max", bounds.processes), "memory": ("memory.max", memory)}
    return {limits[name][0]: str(limits[name][1]) for name in place.controllers}


def _clear(place: Place) -> None:
    """Take away what processes that were killed left behind: empty groups."""
    with suppress(OSError):
        for left in Path(place.folder).glob(f"{_PREFIX}*-*"):
            owner = left.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                with suppress(OSError):
                    left.rmdir()
