"""Work that a signal stops: the first one cleanly, the second one at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import FrameType
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskStatus

from orchestrator.cli.exits import SIGNALLED

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Outcome(Generic[Result]):
    """``result`` of work that came to its end; ``signal``, where one stopped it."""

    result: Result | None = None
    signal: int | None = None
    error: BaseException | None = None


async def until_signal(
    work: Callable[[anyio.CancelScope], Awaitable[Result]],
    *,
    noted: Callable[[int], None],
    at_once: Callable[[], None],
) -> Outcome[Result]:
    """Await ``work(scope)`` and raise what it raises; SIGINT or SIGTERM cancel the scope.

    ``noted(number)`` is called when the first signal arrives; ``at_once()`` before a second one
    stops the process on the spot, with nothing put away.
    """
    outcome: Outcome[Result] = Outcome()
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()
        await group.start(_listen, scope, outcome, noted, at_once)
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
    scope: anyio.CancelScope,
    outcome: Outcome[Result],
    noted: Callable[[int], None],
    at_once: Callable[[], None],
    *,
    task_status: TaskStatus[None],
) -> None:
    with anyio.open_signal_receiver(*SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            outcome.signal = int(number)
            break
    # Plain handlers from here on: they also work while something blocks the event loop.
    for each in SIGNALS:
        signal.signal(each, _stop_at_once(at_once))
    assert outcome.signal is not None
    noted(outcome.signal)
    scope.cancel()


def _stop_at_once(before: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        before()
        os._exit(SIGNALLED + number)

    return stop
