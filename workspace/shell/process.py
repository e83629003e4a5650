"""One command as a process: started, seen through, and ended with everything that it started.

It is started in the thread that runs the event loop, never in a worker: the sandbox dies with the
*thread* that made it (`PR_SET_PDEATHSIG`), and worker threads come and go.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread

from workspace.shell import cgroups, watch
from workspace.shell.bounds import Bounds
from workspace.shell.output import Sink
from workspace.shell.probe import PROGRAM

Why = Literal["timeout", "output", "processes", "memory", "disk"]
_CHUNK = 64 * 1024
_MOST_LEFT = 16 * _CHUNK  # what a pipe can still hold once its writers are gone
_LOOK_SECONDS = 0.25
_END_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """What to run. `sandbox`: bubblewrap's arguments; `None` runs the command as it is."""

    command: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    sandbox: Sequence[str] | None


@dataclass(frozen=True)
class Ending:
    """How a command ended. `why`: what it was ended for, if it did not end by itself."""

    code: int
    seconds: float
    why: Why | None = None


async def carry_out(
    plan: Plan, sink: Sink, seconds: float | None, bounds: Bounds, memory: int
) -> Ending:
    """Run to the end. On return and when cancelled, nothing of the command is left.

    What it prints goes to `sink` as it comes. `memory` is its bound in bytes. Raises `OSError`
    where it cannot be started.
    """
    process = _Process(plan)
    try:
        await process.begin(bounds, memory)
        return await _see_through(process, sink, seconds, bounds, memory)
    finally:
        with anyio.CancelScope(shield=True):
            await process.end()
        process.drain(sink)


async def _see_through(
    process: _Process, sink: Sink, seconds: float | None, bounds: Bounds, memory: int
) -> Ending:
    started = time.monotonic()
    reasons: list[Why] = []
    async with anyio.create_task_group() as group:

        def stop(why: Why) -> None:
            reasons.append(why)
            group.cancel_scope.cancel()

        group.start_soon(_pump, process.output, sink, stop)
        group.start_soon(_guard, process.root, bounds, memory, stop)
        with anyio.move_on_after(seconds) as limit:
            await process.ended()
        if limit.cancelled_caught:
            reasons.append("timeout")
        group.cancel_scope.cancel()
    if process.group is not None and process.group.ran_out_of_memory:
        reasons.append("memory")
    await process.end()
    return Ending(process.code, time.monotonic() - started, reasons[0] if reasons else None)


async def _pump(output: int, sink: Sink, stop: Callable[[Why], None]) -> None:
    while True:
        await anyio.wait_readable(output)
        data = os.read(output, _CHUNK)
        if not data:
            return
        try:
            # What was read is written: a cancellation between the two would lose it.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(sink.write, data)
        except OSError:
            return stop("disk")
        if sink.is_full:
            return stop("output")


async def _guard(pid: int, bounds: Bounds, memory: int, stop: Callable[[Why], None]) -> None:
    """Where no limit of the kernel holds, looking now and then is what is left."""
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        use = await anyio.to_thread.run_sync(watch.use_of, pid)
        if use.threads > bounds.processes:
            return stop("processes")
        if use.memory > memory:
            return stop("memory")


class _Process:
    """The process of a plan. `root`: the one that everything of the command descends from."""

    def __init__(self, plan: Plan) -> None:
        self._has_sandbox = plan.sandbox is not None
        self._closing: list[int] = []
        self._first: int | None = None  # the sandbox's first process, to wait for
        self._told = self._go = -1
        self.group: cgroups.Group | None = None
        try:
            self._start(plan)
        finally:
            for descriptor in self._closing:
                os.close(descriptor)
        self.root = self._process.pid
        self._exit = _watched(self.root)

    def _start(self, plan: Plan) -> None:
        self.output, writer = os.pipe()
        self._closing.append(writer)
        argv, passed = list(plan.command), list[int]()
        if plan.sandbox is not None:
            self._told, told = os.pipe()
            go, self._go = os.pipe()
            given = _in_memory(plan.sandbox)
            passed = [told, go, given]
            self._closing += passed
            flags = zip(("--info-fd", "--block-fd", "--args"), map(str, passed), strict=True)
            argv = [PROGRAM, *(word for pair in flags for word in pair), "--", *argv]
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=plan.folder,
                # Also where the sandbox sets it anew: its first process keeps this one.
                env=dict(plan.environment),
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                pass_fds=passed,
                start_new_session=True,
            )
        except BaseException:
            self._close()
            raise
        os.set_blocking(self.output, False)

    async def begin(self, bounds: Bounds, memory: int) -> None:
        """Let the command go, once what bounds and ends it is at hand."""
        if not self._has_sandbox:
            return
        said = b""
        while True:
            await anyio.wait_readable(self._told)
            data = os.read(self._told, _CHUNK)
            said += data
            if not data or b"}" in said:
                break
        with suppress(ValueError, KeyError, TypeError):
            first = int(json.loads(said)["child-pid"])
            descriptor = _watched(first)
            if descriptor is not None and watch.parent_of(first) == self._process.pid:
                self._first, self.root = descriptor, first
            elif descriptor is not None:  # it ended at once, and its number is another's by now
                os.close(descriptor)
        if self._first is not None:
            self.group = await anyio.to_thread.run_sync(cgroups.make, bounds, memory)
        if self.group is not None:
            self.group.take_in(self.root)
        with suppress(BrokenPipeError):
            os.write(self._go, b"\n")

    async def ended(self) -> None:
        """Wait until the command has ended by itself; what it started may still be there."""
        if self._exit is None:
            await anyio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)
        else:
            await anyio.wait_readable(self._exit)

    @property
    def code(self) -> int:
        """The exit code; 128 and the number of a signal that ended it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    async def end(self) -> None:
        """End everything and wait until it is gone."""
        if self._first is not None:
            # All of its namespace goes with it, also what has left the session.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        if self._process.returncode is None:
            # Before it is reaped: its number is its group's until then.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with anyio.move_on_after(_END_SECONDS):
                await self.ended()
            self._process.wait()
        if self._first is not None:
            with anyio.move_on_after(_END_SECONDS):
                await anyio.wait_readable(self._first)
        if self.group is not None:
            await anyio.to_thread.run_sync(self.group.remove)
            self.group = None

    def drain(self, sink: Sink) -> None:
        """Take what was printed and not yet read, and let go of everything."""
        left = _MOST_LEFT
        with suppress(OSError):  # nothing more there now; or no room for it
            while left > 0 and (data := os.read(self.output, _CHUNK)):
                left -= len(data)
                sink.write(data)
        self._close()

    def _close(self) -> None:
        exit_, self._exit = getattr(self, "_exit", None), None
        for descriptor in (self.output, self._told, self._go, self._first, exit_):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)


def _watched(pid: int) -> int | None:
    """A descriptor that is readable once `pid` has ended; `None` where there is no such thing."""
    opened = getattr(os, "pidfd_open", None)
    if opened is None:
        return None
    with suppress(OSError):  # it is gone; or the kernel, or a filter, knows no such thing
        descriptor: int = opened(pid)
        return descriptor
    return None


def _in_memory(arguments: Sequence[str]) -> int:
    """A descriptor to read the arguments from: there may be more than a command line takes."""
    descriptor = os.memfd_create("arguments")
    data = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
