"""`ClaudeModel` through the real SDK: over a mock transport, and over sockets that misbehave.

Everything runs under asyncio and under trio.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
import sniffio
from anyio.abc import SocketAttribute, SocketStream

from orchestrator.claude import ClaudeModel
from orchestrator.errors import (
    CallTimedOut,
    ConfigError,
    ConnectionDropped,
    ConnectionFailed,
    ContextOverflow,
    InvalidReply,
    ModelError,
    Overloaded,
    ServerFailed,
    StreamCut,
    Unauthenticated,
)
from orchestrator.ledger import Usage
from orchestrator.messages import encode, user
from orchestrator.model import Model, ModelFacts, Request

pytestmark = pytest.mark.anyio
KEY = "sk-ant-test-0123456789"
REQUEST = Request("claude-x", [user("Hello")], agent_id="main/toolu_1", run_id="run-1")


@pytest.fixture(autouse=True)
def no_keys_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE", "CUSTOM_HEADERS", "CONFIG_DIR"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + encode(event) + b"\n\n"
        for event in events
    )


EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"model": "claude-x-1", "usage": {"input_tokens": 9}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
)
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "request-id": "req_9"}


def streamed(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, headers=EVENT_STREAM, content=sse(*EVENTS))


class Recorder:
    """A mock transport's handler that keeps what was asked."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response] = streamed) -> None:
        self.requests: list[httpx2.Request] = []
        self._answer = answer

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self._answer(request)


def over(
    answer: Callable[[httpx2.Request], httpx2.Response],
    api_key: str | None = KEY,
    base_url: str | None = "http://server",
) -> ClaudeModel:
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return ClaudeModel(api_key, base_url, http_client=client)


def failing(status: int, body: Any, **headers: str) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda request: httpx2.Response(status, json=body, headers=headers)


# -- a call


async def test_a_request_is_streamed_and_gives_a_whole_reply(anyio_backend: str) -> None:
    assert sniffio.current_async_library() == anyio_backend
    server = Recorder()
    async with aclosing(over(server)) as model:
        assert isinstance(model, Model)
        reply = await model(REQUEST)
    assert reply.content == [{"type": "text", "text": "Hi"}]
    assert reply.stop_reason == "end_turn"
    assert reply.usage == Usage(input_tokens=9, output_tokens=2)
    assert reply.model == "claude-x-1"
    assert reply.request_id == "req_9"


async def test_the_wire_carries_the_request_s_own_bytes_authentication_and_attribution() -> None:
    server = Recorder()
    async with aclosing(over(server)) as model:
        await model(REQUEST)
    (sent,) = server.requests
    assert str(sent.url) == "http://server/v1/messages"
    assert sent.content == REQUEST.body[:-1] + b',"stream":true}'
    assert json.loads(sent.content)["stream"] is True
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["content-type"] == "application/json"
    assert "anthropic-version" in sent.headers
    assert sent.headers["x-outrider-run"] == "run-1"
    assert sent.headers["x-outrider-agent"] == "main/toolu_1"
    assert sent.headers["x-outrider-purpose"] == "agent"


async def test_ids_that_no_header_could_hold_are_quoted_and_shortened() -> None:
    server = Recorder()
    async with aclosing(over(server)) as model:
        await model(Request("m", [user("x")], agent_id=" a\r\nx-evil: é" + "z" * 9_000))
    sent = server.requests[0].headers
    assert sent["x-outrider-agent"].startswith("%20a%0D%0Ax-evil:%20%C3%A9zzz")
    assert len(sent["x-outrider-agent"]) == 512
    assert "x-outrider-run" not in sent


async def test_calls_at_once_share_one_client() -> None:
    server = Recorder()
    async with aclosing(over(server)) as model, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(model, REQUEST)
    assert len(server.requests) == 20


async def test_a_base_url_without_a_key_gets_a_placeholder() -> None:
    server = Recorder()
    async with aclosing(over(server, api_key=None)) as model:
        await model(REQUEST)
    assert server.requests[0].headers["authorization"] == "Bearer no-key"


async def test_the_environment_s_key_and_base_url_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://gateway/claude")
    server = Recorder()
    async with aclosing(over(server, None, None)) as model:
        await model(REQUEST)
    assert server.requests[0].headers["authorization"] == "Bearer from-env"
    assert str(server.requests[0].url) == "http://gateway/claude/v1/messages"


async def test_without_any_key_nothing_is_sent_and_the_fix_is_named() -> None:
    server = Recorder()
    async with aclosing(over(server, None, None)) as model:
        with pytest.raises(Unauthenticated, match="no API key: set ANTHROPIC_API_KEY"):
            await model(REQUEST)
    assert server.requests == []


async def test_a_profile_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    async with aclosing(ClaudeModel()) as model:
        with pytest.raises(Unauthenticated, match=r"configs/work\.json"):
            await model(REQUEST)


