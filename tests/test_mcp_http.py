"""MCP servers behind an address: streamable HTTP, over real sockets to real processes."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import ToolError
from orchestrator.mcp import ServerConfig
from orchestrator.mcp import server as keeping
from tests.mcp_tools import connections, running, serving, until

pytest.importorskip("mcp")
pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves streams of events half-way; trio says so when they are collected.
    pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected_here() -> Iterator[None]:
    """What is left is collected while the filter holds, and not in somebody else's test."""
    yield
    gc.collect()


def at(port: int, call_seconds: float = 30.0) -> ServerConfig:
    return ServerConfig(
        name="web",
        source="a test",
        transport="http",
        is_named=True,
        url=f"http://127.0.0.1:{port}/mcp",
        headers={"authorization": "Bearer x"},
        call_seconds=call_seconds,
    )


async def refusal(server: keeping.Server, tool: str) -> str:
    with pytest.raises(ToolError) as caught:
        await server.call(tool, {})
    return str(caught.value)


async def test_a_good_server_is_listed_called_renewed_and_left(tmp_path: Path) -> None:
    async with serving("good") as (port, _):
        async with running(at(port), tmp_path) as (server, told):
            assert [happening.status for happening in told] == ["started"]
            assert "mcp__web__add" in [tool.name for tool in server.tools]
            assert str(await server.call("add", {"a": 2, "b": 3})).endswith("\n5")
            drawn = await server.call("draw", {})
            assert isinstance(drawn, list)
            assert drawn[-1]["type"] == "image"
            await server.call("grow", {})
            await until(lambda: any(tool.name == "mcp__web__grown" for tool in server.tools))
        assert connections(port) == 0


async def test_a_hostile_server_costs_error_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE_SECONDS", 0.01)
    async with serving("hostile_http") as (port, start_again):
        async with running(at(port), tmp_path) as (server, _):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert "was too long to keep" in await refusal(server, "flood")
            assert "SSE stream failed" in await refusal(server, "events")
            await refusal(server, "bomb")
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 120_000  # KiB, of 200 MB twice
            assert "not followed" in await refusal(server, "elsewhere")
            assert "Unexpected content type" in await refusal(server, "page")
            assert str(await server.call("echo", {})).endswith("\nhere")

            # It lost our session, then it died; each time it is spoken to anew.
            await refusal(server, "forget")  # asked again, it forgets again
            assert str(await server.call("echo", {})).endswith("\nhere")
            await refusal(server, "die")
            await start_again()
            assert str(await server.call("echo", {})).endswith("\nhere")
        assert connections(port) == 0


async def test_a_call_that_hangs_is_cut_and_others_go_on(tmp_path: Path) -> None:
    async with (
        serving("hostile_http") as (port, _),
        running(at(port, call_seconds=2.0), tmp_path) as (server, told),
    ):
        assert "did not answer hang within 2 s" in await refusal(server, "hang")
        assert str(await server.call("echo", {})).endswith("\nhere")
        # It answers to a look: only the call was slow.
        assert [happening.status for happening in told] == ["started"]


async def test_the_older_transport_is_spoken_too(tmp_path: Path) -> None:
    async with serving("good", "sse") as (port, _):
        older = replace(at(port), transport="sse", url=f"http://127.0.0.1:{port}/sse")
        async with running(older, tmp_path) as (server, told):
            assert [happening.status for happening in told] == ["started"]
            assert str(await server.call("add", {"a": 2, "b": 3})).endswith("\n5")
        assert connections(port) == 0


async def test_nobody_at_the_address_is_said(tmp_path: Path) -> None:
    async with running(at(9), tmp_path) as (_, told):
        assert told[0].status == "failed"
        assert "could not be started" in told[0].text
