"""One GET, over HTTP as it is: bounded in bytes, hops and seconds, and only to checked addresses.

A name is resolved once for each hop; every address it leads to is checked, and the connection is
made to one of those, so that a name server cannot say one thing to the check and another to the
connection. The name still goes into the Host header and into TLS. Proxies, cookies and credentials
are not used.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio

from orchestrator.web.addresses import canonical
from orchestrator.web.content import Answer
from orchestrator.web.guard import FetchFailed, Guard

if TYPE_CHECKING:
    import ssl

    import httpx2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_HEADERS = {
    "User-Agent": "outrider",
    "Accept": "text/markdown, text/html;q=0.9, application/json;q=0.9, text/*;q=0.8, */*;q=0.5",
    # What can be unpacked piece by piece within a limit.
    "Accept-Encoding": "gzip",
    "Connection": "close",
}
_REDIRECTS = (301, 302, 303, 307, 308)
_MEDIA = re.compile(r"image/(?!svg)|application/pdf")
_HOST = re.compile(r"(?:[a-z0-9._-]{1,254}|\[[0-9a-f:.]+\])(?::\d+)?")
_CLOSING_SECONDS = 1.0
_TRIED_ADDRESSES = 3
_SHOWN_CHARS = 500


async def resolved(host: str, port: int) -> list[str]:
    """All addresses of a host, as this machine finds them. Raises ``OSError``."""
    import socket

    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True)
class Bounds:
    """``seconds`` for everything, ``connect_seconds`` for each address, ``silent_seconds`` between
    two pieces. ``text_bytes`` are read of a text, unpacked; ``media_bytes`` of an image or PDF."""

    seconds: float = 30.0
    connect_seconds: float = 10.0
    silent_seconds: float = 15.0
    text_bytes: int = 5_000_000
    media_bytes: int = 22_500_001
    redirects: int = 5


@dataclass(frozen=True)
class Client:
    """Fetches. ``verify``: which certificates are trusted, if not those of this machine."""

    guard: Guard
    bounds: Bounds = field(default_factory=Bounds)
    resolve: Resolve = resolved
    verify: ssl.SSLContext | None = None

    async def get(self, url: str) -> Answer:
        """The answer at ``url``, redirects followed. Raises `FetchFailed`."""
        with anyio.move_on_after(self.bounds.seconds):
            return await self._follow(url)
        raise FetchFailed(f"{_shown(url)}: no whole answer within {self.bounds.seconds:g} seconds")

    async def _follow(self, url: str) -> Answer:
        target, came_from = _parsed(url), None
        first = _host(target)
        for hop in range(self.bounds.redirects + 1):
            answer = await self._hop(target, came_from, hop)
            if isinstance(answer, Answer):
                return answer
            before, target = target, _parsed(answer)
            # To the host that was asked for, nobody has to be asked again.
            came_from = None if _host(target) == first else _shown(before)
        raise FetchFailed(
            f"{_shown(url)}: more than {self.bounds.redirects} redirects; "
            f"the last is to {_shown(target)}"
        )

    async def _hop(self, target: httpx2.URL, came_from: str | None, hop: int) -> Answer | str:
        """The answer, or where it redirects to."""
        import httpx2

        self.guard.check_host(_host(target), _shown(target), came_from)
        addresses = await self._addresses(target)
        self.guard.check_addresses(_host(target), addresses)
        try:
            async with self._answered(target, addresses[:_TRIED_ADDRESSES]) as response:
                to = response.headers.get("location")
                if response.status_code in _REDIRECTS and to:
                    return _joined(target, to)
                return await self._read(target, response, hop)
        # A broken TLS connection is an OSError of the standard library.
        except (httpx2.HTTPError, OSError) as error:
            raise FetchFailed(f"{_shown(target)}: {_said(error, self.bounds)}") from None

    async def _addresses(self, target: httpx2.URL) -> Sequence[str]:
        host = _host(target)
        port = target.port or (443 if target.scheme == "https" else 80)
        try:
            return await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"{host}: no such host ({_why(error)})") from None

    @asynccontextmanager
    async def _answered(
        self, target: httpx2.URL, addresses: Sequence[str]
    ) -> AsyncIterator[httpx2.Response]:
        """The response of the first address that can be connected to."""
        import httpx2

        for address in addresses[:-1]:
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                async with self._exchange(target, address) as response:
                    yield response
                return
        async with self._exchange(target, addresses[-1]) as response:
            yield response

    @asynccontextmanager
    async def _exchange(self, target: httpx2.URL, address: str) -> AsyncIterator[httpx2.Response]:
        """Send to ``address``; nothing that was opened stays open."""
        import httpx2

        opened: list[Any] = []

        async def note(event: str, info: dict[str, Any]) -> None:
            # A handshake that is cancelled leaves its socket to nobody.
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                opened.append(info["return_value"])

        bounds = self.bounds
        timeout = httpx2.Timeout(bounds.silent_seconds, connect=bounds.connect_seconds, pool=None)
        request = httpx2.Request(
            "GET",
            target.copy_with(host=address.partition("%")[0], fragment=None),
            headers={**_HEADERS, "Host": target.netloc.decode("ascii")},
            extensions={"timeout": timeout.as_dict(), "sni_hostname": _host(target), "trace": note},
        )
        transport = httpx2.AsyncHTTPTransport(verify=self.verify or _certificates())
        try:
            response = await transport.handle_async_request(request)
            try:
                yield response
            finally:
                await _closed(response.aclose)
        finally:
            await _closed(transport.aclose)
            for stream in opened:
                await _closed(stream.aclose)

    async def _read(self, target: httpx2.URL, response: httpx2.Response, hop: int) -> Answer:
        media_type, charset = _content_type(response.headers.get("content-type", ""))
        bounds = self.bounds
        body = _Body(
            limit=bounds.media_bytes if _MEDIA.match(media_type) else bounds.text_bytes,
            unpack=_unpacker(_shown(target), response.headers.get("content-encoding", "")),
        )
        # Cancelled rather than left: the transport has generators inside generators, and only an
        # exception from within ends all of them.
        with anyio.CancelScope() as enough:
            async for piece in response.aiter_raw():
                if not body.take(piece):
                    enough.cancel()
        if body.failure is not None:
            raise body.failure
        return Answer(
            url=str(target),
            status=response.status_code,
            reason=_plain(response.reason_phrase),
            media_type=media_type,
            charset=charset,
            body=bytes(body.data[: body.limit]),
            is_cut=len(body.data) > body.limit,
            redirects=hop,
        )


@dataclass
class _Body:
    """What has come so far, unpacked, up to a byte more than ``limit``."""

    limit: int
    unpack: Callable[[bytes, int], bytes]
    data: bytearray = field(default_factory=bytearray)
    failure: FetchFailed | None = None

    def take(self, piece: bytes) -> bool:
        """Whether more is wanted."""
        room = self.limit + 1 - len(self.data)
        if room <= 0 or self.failure is not None:
            return False
        try:
            self.data += self.unpack(piece, room)
        except FetchFailed as failure:
            self.failure = failure
        return self.failure is None and len(self.data) <= self.limit


async def _closed(close: Callable[[], Awaitable[None]]) -> None:
    """Close something whatever goes on; nothing that goes wrong there matters any more."""
    with suppress(Exception), anyio.move_on_after(_CLOSING_SECONDS, shield=True):
        await close()


# ── addresses ──


def _parsed(url: str) -> httpx2.URL:
    """Raises `FetchFailed` for anything but a plain http or https URL with a host."""
    import httpx2

    try:
        parsed = httpx2.URL(url.strip())
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise FetchFailed(f"{_shown(url)}: cannot be read as a URL ({_why(error)})") from None
    netloc = parsed.netloc.decode("ascii")
    wrong = None
    if parsed.scheme not in ("http", "https"):
        wrong = "only http:// and https:// can be fetched"
    elif parsed.userinfo:
        # Not repeated: it may be a secret.
        raise FetchFailed(f"{netloc}: a URL with a user name or password is not fetched")
    elif not _HOST.fullmatch(netloc):
        wrong = "its host cannot be read"
    elif parsed.port is not None and not 0 < parsed.port < 65_536:
        wrong = f"there is no port {parsed.port}"
    if wrong is not None:
        raise FetchFailed(f"{_shown(url)}: {wrong}")
    return parsed


def _host(url: httpx2.URL) -> str:
    return canonical(url.raw_host.decode("ascii"))


def _joined(url: httpx2.URL, location: str) -> str:
    import httpx2

    try:
        return str(url.join(location))
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise FetchFailed(
            f"{_shown(url)}: redirects to what cannot be read as a URL ({_why(error)})"
        ) from None


def _shown(url: httpx2.URL | str) -> str:
    """A URL inside a message."""
    text = str(url)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


# ── what comes ──


def _content_type(header: str) -> tuple[str, str | None]:
    media_type, _, rest = header.partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([^\s\"';]+)", rest, re.IGNORECASE)
    return _plain(media_type.strip().lower()), charset[1] if charset else None


def _plain(text: str) -> str:
    """A server's word as it may stand in the first line."""
    return re.sub(r"[^\x20-\x7e]|[\[\]·]", "", text)[:100]


