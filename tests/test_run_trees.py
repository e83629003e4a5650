"""Trees of agents: never more calls at a time than allowed, every outcome told, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import sniffio
import trio

from orchestrator import Limits, Report, Request, run
from orchestrator.claude import ClaudeModel
from orchestrator.errors import NotPermitted
from orchestrator.ledger import Usage
from orchestrator.messages import Block, text_block
from orchestrator.model import ModelFacts, Reply
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results, said
from orchestrator.testing.standin import Answer, Fault, serve, standin_process
from orchestrator.testing.standin.brains import Tree
from orchestrator.testing.standin.ledger import FIGURES
from orchestrator.testing.standin.material import lookup
from subagents import estimate

MODEL = "claude-opus-5"
Script = Callable[[Request], Awaitable[Any]]


def path_of(request: Request) -> str:
    """Which node of the tree asks: its brief is its path."""
    found = re.search(r"node ([\d.]+)", said(request))
    return found[1] if found else "0"


def tasks(*briefs: str, kind: str = "general") -> list[Block]:
    return [call("task", prompt=brief, subagent_type=kind) for brief in briefs]


def accounted(report: Report) -> dict[str, dict[str, int]]:
    """What each agent was told, in the ledger's own figures."""
    made: dict[str, dict[str, int]] = {}
    for agent in report.agents:
        told = agent.usage.as_json()
        flat = {**told, **told["cache_creation"], "requests": agent.requests}
        if agent.requests:
            made[agent.agent_id] = {figure: flat[figure] for figure in (*FIGURES, "requests")}
    return made


