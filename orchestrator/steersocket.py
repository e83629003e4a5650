"""A live run's socket: one JSON line each way, for the owner only."""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus

NAME = "steer.sock"
MAX_LINE_BYTES = 200_000
_READ_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
# Addresses of Unix sockets are shorter than paths may be: 104 bytes on macOS, 108 on Linux.
_MAX_ADDRESS_BYTES = 100

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


async def serve(
    folder: Path, answer: Answer, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Answer commands at the socket in ``folder`` until cancelled. A socket that cannot be had is no
    reason not to run: nobody can steer then."""
    try:
        with _address(folder) as address:
            listener = await anyio.create_unix_listener(address, mode=0o600)
    except OSError:
        task_status.started()
        return
    try:
        async with listener:
            task_status.started()
            await listener.serve(lambda stream: _serve_one(stream, answer))
    finally:
        with suppress(OSError):
            (folder / NAME).unlink(missing_ok=True)


def ask(folder: Path, command: Mapping[str, Any]) -> dict[str, Any] | None:
    """Put a command to the run in ``folder``; ``None``: nobody answers there. Blocking."""
    try:
        with _address(folder) as address, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_ANSWER_SECONDS)
            client.connect(address)
            client.sendall(json.dumps(command).encode() + b"\n")
            with client.makefile("rb") as file:
                line = file.readline()
    except OSError:
        return None
    found = json.loads(line) if line.endswith(b"\n") else None
    return found if isinstance(found, dict) else None


async def _serve_one(stream: SocketStream, answer: Answer) -> None:
    async with stream:
        with suppress(OSError, ValueError, anyio.BrokenResourceError, anyio.EndOfStream):
            if not _is_owner(stream.extra(SocketAttribute.raw_socket)):
                return
            with anyio.fail_after(_READ_SECONDS):
                asked = json.loads(await _line(stream))
            if isinstance(asked, dict):
                await stream.send(json.dumps(await answer(asked)).encode() + b"\n")


async def _line(stream: SocketStream) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.receive()
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("too long a line")
    return line


def _is_owner(peer: socket.socket) -> bool:
    """Whether the other end is the owner of the run, or root. Elsewhere the socket's mode must do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in (os.getuid(), 0)


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's address; by a short way where the path is too long for one."""
    path = str(folder / NAME)
    if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="outrider-") as short:
        way = Path(short) / "r"
        way.symlink_to(folder, target_is_directory=True)
        yield str(way / NAME)
