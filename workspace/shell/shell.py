"""The shell of one agent: commands in the foreground, and jobs in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from workspace.access import Access
from workspace.errors import ShellRefused
from workspace.shell import surroundings
from workspace.shell.blanks import Blank, Taken, blanks, emptied
from workspace.shell.bounds import MOST_COMMAND_BYTES, Bounds
from workspace.shell.environment import scrubbed
from workspace.shell.hints import Refusals, hints
from workspace.shell.output import Output, Sink
from workspace.shell.probe import check_sandbox
from workspace.shell.process import Plan, Why, carry_out
from workspace.shell.sandbox import arguments, beginning
from workspace.store import ResultStore

MOST_JOBS = 16
"""Jobs of one agent that may run at the same time."""
_SETUP_FAILED = "bwrap: "


@dataclass(frozen=True)
class Ran:
    """A command that has ended. `why`: what it was ended for, if it did not end by itself;
    `hints`: one line for each thing that the sandbox refused it; `taken`: what it made where none may
    make anything, and does not stand there any more."""

    output: Output
    code: int
    seconds: float
    why: Why | None = None
    hints: tuple[str, ...] = ()
    taken: tuple[Taken, ...] = ()


@dataclass(frozen=True)
class _Ready:
    """What to start, what can be refused it, where its output goes, and what must stay empty."""

    plan: Plan
    can: Refusals
    sink: Sink
    blanks: Sequence[Blank]
    taken: list[Taken] = field(default_factory=list)


@dataclass
class Job:
    """A command in the background. `ran` is there once it has ended by itself; `taken` also where it
    was ended before. What it prints is in the file `path` as it comes."""

    number: int
    command: str
    path: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    started: float = field(default_factory=time.monotonic)
    ran: Ran | None = None
    failure: str | None = None
    taken: tuple[Taken, ...] = ()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Shell:
    """Runs commands in the workspace `root` for one agent. Works under asyncio and trio.

    In the sandbox (bubblewrap; Linux only) a command sees the workspace at its real path, as `access`
    allows it, the system's folders to read, and a `/tmp` and a home folder of its own. It has no
    network unless `network`, none of the caller's environment but what programs need, and no more
    processes, memory and output than `bounds`. Without `sandbox` it may do what the caller may.
    Whatever a command printed goes to `store` first.

    `group` is where jobs run; `close` ends them.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        access: Access,
        store: ResultStore,
        group: TaskGroup,
        *,
        sandbox: bool = True,
        network: bool = False,
        bounds: Bounds | None = None,
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._access = access
        self._store = store
        self._group = group
        self._has_sandbox = sandbox
        self._network = network
        self._bounds = bounds or Bounds()
        self._memory = self._bounds.memory or _half_of_memory()
        self.jobs: dict[int, Job] = {}
        self._starting = 0
        self._news: list[Taken] = []

    async def run(self, command: str, seconds: float | None) -> Ran:
        """Run `command` to its end, for at most `seconds`. When this is cancelled, or returns,
        nothing of it is left.

        Raises `ShellRefused` where it cannot be run, and another `WorkspaceError` where what it
        prints cannot be stored.
        """
        ready = await anyio.to_thread.run_sync(self._ready, command)
        try:
            return await self._run(ready, seconds)
        except BaseException:
            with anyio.CancelScope(shield=True):  # nobody will ever hear of it
                await anyio.to_thread.run_sync(self._store.remove, ready.sink.path)
            raise

    async def start(self, command: str, seconds: float | None) -> Job:
        """Run `command` in the background. Raises `ShellRefused` as `run` does, and where too many are there."""
        running = sum(not job.done.is_set() for job in self.jobs.values())
        if running + self._starting >= MOST_JOBS:
            raise ShellRefused(f"{MOST_JOBS} commands are in the background already: end one first")
        # Others may ask while this one is made ready.
        self._starting += 1
        try:
            ready = await anyio.to_thread.run_sync(self._ready, command)
        finally:
            self._starting -= 1
        job = Job(len(self.jobs) + 1, command, ready.sink.path)
        self.jobs[job.number] = job
        self._group.start_soon(self._see_through, job, ready, seconds)
        return job

    async def stop(self, job: Job) -> None:
        """End a job, and wait until it is gone."""
        job.scope.cancel()
        await job.done.wait()

    async def close(self) -> None:
        """End all jobs."""
        for job in self.jobs.values():
            job.scope.cancel()
        for job in self.jobs.values():
            await job.done.wait()

    def take_news(self) -> list[Taken]:
        """What was taken away since the last call, however the command ended that had made it."""
        news, self._news = self._news, []
        return news

    async def text(self, output: Output) -> str:
        """All of what a command printed."""
        return await self._store.read(output.path)

    async def keep(self, output: Output) -> None:
        """Make the file durable. Raises `WorkspaceError`."""
        await anyio.to_thread.run_sync(self._store.keep, output.path)

    async def forget(self, output: Output) -> None:
        """Take the file away: what it holds stands elsewhere."""
        await anyio.to_thread.run_sync(self._store.remove, output.path)

    async def _run(self, ready: _Ready, seconds: float | None) -> Ran:
        try:
            ending = await carry_out(ready.plan, ready.sink, seconds, self._bounds, self._memory)
        except OSError as error:
            raise ShellRefused(f"the command cannot be started: {error.strerror}") from None
        finally:
            with anyio.CancelScope(shield=True):
                output = await anyio.to_thread.run_sync(ready.sink.close)
                ready.taken.extend(await anyio.to_thread.run_sync(self._emptied, ready.blanks))
                self._news += ready.taken
        if self._has_sandbox and ending.code == 1 and output.head.startswith(_SETUP_FAILED):
            raise ShellRefused(f"the sandbox cannot be made: {output.head.strip()}")
        found = hints(output.tail, ending.code, ready.can) if self._has_sandbox else []
        found += map(str, ready.taken)
        return Ran(
            output, ending.code, ending.seconds, ending.why, tuple(found), tuple(ready.taken)
        )

    def _emptied(self, places: Sequence[Blank]) -> list[Taken]:
        return emptied(str(self._root), places, f"{os.path.dirname(self._store.folder)}/taken")

    async def _see_through(self, job: Job, ready: _Ready, seconds: float | None) -> None:
        try:
            with job.scope:
                job.ran = await self._run(ready, seconds)
        except ShellRefused as error:
            job.failure = str(error)
        finally:
            job.taken = tuple(ready.taken)
            job.done.set()

    def _ready(self, command: str) -> _Ready:
        """Only a descriptor is open then, in the sink."""
        _check(command)
        if self._has_sandbox:
            check_sandbox()
        # First the file: what the agent may read of its own folder is looked up afterwards.
        path, descriptor = self._store.begin("bash")
        sink = Sink(path, descriptor, self._bounds.output)
        try:
            # Before what is there is looked at: what appears in between is guarded and taken away.
            empty = self._blanks()
            return _Ready(*self._planned(command), sink, empty)
        except BaseException:
            sink.close()
            self._store.remove(path)
            raise

    def _blanks(self) -> list[Blank]:
        if not self._has_sandbox:
            return []
        return blanks(str(self._root), filter(self._access.keeps, self._access.guarded))

    def _planned(self, command: str) -> tuple[Plan, Refusals]:
        """Decided anew for every command: files and children come and go."""
        shell = surroundings.shell_program()
        if not self._has_sandbox:
            environment = scrubbed(os.environ, network=True)
            can = Refusals(True, False, 0, 0, 0)
            return Plan([shell, "-c", command], str(self._root), environment, None), can
        view, hidden = surroundings.view_of(
            self._root, self._access, os.environ, network=self._network
        )
        bounds = self._bounds
        plan = Plan(
            beginning(
                shell,
                command,
                bounds.processes if surroundings.counts_by_namespace() else None,
                self._memory,
            ),
            str(self._root),
            view.environment,
            arguments(view, bounds),
        )
        can = Refusals(self._network, hidden > 0, bounds.processes, self._memory, bounds.scratch)
        return plan, can


def _check(command: str) -> None:
    if not command.strip():
        raise ShellRefused("the command is empty")
    if "\0" in command:
        raise ShellRefused("a command cannot contain a NUL byte")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ShellRefused("a command cannot contain a lone surrogate") from None
    if size > MOST_COMMAND_BYTES:
        raise ShellRefused(
            f"the command has {size:,} bytes and may have {MOST_COMMAND_BYTES:,}: write a script to "
            "a file and run that"
        )


def _half_of_memory() -> int:
    pages: Callable[[str], int] = os.sysconf
    return pages("SC_PHYS_PAGES") * pages("SC_PAGE_SIZE") // 2
