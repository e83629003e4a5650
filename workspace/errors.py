"""Expected failures, whose message is written for the model.

::

    WorkspaceError
    ├── Refused         the path may not be used: outside the workspace, or reserved
    │   └── Denied      a deny rule of the user forbids it (`.rule`)
    ├── NotFound        there is nothing at the path
    ├── WrongKind       a folder where a file is needed, a device, a file where a folder is needed
    ├── NotText         the bytes are not UTF-8 text
    ├── OutOfRange      a page that the file does not have
    ├── Conflict        the file is not what the agent last read
    ├── EditFailed      `old_string` does not name exactly one passage
    ├── BadEntry        an entry of the memory that is not there, or a text that cannot be one
    ├── BadPattern      a regular expression or glob that cannot be read
    ├── ShellRefused    a command cannot be run, and why
    └── Unavailable     the operating system said no: permission, full disk, read-only
"""

import errno
import json

_SHOWN = 200  # characters of a path or text that a message repeats at most


def quoted(text: str, limit: int = _SHOWN) -> str:
    """`text` in double quotes on one line, at most about `limit` characters, always encodable."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return json.dumps(cut, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def shown(path: str) -> str:
    """A path inside a message: bare when it is plain, quoted when it could mislead."""
    plain = path.isprintable() and len(path) <= _SHOWN and path.strip() == path and path
    return path if plain else quoted(path)


class WorkspaceError(Exception):
    """What happened, where, and what to do; `str(error)` is shown to the model."""


class Refused(WorkspaceError):
    """The path may not be used, whatever is there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)}: {reason}")


class Denied(Refused):
    """A rule forbids the path. `rule` is the rule as the user wrote it; `hint`: what to do."""

    def __init__(self, path: str, rule: str, hint: str = "") -> None:
        WorkspaceError.__init__(self, f"denied by {rule}: {shown(path)}{hint and f'; {hint}'}")
        self.rule = rule


class NotFound(WorkspaceError):
    """There is nothing at the path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{shown(path)}: not found")


class WrongKind(WorkspaceError):
    """What is at the path is of another kind than the tool needs."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)}: {reason}")


class NotText(WorkspaceError):
    """The bytes are not UTF-8 text, so they are neither shown nor edited."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)}: {reason}")


class OutOfRange(WorkspaceError):
    """A page was asked for that begins after the end."""


class Conflict(WorkspaceError):
    """The file is not what this agent last read; nothing was changed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)}: {reason}")


class EditFailed(WorkspaceError):
    """`old_string` does not name exactly one passage; nothing was changed."""


class BadEntry(WorkspaceError):
    """There is no such entry in the memory, or the text cannot be one; nothing was changed."""


class BadPattern(WorkspaceError):
    """A regular expression or glob that cannot be read, with the column of the fault (from 1)."""

    def __init__(self, pattern: str, reason: str, column: int) -> None:
        super().__init__(f"bad pattern {quoted(pattern)}: {reason} (column {column})")
        self.column = column


class ShellRefused(WorkspaceError):
    """A command cannot be run as it is, or not at all; nothing was run."""


class Unavailable(WorkspaceError):
    """The operating system refused."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{shown(path)}: {reason}")


_KINDS = {
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "is a folder, not a file",
}
_REASONS = {
    errno.EACCES: "permission refused by the operating system",
    errno.EPERM: "permission refused by the operating system",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full; nothing was changed",
    errno.EDQUOT: "the disk quota is used up; nothing was changed",
    errno.ENAMETOOLONG: "the name is too long for this file system",
}


def from_os(error: OSError, path: str) -> WorkspaceError:
    """The error of this tree that says what `error` means for `path`."""
    number = error.errno or 0
    if number == errno.ENOENT:
        return NotFound(path)
    if number == errno.ELOOP:
        return Conflict(path, "changed while it was being opened; try again")
    if number in _KINDS:
        return WrongKind(path, _KINDS[number])
    return Unavailable(path, _REASONS.get(number, error.strerror or "input/output error"))
