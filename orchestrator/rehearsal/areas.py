"""Cutting a tree of files into areas of work: by folder, large ones further, small ones together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

LEAST = 4
MOST = 8
# Fewer names than this are not worth a second agent.
_SPLITTABLE = 4
# An area of so many files that holds over a third of the tree is cut, although there are enough.
_HEAVY = 40
# A group of files is named one by one in a brief: at most so many characters of paths.
_GROUP_CHARS = 10_000
_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Area:
    """``paths`` are what a subagent is pointed at: whole folders (with a final slash) and files.

    ``files`` is what is known to be in them, each with the number of files that it stands for: a
    folder that was not listed stands for several. No two areas of a tree have the same name.
    """

    name: str
    paths: tuple[str, ...]
    files: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(self.files.values())


def areas_of(files: Mapping[str, int]) -> list[Area]:
    """At most `MOST` areas, and at least `LEAST` where there are files enough."""
    areas = _children("", dict(sorted(files.items())))
    while (index := _next_to_split(areas)) is not None:
        areas[index : index + 1] = _split(areas[index])
    while len(areas) > MOST:
        _merge_smallest(areas)
    return areas


def _children(folder: str, files: Mapping[str, int]) -> list[Area]:
    """One area for each folder directly under ``folder``, and one for the files directly in it."""
    depth = len(folder)
    nested = [file for file in files if "/" in file[depth:]]
    areas = [
        Area(below.rstrip("/"), (below,), {file: files[file] for file in inside})
        for below, inside in groupby(nested, lambda file: file[: file.index("/", depth) + 1])
    ]
    loose = {file: size for file, size in files.items() if "/" not in file[depth:]}
    if loose:
        name = f"files directly in {folder}" if folder else "top-level files"
        areas.append(Area(name, tuple(loose), loose))
    return areas


def _next_to_split(areas: Sequence[Area]) -> int | None:
    """The largest area that can be cut, if one is to be."""
    can = [i for i, area in enumerate(areas) if _split(area)]
    if not can:
        return None
    index = max(can, key=lambda i: areas[i].size)
    is_heavy = areas[index].size >= max(_HEAVY, sum(area.size for area in areas) / 3)
    return index if is_heavy or len(areas) < LEAST else None


def _split(area: Area) -> list[Area]:
    """By subfolder, else into two groups of files; nothing where that is not worth it."""
    names = tuple(area.files)
    if len(names) < _SPLITTABLE:
        return []
    if area.paths != names:
        parts = _children(area.paths[0], area.files)
        if len(parts) == 1 and parts[0].paths != names:
            return _split(parts[0])
        if len(parts) > 1:
            return parts
    middle = len(names) // 2
    if sum(map(len, names[middle:])) > _GROUP_CHARS:
        return []
    return [_group(area.files, names[:middle]), _group(area.files, names[middle:])]


def _group(files: Mapping[str, int], names: tuple[str, ...]) -> Area:
    folder, _, first = names[0].rpartition("/")
    last = names[-1].rpartition("/")[2]
    name = f"{folder or 'top level'}: {first} … {last}"
    return Area(name, names, {file: files[file] for file in names})


def _merge_smallest(areas: list[Area]) -> None:
    """Two neighbours become one: of all neighbours, those with the fewest files together."""
    sizes = [one.size + other.size for one, other in pairwise(areas)]
    index = sizes.index(min(sizes))
    one, other = areas[index : index + 2]
    name = _joined(one.name, other.name)
    merged = Area(name, one.paths + other.paths, {**one.files, **other.files})
    areas[index : index + 2] = [merged]


def _joined(one: str, other: str) -> str:
    """Names of both; of many, the first and the last: `a, b`, then `a … c`."""
    if len(one) + len(other) < _NAME_CHARS:
        return f"{one}, {other}"
    return f"{re.split(', | … ', one)[0]} … {re.split(', | … ', other)[-1]}"
