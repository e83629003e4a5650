"""Outrider over a server that nobody here wrote: a real llama.cpp, with a model of 135 million parameters.

What is asserted are facts of the protocol and of accounting, never what the model says: runs end by
their limits. Where a run needs a certain call, `Led` puts it in the place of the model's words; the
request, its answer and its figures stay real.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import anyio
import httpx2
import pytest

from orchestrator import Context, Limits, Model, ModelFacts, Reply, Report, Request, run
from orchestrator.claude import ClaudeModel
from orchestrator.context.overflow import window_in
from orchestrator.errors import ContextOverflow, Overloaded
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.messages import Block, assistant, text_block, user
from orchestrator.readings import tokens_by
from orchestrator.rundir import RunDir
from orchestrator.testing import call, results
from tests.histories import orphans
from tests.localserver import MODEL, LocalServer, local_server, why_not
from tests.needs import needs
from tests.test_cli_process import outrider
from tests.test_docs import ROOT, blocks
from tests.test_docs_commands import commands_in
from tests.test_examples import FOLDERS as EXAMPLES

pytestmark = [
    pytest.mark.localserver,
    pytest.mark.anyio,
    needs("localserver", why_not()),
]
WINDOW = 4_096
SMALL_WINDOW = 512
NOTE: Block = {
    "name": "note",
    "description": "Note a number.",
    "input_schema": {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    },
}


@pytest.fixture(autouse=True)
def no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with local_server(WINDOW) as running:
        yield running


@pytest.fixture(scope="module")
def small_server() -> Iterator[LocalServer]:
    with local_server(SMALL_WINDOW) as running:
        yield running


def over(server: LocalServer) -> ClaudeModel:
    """A new connection for each call: the server closes its own after every stream, without saying
    so before, and a call that comes at once may be sent into one that is closing."""
    client = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0))
    return ClaudeModel(base_url=server.base_url, http_client=client)


def connect(server: LocalServer) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.base_url, api_key="none", max_retries=0)


def asked(text: str, max_tokens: int = 8, **more: Any) -> Request:
    return Request(MODEL, [user(text)], max_tokens=max_tokens, **more)


def since(before: Usage, server: LocalServer) -> Usage:
    """What the server has counted since ``before``."""
    now = server.counted()
    return Usage(
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cache_read_input_tokens=now.cache_read_input_tokens - before.cache_read_input_tokens,
    )


async def writing(server: LocalServer) -> None:
    """Return once the server writes a reply."""
    while not server.tokens_written():  # noqa: ASYNC110  # another process: nothing to wait on
        await anyio.sleep(0.01)


# -- one call


async def test_a_reply_is_streamed_and_reports_what_the_server_counted(
    server: LocalServer,
) -> None:
    before = server.counted()
    async with aclosing(over(server)) as model:
        reply = await model(asked("Tell me of the sea."))
    assert [block["type"] for block in reply.content] == ["text"]
    assert reply.content[0]["text"]
    assert (reply.stop_reason, reply.model) == ("max_tokens", MODEL)
    assert reply.usage == since(before, server)
    assert reply.usage.output_tokens == 8


async def test_a_tool_call_is_streamed_whole(server: LocalServer) -> None:
    """The server starts the block without an ``input``; its grammar makes the call valid."""
    async with aclosing(over(server)) as model:
        reply = await model(asked("Note a number.", 60, tools=[NOTE]))
    (block,) = reply.content
    assert reply.stop_reason == "tool_use"
    assert (block["type"], block["name"], list(block["input"])) == ("tool_use", "note", ["number"])
    assert isinstance(block["input"]["number"], int)
    assert block["id"]


def test_count_tokens_is_the_prompt_that_is_billed(server: LocalServer) -> None:
    wanted: dict[str, Any] = {
        "model": MODEL,
        "system": "You help.",
        "messages": [user("Name a colour.")],
        "tools": [NOTE],
    }
    with connect(server) as client:
        counted = client.messages.count_tokens(**wanted).input_tokens
        answer = client.messages.create(**wanted, max_tokens=4)
    billed = answer.usage.to_dict()
    assert counted == billed["input_tokens"] + billed["cache_read_input_tokens"]
    assert not [name for name in billed if name.startswith("cache_creation")]


async def test_a_prefix_that_comes_again_is_read_from_the_cache(
    server: LocalServer, anyio_backend: str
) -> None:
    prefix = f"{anyio_backend}: " + "The sea is wide. " * 20
    async with aclosing(over(server)) as model:
        first = await model(asked(f"{prefix} What is the sea?"))
        second = await model(asked(f"{prefix} Who sails it?"))
    assert first.usage is not None
    assert second.usage is not None
    assert first.usage.cache_read_input_tokens < 20
    assert second.usage.cache_read_input_tokens > 80
    assert second.usage.input_tokens < 20
    assert second.usage.cache_creation_input_tokens == 0


async def test_a_cancelled_call_frees_the_only_slot(server: LocalServer) -> None:
    """The next call need not wait for the rest of three thousand tokens."""
    before = server.counted()
    async with aclosing(over(server)) as model:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(model, asked("Count from one to one thousand.", 3_000))
                await writing(server)
                group.cancel_scope.cancel()
            reply = await model(asked("Name a colour.", 2))
    assert reply.stop_reason == "max_tokens"
    assert server.tokens_written() == 0
    assert since(before, server).output_tokens < 300


async def test_the_window_is_found_in_the_list_of_models(
    server: LocalServer, small_server: LocalServer
) -> None:
    """The server has no entry to retrieve by name, and answers to any."""
    for running, window in ((server, WINDOW), (small_server, SMALL_WINDOW)):
        with connect(running) as client, pytest.raises(anthropic.NotFoundError):
            client.models.retrieve(MODEL)
        async with aclosing(over(running)) as model:
            for name in (MODEL, "another"):
                assert await model.describe(name) == ModelFacts(window=window)


# -- over the window


async def test_an_overflow_is_known_by_the_server_s_own_words(small_server: LocalServer) -> None:
    before = small_server.counted()
    async with aclosing(over(small_server)) as model:
        with pytest.raises(ContextOverflow) as caught:
            await model(asked("word " * 1_000))
    assert caught.value.status == 400
    assert window_in(str(caught.value)) == SMALL_WINDOW
    assert since(before, small_server) == Usage()


async def test_a_window_that_fills_while_the_reply_is_written_cuts_it(
    small_server: LocalServer,
) -> None:
    """Not said as such: it is a reply shorter than the limit that it is said to have reached."""
    song = [user("Sing. " + "la " * 400), assistant(text_block("la la la la la la"))]
    async with aclosing(over(small_server)) as model:
        reply = await model(Request(MODEL, song, max_tokens=400))
    assert reply.usage is not None
    assert reply.stop_reason == "max_tokens"
    assert 0 < reply.usage.output_tokens < 400
    assert reply.usage.total_tokens == SMALL_WINDOW


# -- whole runs


class Led:
    """A model whose first replies are ``turns``, in place of what the server says, in four tokens.

    ``silent``: it says nothing of its window, as servers do that have no list of models. Keeps the
    requests, and which of them (from 0) were rejected as too large.
    """

    name = MODEL

    def __init__(
        self, model: Model, turns: Sequence[Sequence[Block]], *, silent: bool = False
    ) -> None:
        self.model = model
        self.turns = list(turns)
        self.silent = silent
        self.requests: list[Request] = []
        self.rejected: list[int] = []

    async def __call__(self, request: Request) -> Reply:
        number = len(self.requests)
        self.requests.append(request)
        try:
            reply = await self.model(replace(request, max_tokens=4))
        except ContextOverflow:
            self.rejected.append(number)
            raise
        if not self.turns:
            return reply
        blocks = [dict(block) for block in self.turns.pop(0)]
        uses = [block for block in blocks if block["type"] == "tool_use"]
        for index, use in enumerate(uses):
            use["id"] = f"call_{number}_{index}"
        return replace(reply, content=blocks, stop_reason="tool_use" if uses else "end_turn")

    async def describe(self, name: str) -> ModelFacts:
        return ModelFacts() if self.silent else await self.model.describe(name)


def repeat(word: str, times: int) -> str:
    """Repeat a word."""
    return f"{word} " * times


DONE = [text_block("Done.")]


def named(root: Path, report: Report, *events: str) -> list[Any]:
    """The run's facts of these kinds, in order."""
    facts: Iterator[Any] = (r.fact for r in read_records(RunDir(root, report.run_id).journal))
    return [fact for fact in facts if fact.event in events]


