"""A request on its way to the Messages API, up to the headers of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from orchestrator.claude.faults import Target, from_answer, from_exception
from orchestrator.claude.fold import ReplyFold
from orchestrator.model import TRACED

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

_PATH = "/v1/messages"


@dataclass(frozen=True)
class Wire:
    """The SDK's client, and the HTTP client that it was made with. ``transport``: of that client, where
    it holds nothing of its own that requests must carry."""

    client: AsyncAnthropic
    http_client: httpx2.AsyncClient
    transport: httpx2.AsyncBaseTransport | None = None

    async def post(
        self, body: bytes, headers: Mapping[str, str], target: Target
    ) -> httpx2.Response:
        """The answer, once its headers are there and say success; its body is left to read.

        Raises `ModelError`.
        """
        with translated(target):
            traced = _is_traced()
            if traced or self._needs_the_sdk:
                return await self._through_the_sdk(body, headers, _span(target) if traced else {})
            response = await self._past_the_sdk(body, headers)
            if response.is_success:
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
        raise from_answer(response.status_code, _json_or_text(response), response.headers, target)

    @property
    def _needs_the_sdk(self) -> bool:
        """Whether it does more for a request than add headers: it renews tokens that expire, and works
        around a host with an underscore."""
        return self.client.credentials is not None or "_" in self.client.base_url.host

    async def _through_the_sdk(
        self, body: bytes, headers: Mapping[str, str], span: Mapping[str, Any]
    ) -> httpx2.Response:
        import httpx2
        from anthropic import AsyncStream

        # With `cast_to` a response, the SDK authenticates, sends and raises its typed errors, but
        # leaves the body to us. Its own streaming costs twice as much, and knows only its types.
        response = await self.client.post(
            _PATH,
            cast_to=httpx2.Response,
            content=body,
            options=cast("Any", {"headers": headers, **span}),
            stream=True,
            stream_cls=AsyncStream[Any],
        )
        return cast("httpx2.Response", response)

    async def _past_the_sdk(self, body: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        """What the SDK would send, without the third of a call's CPU that it takes to make that."""
        import httpx2
        from anthropic import APIConnectionError

        own = {name.encode(): value.encode() for name, value in headers.items()}
        try:
            if self.transport is not None:
                response = await self.transport.handle_async_request(self._bare(body, own))
                if not response.has_redirect_location:
                    return response
                await response.aclose()  # an address that has moved: the client follows it
            request = self.http_client.build_request(
                "POST",
                self._url,
                content=body,
                headers=self._headers | own,
                timeout=self.client.timeout,
            )
            return await self.http_client.send(request, stream=True)
        except Exception as error:
            # As the SDK does: whatever fails here, the service was not reached.
            raise APIConnectionError(request=httpx2.Request("POST", self._url)) from error

    def _bare(self, body: bytes, headers: dict[bytes, bytes]) -> httpx2.Request:
        """The request without what a client of one's own might add."""
        import httpx2

        return httpx2.Request(
            "POST",
            self._url,
            content=body,
            headers=self._headers_alone | headers,
            extensions=self._timeout,
        )

    @cached_property
    def _headers_alone(self) -> dict[bytes, bytes]:
        """What our own client adds to `_headers`, and those. Bodies come as they are, unpacked."""
        plain = self.http_client.build_request("POST", self._url).headers.raw
        added = {name.lower(): value for name, value in plain} | {b"accept-encoding": b"identity"}
        del added[b"content-length"]
        return added | self._headers

    @cached_property
    def _timeout(self) -> dict[str, Any]:
        import httpx2

        return {"timeout": httpx2.Timeout(self.client.timeout).as_dict()}

    @cached_property
    def _url(self) -> httpx2.URL:
        return self.client.base_url.join(_PATH.removeprefix("/"))

    @cached_property
    def _headers(self) -> dict[bytes, bytes]:
        """What the SDK adds, authentication included; of two spellings of a name the later holds."""
        given = self.client.default_headers.items()
        texts = ((name.lower(), value) for name, value in given if isinstance(value, str))
        return {name.encode(): value.encode() for name, value in texts}


def _is_traced() -> bool:
    """Whether the SDK is to make a span of this call: `orchestrator.telemetry` says so."""
    from opentelemetry import context  # the SDK brings it

    return bool(context.get_value(TRACED))


def _span(target: Target) -> Mapping[str, Any]:
    """What the SDK's own method says of its span; it cannot read that from bytes."""
    attributes = {"gen_ai.request.model": target.model}
    return {"span_name": "anthropic.messages.create", "span_attributes": attributes}


def _json_or_text(response: httpx2.Response) -> object:
    try:
        body: object = json.loads(response.text)
    except (ValueError, RecursionError):
        return response.text.strip()
    return body


@contextmanager
def translated(target: Target, fold: ReplyFold | None = None) -> Iterator[None]:
    """Raise the SDK's and its transport's errors as ours; ``fold``: of the answer that had begun."""
    try:
        yield
    except Exception as error:
        failure = from_exception(
            error,
            target,
            usage=fold.usage if fold else None,
            request_id=fold.request_id if fold else None,
            began=fold is not None,
        )
        if failure is None:
            raise
        # Not `from error`: its text, and the request it holds, may repeat the key.
        raise failure from None
