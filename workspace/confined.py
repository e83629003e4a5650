"""Reading files below a folder, for code that is no agent: confined, and through the same rules."""

import os
from collections.abc import Iterator
from itertools import islice

from workspace.access import Access
from workspace.atomic import read_bytes
from workspace.paths import Parts, Root

_PASSED_OVER = frozenset({"__pycache__", "node_modules"})


def read_confined(root: str | os.PathLike[str], path: str, access: Access | None = None) -> bytes:
    """The bytes of the file `path`, relative to `root`. Raises `WorkspaceError` for what is not there,
    leads out of `root`, or may not be read by `access` (left out: anything may)."""
    within = Root(root)
    check = access.check_read if access else (lambda parts: None)
    with within.walk(within.parse(path), check) as place:
        return read_bytes(place)


def names_confined(
    root: str | os.PathLike[str], path: str, most: int, access: Access | None = None
) -> list[str]:
    """The first `most` files below the folder `path`, as paths from it, without hidden ones and those
    that `access` hides. Raises `WorkspaceError`."""
    within = Root(root)
    hides = access.hides if access else (lambda parts: False)
    with within.walk(within.parse(path)) as place, place.opened_folder() as folder:
        names = (name for name in _names(folder) if not hides((*place.parts, *name)))
        return ["/".join(name) for name in islice(names, most)]


def _names(folder: int) -> Iterator[Parts]:
    for where, folders, files, _ in os.fwalk(".", dir_fd=folder):
        folders[:] = sorted(f for f in folders if f not in _PASSED_OVER and not f.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                yield (*(part for part in where.split("/") if part != "."), name)
