"""Work that signals stop, in three stages: it hands back what it has; it is cancelled; the process ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskStatus

from orchestrator.cli.exits import SIGNALLED

Result = TypeVar("Result")
Told = Callable[[], None]


@dataclass
class Outcome(Generic[Result]):
    """``result`` of work that came to its end; ``signal``, where one stopped it."""

    result: Result | None = None
    signal: int | None = None
    error: BaseException | None = None


async def until_signal(
    work: Callable[[anyio.CancelScope], Awaitable[Result]],
    stop: Told,
    cancelling: Told,
    at_once: Told,
) -> Outcome[Result]:
    """Await ``work(scope)`` and raise what it raises. Ctrl-C, SIGTERM and a terminal that goes away
    count alike.

    The first of them calls ``stop()``, which makes the work end by itself; the second calls
    ``cancelling()`` and cancels the scope; at the third the process ends on the spot, after
    ``at_once()`` and with all processes that it had started.
    """
    outcome: Outcome[Result] = Outcome()
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        def cancel() -> None:
            cancelling()
            scope.cancel()

        await group.start(_listen, outcome, stop, cancel, at_once)
        # Carried past the task group, which would wrap an error in an exception group.
        try:
            with scope:
                outcome.result = await work(scope)
        except Exception as error:  # noqa: BLE001
            outcome.error = error
        group.cancel_scope.cancel()
    if outcome.error is not None and outcome.signal is None:
        raise outcome.error
    return outcome


async def _listen(
    outcome: Outcome[Result],
    stop: Told,
    cancel: Told,
    at_once: Told,
    *,
    task_status: TaskStatus[None],
) -> None:
    heeded = _heeded()
    with anyio.open_signal_receiver(*heeded) as signals:
        task_status.started()
        outcome.signal = int(await anext(signals))
        stop()
        outcome.signal = int(await anext(signals))
    # Plain handlers from here on: they also work while something blocks the event loop.
    for each in heeded:
        signal.signal(each, _stop_at_once(at_once))
    cancel()


def _heeded() -> list[signal.Signals]:
    """Under nohup a terminal may go away."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    there = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [n for n in there if n.name != "SIGHUP" or signal.getsignal(n) != signal.SIG_IGN]


def _stop_at_once(before: Told) -> Callable[[int, FrameType | None], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        with suppress(Exception):
            before()
        for pid in list(_started_by(os.getpid())):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(SIGNALLED + number)

    return stop


def _started_by(pid: int) -> Iterator[int]:
    """All processes below ``pid``, where the system tells (Linux)."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError, ValueError):
            for child in map(int, file.read_text().split()):
                yield from _started_by(child)
                yield child
