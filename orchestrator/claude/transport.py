"""HTTP/1.1 straight on h11 and anyio, beneath the client that the SDK is given.

What httpx2's own transport does for each request besides (a pool that serves requests in turn, locks, traces,
HTTP/2) costs as much CPU as the request itself. Here nobody waits for a connection, since the gates before a
call do that: a request takes a free one or opens one. Proxies are not for this transport: where the environment
names some, the client keeps httpx2's.
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

import anyio
import h11
import httpx2
from anyio.abc import ByteStream, SocketAttribute

# The SDK's own limits: servers, and the boxes between, drop a connection that is idle for long.
IDLE_SECONDS = 5.0
MOST_IDLE = 100
_READ_BYTES = 65_536
# The longest status line with headers.
_HEAD_BYTES = 100 * 1_024

Seconds = Mapping[str, float | None]


class Origin(NamedTuple):
    """Where a connection leads to."""

    scheme: str
    host: str
    port: int


class DirectTransport(httpx2.AsyncBaseTransport):
    """A transport of httpx2: one request at a time on each connection. ``context``: for ``https://``.

    A request's time limits are those in its ``timeout`` extension. Raises httpx2's errors.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._idle: dict[Origin, list[Connection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        seconds: Seconds = request.extensions.get("timeout", {})
        body = await request.aread()
        connection = await self._connection(_origin(request.url), seconds)
        try:
            head = await connection.ask(request, body)
        except BaseException:
            await connection.abort()
            raise
        return httpx2.Response(
            head.status_code,
            headers=head.headers.raw_items(),
            stream=_Body(self, connection),
            extensions={"http_version": b"HTTP/" + head.http_version},
        )

    async def aclose(self) -> None:
        """Close the connections that are free."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await connection.abort()

    async def keep(self, connection: Connection) -> None:
        """Take back a connection whose answer was read."""
        idle = self._idle.setdefault(connection.origin, [])
        if connection.is_reusable() and len(idle) < MOST_IDLE:
            idle.append(connection)
        else:
            await connection.abort()
        while idle and idle[0].is_old:
            await idle.pop(0).abort()

    async def _connection(self, origin: Origin, seconds: Seconds) -> Connection:
        """The newest of the free ones that still holds, else a new one."""
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if not connection.is_old and not connection.is_hung_up:
                connection.seconds = seconds
                return connection
            await connection.abort()
        return Connection(origin, await self._open(origin, seconds.get("connect")), seconds)

    async def _open(self, origin: Origin, seconds: float | None) -> ByteStream:
        scheme, host, port = origin
        with _told(httpx2.ConnectTimeout, httpx2.ConnectError), anyio.fail_after(seconds):
            if scheme == "http":
                return await anyio.connect_tcp(host, port)
            self._context.set_alpn_protocols(["http/1.1"])
            return await anyio.connect_tcp(
                host,
                port,
                ssl_context=self._context,
                tls_hostname=host,
                # Many servers end without TLS's own word for it; HTTP says where an answer ends.
                tls_standard_compatible=False,
            )


class Connection:
    """A connection, and what h11 knows of it. ``seconds``: the time limits of the present request."""

    def __init__(self, origin: Origin, stream: ByteStream, seconds: Seconds) -> None:
        self.origin = origin
        self.seconds = seconds
        self._stream = stream
        self._descriptor = stream.extra(SocketAttribute.raw_socket).fileno()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._idle_since = 0.0

    async def ask(self, request: httpx2.Request, body: bytes) -> h11.Response:
        """Send ``request``, whole. Returns the head of its answer."""
        # A server may refuse a request before it has read it, and hang up: it has said why.
        with suppress(httpx2.WriteError):
            await self._send(request, body)
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response):
                return event

    async def next_event(self) -> object:
        """What comes next in the answer."""
        with _told(httpx2.ReadTimeout, httpx2.ReadError):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
            return event

    def is_reusable(self) -> bool:
        """Whether the answer was read to its end, and another request may follow."""
        states = (self._http.our_state, self._http.their_state)
        if states != (h11.DONE, h11.DONE) or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self._idle_since = time.monotonic()
        return True

    @property
    def is_old(self) -> bool:
        return time.monotonic() - self._idle_since > IDLE_SECONDS

    @property
    def is_hung_up(self) -> bool:
        """Whether the server has closed it: there is something to read where nothing was asked."""
        return _is_readable(self._descriptor)

    async def abort(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def _send(self, request: httpx2.Request, body: bytes) -> None:
        with _told(httpx2.WriteTimeout, httpx2.WriteError):
            head = h11.Request(
                method=request.method, target=request.url.raw_path, headers=request.headers.raw
            )
            events = (head, h11.Data(data=body), h11.EndOfMessage())
            data = b"".join(self._http.send(event) or b"" for event in events)
            with anyio.fail_after(self.seconds.get("write")):
                await self._stream.send(data)

    async def _receive(self) -> bytes:
        try:
            with anyio.fail_after(self.seconds.get("read")):
                return await self._stream.receive(_READ_BYTES)
        except anyio.EndOfStream:
            return b""


class _Body(httpx2.AsyncByteStream):
    """What follows the head of an answer. Closed, it gives its connection back."""

    def __init__(self, transport: DirectTransport, connection: Connection) -> None:
        self._transport = transport
        self._connection: Connection | None = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None:
            event = await self._connection.next_event()
            if not isinstance(event, h11.Data):
                return
            yield bytes(event.data)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._transport.keep(connection)


def _origin(url: httpx2.URL) -> Origin:
    port = url.port or (443 if url.scheme == "https" else 80)
    return Origin(url.scheme, url.raw_host.decode("ascii"), port)


def _is_readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _told(late: type[httpx2.TimeoutException], broken: type[httpx2.NetworkError]) -> Iterator[None]:
    """As httpx2 says it: ``late`` when the time is over, ``broken`` when the connection fails."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
        raise broken(str(error)) from error
    except h11.RemoteProtocolError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error
    except h11.LocalProtocolError as error:
        raise httpx2.LocalProtocolError(str(error)) from error
