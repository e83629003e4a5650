"""How a request goes out: past the SDK where that adds headers only, else through it; both the same."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSListener, TLSStream

from orchestrator.claude import ClaudeModel
from orchestrator.errors import (
    CallTimedOut,
    ConnectionDropped,
    ConnectionFailed,
    ContextOverflow,
    ModelError,
    Overloaded,
    RequestRejected,
    ServerFailed,
    Unauthenticated,
    UnknownModel,
)
from orchestrator.messages import encode, user
from orchestrator.model import Request

pytestmark = pytest.mark.anyio
REQUEST = Request("claude-x", [user("Hello")], agent_id="main", run_id="run-1")
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"model": "claude-x-1", "usage": {"input_tokens": 9}}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
STREAM = b"".join(b"data: " + encode(event) + b"\n\n" for event in EVENTS)
# To a host with an underscore the SDK sends by itself: it works around what such a name breaks.
PAST, THROUGH = "http://server", "http://my_server"
Answer = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture(autouse=True)
def no_keys_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE", "CUSTOM_HEADERS", "CONFIG_DIR"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def by_sdk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the SDK posts to."""
    import anthropic

    paths: list[str] = []
    post = anthropic.AsyncAnthropic.post

    def noted(self: Any, path: str, **options: Any) -> Any:
        paths.append(path)
        return post(self, path, **options)

    monkeypatch.setattr(anthropic.AsyncAnthropic, "post", noted)
    return paths


def over(answer: Answer, base_url: str, **options: Any) -> ClaudeModel:
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), **options)
    return ClaudeModel("a-key", base_url, http_client=client)


def replied(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=STREAM)


async def sent_to(base_url: str, **options: Any) -> httpx2.Request:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return replied(request)

    async with aclosing(over(answer, base_url, **options)) as model:
        await model(REQUEST)
    (request,) = requests
    return request


async def test_a_plain_key_goes_past_the_sdk_and_an_odd_host_through_it(by_sdk: list[str]) -> None:
    await sent_to(PAST)
    assert by_sdk == []
    await sent_to(THROUGH)
    assert by_sdk == ["/v1/messages"]