def _unpacker(url: str, encoding: str) -> Callable[[bytes, int], bytes]:
    """What unpacks the pieces of a body, at most so many bytes of each. Raises `FetchFailed`."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return lambda piece, most: piece[:most]
    if name not in ("gzip", "x-gzip", "deflate"):
        raise FetchFailed(f"{url}: is packed as {_plain(name)}, although only gzip was asked for")
    # 32: gzip and zlib by their first bytes.
    packed = zlib.decompressobj(32 + zlib.MAX_WBITS)

    def unpack(piece: bytes, most: int) -> bytes:
        try:
            return packed.decompress(piece, most)
        except zlib.error:
            raise FetchFailed(f"{url}: is damaged: not {name}, as it says") from None

    return unpack


@cache
def _certificates() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()


# ── errors ──


def _said(error: Exception, bounds: Bounds) -> str:
    import httpx2

    table: tuple[tuple[type[Exception], str], ...] = (
        (httpx2.ConnectTimeout, f"no connection within {bounds.connect_seconds:g} seconds"),
        (httpx2.TimeoutException, f"nothing came for {bounds.silent_seconds:g} seconds"),
        (httpx2.ConnectError, "no connection"),
        (httpx2.ProtocolError, "the answer is no valid HTTP"),
        (httpx2.NetworkError, "the connection broke"),
    )
    words = next((said for kind, said in table if isinstance(error, kind)), "it failed")
    return f"{words} ({why})" if (why := _why(error)) else words


def _why(error: BaseException) -> str:
    """An error's own words, or those of what caused it, short and on one line."""
    text = ""
    cause: BaseException | None = error
    while cause is not None and not text:
        text = getattr(cause, "strerror", None) or str(cause)
        cause = cause.__cause__ or cause.__context__
    return " ".join(text.split())[:200]
