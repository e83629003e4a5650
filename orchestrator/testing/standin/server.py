"""Serving the stand-in: inside the running event loop, or as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvicorn
from uvicorn.server import ServerState

from .answers import Brain
from .app import Standin
from .brains import keep_facts
from .faults import Fault
from .ledger import Ledger
from .settings import Settings
from .wire import Protocol

HOST = "127.0.0.1"
#: Connections that may wait to be accepted: a thousand agents start at once.
BACKLOG = 2_048


@dataclass(frozen=True, slots=True)
class Server:
    """A running stand-in. `stop` ends it at once, open connections included."""

    base_url: str
    app: Standin
    _listener: asyncio.Server
    _state: ServerState

    @property
    def ledger(self) -> Ledger:
        return self.app.ledger

    async def stop(self) -> None:
        self._listener.close()
        for connection in list(self._state.connections):
            connection.transport.abort()
        # One turn of the loop: every exchange learns that its connection is gone.
        await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def start(app: Standin, port: int = 0) -> Server:
    """Serves `app` on loopback, in the running asyncio loop.

    Only uvicorn's protocol is used: its server would install signal handlers and poll ten times a
    second, and a test wants neither.
    """
    config = uvicorn.Config(
        app,
        http=Protocol,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=600,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: Protocol(config, state, {}), HOST, port, backlog=BACKLOG
    )
    number = listener.sockets[0].getsockname()[1]
    return Server(f"http://{HOST}:{number}", app, listener, state)


@asynccontextmanager
async def serve(
    brain: Brain,
    *,
    settings: Settings | None = None,
    faults: Iterable[Fault] = (),
    summarizer: Brain | None = keep_facts,
    port: int = 0,
) -> AsyncIterator[Server]:
    """A stand-in for the length of an `async with` block, on a free port of loopback.

    `summarizer` answers requests for a summary; `None`: they go to the brain too.
    """
    server = await start(Standin(brain, settings, faults, summarizer), port)
    try:
        yield server
    finally:
        await server.stop()


@dataclass(frozen=True, slots=True)
class StandinProcess:
    """A stand-in in a process of its own."""

    base_url: str
    pid: int


@contextmanager
def standin_process(*arguments: str) -> Iterator[StandinProcess]:
    """Runs `python -m orchestrator.testing.standin ARGUMENTS` and waits until it listens."""
    command = [sys.executable, "-m", "orchestrator.testing.standin", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            base_url = process.stdout.readline().strip()
            if not base_url:
                raise RuntimeError(f"the stand-in did not start: {' '.join(arguments)}")
            yield StandinProcess(base_url, process.pid)
        finally:
            process.terminate()


def silence() -> None:
    """Keeps uvicorn's own log out of a process whose ledger says more."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
