"""`outrider compact`: compaction by hand in a run that stands still. C19."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import ConfigError, Limits, Report, Request, resume, run
from orchestrator.errors import RunInUse
from orchestrator.events import Compacted
from orchestrator.journal import open_journal, read_records
from orchestrator.manual import compact_next
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]


def script(request: Request) -> Any:
    if request.purpose == "summary":
        return "the summary: twelve listings were made"
    if request.purpose == "handback":
        return "halfway"
    return [call("ls")] if len(results(request)) < 14 else "done"


async def stopped(root: Path, turns: int = 12) -> Report:
    for number in range(40):
        (root / f"file-{number}-with-a-name-that-takes-some-room.txt").touch()
    limits = Limits(max_turns=turns)
    return await run("do it", model=ScriptedModel(script), root=root, limits=limits, run_id="r")


def compactions(root: Path) -> list[Compacted]:
    records = read_records(RunDir(root, "r").journal)
    return [r.fact for r in records if isinstance(r.fact, Compacted)]


@pytest.mark.anyio
async def test_a_run_that_stands_still_is_compacted_before_its_next_turn(tmp_path: Path) -> None:
    first = await stopped(tmp_path)
    assert (first.status, compactions(tmp_path)) == ("partial", [])
    assert await compact_next("r", root=tmp_path) == "main"
    assert await compact_next("latest", root=tmp_path) == "main", "asked twice is asked once"
    purposes = list[str]()

    def watched(request: Request) -> Any:
        purposes.append(request.purpose)
        return script(request) if len(purposes) < 4 else "done"

    more = {"max_turns": 100}
    report = await resume("r", root=tmp_path, model=ScriptedModel(watched), limits=more)
    assert (report.status, report.conclusion) == ("finished", "done")
    assert purposes[0] == "summary", "before the next turn"
    [compacted] = compactions(tmp_path)
    assert compacted.trigger == "manual"
    log = RunDir(tmp_path, "r").log.read_text().splitlines()
    steered = [line for line in map(json.loads, log) if line["event"] == "steered"]
    assert [(line["command"], line["agent_id"]) for line in steered] == [("compact", "main")]
    assert [json.loads(line)["seq"] for line in log] == list(range(1, len(log) + 1))


@pytest.mark.anyio
async def test_the_time_that_the_run_stood_still_does_not_count(tmp_path: Path) -> None:
    first = await stopped(tmp_path)
    await anyio.sleep(0.3)
    await compact_next("r", root=tmp_path)
    more = {"max_turns": 100}
    report = await resume(
        "r", "stop", root=tmp_path, model=ScriptedModel(lambda _: "x"), limits=more
    )
    records = list(read_records(RunDir(tmp_path, "r").journal))
    assert report.seconds <= records[-1].ts - records[0].ts - 0.29
    assert first.seconds <= report.seconds


@pytest.mark.anyio
async def test_what_cannot_be_compacted_is_told(tmp_path: Path) -> None:
    await run("x", model=ScriptedModel(lambda _: "done"), root=tmp_path, run_id="r")
    with pytest.raises(ConfigError, match="nothing to compact: the history of main is too short"):
        await compact_next("r", root=tmp_path)
    with pytest.raises(ConfigError, match="no agent 'nobody'"):
        await compact_next("r", root=tmp_path, agent="nobody")
    async with open_journal(RunDir(tmp_path, "r").journal):
        with pytest.raises(RunInUse, match="outrider steer r compact"):
            await compact_next("r", root=tmp_path)


def test_the_command_says_what_is_next_and_the_run_stays_whole(cli: Cli, root: Path) -> None:
    anyio.run(stopped, root)
    ran = cli("compact", "latest")
    assert (ran.code, ran.err) == (0, "")
    said = "main is compacted before its next turn; go on with: outrider resume r\n"
    assert ran.out == said
    assert cli("audit", "r").code == 0
    assert [each["status"] for each in json.loads(cli("runs", "--json").out)] == ["partial"]
    assert cli("compact", "latest", "--agent", "nobody").code == 2
