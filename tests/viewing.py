"""Journals and pages for the tests of the viewer."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio

from orchestrator import Context, Report, Request, run
from orchestrator import events as ev
from orchestrator.journal import open_journal
from orchestrator.ledger import Usage
from orchestrator.messages import Block
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import clean_environment

# What would act if it were not inert: a tag, colours, a title for the terminal, reversed reading.
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202etxt.exe\u202c \u200f</div> "
)
LONG_LINE = 1_000_000


def record_run(root: Path, fn: Any, run_id: str = "first", **options: Any) -> Report:
    """A run of a scripted model, recorded in ``root``."""
    task = options.pop("task", "look around")

    async def go() -> Report:
        return await run(task, model=ScriptedModel(fn), root=root, run_id=run_id, **options)

    return anyio.run(go)


def two_children(request: Request) -> Any:
    """Main plans and starts two children, which each look at the folder."""
    if request.agent_type != "main":
        return "seen it" if results(request) else [call("ls")]
    match len(results(request)):
        case 0:
            todos = [{"content": "look", "status": "in_progress"}]
            return [call("write_todos", todos=todos)]
        case 1:
            kinds = ("explorer", "reviewer")
            return [call("task", prompt=f"as {kind}", subagent_type=kind) for kind in kinds]
        case _:
            return "merged"


def hostile(request: Request) -> str:
    return HOSTILE + "x" * LONG_LINE


def page(number: int) -> str:
    """A page of a long document.

    Args:
        number: Which page.
    """
    return f"page {number}: " + f"word{number} " * 500


class LongRead:
    """Reads page after page in a small window, and keeps every request that it was sent."""

    def __init__(self, pages: int = 40) -> None:
        self.pages = pages
        self.requests: list[Request] = []

    def script(self, request: Request) -> Any:
        self.requests.append(request)
        if request.purpose == "summary":
            return "Goal: read all pages."
        calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        number = max((c["input"]["number"] for c in calls), default=0)
        return [call("page", number=number + 1)] if number < self.pages else "read them all"

    def go(self, root: Path, run_id: str = "first", **context: Any) -> Report:
        settings = Context(window=32_000, **context)
        return record_run(root, self.script, run_id, tools=[page], context=settings)


Fact = tuple[str, int, ev.Fact]


def write_journal(root: Path, facts: Iterable[Fact], run_id: str = "first") -> RunDir:
    """A journal of given facts, without a run."""
    place = RunDir(root, run_id)
    place.create()

    async def go() -> None:
        async with open_journal(place.journal) as journal:
            for batch in _batches(list(facts)):
                await journal.append(batch, lambda records: None)

    anyio.run(go)
    return place


def _batches(facts: Sequence[Fact]) -> Iterator[Sequence[Fact]]:
    for start in range(0, len(facts), 1_000):
        yield facts[start : start + 1_000]


def _plan(agent_id: str) -> ev.TodosWritten:
    steps = "".join(f"- [ ] step {n} of {agent_id}\n" for n in range(8))
    return ev.TodosWritten(text=f"# To-dos\n{steps}", done=0, total=8)


def crowd(agents: int, events: int, *, tools: int = 1, main_turns: int = 0) -> Iterator[Fact]:
    """A run of about so many agents and events: each child reads a file a turn, in turn, with one of so
    many tools. ``main_turns``: so many turns of the main agent before; then all have plans, too."""
    yield "main", 0, ev.RunStarted(task="a crowd", task_chars=7, model="m", version="0", root="/")
    ids = ["main", *(f"explorer-{n:04}" for n in range(1, agents))]
    for agent_id in ids:
        yield agent_id, 0, started(agent_id, None if agent_id == "main" else "main")
    for agent_id in ids if main_turns else ():
        yield agent_id, 0, _plan(agent_id)
    for step in range((events - 2 - (3 if main_turns else 2) * agents) // 3):
        later = step - main_turns
        agent_id, turn = ids[later % agents], later // agents + 1
        if later < 0 or agent_id == "main":
            agent_id, turn = "main", step + 1 if later < 0 else turn + main_turns
        tool = "read_file" if tools == 1 else f"tool_{step % tools:03}"
        use: Block = {"type": "tool_use", "id": f"c{step}", "name": tool, "input": {}}
        usage = Usage(40, 60, 300 * turn, 900, 900)
        yield (
            *(agent_id, turn),
            ev.ModelReplied(
                model="claude-sonnet-4-5",
                blocks=[use],
                stop_reason="tool_use",
                usage=usage,
                context_tokens=usage.context_tokens,
                latency_ms=20,
            ),
        )
        yield agent_id, turn, ev.ToolStarted(tool=tool, tool_use_id=f"c{step}")
        result = f"line {step} " * 30
        yield (
            *(agent_id, turn),
            ev.ToolReturned(
                tool=tool, tool_use_id=f"c{step}", index=0, chars=len(result), result=result
            ),
        )
    for agent_id in reversed(ids):
        yield agent_id, 1, ended(f"{agent_id} is done")
    yield "main", 1, ev.RunEnded(status="finished", usage=Usage())


def started(agent_id: str, parent_id: str | None = None, **more: Any) -> ev.AgentStarted:
    values: dict[str, Any] = {
        "agent_type": agent_id.partition("-")[0],
        "definition": "built-in:x",
        "model": "m",
        "window_tokens": 200_000,
        "output_tokens": 8_000,
        "brief": f"the work of {agent_id}",
        "depth": 0 if parent_id is None else 1,
    }
    return ev.AgentStarted(agent_id=agent_id, parent_id=parent_id, **values | more)


def ended(conclusion: str = "done") -> ev.AgentEnded:
    usage = Usage()
    return ev.AgentEnded(
        status="finished", turns=1, tool_calls=1, usage=usage, conclusion=conclusion
    )


# ── the command ──


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Viewer:
    """``outrider view`` as a process. ``address`` is what it printed."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def get(self, path: str, *, token: bool = True, method: str = "GET", **headers: str) -> Answer:
        """``headers``: ``_`` stands for ``-``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Cookie"] = f"outrider-view-{self.port}={self.token}"
        try:
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)

    @contextmanager
    def stream(self, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The patches of the live stream, as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Cookie"] = f"outrider-view-{self.port}={self.token}"
        connection.request("GET", "/stream", headers=sent)
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        try:
            yield _patches(answer)
        finally:
            connection.close()


def _patches(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := answer.readline().decode():
        if line.startswith("data: "):
            yield json.loads(line[len("data: ") :])


@contextmanager
def viewer(root: Path, *arguments: str, texts: bool = True, **environment: str) -> Iterator[Viewer]:
    """The command, once it answers, until it is interrupted. ``texts``: with ``--log-content``."""
    command = [sys.executable, "-m", "orchestrator", "view", *arguments]
    command += ["--log-content"] if texts else []
    with subprocess.Popen(
        command,
        cwd=root,
        env=clean_environment(root.parent, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, process.stderr and process.stderr.read()
            yield Viewer(address, process)
        finally:
            process.terminate()
