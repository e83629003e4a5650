"""A server as a process: messages over its standard streams, within bounds.

The SDK's own transport puts a line together however long it becomes, lets the server's children live
when it exits by itself, and hands its stderr to a file that can grow without end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import mcp_types as types
from anyio.abc import (
    ByteReceiveStream,
    ByteSendStream,
    ObjectReceiveStream,
    ObjectSendStream,
    Process,
)
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from orchestrator.mcp.lines import Lines, TooLong, id_of

# What a server may send that answers nothing: between two answers, or in one line.
_FLOOD_BYTES = 256_000_000
_LINE_COSTS = 100
_MOST_REQUESTS = 1_000
_ERROR_FILE_BYTES = 1_000_000
_CHUNK = 65_536
# How long a server has to go by itself once its input is closed, and again once it is told to.
GRACE_SECONDS = 1.0
_REAP_SECONDS = 2.0
_POLL_SECONDS = 0.01

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@dataclass
class Stderr:
    """What a server writes to its stderr: in a file, at most 1 MB of it, and the last line."""

    path: Path
    last_line: str = ""
    _written: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)

    def take(self, data: bytes) -> None:
        lines = [line for line in (self._rest + data).split(b"\n") if line.strip()]
        self._rest = (self._rest + data).rpartition(b"\n")[2][-_CHUNK:]
        if lines:
            self.last_line = " ".join(lines[-1][-_CHUNK:].decode(errors="replace").split())[:300]
        room = _ERROR_FILE_BYTES - self._written
        if room <= 0:
            return
        self._written += len(data)
        cut = b"\n[the rest is not kept]\n" if len(data) > room else b""
        # The file is for people who look for a reason: a full disk is none to stop for.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(data[:room] + cut)


@dataclass
class ServerProcess:
    """A server's process and what it said. ``why`` says how it ended, once it has."""

    stderr: Stderr
    why: str = ""


@asynccontextmanager
async def stdio_streams(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    about: ServerProcess,
    over: Callable[[], None],
) -> AsyncIterator[
    tuple[ObjectReceiveStream[SessionMessage | Exception], ObjectSendStream[SessionMessage]]
]:
    """Start the server and speak with it. On leaving, its whole process group is ended.

    ``over()`` is called when it says nothing more. Raises ``OSError`` when it cannot be started.
    """
    process = await anyio.open_process(
        list(command),
        env={**get_default_environment(), **env},
        cwd=cwd,
        start_new_session=True,
    )
    # No await before the shield below: a cancellation in between would leave the process behind.
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process.stdout, to_session, about, over)
            group.start_soon(_write, from_session, process.stdin, to_session)
            group.start_soon(_watch_errors, process.stderr, about.stderr)
            try:
                yield incoming, outgoing
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
            about.why = about.why or _how_it_ended(process)
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()


async def _read(
    stdout: ByteReceiveStream, to_session: Incoming, about: ServerProcess, over: Callable[[], None]
) -> None:
    lines, unasked = Lines(), _Unasked()
    try:
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while not about.why:
                chunk = await stdout.receive(_CHUNK)
                # However short a line is, it costs time to look at it.
                unasked.size += len(chunk) + _LINE_COSTS * chunk.count(b"\n")
                for line in lines.take(chunk):
                    if (message := _message(line, about.stderr)) is not None:
                        unasked.take(message)
                        await to_session.send(message)
                about.why = unasked.too_much
        over()
    finally:
        to_session.close()


@dataclass
class _Unasked:
    """What came since the last answer. Each request of a server waits for it to hear our refusal."""

    size: int = 0
    requests: int = 0

    def take(self, message: SessionMessage) -> None:
        if isinstance(message.message, types.JSONRPCRequest):
            self.requests += 1
        elif not isinstance(message.message, types.JSONRPCNotification):
            self.size = self.requests = 0

    @property
    def too_much(self) -> str:
        """Why it is not listened to any longer; empty: it is."""
        if self.size > _FLOOD_BYTES:
            return f"it sent over {_FLOOD_BYTES:,} bytes that answer nothing"
        if self.requests > _MOST_REQUESTS:
            return f"it asked over {_MOST_REQUESTS:,} times for what it does not get"
        return ""


def _message(line: bytes | TooLong, stderr: Stderr) -> SessionMessage | None:
    """The message of a line; for one that cannot be read an error to whom it answers."""
    if isinstance(line, TooLong):
        return _refusal(line.answers, f"its answer of {line.size:,} bytes was too long to keep")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        stderr.take(b"[on stdout, no message] " + line[:1_000] + b"\n")
        return _refusal(id_of(line[:400], line[-400:]), "its answer is no JSON-RPC message")


def _refusal(answers: int | str | None, why: str) -> SessionMessage | None:
    if answers is None:
        return None
    error = types.ErrorData(code=types.PARSE_ERROR, message=why)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=answers, error=error))


async def _write(
    from_session: ObjectReceiveStream[SessionMessage], stdin: ByteSendStream, to_session: Incoming
) -> None:
    try:
        async for message in from_session:
            data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(data.encode(errors="replace") + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # It does not listen any more: let the session see the end.
        await to_session.aclose()


async def _watch_errors(stream: ByteReceiveStream, stderr: Stderr) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            stderr.take(await stream.receive(_CHUNK))


async def _end(process: Process) -> None:
    """End the process group: politely, then by force. Whoever it started goes with it."""
    assert process.stdin is not None
    with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.stdin.aclose()
    if not await _exits(process, GRACE_SECONDS):
        _signal(process, signal.SIGTERM)
        await _exits(process, GRACE_SECONDS)
    # Also when it went by itself: its children may still be there.
    _signal(process, signal.SIGKILL)
    await _exits(process, _REAP_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                await stream.aclose()
    # asyncio keeps its transport while a grandchild that left the group holds a pipe open.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


async def _exits(process: Process, seconds: float) -> bool:
    # By looking: under asyncio ``wait`` also waits for the pipes, which a grandchild may hold.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    # The group keeps the leader's number while any member lives, so it cannot be somebody else's.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _how_it_ended(process: Process) -> str:
    code = process.returncode
    if code is None:
        return "it could not be ended"
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"
