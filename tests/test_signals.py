"""A run that is stopped: it hands back first, is cancelled next, and ends on the spot last. H2."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Reins, Report, Request, resume, run
from orchestrator.errors import Overloaded
from orchestrator.events import Event
from orchestrator.journal import is_running, read_records
from orchestrator.permissions import Answer as Said
from orchestrator.permissions import AskedFor, Permissions
from orchestrator.rundir import RunDir, list_runs
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.standin import Server, say, serve
from orchestrator.testing.standin import call as calls
from orchestrator.testing.standin.answers import Answer
from tests.test_cli_process import OUTRIDER, clean_environment, root
from tests.test_cli_run import begin
from tests.test_cli_run import results as results_in

__all__ = ["root"]


def facts_of(root: Path, report: Report) -> list[tuple[str, Event]]:
    journal = RunDir(root, report.run_id).journal
    return [(record.agent_id, record.fact) for record in read_records(journal)]


def of_kind(root: Path, report: Report, event: str) -> list[tuple[str, Any]]:
    return [(who, fact) for who, fact in facts_of(root, report) if fact.event == event]


# ── the library: reins ──


@pytest.mark.anyio
async def test_after_a_stop_running_calls_finish_and_every_agent_hands_back_once(
    tmp_path: Path,
) -> None:
    """H2: main, a child that it waits for, and one in the background; nothing new begins."""
    reins, working, go_on = Reins(), list[str](), anyio.Event()

    async def work(who: str) -> str:
        working.append(who)
        if len(working) == 2:
            reins.stop()
            go_on.set()
        await go_on.wait()
        return f"{who} worked"

    def script(request: Request) -> Any:
        if request.purpose == "handback":
            assert request.tool_choice == {"type": "none"}
            return f"handed back {len(results(request))} results"
        if request.agent_type != "main":
            return [call("work", who=request.agent_id)]
        return [call("task", prompt="a"), call("task", prompt="b", background=True)]

    model = ScriptedModel(script)
    report = await run("do it", model=model, root=tmp_path, tools=[work], reins=reins)
    assert (report.status, report.reason) == ("partial", "cancelled")
    ends = of_kind(tmp_path, report, "agent_ended")
    assert len(ends) == 3
    assert {(e.status, e.reason) for _, e in ends} == {("partial", "cancelled")}
    assert sorted(e.conclusion for w, e in ends if w != "main") == ["handed back 1 results"] * 2
    assert ends[-1][0] == "main", "children hand back first"
    replies = of_kind(tmp_path, report, "model_replied")
    assert [r.purpose for _, r in replies].count("handback") == 3
    assert [r.purpose for _, r in replies].count("agent") == 3
    returned = [f for _, f in of_kind(tmp_path, report, "tool_returned") if f.tool == "work"]
    assert [f.is_error for f in returned] == [False, False]


@pytest.mark.anyio
async def test_calls_that_a_reply_asks_for_after_the_stop_are_not_begun(tmp_path: Path) -> None:
    reins, ran = Reins(), list[int]()

    def note() -> str:
        ran.append(1)
        return "noted"

    def script(request: Request) -> Any:
        if request.purpose == "handback":
            return "what I have"
        reins.stop()
        return [call("note"), call("note")]

    model = ScriptedModel(script)
    report = await run("do it", model=model, root=tmp_path, tools=[note], reins=reins)
    assert (report.status, report.reason, ran) == ("partial", "cancelled", [])
    assert report.conclusion == "what I have"
    found = [f.result for _, f in of_kind(tmp_path, report, "tool_returned")]
    assert found == ["[error] not run: the run is being stopped"] * 2


@pytest.mark.anyio
async def test_a_conclusion_that_comes_after_the_stop_is_a_finished_run(tmp_path: Path) -> None:
    reins = Reins()

    def script(request: Request) -> str:
        reins.stop()
        return "all done"

    report = await run("do it", model=ScriptedModel(script), root=tmp_path, reins=reins)
    assert (report.status, report.reason, report.conclusion) == ("finished", None, "all done")


@pytest.mark.anyio
async def test_a_tool_call_that_does_not_end_is_cancelled_after_its_bound(tmp_path: Path) -> None:
    reins, ended = Reins(tool_seconds=0.01), list[str]()

    async def stuck() -> str:
        reins.stop()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")
        return "never"

    def script(request: Request) -> Any:
        return "what I have" if request.purpose == "handback" else [call("stuck")]

    model = ScriptedModel(script)
    report = await run("do it", model=model, root=tmp_path, tools=[stuck], reins=reins)
    assert (report.status, report.reason, ended) == ("partial", "cancelled", ["cancelled"])
    [(_, returned)] = of_kind(tmp_path, report, "tool_returned")
    assert "it may have happened in part: the run is being stopped" in returned.result


@pytest.mark.anyio
async def test_a_service_that_does_not_answer_keeps_no_run_from_ending(tmp_path: Path) -> None:
    """Neither the call that was under way nor the one that hands back waits for ever."""
    reins = Reins(model_seconds=0.01)

    async def script(request: Request) -> str:
        reins.stop()
        await anyio.sleep_forever()
        return "never"

    report = await run("do it", model=ScriptedModel(script), root=tmp_path, reins=reins)
    assert (report.status, report.reason) == ("partial", "cancelled")
    failed = of_kind(tmp_path, report, "model_failed")
    assert [(f.purpose, f.kind, f.retry_in_ms) for _, f in failed] == [
        ("agent", "timeout", None),
        ("handback", "timeout", None),
    ]


@pytest.mark.anyio
async def test_a_wait_before_another_try_ends_with_the_stop(tmp_path: Path) -> None:
    reins, tries = Reins(), list[str]()

    def script(request: Request) -> str:
        tries.append(request.purpose)
        if request.purpose == "handback":
            return "what I have"
        raise Overloaded("no room", retry_after=50.0)

    def stop_at_a_failure(records: Any) -> None:
        if any(r.fact.event == "model_failed" for r in records):
            reins.stop()

    report = await run(
        "do it",
        model=ScriptedModel(script),
        root=tmp_path,
        reins=reins,
        observers=[stop_at_a_failure],
    )
    assert tries == ["agent", "handback"]
    assert (report.status, report.reason) == ("partial", "cancelled")


@pytest.mark.anyio
async def test_a_question_that_waits_for_a_person_is_not_taken_for_a_no(tmp_path: Path) -> None:
    reins = Reins()

    async def ask(asked: AskedFor) -> Said:
        reins.stop()
        await anyio.sleep_forever()
        return "no"

    def script(request: Request) -> Any:
        return "what I have" if request.purpose == "handback" else [call("ls")]

    rules = Permissions(ask=("ls",))
    model = ScriptedModel(script)
    report = await run("x", model=model, root=tmp_path, reins=reins, permissions=rules, ask=ask)
    assert (report.status, report.reason) == ("partial", "cancelled")
    assert of_kind(tmp_path, report, "permission_decided") == []


@pytest.mark.anyio
async def test_a_stopped_run_is_resumed_without_a_message_and_finishes(tmp_path: Path) -> None:
    reins = Reins()

    def script(request: Request) -> Any:
        if request.purpose == "handback":
            return "halfway"
        found = results(request)
        if len(found) == 1:
            reins.stop()  # so that the call of this reply is not begun
        return [call("ls")] if len(found) < 3 else f"done after {len(found)} results"

    model = ScriptedModel(script)
    stopped = await run("do it", model=model, root=tmp_path, reins=reins)
    assert (stopped.status, stopped.conclusion) == ("partial", "halfway")
    report = await resume("latest", root=tmp_path, model=model)
    assert (report.status, report.reason) == ("finished", None)
    assert report.conclusion == "done after 3 results"


@pytest.mark.anyio
@pytest.mark.parametrize("jump", [-1e9, 1e9])
async def test_a_clock_that_is_set_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """Deadlines, retries and tool time-outs go by the monotonic clock."""
    real, tries = time.time, list[int]()

    def script(request: Request) -> Any:
        tries.append(1)
        if len(tries) == 1:
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            raise Overloaded("no room", retry_after=0.01)
        return [call("ls")] if len(results(request)) < 2 else "done"

    limits = Limits(max_seconds=500)
    report = await run("do it", model=ScriptedModel(script), root=tmp_path, limits=limits)
    assert (report.status, report.reason, report.conclusion) == ("finished", None, "done")


# ── the command line: three stages ──


def below(pid: int) -> list[int]:
    """The processes that a process has started and that still are."""
    found = list[int]()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            found += [child, *below(child)]
    return found


def is_alive(pid: int) -> bool:
    try:
        return not re.search(r"\) Z ", Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return False


def waiting(body: Mapping[str, Any]) -> bool:
    return (body.get("tool_choice") or {}).get("type") != "none"


async def comes_true(fact: Callable[[], bool]) -> bool:
    for _ in range(1200):
        if fact():
            return True
        await asyncio.sleep(0.05)
    return False


async def gone(pids: list[int]) -> bool:
    return await comes_true(lambda: not any(map(is_alive, pids)))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_the_first_signal_lets_the_run_hand_back_and_says_how_to_go_on(
    root: Path, number: signal.Signals, code: int
) -> None:
    """H2: the partial result on stdout, the command that goes on with it on stderr."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def brain(body: Mapping[str, Any]) -> Answer:
        if not waiting(body):
            return say("what I have")
        asked.set()
        await go_on.wait()
        return Answer([calls("ls")])

    async with serve(brain) as server:
        process = await begin(server, root, "--run-id", "r", "--output-format", "json")
        await asyncio.wait_for(asked.wait(), 60)
        process.send_signal(number)
        assert process.stderr is not None
        while b"stopping: agents hand back" not in (line := await process.stderr.readline()):
            assert line, "it says that it is stopping"
        go_on.set()
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == code
    report = json.loads(out)
    assert (report["status"], report["reason"]) == ("partial", "cancelled")
    assert report["conclusion"] == "what I have"
    assert "go on with: outrider resume r" in err.decode()
    assert b"Traceback" not in err
    journal = RunDir(root, "r").journal
    assert not is_running(journal)
    assert [r.fact.event for r in read_records(journal)][-1] == "run_ended"


