"""What the sandbox refused, read from a command's output. Pure.

Programs tell of a refusal in the system's words, which do not say whose it was nor what to do.
"""

import re
from dataclasses import dataclass

_NETWORK = re.compile(
    r"could not resolve|name resolution|name or service not known|network is unreachable"
    r"|nodename nor servname|getaddrinfo|ENOTFOUND|EAI_AGAIN|unable to resolve host"
    r"|couldn't connect to server|no address associated|unknown host|failed to lookup address",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"read-only file system|EROFS|errno 30\b", re.IGNORECASE)
_PROCESSES = re.compile(
    r"fork: (?:retry: )?resource temporarily unavailable|cannot fork|can't start new thread"
    r"|errno 11\b.*temporarily unavailable|pthread_create|EAGAIN",
    re.IGNORECASE,
)
_MEMORY = re.compile(
    r"cannot allocate memory|\bMemoryError\b|out of memory|std::bad_alloc|memory exhausted"
    r"|errno 12\b|ENOMEM",
    re.IGNORECASE,
)
_DENIED = re.compile(r"permission denied|EACCES|errno 13\b", re.IGNORECASE)
_SPACE = re.compile(r"no space left on device|ENOSPC|errno 28\b", re.IGNORECASE)


@dataclass(frozen=True)
class Refusals:
    """What the sandbox of a command could have refused it."""

    network: bool
    hides: bool
    processes: int
    memory: int
    scratch: int


def hints(text: str, code: int, can: Refusals) -> list[str]:
    """One line for each refusal that the end of the output, `text`, tells of. A command that
    succeeded was refused nothing that matters."""
    if code == 0:
        return []
    lines = (
        (
            not can.network,
            _NETWORK,
            "the sandbox has no network: the user can allow it (--network)",
        ),
        (
            True,
            _READ_ONLY,
            "only the workspace and /tmp can be written here, without .outrider/ and what a "
            "write(…) rule denies",
        ),
        (can.hides, _DENIED, "what a read(…) rule denies cannot be opened here"),
        (True, _PROCESSES, f"a command may have {can.processes:,} processes and threads"),
        (True, _MEMORY, f"a command may use {_mib(can.memory)} of memory"),
        (True, _SPACE, f"/tmp and the home folder hold {_mib(can.scratch)} here"),
    )
    return [hint for applies, pattern, hint in lines if applies and pattern.search(text)]


def _mib(size: int) -> str:
    return f"{size // (1024 * 1024):,} MiB"