def logged(root: Path, report: Report) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / report.log).read_text().splitlines()]


def plain(root: Path, tools: str = "repeat") -> dict[str, Any]:
    """Options for a main agent with next to no prompt: small windows are full soon enough."""
    path = root / "plain.md"
    path.write_text(f"---\nname: plain\ndescription: Plain.\ntools: {tools}\n---\nYou help.\n")
    return {"agents": [path], "agent": "plain"}


async def test_a_run_s_usage_is_what_the_server_counted(
    server: LocalServer, tmp_path: Path
) -> None:
    """Report, journal, log and the server's own books agree, token for token."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/sea.txt").write_text("The sea is wide.\n")
    before = server.counted()
    report = await run(
        "List the files.",
        model=MODEL,
        base_url=server.base_url,
        root=tmp_path,
        limits=Limits(max_turns=4),
    )
    assert report.usage == since(before, server)
    assert report.usage.output_tokens > 0
    journal = read_records(RunDir(tmp_path, report.run_id).journal)
    (row,) = tokens_by(journal, "agent")
    assert (row.name, row.usage) == ("main", report.usage)
    calls = [e for e in logged(tmp_path, report) if e["event"] in ("model_replied", "model_failed")]
    reported = [Usage.of(e["usage"]) for e in calls if e["usage"] is not None]
    assert sum(reported, Usage()) == report.usage
    # Some calls may have met a closing connection: the server never saw them.
    failed = [e["kind"] for e in calls if e["event"] == "model_failed"]
    assert set(failed) <= {"connection"}
    assert row.unreported == len(failed)
    assert row.calls == report.agents[0].requests == len(calls)
    assert report.agents[0].window_tokens == WINDOW


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_over_a_real_model_by_the_command_of_its_page(
    name: str, server: LocalServer, tmp_path: Path
) -> None:
    """So small a model does nothing of what it is told: the run ends in order all the same, is paid for as
    the server counted, and leaves the example's files as they were."""
    root = tmp_path / name
    shutil.copytree(ROOT / "examples" / name, root)
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    _, with_a_model = commands_in("".join(blocks(root / "README.md", "sh")))
    where = ("--base-url", server.base_url, "--model", MODEL, "--max-turns", "1")
    before = server.counted()
    ran = outrider(root, *shlex.split(with_a_model)[1:], *where)
    assert ran.code in (0, 3), ran.err
    assert "Traceback" not in ran.err
    told = outrider(root, "tokens", "--json")
    spent, counted = json.loads(told.out)["usage"], since(before, server)
    assert spent["input_tokens"] == counted.input_tokens > 0
    assert spent["output_tokens"] == counted.output_tokens > 0
    assert outrider(root, "audit").code == 0
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # some seconds of reading
async def test_a_run_reads_its_history_from_the_cache(server: LocalServer, tmp_path: Path) -> None:
    """From the second request on, all that was sent before; not only the fixed prefix."""
    (tmp_path / "sea.txt").write_text("The sea is wide.\n" * 4)
    async with aclosing(over(server)) as real:
        model = Led(real, [[call("ls")]] * 3)
        report = await run("Look.", model=model, root=tmp_path, limits=Limits(max_turns=3))
    assert (report.status, report.reason) == ("partial", "limit:max_turns")
    usages = [fact.usage for fact in named(tmp_path, report, "model_replied")]
    assert len(usages) == len(model.requests) == 4
    for earlier, later in pairwise(usages):
        assert later.cache_read_input_tokens >= 0.9 * earlier.context_tokens
        assert later.cache_read_input_tokens > usages[0].context_tokens * 0.9
    assert report.usage == sum(usages, Usage())


