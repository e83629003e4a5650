"""What tests of MCP servers share: configurations of the servers in `tests/mcp_servers`, and processes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from orchestrator.mcp import Happening, ServerConfig
from orchestrator.mcp.server import Server

HERE = Path(__file__).parent / "mcp_servers"


def program(name: str, *arguments: str) -> dict[str, Any]:
    """A server of `tests/mcp_servers` as `.mcp.json` describes it."""
    return {"command": sys.executable, "args": [str(HERE / f"{name}.py"), *arguments]}


def config(name: str, *arguments: str, key: str = "", **more: Any) -> ServerConfig:
    entry = program(name, *arguments)
    return ServerConfig(
        name=key or name,
        source="a test",
        transport="stdio",
        is_named=True,
        command=entry["command"],
        args=tuple(entry["args"]),
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


def processes(word: str = str(HERE)) -> list[int]:
    """Processes with ``word`` in their command line; no zombies."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if word in command:
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
