"""Children that run in the background, are stopped, asked, and watched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Report, Request, run
from orchestrator.messages import text_of
from orchestrator.options import Options
from orchestrator.rundir import RunDir
from orchestrator.team import Team
from orchestrator.testing import ScriptedModel, call, results, said
from tests.histories import orphans

pytestmark = pytest.mark.anyio


def log_of(root: Path, report: Report, name: str) -> list[dict[str, Any]]:
    lines = (root / report.log).read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == name]


def is_main(request: Request) -> bool:
    return request.agent_type == "main"


def child_id(result: str) -> str:
    return result.split(" ")[1]


def heard(request: Request) -> str:
    """Everything that the user's side said in texts."""
    return "\n".join(text_of(m["content"]) for m in request.messages if m["role"] == "user")


async def test_a_background_child_lets_its_parent_go_on_and_is_delivered_once(
    tmp_path: Path,
) -> None:
    """The delivery is a user text behind results; the run ends only when no child is live."""
    parent_went_on = anyio.Event()
    requests: list[Request] = []

    async def script(request: Request) -> Any:
        if not is_main(request):
            await parent_went_on.wait()
            return "the answer is 42"
        requests.append(request)
        assert orphans(list(request.messages)) == []
        got = results(request)
        if not got:
            return [call("task", prompt="work", background=True)]
        if len(got) == 1:
            return [call("ls")]
        parent_went_on.set()
        if "the answer is 42" not in heard(request):
            return "nothing left to do but wait"
        return f"heard {heard(request).count('the answer is 42')} time"

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    started = results(requests[1])[0]
    row = report.agents[1]
    assert started.startswith(f"[general {row.agent_id} · running]")
    assert report.conclusion == "heard 1 time"
    assert (report.status, row.status) == ("finished", "finished")
    delivered = log_of(tmp_path, report, "message_added")
    assert [(e["origin"], e["child_id"]) for e in delivered] == [("child", row.agent_id)]
    assert log_of(tmp_path, report, "agent_spawned")[0]["background"] is True


