"""One HTTP exchange on an ASGI connection, with the ways to break it that ASGI does not offer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: SO_LINGER on, zero seconds: closing sends a reset instead of an orderly end.
_LINGER = struct.pack("ii", 1, 0)


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which also hands its transport to the application in `scope["state"]`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state: dict[str, Any] = {"transport": transport}
        super().connection_made(transport)


class Wire:
    """The response side of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport: asyncio.Transport = scope["state"]["transport"]
        self._receive = receive
        self._send = send
        self.headers: dict[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }

    @property
    def gone(self) -> bool:
        """The connection is closed, by either side."""
        return self._transport.is_closing()

    async def read(self, limit: int) -> bytes | None:
        """The request body; `None` if it is over the limit or the client left."""
        if int(self.headers.get("content-length", 0)) > limit:
            return None
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                return None
            body += message["body"]
            if len(body) > limit:
                return None
            if not message["more_body"]:
                return bytes(body)

    async def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def left(self) -> None:
        """Returns when the connection is closed, by either side."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reset(self) -> None:
        """Breaks the connection with a reset: nothing more arrives, and the client sees it."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self._transport.abort()
        await self.left()

    async def cut(self) -> None:
        """Ends the connection after what was written, in the middle of the body."""
        self._transport.close()
        # uvicorn takes an answer that is not finished for a bug, unless the connection is gone.
        await self.left()
