"""What tests of MCP servers share: configurations of the servers in `tests/mcp_servers`, and processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from orchestrator.mcp import Happening, ServerConfig
from orchestrator.mcp.server import Server

HERE = Path(__file__).parent / "mcp_servers"


# In the environment of every server that this process starts, and of what those start.
MARK = "STARTED_BY_TEST_PROCESS"


def program(name: str, *arguments: str) -> dict[str, Any]:
    """A server of `tests/mcp_servers` as `.mcp.json` describes it."""
    return {
        "command": sys.executable,
        "args": [str(HERE / f"{name}.py"), *arguments],
        "env": {MARK: str(os.getpid())},
    }


def config(name: str, *arguments: str, key: str = "", **more: Any) -> ServerConfig:
    entry = program(name, *arguments)
    return ServerConfig(
        name=key or name,
        source="a test",
        transport="stdio",
        is_named=True,
        command=entry["command"],
        args=tuple(entry["args"]),
        env=entry["env"],
        **more,
    )


@asynccontextmanager
async def running(
    config: ServerConfig, folder: Path
) -> AsyncIterator[tuple[Server, list[Happening]]]:
    """The server, and what happens to it. It is ended on leaving."""
    happenings: list[Happening] = []

    async def tell(happening: Happening) -> None:
        happenings.append(happening)

    server = Server(config, folder, folder / "stderr.log", tell)
    async with anyio.create_task_group() as group:
        group.start_soon(server.own)
        await server.settled.wait()
        yield server, happenings
        group.cancel_scope.cancel()


def processes() -> list[int]:
    """What runs of the servers that this process has started, and of what they have started; other
    test processes may be at it too."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            if mark in variables:
                found.append(int(folder.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait for a condition; fails when it does not come true."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)


@asynccontextmanager
async def serving(
    name: str, *arguments: str
) -> AsyncIterator[tuple[int, Callable[[], Awaitable[None]]]]:
    """A server of `tests/mcp_servers` that listens: its port, and how to start it again once it died."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started: list[Process] = []

    async def start() -> None:
        command = [sys.executable, str(HERE / f"{name}.py"), str(port), *arguments]
        devnull = subprocess.DEVNULL
        started.append(
            await anyio.open_process(command, stdin=devnull, stdout=devnull, stderr=devnull)
        )
        await until(lambda: listens(port))

    try:
        await start()
        yield port, start
    finally:
        with anyio.CancelScope(shield=True):
            for process in started:
                if process.returncode is None:
                    process.kill()
                await process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def connections(port: int) -> int:
    """Open TCP connections of this process to ``port``."""
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if int(line.split()[2].split(":")[1], 16) == port
    }
    ours = (os.readlink(f) for f in Path("/proc/self/fd").iterdir() if f.is_symlink())
    return sum(link.removeprefix("socket:[").rstrip("]") in inodes for link in ours)
