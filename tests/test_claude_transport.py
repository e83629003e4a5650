"""HTTP/1.1 on h11 and anyio: connections are used again while they hold, and every failure is httpx2's."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
import sniffio
from anyio.abc import SocketAttribute, SocketStream

from orchestrator.claude import ClaudeModel, transport
from orchestrator.claude.transport import DirectTransport
from orchestrator.errors import CallTimedOut, ConnectionDropped, ConnectionFailed, ModelError
from orchestrator.messages import encode, user
from orchestrator.model import Request

pytestmark = pytest.mark.anyio
TIMEOUT = {"connect": 20.0, "read": 20.0, "write": 20.0}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"model": "claude-x-1", "usage": {"input_tokens": 9}}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
STREAM = b"".join(b"data: " + encode(event) + b"\n\n" for event in EVENTS)


@pytest.fixture(params=["asyncio", "trio"], autouse=True)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@dataclass
class Server:
    """What a small server was asked. ``ended``: connections that the other side has closed."""

    port: int
    connections: int = 0
    asked: list[bytes] = field(default_factory=list)
    ended: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Answer = Callable[[SocketStream, bytes], Awaitable[None]]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    """A server whose ``answer`` gets the stream and a whole request, as often as one comes."""

    async def handle(stream: SocketStream) -> None:
        server.connections += 1
        async with stream:
            while (request := await read_request(stream)) is not None:
                server.asked.append(request)
                await answer(stream, request)
            server.ended += 1

    async with listening(handle) as port:
        server = Server(port)
        yield server


@asynccontextmanager
async def listening(
    handle: Callable[[SocketStream], Awaitable[None]], host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """The port at which ``handle`` gets every connection."""
    async with (
        await anyio.create_tcp_listener(local_host=host) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, handle)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def read_request(stream: SocketStream) -> bytes | None:
    """Head and body; ``None`` at the end of the connection."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        while len(body) < length:
            body += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return None
    return head + b"\r\n\r\n" + body


async def say_hello(stream: SocketStream, _request: bytes) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")


def saying(*pieces: bytes, then_close: bool = False) -> Answer:
    async def answer(stream: SocketStream, _request: bytes) -> None:
        for piece in pieces:
            await stream.send(piece)
            await anyio.lowlevel.checkpoint()
        if then_close:
            await stream.aclose()

    return answer


async def ask(
    direct: DirectTransport, url: str, body: bytes = b"{}", **timeout: float
) -> httpx2.Response:
    request = httpx2.Request(
        "POST", f"{url}/v1/messages?a=1", content=body, extensions={"timeout": TIMEOUT | timeout}
    )
    response = await direct.handle_async_request(request)
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


def made() -> DirectTransport:
    return DirectTransport(ssl.create_default_context())


async def test_one_connection_serves_one_request_after_another(anyio_backend: str) -> None:
    assert sniffio.current_async_library() == anyio_backend
    async with serving(say_hello) as server, aclosing(made()) as direct:
        for number in range(3):
            response = await ask(direct, server.url, b"%d" % number)
            assert (response.status_code, response.content) == (200, b"hello")
        assert server.connections == 1
        assert [request[-1:] for request in server.asked] == [b"0", b"1", b"2"]
        assert server.asked[0].startswith(b"POST /v1/messages?a=1 HTTP/1.1\r\n")


async def test_requests_at_the_same_time_have_connections_of_their_own_and_few_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "MOST_IDLE", 2)
    together = anyio.Event()

    async def wait_for_all(stream: SocketStream, request: bytes) -> None:
        if len(server.asked) == 5:
            together.set()
        await together.wait()
        await say_hello(stream, request)

    async with serving(wait_for_all) as server, aclosing(made()) as direct:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask, direct, server.url)
        assert server.connections == 5
        with anyio.fail_after(20):
            while server.ended < 3:  # noqa: ASYNC110  # the server sees it a little later
                await anyio.sleep(0.01)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(ask, direct, server.url)
        assert (server.connections, server.ended) == (5, 3)


