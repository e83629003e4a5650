"""One connection to a server, from its start to its end, by the SDK's client."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from orchestrator.mcp.config import ServerConfig
from orchestrator.mcp.http import http_streams
from orchestrator.mcp.listing import MOST_TOOLS, Listing, read_listing
from orchestrator.mcp.stdio import ServerProcess, Stderr, stdio_streams

__all__ = ["Connection", "ServerProcess", "Stderr", "connected"]

# The most pages of a list of tools: a server that never ends its list must not hold up a run.
_MOST_PAGES = 20

for _name in ("mcp", "client"):
    # The SDK logs tracebacks of what servers do wrong. Whoever sets up logging sees them still; but
    # they do not land on the terminal by themselves.
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Connection:
    """A connection that is up."""

    def __init__(self, client: Client, key: str, read: _Reading) -> None:
        self._client = client
        self._key = key
        self._read = read

    async def listing(self) -> Listing:
        """The server's tools as they are now. Raises what the SDK raises."""
        entries: list[object] = []
        self._read.entries = entries
        try:
            await self._turn_pages(entries)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise  # else it has no tools, only other things
        finally:
            self._read.entries = None
        return read_listing(self._key, entries)

    async def _turn_pages(self, entries: list[object]) -> None:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            cursor = page.next_cursor
            if cursor is None or len(entries) > 2 * MOST_TOOLS:
                return

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool. Raises what the SDK raises."""
        return await self._client.call_tool(tool, arguments)

    async def watch_list(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever the server says that its list did, where it must be asked to."""
        if self._client.server_capabilities.tools is None:
            return
        if self._client.session.discover_result is None:
            return  # older protocols tell it unasked
        async with self._client.listen(tools_list_changed=True) as events:
            async for _ in events:
                changed()


@asynccontextmanager
async def connected(
    config: ServerConfig,
    root: Path,
    about: ServerProcess,
    changed: Callable[[], None],
    over: Callable[[], None],
) -> AsyncIterator[Connection]:
    """Connect, and agree on a protocol.

    ``changed()``: the server's list did; ``over()``: the server says nothing more. Raises ``OSError``
    and what the SDK raises, also wrapped in exception groups.
    """
    reading = _Reading()

    async def hear(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    client = Client(
        _transport(config, root, about, over, reading),
        message_handler=hear,
        client_info=types.Implementation(name="outrider", version=version("outrider")),
        cache=None,
    )
    async with client:
        yield Connection(client, config.key, reading)


@asynccontextmanager
async def _transport(
    config: ServerConfig,
    root: Path,
    about: ServerProcess,
    over: Callable[[], None],
    reading: _Reading,
) -> AsyncIterator[Any]:
    if config.transport == "stdio":
        streams = stdio_streams([config.command, *config.args], config.env, root, about, over)
    else:
        streams = http_streams(config)
    async with streams as (incoming, outgoing):
        yield _Mended(incoming, reading), outgoing


class _Reading:
    """The entries of a list of tools as they come, while one is read."""

    def __init__(self) -> None:
        self.entries: list[object] | None = None

    def mend(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Take the tools out of a list, and leave in it what the SDK needs of each: one entry that it
        cannot read would cost all of them."""
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, types.JSONRPCResponse):
            return item
        tools = message.result.get("tools")
        if isinstance(tools, list):
            if self.entries is not None:
                self.entries += tools
            message.result["tools"] = [_needed(tool) for tool in tools if _is_tool(tool)]
        return item


def _is_tool(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("inputSchema"), dict)
        and entry["inputSchema"].get("type") == "object"
    )


def _needed(entry: dict[str, Any]) -> dict[str, Any]:
    # Without an output schema: the SDK would run a server's regular expressions over its results.
    return {"name": entry["name"], "inputSchema": entry["inputSchema"]}


class _Mended:
    """The SDK's stream of messages, each looked at on its way."""

    def __init__(self, inner: Any, reading: _Reading) -> None:
        self._inner = inner
        self._reading = reading

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._reading.mend(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._reading.mend(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        result: bool | None = await self._inner.__aexit__(kind, error, traceback)
        return result
