"""How much one command may use. Pure."""

from dataclasses import dataclass

DEFAULT_SECONDS = 120
MOST_SECONDS = 600
MOST_COMMAND_BYTES = 100_000
"""Linux takes at most 128 KiB as one argument of a program (`MAX_ARG_STRLEN`)."""

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Bounds:
    """What one command may use at most.

    `processes`: processes and threads at the same time. `memory`: bytes of all its processes
    together; `None` is half of the machine's. `output`: bytes that it may print, as they are
    stored: no more than `read_file` can open. `scratch`: bytes in its `/tmp`, and as many in its
    home folder, both of which are kept in memory.
    """

    processes: int = 1_024
    memory: int | None = None
    output: int = 64 * _MIB
    scratch: int = 512 * _MIB


def seconds_for(timeout: int | None, *, background: bool) -> float | None:
    """How long a command may take; `None`: until it ends by itself or its agent does.

    Raises `ValueError` for what is not from 1 to `MOST_SECONDS`.
    """
    if timeout is None:
        return None if background else float(DEFAULT_SECONDS)
    if not 1 <= timeout <= MOST_SECONDS:
        raise ValueError(
            f"timeout is in seconds, from 1 to {MOST_SECONDS}: for what takes longer use "
            "background=true"
        )
    return float(timeout)