async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    closing = saying(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", then_close=True)
    async with serving(closing) as server, aclosing(made()) as direct:
        for _ in range(2):
            assert (await ask(direct, server.url)).content == b"ok"
            await anyio.sleep(0.05)  # the end of the connection arrives
        assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(say_hello) as server, aclosing(made()) as direct:
        await ask(direct, server.url)
        monkeypatch.setattr(transport, "IDLE_SECONDS", -1.0)
        await ask(direct, server.url)
        # And those that nobody asks for are closed when another is given back.
        await ask(direct, server.url)
        assert server.connections == 3


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more",
    ],
)
async def test_an_answer_after_which_nothing_may_follow_ends_its_connection(head: bytes) -> None:
    last = b"HTTP/1.0" in head or b"close" in head
    async with (
        serving(saying(head, then_close=last)) as server,
        aclosing(made()) as direct,
    ):
        for _ in range(2):
            assert (await ask(direct, server.url)).content == b"hello"
        assert server.connections == 2


async def test_an_answer_may_come_in_any_pieces() -> None:
    whole = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nX-A: 1\r\n\r\n"
        b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\ntrailer: x\r\n\r\n"
    )
    pieces = [whole[i : i + 1] for i in range(len(whole))]
    async with serving(saying(*pieces)) as server, aclosing(made()) as direct:
        for _ in range(2):
            response = await ask(direct, server.url)
            assert (response.content, response.headers["x-a"]) == (b"hello", "1")
        assert server.connections == 1


async def test_a_refusal_that_comes_before_the_body_was_read_is_heard() -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            await stream.receive(100)
            await stream.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
            await stream.send_eof()
            with anyio.move_on_after(5):
                async for _ in stream:
                    pass

    async with listening(handle) as port, aclosing(made()) as direct:
        response = await ask(direct, f"http://127.0.0.1:{port}", b"x" * 5_000_000)
        assert (response.status_code, response.content) == (413, b"big")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", httpx2.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH_9.2\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n" + b"x-long: %s\r\n" % (b"y" * 200_000), httpx2.RemoteProtocolError),
    ],
)
async def test_what_is_no_whole_answer_is_an_error(
    said: bytes, error: type[httpx2.TransportError]
) -> None:
    async with (
        serving(saying(said, then_close=True)) as server,
        aclosing(made()) as direct,
    ):
        with pytest.raises(error):
            await ask(direct, server.url)


async def test_silence_and_refused_connections_are_told_apart() -> None:
    async def silent(_stream: SocketStream, _request: bytes) -> None:
        await anyio.sleep_forever()

    async with serving(silent) as server, aclosing(made()) as direct:
        with pytest.raises(httpx2.ReadTimeout):
            await ask(direct, server.url, read=0.05)
    with pytest.raises(httpx2.ConnectError):
        await ask(made(), server.url)


async def test_a_server_that_reads_nothing_is_given_up() -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with listening(handle) as port, aclosing(made()) as direct:
        with pytest.raises(httpx2.WriteTimeout):
            await ask(direct, f"http://127.0.0.1:{port}", b"x" * 50_000_000, write=0.05)


async def test_a_header_that_cannot_be_sent_is_an_error_of_ours() -> None:
    async with serving(say_hello) as server, aclosing(made()) as direct:
        request = httpx2.Request(
            "POST", server.url, headers={"x-api-key": "a\r\nb: c"}, content=b""
        )
        with pytest.raises(httpx2.LocalProtocolError):
            await direct.handle_async_request(request)
        assert server.asked == []


async def test_a_request_that_is_cancelled_ends_its_connection() -> None:
    asked = anyio.Event()

    async def silent(_stream: SocketStream, _request: bytes) -> None:
        asked.set()

    async with serving(silent) as server, aclosing(made()) as direct:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, direct, server.url)
            await asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            while server.ended < 1:  # noqa: ASYNC110  # the server sees it a little later
                await anyio.sleep(0.01)