@pytest.mark.parametrize("path", ["", "/gateway/claude", "/gateway/claude/"])
async def test_both_ways_send_the_same(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, bytes and headers, those of the environment and of one's own client too."""
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: blue\nAUTHORIZATION: Basic 0")
    options = {"headers": {"x-own": "1"}, "cookies": {"a": "b"}, "params": {"region": "eu"}}
    past, through = [await sent_to(f"{host}{path}", **options) for host in (PAST, THROUGH)]
    # What the SDK says of its own retries and time limits.
    own = ("host", "x-stainless-timeout", "x-stainless-retry-count", "x-stainless-read-timeout")
    seen = [
        {name: value for name, value in request.headers.multi_items() if name not in own}
        for request in (past, through)
    ]
    assert seen[0] == seen[1]
    assert seen[0]["x-team"] == "blue"
    assert past.headers.get_list("authorization") == ["Basic 0"]
    assert (seen[0]["x-own"], seen[0]["cookie"]) == ("1", "a=b")
    assert past.content == through.content
    assert past.url.raw_path == through.url.raw_path
    assert past.url.path == f"{path.rstrip('/')}/v1/messages"
    assert past.extensions["timeout"] == through.extensions["timeout"]


async def test_the_models_own_time_limits_hold_also_in_a_client_of_ones_own() -> None:
    request = await sent_to(PAST, timeout=3)
    assert request.extensions["timeout"] == {
        "connect": 10.0,
        "read": 120.0,
        "write": 120.0,
        "pool": None,
    }


def failing(error: Exception) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise error

    return answer


def refusing(status: int, body: Any, **headers: str) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if isinstance(body, str):
            return httpx2.Response(status, text=body, headers=headers)
        return httpx2.Response(status, json=body, headers=headers)

    return answer


FAILURES: list[tuple[Answer, type[ModelError]]] = [
    (refusing(401, {"error": {"type": "authentication_error", "message": "no"}}), Unauthenticated),
    (refusing(400, {"error": {"message": "prompt is too long: 9 > 8"}}), ContextOverflow),
    (refusing(400, {"error": {"message": "é"}}, **{"request-id": "r1"}), RequestRejected),
    (refusing(404, "<html>"), UnknownModel),
    (refusing(529, {"error": {"type": "overloaded_error"}}, **{"retry-after": "7"}), Overloaded),
    (refusing(503, "  try later\n"), ServerFailed),
    (refusing(500, "[" * 100_000), ServerFailed),
    (refusing(302, "", location="https://elsewhere/"), ServerFailed),
    (failing(httpx2.ConnectError("no route")), ConnectionFailed),
    (failing(httpx2.ConnectTimeout("connect")), ConnectionFailed),
    (failing(httpx2.ReadTimeout("read")), CallTimedOut),
    (failing(httpx2.RemoteProtocolError("closed")), ConnectionDropped),
    (failing(httpx2.InvalidURL("what")), UnknownModel),
    (failing(OSError("broken pipe")), ConnectionFailed),
    (lambda _: httpx2.Response(500, stream=Breaking()), ConnectionDropped),
]


class Breaking(httpx2.AsyncByteStream):
    """The body of an answer whose connection breaks."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"half of"
        raise httpx2.RemoteProtocolError("closed")


@pytest.mark.parametrize(("answer", "kind"), FAILURES)
async def test_what_goes_wrong_is_the_same_error_on_both_ways(
    answer: Answer, kind: type[ModelError]
) -> None:
    errors = []
    for url in (PAST, THROUGH):
        async with aclosing(over(answer, url)) as model:
            with pytest.raises(ModelError) as failed:
                await model(REQUEST)
        assert failed.value.__cause__ is None
        errors.append(failed.value)
    past, through = errors
    assert type(past) is type(through) is kind
    assert str(past) == str(through).replace("my_server", "server")
    for name in ("status", "request_id", "retry_after", "usage"):
        assert getattr(past, name) == getattr(through, name), name


async def test_a_key_that_no_header_could_hold_is_sent_as_the_sdk_does() -> None:
    seen = []
    for url in (PAST, THROUGH):
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(replied))
        async with aclosing(ClaudeModel("schlüssel", url, http_client=client)) as model:
            try:
                seen.append((await model(REQUEST)).model)
            except ModelError as error:
                seen.append(type(error).__name__)
    assert seen[0] == seen[1]


async def test_a_login_of_the_sdks_own_goes_through_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_sdk: list[str]
) -> None:
    """Its tokens expire: it reads them from its profile, and renews them."""
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    token = {"type": "oauth_token", "access_token": "from-a-login", "expires_at": 4_000_000_000}
    for folder, content in (
        ("configs", {"authentication": {"type": "user_oauth"}}),
        ("credentials", token),
    ):
        path = tmp_path / folder / "work.json"
        path.parent.mkdir()
        path.write_text(json.dumps(content))
        path.chmod(0o600)
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return replied(request)

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    async with aclosing(ClaudeModel(http_client=client)) as model:
        assert (await model(REQUEST)).model == "claude-x-1"
    assert by_sdk == ["/v1/messages"]
    assert requests[0].headers["authorization"] == "Bearer from-a-login"


# -- certificates


@asynccontextmanager
async def serving_tls(context: ssl.SSLContext) -> AsyncIterator[str]:
    async def handle(stream: TLSStream) -> None:
        async with stream:
            received = await stream.receive()
            while not received.endswith(b'"stream":true}'):
                received += await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + STREAM)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as plain,
        anyio.create_task_group() as tasks,
    ):
        listener = TLSListener(plain, context, standard_compatible=False)
        tasks.start_soon(listener.serve, handle)
        yield f"https://127.0.0.1:{plain.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def test_a_server_is_trusted_by_its_certificate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trustme = pytest.importorskip("trustme")
    authority, stranger = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = tmp_path / "trusted.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with serving_tls(context) as url:
        authority.cert_pem.write_to_path(str(trusted))
        async with aclosing(ClaudeModel("k", url)) as model:
            assert (await model(REQUEST)).model == "claude-x-1"
        stranger.cert_pem.write_to_path(str(trusted))
        async with aclosing(ClaudeModel("k", url)) as model:
            with pytest.raises(ConnectionFailed, match="no connection to https://127"):
                await model(REQUEST)


async def test_a_server_without_tls_needs_no_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "not there"))

    async def handle(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + STREAM)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, handle)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        async with aclosing(ClaudeModel("k", url)) as model:
            assert (await model(REQUEST)).model == "claude-x-1"
        tasks.cancel_scope.cancel()