async def test_many_background_children_each_come_home_exactly_once(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if not is_main(request):
            return f"part {said(request)} done"
        if not results(request):
            return [call("task", prompt=f"<{n}>", background=True) for n in range(20)]
        text = heard(request)
        counts = [text.count(f"part <{n}> done") for n in range(20)]
        return f"all {counts}" if min(counts) == 1 else "waiting"

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    assert report.conclusion == f"all {[1] * 20}"
    assert len(log_of(tmp_path, report, "message_added")) == 20


async def test_s13_a_child_is_checked_and_cancelled_alone(tmp_path: Path) -> None:
    """S13: its siblings go on; what it had is its conclusion, its status is cancelled."""

    async def script(request: Request) -> Any:
        if not is_main(request):
            if "endless" in said(request):
                if not results(request):
                    return [{"type": "text", "text": "half of it"}, call("ls")]
                await anyio.sleep_forever()
            return "fine"
        got = results(request)
        if not got:
            todo = [{"content": "endless one", "status": "pending"}]
            return [call("write_todos", todos=todo)]
        if len(got) == 1:
            return [
                call("task", prompt="endless", background=True, todo="1"),
                call("task", prompt="quick", background=True),
            ]
        if len(got) == 3:
            return [call("check_task", agent_id=child_id(got[1]))]
        if len(got) == 4 and "· 1 tool calls" not in got[3]:
            await anyio.sleep(0.01)
            return [call("check_task", agent_id=child_id(got[1]))]
        if "being stopped" not in got[-1]:
            if "1 tool calls" in got[-1]:
                return [call("cancel_task", agent_id=child_id(got[1]))]
            await anyio.sleep(0.01)
            return [call("check_task", agent_id=child_id(got[1]))]
        return heard(request) if "cancelled" in heard(request) else "waiting"

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    by_status = {a.status: a for a in report.agents[1:]}
    assert set(by_status) == {"cancelled", "finished"}
    cancelled = by_status["cancelled"]
    assert cancelled.reason == "cancelled"
    assert f"{cancelled.agent_id} · cancelled" in report.conclusion
    assert "half of it" in report.conclusion
    todos = RunDir(tmp_path, report.run_id).todos.read_text()
    assert todos.startswith("- [-] endless one")


async def test_a_parent_that_ends_at_a_limit_stops_what_it_left_running(tmp_path: Path) -> None:
    async def script(request: Request) -> Any:
        if not is_main(request):
            await anyio.sleep_forever()
        if request.purpose == "handback":
            return "handed back"
        if not results(request):
            return [call("task", prompt="endless", background=True)]
        return [call("ls")]

    report = await run("go", model=ScriptedModel(script), root=tmp_path, limits=Limits(max_turns=3))
    assert (report.status, report.conclusion) == ("partial", "handed back")
    assert report.agents[1].status == "cancelled"


async def test_ask_task_questions_a_finished_child_that_still_knows_what_it_saw(
    tmp_path: Path,
) -> None:
    """S5, S13: its history is there, nothing is run again, the first conclusion stays whole."""
    (tmp_path / "a.txt").write_text("the code is 4711")
    children: list[Request] = []

    def script(request: Request) -> Any:
        if not is_main(request):
            children.append(request)
            if "which code" in heard(request):
                return f"it was in: {results(request)[0][-16:]}"
            return "I read it" if results(request) else [call("read_file", path="a.txt")]
        got = results(request)
        if not got:
            return [call("task", prompt="read a.txt")]
        if len(got) == 1:
            return [call("ask_task", agent_id=child_id(got[0]), question="which code?")]
        return got[1]

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    assert report.conclusion.endswith("it was in: the code is 4711")
    assert len(children) == 3
    assert orphans(list(children[2].messages)) == []
    row = report.agents[1]
    assert (len(report.agents), row.requests, row.tool_calls, row.status) == (2, 3, 1, "finished")
    folder = RunDir(tmp_path, report.run_id).agent(row.agent_id).folder
    assert (folder / "conclusion.md").read_text() == "I read it\n"
    assert (folder / "conclusion-2.md").read_text() == "it was in: the code is 4711\n"


async def test_what_is_asked_of_strangers_and_of_the_running_is_an_error(tmp_path: Path) -> None:
    async def script(request: Request) -> Any:
        if not is_main(request):
            while "stop" not in said(request):
                await anyio.sleep_forever()
        got = results(request)
        if not got:
            return [call("task", prompt="endless", background=True)]
        running = child_id(got[0])
        if len(got) == 1:
            return [
                call("ask_task", agent_id=running, question="how far?"),
                call("ask_task", agent_id="nobody", question="who?"),
                call("check_task", agent_id="nobody"),
                call("cancel_task", agent_id=running),
            ]
        return "\n".join(got[1:]) if "cancelled" in heard(request) else "waiting"

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    lines = report.conclusion.split("\n")
    assert "is still running" in lines[0]
    assert lines[1].startswith(
        "[error] No subagent of yours is called 'nobody'; there are: general-"
    )
    assert lines[2].startswith("[error] No subagent of yours")
    assert "is being stopped" in lines[3]


async def test_s13_a_stuck_child_is_shown_once_for_each_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13: waiting for children is no silence; a tool that hangs is."""
    told = anyio.Event()

    async def hangs() -> str:
        """Hang."""
        await told.wait()
        return "at last"

    def observe(records: Any) -> None:
        if any(r.fact.event == "agent_silent" for r in records):
            told.set()

    def script(request: Request) -> Any:
        if is_main(request):
            return "end" if results(request) else [call("task", prompt="hang")]
        return "done" if results(request) else [call("hangs")]

    shortened = Options.__dataclass_fields__["silent_seconds"]
    assert shortened.default == 300.0
    plain = Team.__init__

    def hasty(self: Team, options: Options, *rest: Any) -> None:
        object.__setattr__(options, "silent_seconds", 0.1)
        plain(self, options, *rest)

    monkeypatch.setattr(Team, "__init__", hasty)
    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[hangs], observers=[observe]
    )
    silent = log_of(tmp_path, report, "agent_silent")
    assert report.status == "finished"
    assert {e["agent_type"] for e in silent} == {"general"}
    assert silent[0]["seconds"] >= 0.1