async def test_an_overflow_in_a_run_moves_the_largest_part_and_goes_on(
    server: LocalServer, tmp_path: Path
) -> None:
    """The other result, of the same turn, stays as it is."""
    async with aclosing(over(server)) as real:
        calls = [
            call("repeat", word="information", times=150),
            call("repeat", word="information", times=5_000),
        ]
        model = Led(real, [calls, DONE], silent=True)
        report = await run(
            "Repeat it.",
            model=model,
            root=tmp_path,
            tools=[repeat],
            context=Context(offload_at=100_000),
            **plain(tmp_path, "repeat, read_file"),
        )
    assert model.rejected == [1]
    rejected, retried = model.requests[1:3]
    assert len(retried.body) < len(rejected.body)
    assert not orphans(list(retried.messages))
    assert results(retried)[0] == repeat("information", 150)
    failed, corrected, moved, replied = named(
        tmp_path, report, "model_failed", "window_corrected", "offloaded", "model_replied"
    )[1:5]
    assert (failed.kind, failed.retry_in_ms) == ("overflow", None)
    assert (corrected.tokens, corrected.source) == (WINDOW, "error")
    assert (moved.reason, moved.chars) == ("overflow", len(repeat("information", 5_000)))
    assert (tmp_path / moved.path).read_text() == repeat("information", 5_000)
    assert replied.usage.context_tokens < WINDOW
    assert report.agents[0].window_tokens == WINDOW
    assert (report.status, report.conclusion) == ("finished", "Done.")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # some seconds of reading
async def test_an_overflow_in_a_run_that_cannot_move_anything_compacts_its_history(
    tmp_path: Path,
) -> None:
    with local_server(1_024) as server:
        async with aclosing(over(server)) as real:
            long = call("repeat", word="word", times=700)
            short = call("repeat", word="word", times=220)
            model = Led(real, [[long], [short], DONE], silent=True)
            report = await run(
                "Repeat it.",
                model=model,
                root=tmp_path,
                tools=[repeat],
                context=Context(offload_at=None, summary_model="rules"),
                **plain(tmp_path),
            )
    assert model.rejected == [2]
    rejected, retried = model.requests[2:4]
    assert len(retried.body) < len(rejected.body)
    assert not orphans(list(retried.messages))
    (compacted,) = named(tmp_path, report, "compacted")
    assert (compacted.trigger, compacted.fallback) == ("overflow", True)
    assert compacted.after_tokens < compacted.before_tokens
    assert report.agents[0].window_tokens == 1_024
    assert (report.status, report.conclusion) == ("finished", "Done.")


async def test_a_run_that_has_nothing_left_to_shorten_says_so(
    small_server: LocalServer, tmp_path: Path
) -> None:
    async with aclosing(over(small_server)) as real:
        model = Led(real, [], silent=True)
        report = await run("word " * 1_000, model=model, root=tmp_path, **plain(tmp_path))
    assert (report.status, report.reason) == ("failed", "context_length_exceeded")
    assert model.rejected == [0]
    assert len(model.requests) == 1
    (corrected,) = named(tmp_path, report, "window_corrected")
    assert corrected.tokens == report.agents[0].window_tokens == SMALL_WINDOW


# -- while it loads


async def test_a_run_waits_for_a_server_that_is_still_loading(tmp_path: Path) -> None:
    """Also for what it says of its window: a guess would last as long as the run."""
    with local_server(SMALL_WINDOW, loaded=False) as server:
        report = await run(
            "Say hi.", model=MODEL, base_url=server.base_url, root=tmp_path, **plain(tmp_path)
        )
        assert report.usage == server.counted()
    assert report.agents[0].window_tokens == SMALL_WINDOW
    assert report.usage.output_tokens > 0


class Hasty:
    """Calls without asking for the window first."""

    def __init__(self, real: Model) -> None:
        self.real = real

    async def __call__(self, request: Request) -> Reply:
        return await self.real(replace(request, model=MODEL))

    async def describe(self, name: str) -> ModelFacts:
        return ModelFacts(window=SMALL_WINDOW)


async def test_a_call_that_meets_a_loading_server_is_made_again(tmp_path: Path) -> None:
    """Its 503 is `overloaded`: retried, visible, and in the account as unreported."""
    with local_server(SMALL_WINDOW, loaded=False) as server:
        async with aclosing(over(server)) as real:
            report = await run("Say hi.", model=Hasty(real), root=tmp_path, **plain(tmp_path))
        assert report.usage == server.counted()
    failed = [e for e in logged(tmp_path, report) if e["event"] == "model_failed"]
    assert failed
    assert {(e["kind"], e["status"]) for e in failed} == {(Overloaded.kind, 503)}
    assert all(e["retry_in_ms"] > 0 for e in failed)
    assert report.agents[0].unreported == len(failed)
    assert report.usage.output_tokens > 0


def test_a_server_is_gone_after_its_block() -> None:
    with local_server(SMALL_WINDOW) as server:
        assert server.get("/health")[0] == 200
    assert server.process.poll() is not None
    with pytest.raises(OSError, match="refused"):
        server.get("/health")


def test_a_server_that_cannot_start_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="the server ended"), local_server(-7):
        pass