async def test_an_answer_that_is_left_unread_ends_its_connection() -> None:
    async with serving(say_hello) as server, aclosing(made()) as direct:
        request = httpx2.Request("POST", server.url, content=b"")
        response = await direct.handle_async_request(request)
        await response.aclose()
        await response.aclose()
        assert [chunk async for chunk in response.stream] == []  # type: ignore[union-attr]
        await ask(direct, server.url)
        assert server.connections == 2


async def test_an_address_of_version_6_is_reached() -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            request = await read_request(stream)
            assert request is not None
            await say_hello(stream, request)

    async with listening(handle, "::1") as port, aclosing(made()) as direct:
        assert (await ask(direct, f"http://[::1]:{port}")).content == b"hello"


# -- beneath the model


async def reply(stream: SocketStream, _request: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    await stream.send(head % len(STREAM) + STREAM)


REQUEST = Request("claude-x", [user("Hello")], agent_id="main", run_id="run-1")


def headers_of(request: bytes) -> dict[str, str]:
    _, *lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}


async def test_what_is_sent_is_what_the_client_would_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers and bytes, except that an answer is not asked for in packed form."""
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: blue")
    async with serving(reply) as server:
        async with aclosing(ClaudeModel("a-key", server.url)) as model:
            await model(REQUEST)
        async with (
            httpx2.AsyncClient() as client,
            aclosing(ClaudeModel("a-key", server.url, http_client=client)) as model,
        ):
            await model(REQUEST)
    direct, usual = map(headers_of, server.asked)
    assert direct.pop("accept-encoding") == "identity"
    assert "gzip" in usual.pop("accept-encoding")
    assert direct == usual
    assert direct["authorization"] == "Bearer a-key"
    assert direct["x-team"] == "blue"
    assert server.asked[0].split(b"\r\n\r\n")[1] == server.asked[1].split(b"\r\n\r\n")[1]


async def test_an_address_that_has_moved_is_followed() -> None:
    async def moved(stream: SocketStream, request: bytes) -> None:
        if request.startswith(b"POST /v1/messages "):
            await stream.send(
                b"HTTP/1.1 308 Moved\r\nlocation: /elsewhere/v1/messages\r\ncontent-length: 0\r\n\r\n"
            )
        else:
            await reply(stream, request)

    async with serving(moved) as server, aclosing(ClaudeModel("a-key", server.url)) as model:
        assert (await model(REQUEST)).model == "claude-x-1"
    assert server.asked[-1].startswith(b"POST /elsewhere/v1/messages ")
    assert server.asked[-1].endswith(b'"stream":true}')


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(reply) as server:
        monkeypatch.setenv("http_proxy", server.url)
        async with aclosing(ClaudeModel("a-key", "http://far-away.example")) as model:
            assert (await model(REQUEST)).model == "claude-x-1"
    assert server.asked[0].startswith(b"POST http://far-away.example/v1/messages ")


FAILING: list[tuple[Answer, type[ModelError]]] = [
    (saying(b"", then_close=True), ConnectionDropped),
    (
        saying(b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhalf", then_close=True),
        ConnectionDropped,
    ),
]


@pytest.mark.parametrize(("answer", "kind"), FAILING)
async def test_a_broken_connection_is_an_error_with_a_name(
    answer: Answer, kind: type[ModelError]
) -> None:
    async with serving(answer) as server, aclosing(ClaudeModel("a-key", server.url)) as model:
        with pytest.raises(kind, match=server.url):
            await model(REQUEST)


async def test_silence_and_nobody_there_are_errors_with_a_name() -> None:
    async def silent(_stream: SocketStream, _request: bytes) -> None:
        await anyio.sleep_forever()

    async with (
        serving(silent) as server,
        aclosing(ClaudeModel("a-key", server.url, read_timeout=0.05)) as model,
    ):
        with pytest.raises(CallTimedOut):
            await model(REQUEST)
    async with aclosing(ClaudeModel("a-key", server.url)) as model:
        with pytest.raises(ConnectionFailed, match="check the network"):
            await model(REQUEST)