async def started_and_stuck(server: Server, root: Path) -> tuple[Any, list[int]]:
    """A run whose bash call does not end, with all of its processes."""
    process = await begin(
        server, root, "--run-id", "r", "--allow", "bash", "--no-sandbox", "--output-format", "json"
    )
    pids = list[int]()
    while not any("sleep" in _name(pid) for pid in pids):
        await asyncio.sleep(0.05)
        assert process.returncode is None
        pids = below(process.pid)
    return process, pids


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def stuck(body: Mapping[str, Any]) -> Answer:
    return say("what I have") if results_in(body) else Answer([calls("bash", command="sleep 300")])


@pytest.mark.asyncio
async def test_the_second_signal_cancels_and_leaves_a_whole_journal_and_no_process(
    root: Path,
) -> None:
    """H2."""
    async with serve(stuck) as server:
        process, pids = await asyncio.wait_for(started_and_stuck(server, root), 60)
        process.send_signal(signal.SIGINT)
        while b"stopping" not in (line := await process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "cancelled"
    assert "the work so far is kept in .outrider/runs/r" in err.decode()
    assert "go on with: outrider resume r" in err.decode()
    assert await gone(pids), "no process is left"
    [run_dir] = list_runs(root)
    facts = [record.fact.event for record in read_records(run_dir.journal)]
    assert facts[-1] == "run_ended"
    lines = run_dir.log.read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "run_ended"
    assert not is_running(run_dir.journal)


@pytest.mark.asyncio
async def test_the_third_signal_ends_everything_on_the_spot(root: Path) -> None:
    """H2: also while something blocks the process; the run can be resumed."""
    (root / "mytools.py").write_text(
        "import pathlib, subprocess, time\n\n"
        "async def block() -> str:\n"
        '    """Block."""\n'
        "    subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "    try:\n"
        "        import anyio\n"
        "        await anyio.sleep_forever()\n"
        "    finally:\n"
        "        pathlib.Path('blocked').touch()\n"
        "        time.sleep(300)\n"
    )

    def brain(body: Mapping[str, Any]) -> Answer:
        return say("x") if results_in(body) else Answer([calls("block")])

    async with serve(brain) as server:
        process = await begin(server, root, "--run-id", "r", "--tools", "mytools:block")
        assert process.stderr is not None
        pids = list[int]()
        while not any("sleep" in _name(pid) for pid in pids):
            await asyncio.sleep(0.05)
            assert process.returncode is None
            pids = below(process.pid)
        process.send_signal(signal.SIGINT)
        while b"stopping" not in (line := await process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        assert await comes_true((root / "blocked").exists)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 130
        assert "stopped on the spot; go on with: outrider resume r" in err.decode()
        assert await gone(pids), "no process is left"
    assert not is_running(RunDir(root, "r").journal)


@pytest.mark.asyncio
async def test_a_terminal_that_goes_away_is_like_the_first_ctrl_c(root: Path) -> None:
    """The run hands back and is kept, although nobody reads on."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def brain(body: Mapping[str, Any]) -> Answer:
        if not waiting(body):
            return say("what I have")
        asked.set()
        await go_on.wait()
        return Answer([calls("ls")])

    async with serve(brain) as server:
        ours, theirs = pty.openpty()
        given = ("--run-id", "r", "--base-url", server.base_url, "--model", "claude-sonnet-5")
        wrapper = "import os,sys,fcntl,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        wrapper += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", wrapper, *OUTRIDER[1:], "run", "do it", *given],
            cwd=root,
            env=clean_environment(root.parent, ANTHROPIC_API_KEY="test", TERM="xterm"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        drained = asyncio.get_running_loop().run_in_executor(None, _drain, ours, asked)
        await asyncio.wait_for(asked.wait(), 60)
        await drained
        os.close(ours)  # the terminal goes away: SIGHUP
        journal = RunDir(root, "r").journal
        go_on.set()
        code = await asyncio.to_thread(process.wait, 120)
    assert code == 129
    ended = [r.fact for r in read_records(journal)][-1]
    assert (ended.event, getattr(ended, "status", None)) == ("run_ended", "partial")
    assert RunDir(root, "r").result.read_text() == "what I have\n"


def _drain(fd: int, until: asyncio.Event) -> None:
    """Read what is drawn, so that the writer does not block."""
    os.set_blocking(fd, False)
    while not until.is_set():
        try:
            os.read(fd, 65_536)
        except BlockingIOError:
            time.sleep(0.05)
