"""A run whose events are read while it goes on: ``async with stream(task, …) as events``."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from typing_extensions import TypedDict, Unpack

from orchestrator.agent import Observe
from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.events import Record
from orchestrator.launching import run
from orchestrator.mcp import Named
from orchestrator.model import Model
from orchestrator.permissions import Ask, Permissions
from orchestrator.prices import Overrides
from orchestrator.reins import Reins
from orchestrator.report import Report
from orchestrator.tools import Tool


class RunOptions(TypedDict, total=False):
    """What `orchestrator.run` takes beside the task, with the same meanings."""

    model: str | Model | None
    base_url: str | None
    fallback_model: str | None
    root: str | Path
    tools: Iterable[Callable[..., Any] | Tool]
    mcp_config: Named | None
    agents: Iterable[str | Path]
    agent: str | None
    limits: Limits | None
    context: Context | None
    permissions: Permissions | None
    ask: Ask | None
    reins: Reins | None
    sandbox: bool
    network: bool
    memory: bool
    background: bool
    run_id: str | None
    model_aliases: Mapping[str, str] | None
    prices: Overrides | None
    log_content: bool
    telemetry: bool
    observers: Sequence[Observe]


class Events:
    """The records of a run, each after it is in the journal and in its order: read them with ``async for``,
    which ends when the run has ended."""

    def __init__(self, records: MemoryObjectReceiveStream[Record]) -> None:
        self._records = records
        self._report: Report | None = None
        self._failed: Exception | None = None

    @property
    def report(self) -> Report:
        """How the run went. Raises `RuntimeError` as long as it goes on."""
        if self._report is None:
            raise RuntimeError("the run goes on: its report is there when its events have ended")
        return self._report

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Record:
        """The next record. Raises what `orchestrator.run` raises, after the last one."""
        try:
            return await self._records.__anext__()
        except StopAsyncIteration:
            self._check()
            raise

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed


@asynccontextmanager
async def stream(task: str, **options: Unpack[RunOptions]) -> AsyncIterator[Events]:
    """Carry out ``task`` beside an ``async with`` block, which reads its events. Takes what `run` takes.

    The run never waits for its reader: what is not read yet is kept. Leaving the block before the run
    has ended cancels the run, with everything on disk; so does cancelling the task that is in the
    block. `Events.report` is there once the events have ended. Runs under asyncio and trio.

    Raises what `orchestrator.run` raises: where the events end, or where the block is left.
    """
    send, receive = anyio.create_memory_object_stream[Record](math.inf)
    events = Events(receive)

    def told(records: Sequence[Record]) -> None:
        for record in records:
            send.send_nowait(record)

    async def carried_out() -> None:
        given = {**options, "observers": (*options.get("observers", ()), told)}
        with send:
            try:
                events._report = await run(task, **given)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001  # raised where the events end
                events._failed = error

    left: Exception | None = None
    with receive:
        async with anyio.create_task_group() as group:
            group.start_soon(carried_out)
            # Kept for outside the group, which would wrap it.
            try:
                yield events
            except Exception as error:  # noqa: BLE001  # raised below
                left = error
            group.cancel_scope.cancel()
    if left is not None:
        raise left
    events._check()
