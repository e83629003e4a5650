"""A server behind an address: streamable HTTP, or the older SSE, with bounds on what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from orchestrator.mcp.config import ServerConfig
from orchestrator.mcp.lines import MOST_BYTES

CONNECT_SECONDS = 15.0
# A stream of events may stay open as long as the run.
_STREAM_BYTES = 256_000_000


class TooMuch(httpx2.StreamError):
    """The server sent more than is kept."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, chunks = 0, self._inner.__aiter__()
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._most:
                    raise TooMuch(f"its answer of over {self._most:,} bytes was too long to keep")
                yield chunk
        finally:
            # trio warns of a generator that is dropped half-way.
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Put a limit on a body before it is read. What is packed could unpack to anything."""
    if response.headers.get("content-encoding", "identity").strip().casefold() != "identity":
        await response.aclose()
        raise TooMuch("its answer is compressed, which was not asked for")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, _STREAM_BYTES if is_stream else MOST_BYTES)


def _client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={**(headers or {}), "accept-encoding": "identity"},
        # How long a call may take is decided by who makes it.
        timeout=timeout or httpx2.Timeout(CONNECT_SECONDS, read=None),
        event_hooks={"response": [_bound]},
        auth=auth,
    )


@asynccontextmanager
async def http_streams(config: ServerConfig) -> AsyncIterator[Any]:
    """The SDK's streams to the server."""
    headers = dict(config.headers)
    if config.transport == "sse":
        async with sse_client(config.url, headers=headers, httpx_client_factory=_client) as streams:
            yield streams
        return
    async with (
        _client(headers) as client,
        streamable_http_client(
            config.url, http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams
