"""The server itself: a process with a first line, a thousand requests in flight, its own figures."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import json
import re
import subprocess
import sys
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic

from orchestrator.testing import standin
from orchestrator.testing.standin import Server, Settings, faults, say, serve, standin_process
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.app import asks_for_summary
from orchestrator.testing.standin.material import fact_line, lookup

MODEL = "claude-sonnet-5"
HI: Any = [{"role": "user", "content": "hi"}]


def connect(server: Server) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0)


def read(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


@pytest.mark.asyncio
async def test_a_thousand_requests_are_in_flight_at_once() -> None:
    """Each waits in its brain until all have arrived; none is refused or queued away."""
    everyone = 1_000
    arrived = 0
    all_here = asyncio.Event()

    async def together(_: Any) -> Answer:
        nonlocal arrived
        arrived += 1
        if arrived == everyone:
            all_here.set()
        await all_here.wait()
        return say("here")

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(together))
        # Ten clients: the pool of a single one takes a time that grows with the square.
        clients = [await stack.enter_async_context(connect(server)) for _ in range(10)]
        requests = (
            client.messages.create(model=MODEL, max_tokens=5, messages=HI, timeout=60)
            for client in clients * (everyone // len(clients))
        )
        answers = await asyncio.gather(*requests)
        assert len(answers) == server.app.in_flight_peak == everyone
        assert server.ledger.totals()["requests"] == everyone
        assert server.app.in_flight == 0


@pytest.mark.asyncio
async def test_stopping_ends_what_is_still_being_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = asyncio.Event()

    async def never(_: Any) -> Answer:
        waiting.set()
        await asyncio.Event().wait()
        return say("never")

    async with serve(never) as server, connect(server) as client:
        request: Any = client.messages.create(model=MODEL, max_tokens=5, messages=HI)
        task = asyncio.ensure_future(request)
        await waiting.wait()
        await server.stop()
        with pytest.raises(anthropic.APIConnectionError):
            await task
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


@pytest.mark.asyncio
async def test_a_client_that_left_was_told_nothing() -> None:
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def held(_: Any) -> Answer:
        arrived.set()
        await may_answer.wait()
        return say("too late")

    async with serve(held) as server:
        async with connect(server) as client:
            request: Any = client.messages.create(model=MODEL, max_tokens=5, messages=HI)
            task = asyncio.ensure_future(request)
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        # A request over a new connection: the server has seen the old one close by then.
        async with connect(server) as client:
            may_answer.set()
            await client.messages.create(model=MODEL, max_tokens=5, messages=HI)
        first, second = server.ledger.rows
        assert (first.error, first.output_tokens) == ("the client left", 0)
        assert second.output_tokens > 0


@pytest.mark.asyncio
async def test_latency_holds_an_answer_back() -> None:
    settings = Settings(latency=0.1)
    async with serve(lambda _: say("x"), settings=settings) as server, connect(server) as client:
        began = asyncio.get_running_loop().time()
        await client.messages.create(model=MODEL, max_tokens=5, messages=HI)
        assert asyncio.get_running_loop().time() - began >= 0.1


def test_as_a_process_it_says_where_it_listens_and_shows_its_books() -> None:
    """Ledger and own CPU over HTTP; agent and purpose from headers, else derived and stable."""
    with (
        standin_process("--brain", "echo") as process,
        Anthropic(base_url=process.base_url, api_key="test", max_retries=0) as client,
    ):
        assert process.base_url.startswith("http://127.0.0.1:")
        named = {"x-outrider-agent": "main", "x-outrider-purpose": "agent"}
        client.messages.create(model=MODEL, max_tokens=50, messages=HI, extra_headers=named)
        first = client.messages.create(model=MODEL, max_tokens=50, messages=HI)
        longer: Any = [
            *HI,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": "more"},
        ]
        answer: Any = client.messages.create(model=MODEL, max_tokens=50, messages=longer)
        assert answer.content[0].text == "echo: more"
        books = read(f"{process.base_url}/_ledger")
        agents = [row["agent"] for row in books["rows"]]
        assert agents[0] == "main"
        assert agents[1] == agents[2]
        assert books["rows"][2]["messages"] == 3
        assert books["rows"][0]["purpose"] == "agent"
        assert books["totals"]["requests"] == 3
        assert set(books["by_agent"]) == set(agents)
        stats = read(f"{process.base_url}/_stats")
        assert stats["requests"] == 3
        assert stats["cpu_seconds"] > 0


def test_settings_and_faults_are_given_on_the_command_line() -> None:
    fault = json.dumps({"kind": "overloaded", "nth": 2})
    with (
        standin_process("--window", "500", "--overflow", "older", "--fault", fault) as process,
        Anthropic(base_url=process.base_url, api_key="test", max_retries=0) as client,
    ):
        with pytest.raises(anthropic.BadRequestError, match="exceed context limit"):
            client.messages.create(model=MODEL, max_tokens=500, messages=HI)
        client.messages.create(model=MODEL, max_tokens=50, messages=HI)
        with pytest.raises(anthropic.InternalServerError):
            client.messages.create(model=MODEL, max_tokens=50, messages=HI)


def test_a_process_that_cannot_start_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not start"), standin_process("--brain", "none"):
        pass


@pytest.mark.asyncio
async def test_summary_requests_go_to_the_summarizer() -> None:
    """By header, else by what is asked; with `None` for one the brain gets them too."""

    async def text(client: AsyncAnthropic, said: str, **headers: str) -> str:
        answer: Any = await client.messages.create(
            model=MODEL,
            max_tokens=50,
            messages=[{"role": "user", "content": said}],
            extra_headers=headers,
        )
        return str(answer.content[0].text)

    wish = "Summarize the conversation above."
    short = serve(lambda _: say("brain"), summarizer=lambda _: say("summary"))
    async with short as server, connect(server) as client:
        assert await text(client, "hi", **{"x-outrider-purpose": "summary"}) == "summary"
        assert await text(client, wish) == "summary"
        assert await text(client, wish, **{"x-outrider-purpose": "agent"}) == "brain"
        assert await text(client, "Summarize the repository.") == "brain"
    async with serve(lambda _: say("brain")) as server, connect(server) as client:
        assert await text(client, wish) == "Summary of the work so far."
    alone = serve(lambda _: say("brain"), summarizer=None)
    async with alone as server, connect(server) as client:
        assert await text(client, wish) == "brain"
    assert asks_for_summary({"messages": [{"role": "user", "content": wish}]})


def test_material_is_the_same_everywhere_and_holds_one_fact() -> None:
    text = lookup("alpha/32")
    assert text == lookup("alpha/32")
    assert len(text) == 32 * 1024
    assert text.splitlines().count(fact_line("alpha/32")) == 1
    assert fact_line("alpha/32") not in text[:5_000] + text[-5_000:]
    assert len(lookup("plain")) == 8 * 1024


@pytest.mark.asyncio
async def test_the_example_in_the_documentation_works() -> None:
    page = Path(__file__).parents[1] / "docs" / "stand-in.md"
    code = page.read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)  # noqa: S102
    await names["test_a_lookup"]()


def test_every_setting_fault_and_checklist_line_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "stand-in.md").read_text()
    names = [field.name for field in dataclasses.fields(Settings)]
    names += get_args(faults.Kind)
    assert [name for name in names if f"`{name}`" not in page] == []
    lines = set(re.findall(r"^\| (\d+)(?:–(\d+))? ", page, re.MULTILINE))
    covered = {n for a, b in lines for n in range(int(a), int(b or a) + 1)}
    assert covered == set(range(1, 24))


def test_public_names_are_sorted_and_there() -> None:
    assert standin.__all__ == sorted(standin.__all__)
    assert all(hasattr(standin, name) for name in standin.__all__)


def test_the_stand_in_imports_nothing_else_of_the_project() -> None:
    """It must not share a mistake with the code that it judges."""
    folder = Path(standin.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                assert node.level or (node.module or "").split(".")[0] not in PACKAGES, path
            elif isinstance(node, ast.Import):
                assert not {name.name.split(".")[0] for name in node.names} & PACKAGES, path


PACKAGES = {"anthropic", "orchestrator", "starlette", "subagents", "todos", "workspace"}


def test_without_the_extra_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; import orchestrator.testing.standin"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "pip install 'outrider[server]'" in last