async def test_a_base_url_without_its_scheme_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="http://"):
        ClaudeModel(base_url="localhost:8080")


async def test_closing_a_model_that_was_never_called_does_nothing() -> None:
    await ClaudeModel("k").aclose()


# -- failures


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"error": {"type": "authentication_error", "message": "bad"}}, Unauthenticated),
        (400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}, ContextOverflow),
        (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, Overloaded),
        (500, "boom", ServerFailed),
    ],
)
async def test_an_error_status_is_a_typed_error_and_is_sent_once(
    status: int, body: Any, expected: type[ModelError]
) -> None:
    server = Recorder(failing(status, body, **{"request-id": "req_e", "retry-after": "3"}))
    async with aclosing(over(server)) as model:
        with pytest.raises(expected) as failed:
            await model(REQUEST)
    assert (failed.value.status, failed.value.request_id) == (status, "req_e")
    assert failed.value.retry_after == 3
    assert len(server.requests) == 1


async def test_the_key_is_in_no_message_repr_or_traceback() -> None:
    echo = {"error": {"type": "authentication_error", "message": f"bad key: {KEY}"}}
    async with aclosing(over(failing(401, echo))) as model:
        with pytest.raises(Unauthenticated) as failed:
            await model(REQUEST)
        shown = (*traceback.format_exception(failed.value), repr(failed.value), repr(model))
    assert not any(KEY in text for text in shown)
    assert "[key]" in str(failed.value)


@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
async def test_a_page_in_place_of_a_stream_is_an_invalid_reply(content_type: str) -> None:
    page = httpx2.Response(200, headers={"content-type": content_type}, content=b"<html>log in")
    async with aclosing(over(lambda request: page)) as model:
        with pytest.raises(InvalidReply, match=f"{content_type} in place of an event stream"):
            await model(REQUEST)


async def test_a_stream_of_a_server_that_names_no_content_type_is_read() -> None:
    async with aclosing(over(lambda _: httpx2.Response(200, content=sse(*EVENTS)))) as model:
        assert (await model(REQUEST)).stop_reason == "end_turn"


async def test_broken_json_within_a_stream_is_an_invalid_reply_with_the_usage_so_far() -> None:
    broken = sse(EVENTS[0]) + b"event: content_block_start\ndata: {oops\n\n"
    response = httpx2.Response(200, headers=EVENT_STREAM, content=broken)
    async with aclosing(over(lambda request: response)) as model:
        with pytest.raises(InvalidReply) as failed:
            await model(REQUEST)
    assert failed.value.usage == Usage(input_tokens=9)


# -- sockets that misbehave

Script = Callable[[SocketStream], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_9\r\n"


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[str]:
    """A server that reads one request of each connection and then does as ``script`` says."""

    async def handle(stream: SocketStream) -> None:
        async with stream:
            received = await stream.receive()
            while not received.endswith(b'"stream":true}'):
                received += await stream.receive()
            await script(stream)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def failure_of(script: Script, **options: Any) -> ModelError:
    async with serving(script) as url, aclosing(ClaudeModel("k", url, **options)) as model:
        with pytest.raises(ModelError) as failed:
            await model(REQUEST)
    return failed.value


async def test_a_connection_that_closes_within_the_answer_cuts_the_stream() -> None:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(sse(*EVENTS[:4])))

    error = await failure_of(script)
    assert type(error) is StreamCut
    assert (error.usage, error.request_id) == (Usage(input_tokens=9), "req_9")


async def test_a_clean_end_without_message_stop_cuts_the_stream() -> None:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"connection: close\r\n\r\n" + sse(*EVENTS[:-1]))

    error = await failure_of(script)
    assert type(error) is StreamCut
    assert error.usage == Usage(input_tokens=9, output_tokens=2)


async def test_an_error_event_within_the_answer_is_typed() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

    async def script(stream: SocketStream) -> None:
        body = chunk(sse(*EVENTS[:3], overloaded))
        await stream.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + body)
        await anyio.sleep_forever()

    error = await failure_of(script)
    assert type(error) is Overloaded
    assert error.usage == Usage(input_tokens=9)


async def test_silence_within_the_answer_times_out_with_the_usage_so_far() -> None:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"connection: close\r\n\r\n" + sse(*EVENTS[:4]))
        await anyio.sleep_forever()

    error = await failure_of(script, read_timeout=0.2)
    assert type(error) is CallTimedOut
    assert error.usage == Usage(input_tokens=9)


async def test_silence_before_the_answer_times_out() -> None:
    async def script(stream: SocketStream) -> None:
        await anyio.sleep_forever()

    assert type(await failure_of(script, read_timeout=0.2)) is CallTimedOut


async def test_a_connection_that_closes_before_the_answer_has_failed() -> None:
    async def script(stream: SocketStream) -> None:
        await stream.aclose()

    assert type(await failure_of(script)) is ConnectionDropped


