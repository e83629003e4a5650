"""`ClaudeModel`: a `Model` over the Messages API."""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import anyio

from orchestrator.claude.certificates import LateCertificates
from orchestrator.claude.faults import Target
from orchestrator.claude.fold import ReplyFold
from orchestrator.claude.sse import EventDecoder
from orchestrator.claude.wire import Wire, translated
from orchestrator.errors import (
    CallTimedOut,
    ConfigError,
    InvalidReply,
    RequestRejected,
    Unauthenticated,
    UnknownModel,
)
from orchestrator.model import ModelFacts, Reply, Request

if TYPE_CHECKING:
    import httpx2

_OWN_HOST = "anthropic.com"
# Sent where a base URL is given and no key: local servers want the header and ignore its value.
PLACEHOLDER_KEY = "no-key"
# How long a reply waits for the end of its HTTP body. Nearly always that has come already; reading it
# keeps the connection for the next call.
DRAIN_SECONDS = 1.0
# Ids in headers are for attribution only; servers refuse headers of more than some 8,000 bytes.
HEADER_CHARS = 512


class ClaudeModel:
    """Claude, or any server that speaks the Messages API, through the official SDK.

    ``api_key`` and ``base_url``: as for the SDK, which also reads the environment and its profiles.
    A base URL without any key is a local server's: it is sent a placeholder.
    ``connect_timeout``: seconds to reach the server. ``read_timeout``: seconds of silence, before
    the answer as well as within it, after which a call has failed (`CallTimedOut`).
    ``http_client``: a client of one's own, for proxies, certificates and tests.

    The connections belong to one event loop: use an instance within one, then `aclose` it.
    The SDK's retries are off: `orchestrator.retry` is the one place for them.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        connect_timeout: float = 10.0,
        read_timeout: float = 120.0,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ConfigError("the base URL must begin with http:// or https://")
        self._api_key = api_key
        self._base_url = base_url
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._http_client = http_client
        self._made: Wire | None = None

    async def __call__(self, request: Request) -> Reply:
        """Answer ``request``. Raises `ModelError`."""
        target = self._target(request.model)
        seconds = math.inf if request.seconds is None else request.seconds
        deadline = anyio.current_time() + seconds
        body = request.body[:-1] + b',"stream":true}'
        response = await self._wire.post(body, _attribution(request), target)
        try:
            _expect_event_stream(response, target)
            fold = ReplyFold(target, response.headers.get("request-id"))
            async with aclosing(response.aiter_bytes()) as chunks:
                try:
                    with translated(target, fold), anyio.CancelScope(deadline=deadline) as scope:
                        await _fill(fold, chunks)
                finally:
                    await _drain(chunks)
            if scope.cancelled_caught:
                text = target.sentence(CallTimedOut, "the time for this call was over")
                raise CallTimedOut(text, usage=fold.usage, request_id=fold.request_id)
            return fold.finish()
        finally:
            await response.aclose()

    async def describe(self, name: str) -> ModelFacts:
        """What the server says of model ``name``; empty where it has no such list.

        Raises `ModelError`, for a wrong key or no connection.
        """
        found = await self._get(f"/v1/models/{quote(name, safe='')}", name)
        facts = replace(_facts(found), diagnostics=self._is_first_party)
        if facts.window is not None:
            return facts
        # Local servers have the list only (llama.cpp), or say more in it.
        listed = await self._get("/v1/models?limit=1000", name)
        entries = listed.get("data") if isinstance(listed, Mapping) else None
        return _facts(_entry(entries, name)) if isinstance(entries, list) else facts

    @property
    def _is_first_party(self) -> bool:
        """Whether this is the provider's own service: others may refuse what they do not know."""
        host = urlsplit(self._base_url or "").hostname or ""
        return self._base_url is None or host == _OWN_HOST or host.endswith(f".{_OWN_HOST}")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.client.close()

    async def _get(self, path: str, model: str) -> object:
        """The JSON at ``path``; ``None`` where the server has nothing there."""
        with suppress(UnknownModel, RequestRejected), translated(self._target(model)):
            return await self._wire.client.get(path, cast_to=object)
        return None

    @property
    def _wire(self) -> Wire:
        """Made at the first call."""
        if self._made is None:
            import anthropic

            # Writes get the same patience; a free connection is waited for without a limit, since
            # it is ours that are in use.
            timeout = anthropic.Timeout(
                self._read_timeout, connect=self._connect_timeout, pool=None
            )
            http_client, transport = self._http_client, None
            if http_client is None:
                http_client, transport = _own_client()
            client = anthropic.AsyncAnthropic(
                api_key=self._key(),
                base_url=self._base_url,
                max_retries=0,
                timeout=timeout,
                http_client=http_client,
            )
            self._made = Wire(client, http_client, transport)
        return self._made

    def _key(self) -> str | None:
        """The key to give the SDK; ``None`` leaves it to look in the environment and its profiles."""
        in_environment = os.environ.get("ANTHROPIC_API_KEY") or os.environ.get(
            "ANTHROPIC_AUTH_TOKEN"
        )
        if self._api_key or in_environment or self._base_url is None:
            return self._api_key or None
        return PLACEHOLDER_KEY

    def _target(self, model: str) -> Target:
        """Who is called. Raises `Unauthenticated` where there is nothing to call with."""
        fallback = Target(self._base_url or "https://api.anthropic.com", model)
        with translated(fallback):
            client = self._wire.client
        secret = client.api_key or client.auth_token or ""
        if not secret and client.credentials is None:
            raise Unauthenticated(
                "no API key: set ANTHROPIC_API_KEY, or give --base-url for a local server"
            )
        return Target(str(client.base_url), model, secret)


