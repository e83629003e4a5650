"""What this process knows of a file on disk: its lock, and which edit made what of it."""

import hashlib
import os
import threading
from weakref import WeakValueDictionary


def digest(data: bytes) -> bytes:
    """The hash by which contents are told apart."""
    return hashlib.sha256(data).digest()


class Versions:
    """One file: `lock` is held from check to write, `edits` maps a content to what an edit made it.

    The edits are how a change by another agent's `edit_file`, which the next edit can build on, is
    told from a change by the shell or an overwrite, which it cannot.
    """

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        self._edits: dict[bytes, bytes] = {}

    def note_edit(self, before: bytes, after: bytes) -> None:
        self._edits[before] = after

    def only_edited(self, old: bytes, new: bytes) -> bool:
        """Whether edits alone lead from the content `old` to `new`."""
        passed = set()
        while old != new:
            passed.add(old)
            following = self._edits.get(old)
            if following is None or following in passed:
                return False
            old = following
        return True


# For the whole process, whoever asks: two agents, or two runs, on one folder must share the lock.
# An entry lives as long as an agent that has read the file.
_versions: WeakValueDictionary[tuple[int, int, str], Versions] = WeakValueDictionary()
_guard = threading.Lock()


def versions_of(folder: int, name: str) -> Versions:
    """The one `Versions` of the file `name` in the open folder `folder`."""
    status = os.fstat(folder)
    key = (status.st_dev, status.st_ino, name.casefold())
    with _guard:
        found = _versions.get(key)
        if found is None:
            found = _versions[key] = Versions()
        return found
