"""`outrider steer`: a live run from another terminal."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from orchestrator import Limits, Permissions, Reins, Report, Request, resume, run
from orchestrator.events import ModelReplied, Record, Steered
from orchestrator.journal import read_records
from orchestrator.permissions import Answer, AskedFor, Asking
from orchestrator.prices import cost_usd
from orchestrator.rundir import RunDir
from orchestrator.steersocket import NAME, ask
from orchestrator.testing import ScriptedModel, call, results, said
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]
pytestmark = pytest.mark.anyio


class Live:
    """A run that goes on beside its test."""

    def __init__(self, root: Path) -> None:
        self.run_dir = RunDir(root, "r")
        self.report: Report | None = None

    async def tell(self, command: str, argument: str = "") -> dict[str, Any]:
        asked = {"command": command, "argument": argument}
        found = await run_sync(ask, self.run_dir.folder, asked)
        assert found is not None, "the run answers"
        return found

    async def do(self, command: str, argument: str = "") -> None:
        found = await self.tell(command, argument)
        assert found["ok"], found

    @property
    def steered(self) -> list[Steered]:
        records = read_records(self.run_dir.journal)
        return [r.fact for r in records if isinstance(r.fact, Steered)]


async def steering(
    root: Path,
    script: Callable[[Request], Any],
    act: Callable[[Live], Awaitable[None]],
    **options: Any,
) -> tuple[Report, list[Steered]]:
    """Carry a run out while ``act`` goes on."""
    live = Live(root)

    async def go() -> None:
        live.report = await run(
            "do it",
            model=ScriptedModel(script),
            root=root,
            run_id="r",
            reins=Reins(socket=True),
            **options,
        )

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await act(live)
    assert live.report is not None
    assert not (live.run_dir.folder / NAME).exists(), "no socket is left"
    return live.report, live.steered


async def test_status_shows_the_agents_at_work_and_the_socket_is_its_owners(
    tmp_path: Path,
) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> str:
        asked.set()
        await go_on.wait()
        return "done"

    async def act(live: Live) -> None:
        await asked.wait()
        mode = (live.run_dir.folder / NAME).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
        found = (await live.tell("status"))["status"]
        assert (found["run_id"], found["state"]) == ("r", "running")
        assert [(a["agent_id"], a["turn"]) for a in found["agents"]] == [("main", 0)]
        assert (await live.tell("cancel", "nobody"))["error"] == (
            "no agent 'nobody' is at work; there are: main"
        )
        assert "no command 'dance'" in (await live.tell("dance"))["error"]
        go_on.set()

    report, steered = await steering(tmp_path, script, act)
    assert (report.status, steered) == ("finished", [])


async def test_paused_nothing_new_begins_until_it_goes_on(tmp_path: Path) -> None:
    asked, go_on, replied, calls = anyio.Event(), anyio.Event(), anyio.Event(), list[str]()

    def watch(records: Sequence[Record]) -> None:
        if any(record.fact.event == "model_replied" for record in records):
            replied.set()

    async def script(request: Request) -> Any:
        calls.append("model")
        if not results(request):
            asked.set()
            await go_on.wait()
            return [call("note")]
        return "done"

    def note() -> str:
        calls.append("tool")
        return "noted"

    async def act(live: Live) -> None:
        await asked.wait()
        await live.do("pause")
        go_on.set()
        await replied.wait()
        await anyio.wait_all_tasks_blocked()
        assert calls == ["model"]
        assert (await live.tell("status"))["status"]["state"] == "paused"
        await live.do("continue")

    report, steered = await steering(tmp_path, script, act, tools=[note], observers=[watch])
    assert (report.status, calls) == ("finished", ["model", "tool", "model"])
    assert [fact.command for fact in steered] == ["pause", "continue"]


async def test_a_cancelled_child_ends_alone_and_its_parent_is_told(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def script(request: Request) -> Any:
        if request.agent_type != "main":
            asked.set()
            await anyio.sleep_forever()
        return results(request)[0] if results(request) else [call("task", prompt="x")]

    async def act(live: Live) -> None:
        await asked.wait()
        agents = (await live.tell("status"))["status"]["agents"]
        [child] = [a["agent_id"] for a in agents if a["agent_id"] != "main"]
        await live.do("cancel", child)

    report, steered = await steering(tmp_path, script, act)
    assert report.status == "finished"
    assert "· cancelled ·" in report.conclusion
    assert [row.status for row in report.agents] == ["finished", "cancelled"]
    assert [fact.command for fact in steered] == ["cancel"]


async def test_cancel_main_lets_the_run_hand_back(tmp_path: Path) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Any:
        if request.purpose == "handback":
            return "what I have"
        asked.set()
        await go_on.wait()
        return [call("ls")]

    async def act(live: Live) -> None:
        await asked.wait()
        await live.do("cancel", "main")
        go_on.set()

    report, _ = await steering(tmp_path, script, act)
    assert (report.status, report.reason) == ("partial", "cancelled")
    assert report.conclusion == "what I have"


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        (Limits(max_turns=2), "max_turns=50"),
        (Limits(max_tokens=30_000), "max_tokens=10000000"),
    ],
)
async def test_a_limit_is_raised_while_the_run_goes_on(
    tmp_path: Path, limits: Limits, raised: str
) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Any:
        asked.set()
        await go_on.wait()
        return [call("ls")] if len(results(request)) < 12 else "done"

    async def act(live: Live) -> None:
        await asked.wait()
        for wrong in ("max_turns", "max_turns=x", "max_turns=0", "speed=3", "max_turns=1.5"):
            assert not (await live.tell("budget", wrong))["ok"]
        await live.do("budget", raised)
        go_on.set()

    report, steered = await steering(tmp_path, script, act, limits=limits)
    assert (report.status, report.reason) == ("finished", None)
    assert [f"{fact.name}={fact.value:g}" for fact in steered] == [
        f"{raised.split('=')[0]}={float(raised.split('=')[1]):g}"
    ]
    more = ScriptedModel(lambda request: [call("ls")] if len(results(request)) < 20 else "more")
    report = await resume("r", "go on", model=more, root=tmp_path)
    assert (report.status, report.reason) == ("finished", None), "it stays raised"


async def test_what_is_said_reaches_the_main_agent_after_its_calls(tmp_path: Path) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Any:
        if results(request):
            return str(request.messages[-1]["content"][-1]["text"])
        asked.set()
        await go_on.wait()
        return [call("ls")]

    async def act(live: Live) -> None:
        await asked.wait()
        assert not (await live.tell("say", " "))["ok"]
        await live.do("say", "leave the tests alone")
        go_on.set()

    report, _ = await steering(tmp_path, script, act)
    assert report.conclusion == "leave the tests alone"


@pytest.mark.parametrize(("answer", "decision"), [("approve", "allow"), ("deny", "deny")])
async def test_a_question_is_answered_from_elsewhere(
    tmp_path: Path, answer: str, decision: str
) -> None:
    waits = anyio.Event()

    async def nobody(asked: AskedFor) -> Answer:
        waits.set()
        await anyio.sleep_forever()
        return "no"

    def script(request: Request) -> Any:
        return "done" if results(request) else [call("ls")]

    async def act(live: Live) -> None:
        await waits.wait()
        [question] = (await live.tell("status"))["status"]["questions"]
        assert (question["agent_id"], question["tool"]) == ("main", "ls")
        assert "there are: q1" in (await live.tell(answer, "q9"))["error"]
        await live.do(answer, question["id"])

    rules = Permissions(ask=("ls",))
    report, steered = await steering(tmp_path, script, act, permissions=rules, ask=nobody)
    assert report.status == "finished"
    assert [fact.command for fact in steered] == [answer]
    facts = [r.fact for r in read_records(RunDir(tmp_path, "r").journal)]
    decided = [f for f in facts if f.event == "permission_decided"]
    assert [(f.decision, f.by) for f in decided] == [(decision, "person")]


async def test_compaction_is_asked_for_while_the_run_goes_on(tmp_path: Path) -> None:
    asked, go_on, purposes = anyio.Event(), anyio.Event(), list[str]()
    for number in range(60):
        (tmp_path / f"file-{number}-with-a-name-that-takes-some-room.txt").touch()

    async def script(request: Request) -> Any:
        purposes.append(request.purpose)
        if request.purpose == "summary":
            return "the summary: listings were made"
        if len(results(request)) == 13:
            asked.set()
            await go_on.wait()
        return [call("ls")] if not go_on.is_set() or len(purposes) < 15 else "done"

    async def act(live: Live) -> None:
        await asked.wait()
        await live.do("compact")
        go_on.set()

    report, _ = await steering(tmp_path, script, act)
    assert report.status == "finished"
    assert "summary" in purposes


async def test_a_path_too_long_for_a_socket_goes_a_short_way(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> str:
        asked.set()
        await go_on.wait()
        return said(request)

    async def act(live: Live) -> None:
        await asked.wait()
        assert (await live.tell("status"))["ok"]
        go_on.set()

    assert (await steering(deep, script, act))[0].status == "finished"


async def test_nonsense_at_the_socket_harms_nothing(tmp_path: Path) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> str:
        asked.set()
        await go_on.wait()
        return "done"

    def send(path: str, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(data)

    async def act(live: Live) -> None:
        await asked.wait()
        way = tmp_path / "s"
        way.symlink_to(live.run_dir.folder)
        path = os.path.relpath(way / NAME)  # noqa: ASYNC240
        for data in (b"", b"\xff\xfe\n", b"[]\n", b"{\n", b"half a line", b'{"command": 3}\n'):
            await run_sync(partial(send, path, data))
        assert (await live.tell("status"))["ok"]
        go_on.set()

    assert (await steering(tmp_path, script, act))[0].status == "finished"


# ── the command line ──


def test_what_cannot_be_steered_is_told(cli: Cli) -> None:
    assert cli("run", "x", "--model", "rehearsal", "--quiet", "--run-id", "r").code == 0
    ran = cli("steer", "r", "status")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(
        "outrider: run r is not going on; outrider resume r goes on with it, with a"
    )
    for wrong in (["dance"], ["cancel"], ["say"], ["pause", "now"], ["approve"]):
        assert cli("steer", "r", *wrong).code == 2
    assert cli("steer", "nosuch", "status").code == 2


def test_a_run_of_the_command_line_is_steered_by_the_command_line(cli: Cli, root: Path) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> str:
        asked.set()
        await go_on.wait()
        return "done"

    async def act(live: Live) -> None:
        await asked.wait()
        found = await run_sync(partial(cli, "steer", "r", "status", "--json"))
        status = json.loads(found.out)
        assert [a["agent_id"] for a in status["agents"]] == ["main"]
        shown = await run_sync(partial(cli, "steer", "r", "status"))
        assert shown.out.startswith("r · running · ")
        said = await run_sync(partial(cli, "steer", "r", "pause"))
        assert said.out.startswith("paused: ")
        assert (await run_sync(partial(cli, "steer", "r", "cancel", "x"))).code == 1
        await live.do("continue")
        go_on.set()

    anyio.run(partial(steering, root, script, act))


async def test_a_child_that_was_resumed_alone_is_cancelled_like_a_run(tmp_path: Path) -> None:
    """It is what the run is about: it hands back, and the socket goes on answering."""
    asked, go_on = anyio.Event(), anyio.Event()
    alone = False

    async def script(request: Request) -> Any:
        if request.agent_type == "main":
            return [call("task", prompt="x")]
        if request.purpose == "handback":
            return "what I have"
        asked.set()
        if alone:
            await go_on.wait()
        else:
            scope.cancel()
            await anyio.sleep_forever()
        return [call("ls")]

    with anyio.CancelScope() as scope:
        await run("do it", model=ScriptedModel(script), root=tmp_path, run_id="r")
    alone, asked = True, anyio.Event()
    live = Live(tmp_path)
    records = read_records(live.run_dir.journal)
    child = next(r.agent_id for r in records if r.agent_id != "main")

    async def go() -> None:
        live.report = await resume(
            "r", model=ScriptedModel(script), root=tmp_path, agent=child, reins=Reins(socket=True)
        )

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await asked.wait()
            await live.do("cancel", child)
            assert (await live.tell("status"))["ok"]
            go_on.set()
    assert live.report is not None
    assert (live.report.status, live.report.conclusion) == ("partial", "what I have")


async def test_a_cost_limit_set_while_the_run_goes_on_counts_what_was_spent_before(
    tmp_path: Path,
) -> None:
    """And a limit that is passed already is refused, as is one where no price is known."""
    asked, go_on = anyio.Event(), anyio.Event()

    async def script(request: Request) -> Any:
        if len(results(request)) == 2:
            asked.set()
            await go_on.wait()
        if request.purpose == "handback":
            return "what I have"
        return [call("ls")]

    answers: list[dict[str, Any]] = []
    live = Live(tmp_path)

    async def go() -> None:
        model = ScriptedModel(script, name="claude-sonnet-5-5")
        live.report = await run(
            "do it", model=model, root=tmp_path, run_id="r", reins=Reins(socket=True)
        )

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await asked.wait()
            answers.append(dict(await live.tell("budget", "max_cost=0.0001")))
            spent = sum(
                cost_usd(r.fact.model, r.fact.usage) or 0.0
                for r in read_records(live.run_dir.journal)
                if isinstance(r.fact, ModelReplied) and r.fact.usage
            )
            await live.do("budget", f"max_cost={spent * 1.2}")
            go_on.set()
    assert "would end the run" in answers[0]["error"]
    assert live.report is not None
    assert (live.report.reason, live.report.conclusion) == ("limit:max_cost", "what I have")


async def test_a_no_from_elsewhere_is_not_turned_over_by_an_always_before_it() -> None:
    """Both questions are of one kind; the second was answered while the first still waited."""
    first_asked, go_on = anyio.Event(), anyio.Event()
    put: list[str] = []

    async def person(asked: AskedFor) -> Answer:
        put.append(asked.agent_id)
        first_asked.set()
        await go_on.wait()
        return "always"

    def question(agent_id: str) -> AskedFor:
        return AskedFor(agent_id, "main", "bash", {"command": "rm a"}, "ask bash", ("bash(rm a)",))

    asking, answers = Asking(person), dict[str, Answer | None]()

    async def ask_for(agent_id: str) -> None:
        answers[agent_id] = await asking.answer(question(agent_id))

    async with anyio.create_task_group() as group:
        group.start_soon(ask_for, "one")
        await first_asked.wait()
        group.start_soon(ask_for, "two")
        await anyio.wait_all_tasks_blocked()
        assert asking.settle("q2", "no")
        go_on.set()
    assert answers == {"one": "always", "two": "no"}
    assert put == ["one"], "what is answered already is not put to anybody"