def billed(by_agent: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {a: {f: row[f] for f in (*FIGURES, "requests")} for a, row in by_agent.items()}


async def get(url: str) -> Any:
    """JSON from a stand-in in a process of its own, under any back end."""

    def read() -> Any:
        with urllib.request.urlopen(url) as response:
            return json.load(response)

    return await anyio.to_thread.run_sync(read)


# ── a cap on model calls ──


class Counting:
    """A script's answers, with a count of the calls under way. Calls of leaves wait until as many are
    under way as may be: that the cap is reached is then no accident."""

    def __init__(self, levels: tuple[int, ...], cap: int) -> None:
        self.levels = levels
        self.cap = cap
        self.under_way = 0
        self.peak = 0
        self.full = anyio.Event()

    async def __call__(self, request: Request) -> Any:
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            if self.under_way == self.cap:
                self.full.set()
            return await self.answer(request)
        finally:
            self.under_way -= 1

    async def answer(self, request: Request) -> Any:
        path = path_of(request)
        depth = path.count(".")
        if depth == len(self.levels):
            await self.full.wait()
            return f"leaf {path} is done"
        if not results(request):
            return tasks(*(f"node {path}.{n}" for n in range(self.levels[depth])))
        return " ".join(f"leaf {leaf}" for leaf in self.leaves_in(results(request)))

    @staticmethod
    def leaves_in(texts: list[str]) -> list[str]:
        return re.findall(r"leaf ([\d.]+)", "\n".join(texts))


@pytest.mark.anyio
@pytest.mark.parametrize("cap", [1, 20])
async def test_s8_a_cap_holds_three_levels_deep_and_cannot_deadlock(
    tmp_path: Path, cap: int
) -> None:
    """S8: an agent that waits for its children holds no place, so even one place is enough."""
    model = Counting((3, 3, 5), cap)
    limits = Limits(concurrency=cap, depth=3, max_agents=None)
    with anyio.fail_after(30):
        report = await run("node 0", model=ScriptedModel(model), root=tmp_path, limits=limits)
    leaves = [f"0.{a}.{b}.{c}" for a in range(3) for b in range(3) for c in range(5)]
    assert model.leaves_in([report.conclusion]) == leaves
    assert model.peak == cap
    assert Counter(a.status for a in report.agents) == {"finished": 1 + 3 + 9 + 45}


@pytest.mark.anyio
@pytest.mark.parametrize("cap", [1, 7, 20])
async def test_s8_a_hundred_spawns_share_the_places(tmp_path: Path, cap: int) -> None:
    """S8: never more than the cap at once, and who has finished makes room."""
    model = Counting((100,), cap)
    limits = Limits(concurrency=cap, max_agents=100)
    with anyio.fail_after(30):
        report = await run("node 0", model=ScriptedModel(model), root=tmp_path, limits=limits)
    assert model.peak == cap
    assert [a.status for a in report.agents] == ["finished"] * 101
    assert [a.requests for a in report.agents[1:]] == [1] * 100


@pytest.mark.anyio
async def test_s8_the_server_never_sees_more_calls_than_the_cap(tmp_path: Path) -> None:
    """S8, by the server's own count; each fact came up through three levels."""
    brain = Tree(children=(3, 3, 4), parallel=4, calls=1, kilobytes=1)
    arguments = ("--children=3,3,4", "--parallel=4", "--calls=1", "--kilobytes=1")
    with standin_process("--brain=tree", *arguments, "--latency=0.1") as server:
        report = await run(
            brain.task,
            model=MODEL,
            base_url=server.base_url,
            root=tmp_path,
            tools=[lookup],
            limits=Limits(concurrency=20, depth=3, max_agents=None),
        )
        stats = await get(f"{server.base_url}/_stats")
        ledger = await get(f"{server.base_url}/_ledger")
    # What is asked for now is itself one request under way.
    assert stats["in_flight"] == 1
    assert 10 < stats["in_flight_peak"] <= 20
    assert [fact for fact in brain.facts() if fact not in report.conclusion] == []
    assert accounted(report) == billed(ledger["by_agent"])


@pytest.mark.asyncio
async def test_five_hundred_children_at_once_are_all_delivered(tmp_path: Path) -> None:
    """Each conclusion whole on disk and announced to its parent; every token where it belongs."""
    brain = Tree(children=(10, 50), parallel=50, calls=1, kilobytes=1)
    arguments = ("--children=10,50", "--parallel=50", "--calls=1", "--kilobytes=1")
    with standin_process("--brain=tree", *arguments, "--latency=0.2") as server:
        report = await run(
            brain.task,
            model=MODEL,
            base_url=server.base_url,
            root=tmp_path,
            tools=[lookup],
            limits=Limits(concurrency=500, max_agents=510),
        )
        stats = await get(f"{server.base_url}/_stats")
        ledger = await get(f"{server.base_url}/_ledger")
    assert (report.status, stats["in_flight"]) == ("finished", 1)
    assert Counter(a.status for a in report.agents) == {"finished": 511}
    children = Counter(a.parent_id for a in report.agents[1:])
    leaves = [a for a in report.agents[1:] if a.agent_id not in children]
    texts = "\n".join((tmp_path / str(a.conclusion_path)).read_text() for a in leaves)
    assert [fact for fact in brain.facts() if fact not in texts] == []
    assert sorted(children.values()) == [10] + [50] * 10
    assert ledger["totals"]["rejected"] == 0
    assert accounted(report) == billed(ledger["by_agent"])


# ── a tree in which most things go wrong ──

MANAGERS, EACH = 6, 7
ENDLESS = 41  # the one that never stops
# What becomes of an agent of each kind. `general` is the built-in definition.
OUTCOMES: dict[str, tuple[str, str | None]] = {
    "general": ("finished", None),
    "empty": ("empty", "no_answer"),
    "hangs": ("partial", "limit:max_seconds"),
    "stuck": ("partial", "limit:max_seconds"),
    "crashes": ("failed", "crashed"),
    "refused": ("failed", "refusal"),
    "forbidden": ("failed", "provider:permission"),
    "endless": ("partial", "limit:max_turns"),
}
# Models by which the server's faults find the requests that they are meant for.
FIELDS = {
    "hangs": "max_seconds: 0.5\nmodel: claude-opus-4-8",
    "stuck": "max_seconds: 0.5",
    "forbidden": "model: claude-sonnet-5",
    "endless": "max_turns: 6",
}
FAULTS = (
    Fault("stall", model="claude-opus-4-8", purpose="agent", times=None, after_events=1),
    Fault("status", model="claude-sonnet-5", times=None, status=403),
)


def kind_of(number: int) -> str:
    """Every seventh returns nothing, every fifth times out, every third fails; 42 in all."""
    if number == ENDLESS:
        return "endless"
    if number % 7 == 0:
        return "empty"
    if number % 5 == 0:
        return ("hangs", "stuck")[number % 2]
    if number % 3 == 0:
        return ("crashes", "refused", "forbidden")[number // 3 % 3]
    return "general"


def numbers_of(manager: int) -> range:
    return range(manager * EACH + 1, (manager + 1) * EACH + 1)


def define(root: Path) -> None:
    folder = root / ".outrider/agents"
    folder.mkdir(parents=True)
    for kind in OUTCOMES.keys() - {"general"}:
        head = f"name: {kind}\ndescription: Works.\n{FIELDS.get(kind, '')}".strip()
        (folder / f"{kind}.md").write_text(f"---\n{head}\n---\nYou work.\n")


async def stuck() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return "never"


def plan(request: Request) -> list[Block]:
    """What an agent of the tree says, where it gets to say something."""
    words = said(request).split()
    got = results(request)
    if words[0] == "lead" or words[0] == "all":
        if got:
            return [text_block("\n".join(got))]
        if words[0] == "all":
            return tasks(*(f"lead {n}" for n in range(MANAGERS)))
        numbers = numbers_of(int(words[1]))
        return [block for n in numbers for block in tasks(f"leaf {n}", kind=kind_of(n))]
    match kind_of(int(words[1])):
        case _ if request.purpose == "handback":
            return [text_block(f"as far as {words[1]} got")]
        case "empty":
            return []
        case "stuck":
            return [call("stuck")]
        case "endless":
            return [call("ls")]
        case _:
            return [text_block(f"{words[1]} is done")]


def outcomes(conclusion: str) -> list[tuple[str, str, str | None]]:
    """Kind, status and reason of the leaves, in order, as their parents were told."""
    heads = re.findall(
        r"^\[(\w+) \S+ · (\w+) · .*\]\n(?:reason: (.*)\n)?", conclusion, re.MULTILINE
    )
    leaves = [head for n, head in enumerate(heads) if n % (1 + EACH)]
    return [(kind, status, reason or None) for kind, status, reason in leaves]


EXPECTED = [(kind_of(n), *OUTCOMES[kind_of(n)]) for n in range(1, MANAGERS * EACH + 1)]


def live_tasks() -> int:
    if sniffio.current_async_library() == "trio":
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


def check_whole(report: Report, root: Path) -> None:
    """Every outcome exact, the same in the report as its parent was told; tokens add up; no litter."""
    assert (report.status, report.reason) == ("finished", None)
    assert outcomes(report.conclusion) == EXPECTED
    rows = [a for a in report.agents[1:] if a.parent_id != report.agents[0].agent_id]
    assert Counter((a.agent_type, a.status, a.reason) for a in rows) == Counter(EXPECTED)
    assert report.usage == sum((a.usage for a in report.agents), Usage())
    for row in rows:
        told = f"[{row.agent_type} {row.agent_id} · {row.status} · {row.tool_calls} tool calls"
        assert f"{told} · {row.usage.total_tokens} tokens]" in report.conclusion
        assert (root / str(row.conclusion_path)).is_file()
    folder = RunDir(root, report.run_id).journal.parent
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert names <= {"journal.db", "journal.lock", "log.jsonl", "conclusion.md", "result.md"}


async def mixed(root: Path, model: Any) -> Report:
    limits = Limits(concurrency=20, max_agents=None)
    with anyio.fail_after(50):
        return await run("all", model=model, root=root, tools=[stuck], limits=limits)


@pytest.mark.anyio
async def test_s3_s4_a_tree_of_failures_ends_with_exact_outcomes_and_no_task_left(
    tmp_path: Path,
) -> None:
    """S3, S4, S7, S13: crash, refusal, refused key, silence, a stuck tool, nothing said, no end."""

    async def script(request: Request) -> Any:
        match kind_of(int(said(request).split()[1])) if said(request)[:4] == "leaf" else "":
            case "crashes":
                raise RuntimeError("a bug in a model")
            case "forbidden":
                raise NotPermitted("not with this key")
            case "refused":
                return Reply(content=[], stop_reason="refusal", usage=Usage(10, 1))
            case "hangs" if request.purpose == "agent":
                await anyio.sleep_forever()
        return plan(request)

    define(tmp_path)
    before = live_tasks()
    check_whole(await mixed(tmp_path, ScriptedModel(script)), tmp_path)
    assert live_tasks() == before


class Crashing:
    """A model over HTTP that has a bug of its own for one kind of agent."""

    name = MODEL

    def __init__(self, model: ClaudeModel) -> None:
        self._model = model

    async def __call__(self, request: Request) -> Reply:
        if request.agent_type == "crashes":
            raise RuntimeError("a bug in a model")
        return await self._model(request)

    async def describe(self, name: str) -> ModelFacts:
        return await self._model.describe(name)


def brain(body: Mapping[str, Any]) -> Answer:
    """`plan`, as the server's: it sees no purpose, but a handback says what it is."""
    ends = "reached a limit" in json.dumps(body["messages"][-1])
    request = Request(
        model=body["model"],
        messages=body["messages"],
        purpose="handback" if ends else "agent",
    )
    words = said(request).split()
    if words[0] == "leaf" and kind_of(int(words[1])) == "refused":
        return Answer([], "refusal", stop_details={"type": "refusal", "category": None})
    # The server gives calls their ids.
    return Answer([{k: v for k, v in block.items() if k != "id"} for block in plan(request)])


@pytest.mark.asyncio
async def test_s3_s4_over_http_the_tokens_are_the_servers_and_no_connection_is_left(
    tmp_path: Path,
) -> None:
    """The same tree against a server: what it billed is what is accounted, agent by agent."""
    define(tmp_path)
    async with serve(brain, faults=FAULTS) as server:
        before = live_tasks()
        claude = ClaudeModel(base_url=server.base_url)
        report = await mixed(tmp_path, Crashing(claude))
        await claude.aclose()
        check_whole(report, tmp_path)
        assert accounted(report) == billed(server.ledger.by_agent())
        stats = await get(f"{server.base_url}/_stats")
        assert (stats["in_flight"], live_tasks()) == (1, before)


@pytest.mark.anyio
async def test_a_child_reserves_its_last_turn_and_one_without_room_is_not_started(
    tmp_path: Path,
) -> None:
    """S7: as many start as the limit has room for; the others are refused in words, and those at work
    can still hand back what they have."""

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "main":
            return (
                "\n---\n".join(got) if got else [call("task", prompt=f"part {n}") for n in range(6)]
            )
        return "so far" if request.tool_choice is not None else [call("ls")]

    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, limits=Limits(max_tokens=30_000)
    )
    started = report.agents[1:]
    refused = report.conclusion.count("Limit max_tokens (30,000): too little is left")
    assert len(started) + refused == 6
    assert started
    assert refused
    assert {(row.status, row.reason) for row in started} == {("partial", "limit:max_tokens")}
    assert all(row.conclusion_tokens for row in started), "each handed back what it had"
    assert report.usage.total_tokens <= 30_000


@pytest.mark.anyio
@pytest.mark.parametrize("children", [5, 50, 200])
async def test_what_parallel_children_bring_back_is_bounded_in_sum(
    tmp_path: Path, children: int
) -> None:
    """S5: each has far more to say; all of them together stay within 10,000 tokens."""
    came: list[str] = []

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            return "word " * 6_000
        came[:] = got
        return "done" if got else [call("task", prompt=f"part {n}") for n in range(children)]

    await run("go", model=ScriptedModel(script), root=tmp_path)
    assert len(came) == children
    assert sum(map(estimate, came)) <= 10_000
    assert all(text.startswith("[general ") and "continues in " in text for text in came)
