"""The log's schema, by the library that others would check their logs with: whole runs, line by line."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from orchestrator import Context, Limits, Permissions, Request, fork, resume, run
from orchestrator.errors import ContextOverflow, Overloaded, RequestRejected, StreamCut
from orchestrator.logs import event_types
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.mcp_tools import program
from tests.test_context_watch import Billing
from tests.test_context_watch import page as long_page
from tests.test_logs import SCHEMA, faults
from tests.test_steer import Live, steering
from tests.viewing import page

# No run here brings them; a line of each, filled, is checked in test_logs.py.
NEVER_SEEN = {
    "agent_silent",  # five minutes without a word
}


class Many:
    """A run in which as much happens as can: a plan, memory, children in the background and not, one of
    which fails, pages until they are offloaded and compacted, denied calls, a server's tool, failures
    that are tried again, a request that is too long, a limit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.failed: set[str] = set()

    def full(self, text: str) -> str:
        """Makes the place of stored results a file, so that the next cannot be stored.

        Args:
            text: Whatever.
        """
        results = RunDir(self.root, "many").agent("main").results
        if results.is_dir():
            results.rename(results.with_name("moved"))
        results.write_text("")
        return text * 6_000

    def once(self, name: str, error: Exception) -> None:
        if name not in self.failed:
            self.failed.add(name)
            raise error

    def __call__(self, request: Request) -> Any:
        if request.purpose == "summary":
            self.once("summary", StreamCut("the stream was cut"))
            return "Goal: read all pages."
        if request.agent_type != "main":
            return self.child(request)
        uses = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        at = max((use["input"].get("number", 0) for use in uses), default=0)
        if not uses:
            self.once("first", Overloaded("no room", retry_after=0.01))
            return [
                call("write_todos", todos=[{"content": "read", "status": "in_progress"}]),
                call("remember", text="pages are long"),
                call("ls", path="secret"),
                call("mcp__good__add", a=1, b=2),
                call("nothing-of-the-kind", x=1),
                call("page", number=1),
            ]
        if at == 1:
            self.once("cut", StreamCut("the stream was cut"))
            return [
                call("task", prompt="fails"),
                call("task", prompt="goes on", background=True),
                call("page", number=2),
            ]
        if at == 6:
            told = "prompt is too long: 21000 tokens > 19000 maximum"
            self.once("long", ContextOverflow(told))
        if at == 20:
            return [call("full", text="x"), call("page", number=21)]
        return [call("page", number=at + 1)] if at < 30 else "read them all"

    def child(self, request: Request) -> Any:
        if "fails" in json.dumps(request.messages[0]):
            raise RequestRejected("no")
        return [call("page", number=len(results(request)) + 1)]


async def everything(root: Path) -> None:
    """All the runs."""
    many = Many(root)
    policy = Context(window=20_000, keep_turns=2, offload_at=8_000)
    options: dict[str, Any] = {
        "tools": [page, many.full],
        "context": policy,
        "permissions": Permissions(deny=("ls(secret)",)),
    }
    if find_spec("mcp"):
        options["mcp_config"] = {"mcpServers": {"good": program("good")}}
    await run(
        "read", model=ScriptedModel(many), root=root, run_id="many", limits=Limits(max_turns=45),
        **options,
    )  # fmt: skip
    model = ScriptedModel(Billing(turns=6, lose_at=3))
    await run("go", model=model, root=root, run_id="lost", tools=[long_page])
    await run("look", model=ScriptedModel(asks_once), root=root, run_id="again")
    await resume("again", "and now?", model=ScriptedModel(asks_once), root=root)
    await fork("again", 1, "or so", model=ScriptedModel(asks_once), root=root)
    outage = ScriptedModel(refuses, name="claude-opus-4-6")
    await run("x", model=outage, root=root, run_id="outage", fallback_model="haiku")
    await steered(root)


def asks_once(request: Request) -> Any:
    return "seen" if results(request) else [call("ls")]


def refuses(request: Request) -> Any:
    if request.model == "claude-opus-4-6":
        raise Overloaded("away", retry_after=1e7)
    return "done"


async def steered(root: Path) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Any:
        if results(request):
            return "done"
        asked.set()
        await go_on.wait()
        return [call("ls")]

    async def act(live: Live) -> None:
        await asked.wait()
        await live.do("compact")
        go_on.set()

    await steering(root, script, act)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Each run's lines."""
    root = tmp_path_factory.mktemp("logs") / "ws"
    root.mkdir()
    anyio.run(everything, root)
    found = sorted((root / ".outrider/runs").glob("*/log.jsonl"))
    return {
        path.parent.name: [json.loads(line) for line in path.read_text("ascii").splitlines()]
        for path in found
    }


def test_the_schema_is_one_and_refuses_what_is_no_line() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert faults({})
    assert faults({"event": "tool_started"})


def test_every_line_of_whole_runs_fits_the_schema_file(logs: dict[str, list[Any]]) -> None:
    """L1: whatever happens in a run. A line of each kind with a field spoilt, or without one, does not."""
    wrong = {
        (name, line["seq"]): found
        for name, lines in logs.items()
        for line in lines
        if (found := faults(line))
    }
    assert wrong == {}
    of_each = {line["event"]: line for lines in logs.values() for line in lines}
    for line in of_each.values():
        assert faults({**line, "seq": "one"})
        assert faults({name: value for name, value in line.items() if name != "turn"})
    assert len(of_each) > 20


def test_the_runs_bring_every_kind_of_event_but_those_that_are_named_here(
    logs: dict[str, list[Any]],
) -> None:
    known = {str(kind.model_fields["event"].default) for kind in event_types()}
    seen = {line["event"] for lines in logs.values() for line in lines}
    never = NEVER_SEEN | (set() if find_spec("mcp") else {"mcp_server"})
    assert known - seen == never
