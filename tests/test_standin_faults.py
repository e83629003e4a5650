"""Every fault as the real SDK meets it, by rule, and what the ledger says was told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import AsyncAnthropic

from orchestrator.testing.standin import Fault, Server, Settings, call, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.faults import WEEKS, Faults

MODEL = "claude-sonnet-5"
CALLING = Answer([{"type": "text", "text": "Looking it up."}, call("look", key="value")])
HI: Any = [{"role": "user", "content": "hi"}]


def connect(server: Server, **options: Any) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0, **options)


def served(*faults: Fault, settings: Settings | None = None) -> Any:
    return serve(lambda _: CALLING, faults=faults, settings=settings)


async def stream(client: AsyncAnthropic, **headers: str) -> Any:
    async with client.messages.stream(
        model=MODEL, max_tokens=500, messages=HI, extra_headers=headers
    ) as events:
        return await events.get_final_message()


async def create(client: AsyncAnthropic, **headers: str) -> Any:
    return await client.messages.create(
        model=MODEL, max_tokens=500, messages=HI, extra_headers=headers
    )


BOTH = pytest.mark.parametrize("ask", [stream, create], ids=["stream", "json"])
Ask = Callable[..., Any]

STATUSES: list[Any] = [
    pytest.param(Fault("rate_limit"), anthropic.RateLimitError, 429, None, id="429"),
    pytest.param(
        Fault("rate_limit", retry_after=2), anthropic.RateLimitError, 429, "2", id="429-after-2s"
    ),
    pytest.param(
        Fault("rate_limit", retry_after=WEEKS),
        anthropic.RateLimitError,
        429,
        "4233600",
        id="429-after-seven-weeks",
    ),
    pytest.param(Fault("spend_cap"), anthropic.RateLimitError, 429, None, id="spend-cap"),
    pytest.param(Fault("overloaded"), anthropic.InternalServerError, 529, None, id="529"),
    pytest.param(
        Fault("overloaded", retry_after=1), anthropic.InternalServerError, 529, "1", id="529-1s"
    ),
    pytest.param(Fault("server_error"), anthropic.InternalServerError, 500, None, id="500"),
    pytest.param(
        Fault("status", status=408), anthropic.APIStatusError, 408, None, id="any-other-status"
    ),
]


@pytest.mark.asyncio
@BOTH
@pytest.mark.parametrize(("fault", "kind", "status", "retry_after"), STATUSES)
async def test_an_error_status_is_the_sdks_typed_error(
    ask: Ask, fault: Fault, kind: type[anthropic.APIStatusError], status: int, retry_after: str
) -> None:
    """With the envelope, the request id, and a retry-after where the rule gives one."""
    async with served(fault) as server, connect(server) as client:
        with pytest.raises(kind) as caught:
            await ask(client)
        assert caught.value.status_code == status
        assert caught.value.response.headers.get("retry-after") == retry_after
        assert caught.value.request_id == server.ledger.rows[0].request_id
        [row] = server.ledger.rows
        assert (row.valid, row.fault, row.status) == (True, fault.kind, status)
        assert (row.input_tokens, row.output_tokens) == (0, 0)


@pytest.mark.asyncio
async def test_the_sdks_own_retry_gets_past_one_fault() -> None:
    async with served(Fault("overloaded")) as server, connect(server) as client:
        again = client.with_options(max_retries=1)
        assert (await create(again)).stop_reason == "tool_use"
        assert [row.status for row in server.ledger.rows] == [529, 200]


@pytest.mark.asyncio
async def test_an_error_may_carry_a_code_and_headers_of_its_own() -> None:
    """`x-should-retry` makes the SDK try a 409 no second time; codes have typed errors."""
    fault = Fault(
        "status",
        status=409,
        error_code="thread_continue_in_flight",
        headers={"x-should-retry": "false"},
    )
    async with served(fault) as server, connect(server) as client:
        with pytest.raises(anthropic.ConflictError) as caught:
            await create(client.with_options(max_retries=2))
        assert caught.value.error_code == "thread_continue_in_flight"
        assert len(server.ledger.rows) == 1


@pytest.mark.asyncio
async def test_a_spend_cap_never_recovers() -> None:
    async with served(Fault("spend_cap", nth=2)) as server, connect(server) as client:
        await create(client)
        for _ in range(5):
            with pytest.raises(anthropic.RateLimitError):
                await create(client)


@pytest.mark.asyncio
@BOTH
async def test_a_reset_before_headers_is_a_connection_error(ask: Ask) -> None:
    async with served(Fault("reset")) as server, connect(server) as client:
        with pytest.raises(anthropic.APIConnectionError):
            await ask(client)
        [row] = server.ledger.rows
        assert (row.status, row.output_tokens, row.error) == (0, 0, "reset")


@pytest.mark.asyncio
@BOTH
async def test_an_html_page_is_an_error_without_an_envelope(ask: Ask) -> None:
    async with served(Fault("html")) as server, connect(server) as client:
        with pytest.raises(anthropic.InternalServerError) as caught:
            await ask(client)
        assert "502 Bad Gateway" in str(caught.value.body)


#: Mid-stream faults are no errors of the SDK: it passes on what its parts raise.
MID_STREAM: list[Any] = [
    pytest.param(Fault("reset_after_headers"), httpx2.ReadError, False, id="reset-after-headers"),
    pytest.param(Fault("cut"), httpx2.RemoteProtocolError, True, id="cut"),
    pytest.param(Fault("garbage"), json.JSONDecodeError, True, id="garbage"),
    pytest.param(Fault("garbage_bytes"), UnicodeDecodeError, True, id="not-even-utf-8"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("fault", "error", "told"), MID_STREAM)
async def test_a_stream_that_breaks_raises_what_lies_below_the_sdk(
    fault: Fault, error: type[Exception], told: bool
) -> None:
    """The input figures were told by message_start, and one output token; no more."""
    async with served(fault) as server, connect(server) as client:
        with pytest.raises(error):
            await stream(client)
        [row] = server.ledger.rows
        assert row.input_tokens == (row.context_tokens if told else 0)
        assert (row.output_tokens, row.stop_reason) == (1 if told else 0, None)


@pytest.mark.asyncio
async def test_a_cut_before_any_event_told_nothing() -> None:
    async with served(Fault("cut", after_events=0)) as server, connect(server) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await stream(client)
        assert server.ledger.totals()["input_tokens"] == 0


@pytest.mark.asyncio
async def test_a_cut_stream_told_its_client_what_the_ledger_holds() -> None:
    async with served(Fault("cut", after_events=5)) as server, connect(server) as client:
        seen: dict[str, Any] = {}

        async def read() -> None:
            async with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as events:
                async for _ in events:
                    seen["usage"] = events.current_message_snapshot.usage

        with pytest.raises(httpx2.RemoteProtocolError):
            await read()
        [row] = server.ledger.rows
        assert (row.input_tokens, row.output_tokens) == (
            seen["usage"].input_tokens,
            seen["usage"].output_tokens,
        )


@pytest.mark.asyncio
async def test_a_silent_end_of_stream_is_no_exception_at_all() -> None:
    """The trap: a partial message that looks whole but for its missing stop reason."""
    async with served(Fault("silent_eof", after_events=4)) as server, connect(server) as client:
        message = await stream(client)
        assert message.stop_reason is None
        assert message.content[0].text == "Looking it up."
        assert message.usage.output_tokens == server.ledger.rows[0].output_tokens == 1


@pytest.mark.asyncio
async def test_an_error_event_is_a_status_error_of_status_200() -> None:
    async with served(Fault("error_event")) as server, connect(server) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await stream(client)
        assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
        assert not isinstance(caught.value, anthropic.InternalServerError)


@pytest.mark.asyncio
async def test_a_stalled_stream_is_a_read_timeout() -> None:
    async with served(Fault("stall")) as server:
        timeout = httpx2.Timeout(10, read=0.2)
        async with connect(server, timeout=timeout) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await stream(client)
        async with connect(server) as client:
            assert (await stream(client)).stop_reason == "tool_use"


@pytest.mark.asyncio
async def test_a_stalled_answer_is_the_sdks_timeout_error() -> None:
    timeout = httpx2.Timeout(10, read=0.2)
    async with served(Fault("stall")) as server, connect(server, timeout=timeout) as client:
        with pytest.raises(anthropic.APITimeoutError):
            await create(client)


@pytest.mark.asyncio
async def test_a_slow_stream_arrives_whole() -> None:
    async with served(Fault("slow", seconds=0.01)) as server, connect(server) as client:
        began = asyncio.get_running_loop().time()
        assert (await stream(client)).stop_reason == "tool_use"
        assert asyncio.get_running_loop().time() - began > 0.05


@pytest.mark.asyncio
@BOTH
async def test_wrong_usage_is_told_and_kept_in_the_ledger(ask: Ask) -> None:
    """The ledger is what the client was told; the true prompt stays in `context_tokens`."""
    wrong = {"input_tokens": 7, "cache_read_input_tokens": 1_000_000, "output_tokens": 3}
    async with served(Fault("wrong_usage", usage=wrong)) as server, connect(server) as client:
        usage = (await ask(client)).usage
        [row] = server.ledger.rows
        for name, value in wrong.items():
            assert getattr(usage, name) == getattr(row, name) == value
        assert row.context_tokens not in (7, 0)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["cut", "silent_eof", "garbage", "reset_after_headers"])
async def test_an_answer_without_a_stream_breaks_too(kind: Any) -> None:
    async with served(Fault(kind)) as server, connect(server) as client:
        # `APIError` where the SDK maps it, else what lies below.
        with pytest.raises((anthropic.APIError, httpx2.TransportError, json.JSONDecodeError)):
            await create(client)
        assert server.ledger.totals()["output_tokens"] == 0


@pytest.mark.asyncio
async def test_a_rule_names_agents_and_purposes() -> None:
    """Only what matches both patterns fails; everyone else is served."""
    fault = Fault("server_error", agent="main/*", purpose="summary", times=None)
    async with served(fault) as server, connect(server) as client:

        async def status(agent: str, purpose: str) -> int:
            try:
                await create(client, **{"x-outrider-agent": agent, "x-outrider-purpose": purpose})
            except anthropic.InternalServerError as error:
                return error.status_code
            return 200

        assert await status("main", "summary") == 200
        assert await status("main/1", "agent") == 200
        assert await status("main/1", "summary") == 500
        assert await status("main/2", "summary") == 500
        assert list(server.ledger.by_agent()) == ["main", "main/1", "main/2"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(Fault("reset"), "x....", id="once"),
        pytest.param(Fault("reset", times=3), "xxx..", id="n-times"),
        pytest.param(Fault("reset", nth=2), ".x...", id="the-second"),
        pytest.param(Fault("reset", nth=3, times=2), "..xx.", id="third-and-fourth"),
        pytest.param(Fault("reset", times=None), "xxxxx", id="always"),
        pytest.param(Fault("spend_cap", nth=4), "...xx", id="a-spend-cap-lasts"),
    ],
)
def test_a_rule_says_which_matching_requests_fail(rule: Fault, expected: str) -> None:
    faults = Faults([rule])
    chosen = [faults.choose("main", "agent", MODEL) for _ in expected]
    assert "".join("x" if fault else "." for fault in chosen) == expected


@pytest.mark.asyncio
async def test_a_rejected_request_uses_up_no_fault() -> None:
    async with served(Fault("overloaded")) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(model=MODEL, max_tokens=5, messages=[])
        with pytest.raises(anthropic.InternalServerError):
            await create(client)
        assert [row.fault for row in server.ledger.rows] == [None, "overloaded"]


ODDITIES = Settings(unknown_events=True, late_stops=True, bare_calls=True)


@pytest.mark.asyncio
async def test_22_a_stream_may_hold_pings_unknown_events_and_late_stops() -> None:
    """What the SDK bears, a client of its own must bear too; the message is the same."""
    async with served() as plain, connect(plain) as client:
        expected = await stream(client)
    async with served(settings=ODDITIES) as server, connect(server) as client:
        message = await stream(client)
        assert [block.type for block in message.content] == ["text", "tool_use"]
        assert message.content[1].input == expected.content[1].input == {"key": "value"}
        assert message.usage == expected.usage


@pytest.mark.asyncio
async def test_22_the_events_come_in_order_and_usage_is_cumulative() -> None:
    async with served() as server, connect(server) as client:
        raw = await client.messages.create(model=MODEL, max_tokens=500, messages=HI, stream=True)
        events: list[Any] = [event async for event in raw]
        names = [event.type for event in events]
        assert names[0] == "message_start"
        assert names[-2:] == ["message_delta", "message_stop"]
        assert names[1:-2] == [
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ]
        start, end = events[0].message.usage, events[-2].usage
        assert start.input_tokens == end.input_tokens
        assert (start.output_tokens, end.output_tokens > 1) == (1, True)


@pytest.mark.asyncio
@BOTH
async def test_plain_servers_report_no_cache_fields(ask: Ask) -> None:
    async with served(settings=Settings(cache=False)) as server, connect(server) as client:
        usage = (await ask(client)).usage
        assert usage.cache_creation_input_tokens is usage.cache_read_input_tokens is None
        assert usage.input_tokens == server.ledger.rows[0].input_tokens > 0


@pytest.mark.asyncio
async def test_broken_connections_leave_no_noise_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a rule broke is no bug of the application, and a log must not say so."""
    kinds: Any = ("reset", "reset_after_headers", "cut")
    faults = [Fault(kind, nth=number) for number, kind in enumerate(kinds, 1)]
    async with served(*faults) as server, connect(server) as client:
        for _ in faults:
            with pytest.raises((anthropic.APIConnectionError, httpx2.TransportError)):
                await stream(client)
        assert len(server.ledger.rows) == 3
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


@pytest.mark.asyncio
async def test_a_brain_that_raises_is_a_500_that_names_it() -> None:
    def broken(_: Any) -> Answer:
        raise KeyError("missing")

    async with serve(broken) as server, connect(server) as client:
        with pytest.raises(anthropic.InternalServerError, match="the brain raised KeyError"):
            await create(client)