def _own_client() -> tuple[httpx2.AsyncClient, httpx2.AsyncBaseTransport | None]:
    """A client for HTTP, and its transport where that may be used by itself."""
    import anthropic

    from orchestrator.claude.transport import DirectTransport

    context = LateCertificates(ssl.PROTOCOL_TLS_CLIENT)
    if getproxies():
        return anthropic.DefaultAsyncHttpxClient(verify=context), None
    transport = DirectTransport(context)
    return anthropic.DefaultAsyncHttpxClient(transport=transport), transport


async def _fill(fold: ReplyFold, chunks: AsyncIterator[bytes]) -> None:
    """Read events into ``fold`` up to the message's end, or the stream's."""
    decoder = EventDecoder()
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            fold.feed(event)
        if fold.complete:
            return


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows a finished or failed reply. Nothing that goes wrong there matters to it.

    Also for the transport's generators: left suspended, trio complains about each of them.
    """
    import httpx2

    with suppress(httpx2.HTTPError), anyio.move_on_after(DRAIN_SECONDS):
        async for _ in chunks:
            pass


def _expect_event_stream(response: httpx2.Response, target: Target) -> None:
    """Refuse a page of a proxy or a portal, which answer 200 as well."""
    content_type = response.headers.get("content-type", "").partition(";")[0].strip()
    if content_type not in ("", "text/event-stream"):
        what = f"{content_type} in place of an event stream: check --base-url"
        raise InvalidReply(target.sentence(InvalidReply, what), status=response.status_code)


def _attribution(request: Request) -> dict[str, str]:
    """For whom a call is made, so that a gateway can tell costs apart."""
    headers = {
        "x-outrider-run": request.run_id,
        "x-outrider-agent": request.agent_id,
        "x-outrider-purpose": request.purpose,
    }
    # Agent ids hold ids that a server made up: anything could be in them.
    return {
        key: quote(value, safe="/:@+")[:HEADER_CHARS] for key, value in headers.items() if value
    }


def _entry(entries: list[Any], name: str) -> object:
    """The list's entry of that name. A server with one model answers to any name (llama.cpp)."""
    named = (entry for entry in entries if isinstance(entry, Mapping) and entry.get("id") == name)
    return next(named, entries[0] if len(entries) == 1 else None)


def _facts(entry: object) -> ModelFacts:
    """From an entry of ``/v1/models``: the official one, vLLM's or llama.cpp's (``meta.n_ctx``)."""
    if not isinstance(entry, Mapping):
        return ModelFacts()
    meta = entry.get("meta")
    local = meta.get("n_ctx") if isinstance(meta, Mapping) else None
    return ModelFacts(
        window=_tokens(entry.get("max_input_tokens"))
        or _tokens(entry.get("max_model_len"))
        or _tokens(local),
        output_cap=_tokens(entry.get("max_tokens")),
    )


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
