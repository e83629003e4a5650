"""One server of a run: started, kept, started again within limits, and asked.

Everything that the SDK opens is entered and left by one task, `Server.own`. Calls come from the agents'
tasks; what they find broken, the owner looks at.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio.to_thread import run_sync

from orchestrator.errors import ToolError
from orchestrator.mcp.config import ServerConfig
from orchestrator.mcp.listing import Listing, Offered
from orchestrator.mcp.names import PREFIX, plain
from orchestrator.mcp.schemas import SchemaArguments
from orchestrator.outputs import Output, told
from orchestrator.tools import Tool

if TYPE_CHECKING:
    from orchestrator.mcp.connection import Connection

Status = Literal["skipped", "started", "failed", "lost", "restarted", "changed", "given_up"]

MOST_RESTARTS = 5
FIRST_PAUSE_SECONDS = 0.5
_SHOWN_NAME_CHARS = 80
MOST_PAUSE_SECONDS = 30.0
# How long a server that is thought to hang has to say what tools it has.
PROBE_SECONDS = 10.0
# A server that never stops announcing a new list is listened to once in so long.
REFRESH_PAUSE_SECONDS = 0.5
# A call that was cut waits so long to learn why.
_OBITUARY_SECONDS = 5.0
# The SDK's words when a connection went away under a call.
_CLOSED = "Connection closed"
# And when an address answers that it knows nothing of our session.
_FORGOTTEN = "Session terminated"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to a server, for whoever watches. ``text`` is a sentence."""

    server: str
    status: Status
    address: str
    tools: int = 0
    text: str = ""