async def test_nobody_at_the_address_is_one_clear_sentence() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
    url = f"http://127.0.0.1:{port}"
    async with aclosing(ClaudeModel(base_url=url)) as model:
        with pytest.raises(ConnectionFailed, match=f"no connection to {url}: check the network"):
            await model(REQUEST)


async def test_a_reply_is_whole_when_its_end_has_come_whatever_the_connection_does_then() -> None:
    async def script(stream: SocketStream) -> None:
        # The body's own end never comes: the connection just closes.
        await stream.send(HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(sse(*EVENTS)))

    async with serving(script) as url, aclosing(ClaudeModel("k", url)) as model:
        assert (await model(REQUEST)).content == [{"type": "text", "text": "Hi"}]


async def test_a_server_that_holds_the_connection_open_does_not_hold_up_the_reply() -> None:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"connection: close\r\n\r\n" + sse(*EVENTS))
        await anyio.sleep_forever()

    async with serving(script) as url, aclosing(ClaudeModel("k", url)) as model:
        with anyio.fail_after(5):
            assert (await model(REQUEST)).stop_reason == "end_turn"


async def test_a_finished_call_leaves_its_connection_to_the_next() -> None:
    connections = 0

    async def script(stream: SocketStream) -> None:
        nonlocal connections
        connections += 1
        whole = HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk(sse(*EVENTS)) + chunk(b"")
        await stream.send(whole)
        while b'"stream":true}' not in await stream.receive():
            pass
        await stream.send(whole)

    async with serving(script) as url, aclosing(ClaudeModel("k", url)) as model:
        for _ in range(2):
            assert (await model(REQUEST)).stop_reason == "end_turn"
    assert connections == 1


async def test_cancelling_a_call_closes_its_connection() -> None:
    """A local server frees its slot when the connection closes."""
    begun, closed = anyio.Event(), anyio.Event()

    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"connection: close\r\n\r\n" + sse(*EVENTS[:4]))
        begun.set()
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        closed.set()

    async with serving(script) as url, aclosing(ClaudeModel("k", url)) as model:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model, REQUEST)
            await begun.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await closed.wait()


# -- what a server says of a model


async def test_the_service_tells_window_and_output_cap() -> None:
    server = Recorder(
        failing(200, {"id": "org/m", "max_input_tokens": 1_000_000, "max_tokens": 128_000})
    )
    async with aclosing(over(server)) as model:
        assert await model.describe("org/m") == ModelFacts(1_000_000, 128_000)
    assert [str(sent.url) for sent in server.requests] == ["http://server/v1/models/org%2Fm"]


LLAMA = {"id": "qwen.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 32_768}}


@pytest.mark.parametrize(
    ("entries", "facts"),
    [
        ([LLAMA], ModelFacts(4096)),
        ([{"id": "other", "meta": {"n_ctx": 1}}, {**LLAMA, "id": "m"}], ModelFacts(4096)),
        ([LLAMA, {"id": "other"}], ModelFacts()),
        ([{"id": "m", "object": "model", "max_model_len": 32_768}], ModelFacts(32_768)),
        ([{"id": "m", "meta": None}], ModelFacts()),
        ([{"id": "m", "max_input_tokens": "many"}, "odd"], ModelFacts()),
        ([], ModelFacts()),
        ("odd", ModelFacts()),
    ],
)
async def test_a_local_server_tells_its_window_in_the_list(entries: Any, facts: ModelFacts) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"object": "list", "data": entries})
        return httpx2.Response(404, json={"error": {"code": 404, "message": "File Not Found"}})

    async with aclosing(over(answer)) as model:
        assert await model.describe("m") == facts


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_without_a_model_list_is_silent_not_failed(status: int) -> None:
    async with aclosing(over(failing(status, "no"))) as model:
        assert await model.describe("m") == ModelFacts()


async def test_a_page_in_place_of_a_model_list_says_nothing() -> None:
    async with aclosing(over(lambda _: httpx2.Response(200, html="<html>"))) as model:
        assert await model.describe("m") == ModelFacts()


async def test_describing_with_a_wrong_key_says_so() -> None:
    async with aclosing(over(failing(401, {"error": {"message": "bad"}}))) as model:
        with pytest.raises(Unauthenticated):
            await model.describe("m")


async def test_describing_over_a_dead_connection_says_so() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    async with aclosing(over(refuse)) as model:
        with pytest.raises(ConnectionFailed):
            await model.describe("m")


# -- imports


def test_importing_and_making_a_model_does_not_import_the_sdk() -> None:
    program = (
        "import sys, orchestrator.claude as c; c.ClaudeModel('k');"
        "sys.exit(bool({'anthropic', 'httpx2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("url", "own"),
    [
        (None, True),
        ("https://api.anthropic.com", True),
        ("https://anthropic.com.evil.example", False),
        ("http://127.0.0.1:8080", False),
    ],
)
def test_only_the_providers_own_service_is_asked_for_diagnostics(
    url: str | None, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    assert ClaudeModel("key", url)._is_first_party is own
