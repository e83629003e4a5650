"""The conclusion contract in whole runs: put right once, shaped as asked, honest about what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Limits, Report, Request, run
from orchestrator.testing import ScriptedModel, call, results, said

pytestmark = pytest.mark.anyio

JUDGE = """---
name: judge
description: Judges.
tools: ls
returns:
  verdict: [good, bad]
  places: [string]
---
You judge.
"""
GOOD = json.dumps({"verdict": "good", "places": []})


def asked_again(request: Request) -> bool:
    return request.purpose == "repair"


class Child:
    """A child that answers ``first``, and ``then`` when it is asked to put its conclusion right."""

    def __init__(self, first: Any, then: Any) -> None:
        self.first, self.then = first, then
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Any:
        if request.agent_type == "main":
            if results(request):
                return results(request)[0]
            return [call("task", prompt="judge it", subagent_type="judge")]
        self.requests.append(request)
        return self.then if asked_again(request) else self.first

    async def go(self, root: Path, definition: str = JUDGE, **options: Any) -> Report:
        (root / ".outrider/agents").mkdir(parents=True)
        (root / ".outrider/agents/judge.md").write_text(definition)
        return await run("go", model=ScriptedModel(self), root=root, **options)


PLAIN = JUDGE.replace("returns:\n  verdict: [good, bad]\n  places: [string]\n", "")


async def test_s6_a_conclusion_that_fits_is_taken_at_once_and_the_brief_says_the_shape(
    tmp_path: Path,
) -> None:
    """S6"""
    child = Child(GOOD, "never asked")
    report = await child.go(tmp_path)
    assert report.agents[1].status == "finished"
    assert len(child.requests) == 1
    assert said(child.requests[0]).startswith("judge it\n\nYour last message must hold one JSON")
    assert '"enum": ["good", "bad"]' in said(child.requests[0])


async def test_s6_one_repair_turn_puts_a_misfit_right(tmp_path: Path) -> None:
    """S6: the turn says what is wrong, runs no tool, and is in the ledger under its purpose."""
    child = Child('{"verdict": "maybe"}', GOOD)
    report = await child.go(tmp_path)
    row = report.agents[1]
    assert (row.status, row.turns, row.requests) == ("finished", 2, 2)
    assert GOOD in report.conclusion
    repair = child.requests[1]
    assert repair.tool_choice == {"type": "none"}
    assert "it does not fit the schema" in str(repair.messages[-1])
    log = (tmp_path / report.log).read_text()
    assert '"purpose":"repair"' in log


async def test_s6_a_second_misfit_fails_with_the_raw_text_kept(tmp_path: Path) -> None:
    """S6"""
    child = Child("no json", "still no json")
    report = await child.go(tmp_path)
    row = report.agents[1]
    assert (row.status, row.reason) == ("failed", "schema")
    assert "still no json" in report.conclusion
    assert row.conclusion_path is not None
    assert (tmp_path / row.conclusion_path).read_text() == "still no json\n"
    assert len(child.requests) == 2


async def test_an_empty_answer_gets_one_turn_and_may_become_a_conclusion(tmp_path: Path) -> None:
    child = Child("", "here it is after all")
    report = await child.go(tmp_path, PLAIN)
    assert report.agents[1].status == "finished"
    assert "here it is after all" in report.conclusion
    assert "it is empty" in str(child.requests[1].messages[-1])


async def test_s3_an_answer_that_stays_empty_is_no_success(tmp_path: Path) -> None:
    """S3"""
    report = await Child("", "").go(tmp_path, PLAIN)
    assert (report.agents[1].status, report.agents[1].reason) == ("empty", "no_answer")


async def test_a_report_that_only_points_elsewhere_gets_one_turn(tmp_path: Path) -> None:
    child = Child("See the report above.", "Three faults: a.py:1, b.py:2, c.py:3.")
    report = await child.go(tmp_path, PLAIN)
    assert "Three faults" in report.conclusion
    assert "See the report above" not in report.conclusion


async def test_a_tool_that_is_called_in_the_repair_turn_is_not_run(tmp_path: Path) -> None:
    child = Child("", [call("ls")])
    report = await child.go(tmp_path, PLAIN)
    assert report.agents[1].status == "empty"
    assert report.agents[1].tool_calls == 0


async def test_at_a_limit_there_is_no_repair(tmp_path: Path) -> None:
    def first() -> Any:
        return [call("ls")]

    child = Child(first(), "never")
    report = await child.go(tmp_path, PLAIN, limits=Limits(max_turns=2))
    assert report.agents[1].status == "partial"
    assert all(r.purpose != "repair" for r in child.requests)


async def test_a_definition_with_a_schema_that_cannot_be_used_starts_nothing(
    tmp_path: Path,
) -> None:
    """S6: nothing runs without the shape that was asked for."""
    broken = JUDGE.replace("[good, bad]", "nonsense")
    child = Child(GOOD, GOOD)
    report = await child.go(tmp_path, broken)
    assert report.conclusion.startswith("[error] ")
    assert "judge" in report.conclusion
    assert child.requests == []


async def test_the_files_that_a_conclusion_names_are_its_artifacts(tmp_path: Path) -> None:
    """Artifacts: in the report, in the log, and in what the parent gets."""

    def script(request: Request) -> Any:
        if request.agent_type == "main":
            if not results(request):
                return [call("task", prompt="write it")]
            return f"The result is in out/report.md.\n{results(request)[0]}"
        if not results(request):
            return [call("write_file", path="out/report.md", content="# Report\n")]
        return "I counted 3 files and wrote the table to out/report.md; nothing is missing (see gone.md)."

    report = await run("go", model=ScriptedModel(script), root=tmp_path)
    assert report.artifacts == ("out/report.md",)
    assert "[files: out/report.md]" in report.conclusion
    assert report.as_json()["artifacts"] == ["out/report.md"]
