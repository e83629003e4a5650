"""`outrider resume` and `outrider fork` as people type them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal import read_records
from orchestrator.rundir import list_runs
from orchestrator.testing.standin import Settings, call, say, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.ledger import FIGURES
from tests.test_cli_process import Cli, clean_environment, cli, root
from tests.test_cli_run import begin, results
from tests.warm import WARM

__all__ = ["cli", "root"]


def rehearsed(cli: Cli, *arguments: str) -> None:
    assert cli("run", "Survey this", "--model", "rehearsal", *arguments).code in (0, 3)


def test_a_finished_run_goes_on_with_a_message(root: Path, cli: Cli) -> None:
    rehearsed(cli)
    ran = cli("resume", "latest", "Survey it once more")
    assert (ran.code, bool(ran.out)) == (0, True)
    assert "main goes on" in ran.err


def test_a_misspelt_setting_of_the_environment_is_said_here_too(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed(cli)
    monkeypatch.setenv("OUTRIDER_MAX_TURN", "3")
    for command in (("resume", "latest", "once more"), ("fork", "latest", "--at", "1")):
        said = "outrider: OUTRIDER_MAX_TURN: no such setting; did you mean max_turns?"
        assert said in cli(*command).err


def test_a_finished_run_without_a_message_says_what_to_type(root: Path, cli: Cli) -> None:
    rehearsed(cli, "--run-id", "mine")
    ran = cli("resume", "mine")
    assert (ran.code, ran.out) == (2, "")
    assert "outrider resume mine MESSAGE" in ran.err


def test_a_limit_is_raised_by_the_option_that_the_error_names(root: Path, cli: Cli) -> None:
    rehearsed(cli, "--max-turns", "1")
    refused = cli("resume", "latest")
    assert refused.code == 2
    assert "--max-turns 2" in refused.err
    ran = cli("resume", "latest", "--max-turns", "50", "--output-format", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["status"] == "finished"


def test_tools_of_the_run_are_found_again_by_their_names(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "timetools.py").write_text('def now() -> str:\n    """Now."""\n    return "noon"\n')
    rehearsed(cli, "--tools", "timetools:now", "--max-turns", "1")
    assert cli("resume", "latest", "--max-turns", "50").code == 0
    rehearsed(cli, "--tools", "timetools:now", "--max-turns", "1")
    (root / "timetools.py").write_text("# nothing is here any more\n")
    monkeypatch.delitem(sys.modules, "timetools")
    missing = cli("resume", "latest", "--max-turns", "50")
    assert missing.code == 2
    assert "main lacks now" in missing.err
    assert cli("resume", "latest", "--max-turns", "50", "--accept-changes").code == 0


def test_a_fork_is_a_run_of_its_own(root: Path, cli: Cli) -> None:
    rehearsed(cli, "--run-id", "trunk")
    ran = cli("fork", "trunk", "--at", "1", "--run-id", "branch")
    assert (ran.code, bool(ran.out)) == (0, True)
    assert {run.run_id for run in list_runs(root)} == {"trunk", "branch"}
    far = cli("fork", "trunk", "--at", "99")
    assert far.code == 2
    assert "cannot be forked at turn 99" in far.err


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_whatever_stops_a_run_it_goes_on_and_pays_for_nothing_twice(
    root: Path, number: signal.Signals
) -> None:
    """Over HTTP, as a process: stopped in the second turn, resumed by the command that it names."""

    arrived, asked = asyncio.Event(), list[int]()

    def brain(body: Mapping[str, Any]) -> Any:
        got = results(body)
        asked.append(len(got))
        if len(got) == 1:
            arrived.set()
        return Answer([call("ls")]) if len(got) < 3 else say("all done")

    settings = Settings(latency=0.3)
    async with serve(brain, settings=settings) as server:
        process = await begin(server, root, "--run-id", "r")
        await asyncio.wait_for(arrived.wait(), 60)
        process.send_signal(number)
        await asyncio.wait_for(process.communicate(), 60)
        more = await asyncio.create_subprocess_exec(
            *(*WARM, "resume", "r", "--quiet"),
            cwd=root,
            env=clean_environment(root.parent, ANTHROPIC_API_KEY="test"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(more.communicate(), 60)
        assert (more.returncode, out.decode()) == (0, "all done\n"), err.decode()
        run_dir = list_runs(root)[0]
        assert not (run_dir.folder / "steer.sock").exists(), "no socket is left"
        facts = [r.fact for r in read_records(run_dir.journal)]
        replies = [f for f in facts if f.event == "model_replied"]
        handed_back = [f.purpose for f in replies].count("handback")
        assert handed_back == (number != signal.SIGKILL)
        assert len(replies) == 4 + handed_back
        assert sorted(set(asked)) == [0, 1, 2, 3]
        assert len(asked) <= 5 + handed_back, "at most the call that was under way is made again"
        assert [f.event for f in facts].count("tool_returned") == 3
        # Token for token what the server told of the requests whose answers arrived.
        told = {row.request_id: row for row in server.ledger.rows}
        for reply in replies:
            row = told.pop(reply.request_id or "")
            assert reply.usage is not None
            assert [reply.usage.as_json()[figure] for figure in FIGURES[:4]] == [
                getattr(row, figure) for figure in FIGURES[:4]
            ]
        assert len(told) <= 1, "the answer that the signal cut off"
