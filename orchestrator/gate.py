"""One gate for all agents that call the same model: when the service asks one of them to slow down, all
of them do, instead of each finding out by a refusal of its own.

After a refusal the gate is shut for the time that the service asked for. Then one call goes through as
a probe; each that succeeds doubles how many may be under way, until the gate stands open again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio

# Calls under way at once from which on the gate no longer counts.
_OPEN_FROM = 64


class Gate:
    """The gate before one model of one service. Waiting is bounded by the caller's own time limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shut_until = 0.0
        self._allowed: int | None = None  # None: open
        self._under_way = 0
        self._changed = anyio.Event()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """Wait until a call may be made, and count it while it is under way."""
        await self._wait()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._tell()

    async def enter(
        self, held: AsyncExitStack, places: AbstractAsyncContextManager[object]
    ) -> None:
        """Pass and take one of ``places``, both until ``held`` ends.

        Whoever finds the gate shut behind them, once they have a place, goes back and waits again.
        """
        while True:
            await held.enter_async_context(self.passing())
            await held.enter_async_context(places)
            if not self._is_crowded:
                return
            await held.aclose()

    @property
    def _is_crowded(self) -> bool:
        shut = self._clock() < self._shut_until
        return shut or (self._allowed is not None and self._under_way > self._allowed)

    def slow_down(self, seconds: float) -> None:
        """The service refused a call and asks to wait ``seconds``."""
        self._shut_until = max(self._shut_until, self._clock() + seconds)
        self._allowed = 1
        self._tell()

    def succeeded(self) -> None:
        """A call was answered: twice as many may be under way."""
        if self._allowed is not None:
            self._allowed *= 2
            if self._allowed >= _OPEN_FROM:
                self._allowed = None
            self._tell()

    async def _wait(self) -> None:
        while True:
            left = self._shut_until - self._clock()
            if left > 0:
                await anyio.sleep(left)
            elif self._allowed is None or self._under_way < self._allowed:
                return
            else:
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Gates:
    """The gates of a run, one for each model: services limit each by itself."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}

    def before(self, model: str) -> Gate:
        return self._gates.setdefault(model, Gate())