class Server:
    """A server of a run. ``tell`` is awaited with what happens to it, in the owner's task."""

    def __init__(
        self,
        config: ServerConfig,
        root: Path,
        log: Path,
        tell: Callable[[Happening], Awaitable[None]],
    ) -> None:
        self.config = config
        self._root = root
        self._log = log
        self._tell = tell
        self._connection: Connection | None = None
        self._listing = Listing({})
        # Set once the first start has worked out or failed.
        self.settled: anyio.Event = anyio.Event()
        # Set while there is something new to look at; `_change` when the connection comes or goes.
        self._attention = anyio.Event()
        self._change = anyio.Event()
        self._said_all = anyio.Event()
        self._why = ""
        self._is_over = False
        # A call was not answered, and whether the server still lives is being looked at.
        self._suspected = False
        self._restarts = 0

    @property
    def tools(self) -> list[Tool]:
        """Its tools as it offers them now, for agents that begin now."""
        return [self._tool(offered) for offered in self._listing.tools.values()]

    def plain_name(self, name: str) -> str:
        """A tool's name without the digest that it may have: as rules may be written for it."""
        offered = self._listing.tools.get(name)
        return f"{PREFIX}{self.config.key}__{plain(offered.tool)}" if offered else name

    async def own(self) -> None:
        """Start the server and keep it until this is cancelled or it is given up."""
        try:
            while await self._serve():
                pause = FIRST_PAUSE_SECONDS * 2 ** (self._restarts - 1)
                await anyio.sleep(min(pause, MOST_PAUSE_SECONDS))
        finally:
            self._is_over = True
            self._connection = None
            self.settled.set()
            self._changed()

    async def call(self, tool: str, arguments: dict[str, Any]) -> Output:
        """Call one of its tools. Raises `ToolError` for everything that goes wrong."""
        from orchestrator.mcp.results import output_of

        connection = await self._ready()
        seconds = self.config.call_seconds
        shown = _shown(tool)
        with anyio.move_on_after(seconds):
            if all(offered.tool != tool for offered in self._listing.tools.values()):
                raise ToolError(f"the server {self.config.key} does not offer {shown} any more")
            return output_of(
                f"{self.config.key}/{shown}", await self._ask(connection, tool, arguments)
            )
        self._suspected = connection is self._connection
        self._attention.set()
        raise ToolError(
            f"the server {self.config.key} did not answer {shown} within {seconds:g} s; it may still be at "
            "work. Do not wait for it: try something smaller, or go on without it."
        )

    # ── the owner's side ──

    async def _serve(self) -> bool:
        """Be connected until that ends; whether to try again."""
        self._why = await self._connect()
        was_up, self._connection = self._connection is not None, None
        is_first = not self.settled.is_set()
        may_try = not is_first and self._restarts < MOST_RESTARTS
        self._is_over = not may_try
        self.settled.set()
        self._changed()
        if is_first:
            await self._say("failed", f"could not be started: {self._why}")
        elif not may_try:
            await self._say("given_up", f"was started {self._restarts + 1} times: {self._why}")
        else:
            self._restarts += 1
            again = "is started again" if was_up else "could not be started again"
            await self._say("lost", f"{again}: {self._why}")
        return may_try

    async def _connect(self) -> str:
        """Connect, and attend to the connection while it lasts; why it ended, in words."""
        try:
            sdk = await run_sync(_sdk)
        except ImportError as error:
            return f"the package {error.name} is missing: pip install 'outrider[mcp]'"
        about = sdk.ServerProcess(sdk.Stderr(self._log))
        seconds = self.config.start_seconds
        self._attention, self._said_all = anyio.Event(), anyio.Event()
        why = ""
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as starting:
            try:
                async with sdk.connected(
                    self.config, self._root, about, self._look, self._nothing_more
                ) as connection:
                    why = await self._attend(connection, starting)
            except Exception as error:  # noqa: BLE001 (whatever a server can do to the SDK)
                why = reason_of(error)
        if starting.cancel_called:
            why = f"it did not answer within {seconds:g} s"
        elif self._said_all.is_set():
            why = about.why
        last = about.stderr.last_line
        return f"{why}; its last words: {last}" if last else why

    async def _attend(self, connection: Connection, starting: anyio.CancelScope) -> str:
        self._listing = await connection.listing()
        starting.deadline = math.inf
        async with anyio.create_task_group() as group:
            group.start_soon(_harmless, partial(connection.watch_list, self._look))
            await self._up(connection)
            why = await self._look_after(connection)
            group.cancel_scope.cancel()
        return why

    async def _up(self, connection: Connection) -> None:
        self._connection, self._suspected = connection, False
        is_first = not self.settled.is_set()
        self.settled.set()
        self._changed()
        await self._say("started" if is_first else "restarted", self._left_out())

    async def _look_after(self, connection: Connection) -> str:
        """Renew the list when it changed, and find out whether a silent server still lives."""
        while True:
            await self._attention.wait()
            if self._said_all.is_set():
                return ""
            self._attention = anyio.Event()
            before = self._listing
            with anyio.move_on_after(PROBE_SECONDS) as probe:
                self._listing = await connection.listing()
            if probe.cancelled_caught:
                return f"it hangs: no answer within {PROBE_SECONDS:g} s"
            self._suspected = False
            self._changed()
            if self._listing != before:
                await self._say("changed", self._left_out())
            with anyio.move_on_after(REFRESH_PAUSE_SECONDS):
                await self._said_all.wait()

    # ── what wakes whom ──

    def _look(self) -> None:
        self._attention.set()

    def _nothing_more(self) -> None:
        self._said_all.set()
        self._attention.set()

    def _changed(self) -> None:
        self._change.set()
        self._change = anyio.Event()

    def _left_out(self) -> str:
        said = "; ".join(f"tool {said}" for said in self._listing.left_out)
        return f"left out: {said}" if said else ""

    async def _say(self, status: Status, text: str) -> None:
        tools = len(self._listing.tools)
        await self._tell(Happening(self.config.key, status, self.config.address, tools, text))

    # ── the callers' side ──

    async def _ready(self) -> Connection:
        """The connection, waited for while the server is started again. Raises `ToolError`."""
        with anyio.move_on_after(self.config.start_seconds + PROBE_SECONDS):
            while self._connection is None or self._suspected:
                if self._is_over:
                    raise ToolError(
                        f"the server {self.config.key} is not running any more: {self._why}. "
                        "Go on without it."
                    )
                await self._change.wait()
            return self._connection
        raise ToolError(
            f"the server {self.config.key} is being started again: try later, or go on without it"
        )

    async def _ask(
        self,
        connection: Connection,
        tool: str,
        arguments: dict[str, Any],
        *,
        may_repeat: bool = True,
    ) -> Any:
        try:
            return await connection.call(tool, arguments)
        # Whatever a server can do to the SDK is the model's to read.
        except Exception as error:  # noqa: BLE001
            said = reason_of(error)
        if said == _FORGOTTEN and may_repeat:
            # Nothing was done: the server does not know our session. A new one is begun.
            self._suspected = connection is self._connection
            self._attention.set()
            return await self._ask(await self._ready(), tool, arguments, may_repeat=False)
        self._attention.set()
        with anyio.move_on_after(_OBITUARY_SECONDS):
            if self._said_all.is_set() or said == _CLOSED:
                while self._connection is connection:
                    await self._change.wait()
        if self._connection is connection:
            raise ToolError(told(f"{self.config.key}/{_shown(tool)}", said))
        raise ToolError(
            f"the server {self.config.key} died during the call: {self._why or said}. Whether "
            f"{_shown(tool)} did its work is unknown: check before you call it again."
        )

    def _tool(self, offered: Offered) -> Tool:
        async def ask(**arguments: Any) -> Output:
            return await self.call(offered.tool, arguments)

        return Tool(
            name=offered.name,
            description=offered.description,
            input_schema=offered.input_schema,
            arguments=SchemaArguments(offered.name, offered.input_schema),
            function=ask,
            after_crash="repeat" if offered.only_reads else "ask",
        )


def _sdk() -> Any:
    # It takes a second to import: in a thread, and only where there is a server.
    from orchestrator.mcp import connection

    return connection


async def _harmless(watch: Callable[[], Awaitable[None]]) -> None:
    """Without news of its list a server is as good as before."""
    try:
        await watch()
    except Exception:  # noqa: BLE001
        return


def reason_of(error: BaseException) -> str:
    """What went wrong, in a line; of a group of errors the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = " ".join(str(error).split())[:300]
    if isinstance(error, FileNotFoundError):
        return f"no such program or folder: {error.filename}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return said or type(error).__name__


def _shown(tool: str) -> str:
    """A tool's name, which is its server's own text: it must not write into the frame of results."""
    return plain(tool)[:_SHOWN_NAME_CHARS]
