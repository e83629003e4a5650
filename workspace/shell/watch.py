"""Looking at the processes of a command: how many there are, and how much memory they use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Use:
    """Of a process and all below it: threads, and bytes that only they hold."""

    threads: int
    memory: int


def use_of(pid: int) -> Use:
    """What `pid` and everything that it started use now. What ends meanwhile is left out."""
    threads = memory = 0
    for member in family_of(pid):
        threads += len(_names(f"/proc/{member}/task"))
        memory += _memory(member)
    return Use(threads, memory)


def parent_of(pid: int) -> int | None:
    """The process that started `pid`, or that took it in."""
    for line in _text(f"/proc/{pid}/status").splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return None


def family_of(pid: int) -> Iterator[int]:
    """`pid` and everything that it started, as far as it is there now."""
    waiting = [pid]
    while waiting:
        member = waiting.pop()
        yield member
        for task in _names(f"/proc/{member}/task"):
            text = _text(f"/proc/{member}/task/{task}/children")
            waiting += map(int, text.split())


def _memory(pid: int) -> int:
    fields = _text(f"/proc/{pid}/statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read()
    return ""
