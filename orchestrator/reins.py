"""What a person does to a run while it goes on. Its agents ask here before they begin anything.

Used from the event loop in which the run is carried out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

# After a stop, in seconds: what a tool call that is running may still take, and a model call.
TOOL_SECONDS = 10.0
MODEL_SECONDS = 60.0
# How long an agent waits for what its children in the background hand back.
CHILDREN_SECONDS = 150.0


class Reins:
    """Handed to `run`, `resume` or `fork`, they hold the run back or stop it from outside."""

    def __init__(
        self,
        *,
        tool_seconds: float = TOOL_SECONDS,
        model_seconds: float = MODEL_SECONDS,
        socket: bool = False,
    ) -> None:
        """How much longer than a stop the calls may take that are under way then. ``socket``: whether
        the run also listens to ``outrider steer``."""
        self.socket = socket
        self._release: anyio.Event | None = None
        self.tool_seconds = tool_seconds
        self.model_seconds = model_seconds
        self._stopped_at: float | None = None
        self._bounded: dict[anyio.CancelScope, float] = {}

    def stop(self) -> None:
        """Let the run end soon, with what it has.

        Calls that are under way may finish, within bounds; nothing new begins. Every agent is asked
        once, without tools, for what it has: it ends as partial, for the reason ``cancelled``.
        """
        if self._stopped_at is not None:
            return
        self._stopped_at = time.monotonic()
        self.go_on()
        for scope, seconds in self._bounded.items():
            scope.deadline = min(scope.deadline, anyio.current_time() + seconds)

    def pause(self) -> None:
        """Calls that are under way end; no others begin until `go_on`. Limits of time run on."""
        if self._release is None and not self.is_stopping:
            self._release = anyio.Event()

    def go_on(self) -> None:
        """After `pause`."""
        if self._release is not None:
            self._release.set()
            self._release = None

    @property
    def is_paused(self) -> bool:
        return self._release is not None

    async def released(self) -> None:
        """Wait while the run is paused."""
        while (release := self._release) is not None:
            await release.wait()

    @property
    def is_stopping(self) -> bool:
        return self._stopped_at is not None

    def seconds_since_stop(self) -> float:
        """Seconds since the run was told to stop; 0 where it was not."""
        return 0.0 if self._stopped_at is None else time.monotonic() - self._stopped_at

    @contextmanager
    def at_most(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """What is done inside is cancelled ``seconds`` after a stop, or after its own beginning where
        that is later."""
        with anyio.CancelScope() as scope:
            if self.is_stopping:
                scope.deadline = anyio.current_time() + seconds
            self._bounded[scope] = seconds
            try:
                yield scope
            finally:
                del self._bounded[scope]
