"""`outrider runs`, `tokens` and `log`: what is recorded, for people and for programs."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Report, Request, run
from orchestrator.cli.log import pretty, whole_lines
from orchestrator.cli.runs import fitted
from orchestrator.cli.table import Column, cost, duration, short_number, table, width_of
from orchestrator.cli.tokens_tables import agent_tables
from orchestrator.errors import Overloaded
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.model import Reply
from orchestrator.readings import RunSummary, summarise
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, clean_environment, cli, root
from tests.warm import WARM

__all__ = ["cli", "root"]


def script(request: Request) -> Any:
    """Main starts two children, which each list the folder once."""
    if request.agent_type == "main":
        if not results(request):
            kinds = ("explorer", "reviewer")
            return [call("task", prompt=f"as {kind}", subagent_type=kind) for kind in kinds]
        return "merged"
    if not results(request):
        return [call("ls")]
    usage = Usage(100, 20, 300, 400)
    return Reply([{"type": "text", "text": "seen"}], "end_turn", usage, model="claude-sonnet-4-5")


def record(
    root: Path, fn: Any = script, run_id: str = "first", task: str = "look around"
) -> Report:
    async def go() -> Report:
        return await run(task, model=ScriptedModel(fn), root=root, run_id=run_id)

    return anyio.run(go)


def summary(root: Path, run_id: str = "first") -> RunSummary:
    return summarise(read_records(RunDir(root, run_id).journal), run_id)


def cells(text: str) -> list[list[str]]:
    """A table's cells: columns are at least two spaces apart. What follows it is no table."""
    import re

    lines = text.partition("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


# ── runs ──


def test_runs_are_listed_newest_first_with_status_and_task(cli: Cli, root: Path) -> None:
    record(root, run_id="20261130-100000-aaaaaa", task="the \x1b[31mold\x1b[0m\ntask")
    record(root, lambda _: "", run_id="20261130-110000-bbbbbb", task="the new one")
    titles, newest, oldest = cells(cli("runs").out)
    assert titles[:2] == ["run", "status"]
    assert newest[:2] == ["20261130-110000-bbbbbb", "empty"]
    assert (oldest[0], oldest[1], oldest[-1]) == (
        *("20261130-100000-aaaaaa", "finished"),
        "the old task",
    )


def test_runs_as_json(cli: Cli, root: Path) -> None:
    assert json.loads(cli("runs", "--json").out) == []
    report = record(root)
    found = json.loads(cli("runs", "--json").out)
    assert [r["run_id"] for r in found] == ["first"]
    assert found[0]["usage"] == report.usage.as_json()
    assert found[0]["path"] == ".outrider/runs/first"


def test_a_workspace_without_runs_says_so(cli: Cli) -> None:
    ran = cli("runs")
    assert ran.code == 0
    assert ran.out.startswith("No run is recorded in ")


def test_a_damaged_journal_is_listed_and_hides_no_other_run(cli: Cli, root: Path) -> None:
    """L5."""
    record(root, run_id="whole")
    record(root, run_id="torn")
    journal = RunDir(root, "torn").journal
    journal.write_bytes(b"no database" * 500)
    found = {r["run_id"]: r["status"] for r in json.loads(cli("runs", "--json").out)}
    assert found == {"whole": "finished", "torn": "damaged"}
    ran = cli("tokens", "torn")
    assert ran.code == 1
    assert ran.err.startswith("outrider: ")
    assert ran.err.count("\n") == 1


def test_a_run_without_its_end_is_running_or_crashed(cli: Cli, root: Path) -> None:
    """Whether somebody holds it is what tells the two apart."""
    statuses: list[str] = []

    def observe(records: object) -> None:
        statuses.extend(r["status"] for r in json.loads(cli("runs", "--json").out))

    async def go() -> None:
        # The end of a run is its last batch of records, so the first ones see it at work.
        model = ScriptedModel(lambda _: "x")
        await run("go", model=model, root=root, observers=[observe])

    anyio.run(go)
    assert statuses[0] == "running"
    journal = RunDir(root, "stopped").journal
    journal.parent.mkdir()
    sqlite3.connect(journal).close()
    assert "crashed" in {r["status"] for r in json.loads(cli("runs", "--json").out)}


def test_the_list_of_runs_fits_a_narrow_terminal(root: Path) -> None:
    rows = [["20261130-100000-aaaaaa", "finished", "2026-11-30 10:00", "1.0s", "12", "123,456"]]
    lines = fitted([[*rows[0], "$0.1234", "120 kB", "a task in many words " * 9]], 80)
    assert width_of(lines) <= 80
    assert "2026-11-30 10:00" not in lines[1]
    assert "2026-11-30 10:00" in fitted([[*rows[0], "?", "1.2 MB", "short"]], 120)[1]


# ── tokens ──


def test_the_totals_row_is_the_sum_of_the_agents(cli: Cli, root: Path) -> None:
    """L2."""
    report = record(root)
    titles, *agents, total = cells(cli("tokens", "first").out)
    assert [row[0] for row in agents] == ["main"] + [
        f"└ {agent.agent_id}" for agent in report.agents[1:]
    ]
    for name in ("input", "cache rd", "cache wr", "output", "total"):
        place = titles.index(name)
        figures = [int(row[place].replace(",", "")) for row in agents]
        assert int(total[place].replace(",", "")) == sum(figures)
    assert total[titles.index("total")] == f"{report.usage.total_tokens:,}"


def test_an_unknown_price_is_a_question_mark_never_zero(cli: Cli, root: Path) -> None:
    """L3."""
    record(root)
    titles, *rows = cells(cli("tokens", "first").out)
    assert {row[-2] for row in rows} == {"?"}
    assert titles[-2] == "cost"


def test_a_call_of_which_nothing_was_reported_is_told(cli: Cli, root: Path) -> None:
    """L2: what the provider did not report is named."""
    tries = iter(range(2))

    def failing_once(request: Request) -> Any:
        if next(tries) == 0:
            raise Overloaded("no room", retry_after=0.01)
        return "done"

    record(root, failing_once)
    shown = cli("tokens", "first").out
    assert shown.endswith("Of 1 call the provider reported no tokens; they are in no sum.\n")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_table_fits_the_terminal_and_keeps_every_figure(root: Path, width: int) -> None:
    record(root)
    found = summary(root)
    lines = agent_tables(found, width)
    assert width_of(lines) <= width
    shown = "\n".join(lines)
    for title in ("input", "cache rd", "cache wr", "output", "total", "peak/window", "cost"):
        assert title in shown
    assert f"{found.usage.total_tokens:,}" in shown


def test_tokens_by_model_tool_and_turn(cli: Cli, root: Path) -> None:
    report = record(root)
    by_model = json.loads(cli("tokens", "first", "--by", "model", "--json").out)["rows"]
    assert [row["name"] for row in by_model] == ["scripted", "claude-sonnet-4-5"]
    assert sum(row["usage"]["input_tokens"] for row in by_model) == report.usage.input_tokens
    tools = {r[0]: r[1] for r in cells(cli("tokens", "first", "--by", "tool").out)}
    assert tools == {"tool": "calls", "ls": "2", "task": "2", "total": "4"}
    turns = cells(cli("tokens", "first", "--by", "turn").out)
    assert ["main", "1"] in [row[:2] for row in turns]
    assert turns[-1][-2] == f"{report.usage.total_tokens:,}"


def test_csv_has_a_row_per_agent_and_plain_numbers(cli: Cli, root: Path) -> None:
    report = record(root)
    rows = list(csv.DictReader(io.StringIO(cli("tokens", "latest", "--csv").out)))
    assert [row["agent_id"] for row in rows] == [agent.agent_id for agent in report.agents]
    assert sum(int(row["total_tokens"]) for row in rows) == report.usage.total_tokens


def test_json_has_the_reports_agents(cli: Cli, root: Path) -> None:
    report = record(root)
    found = json.loads(cli("tokens", "fir", "--json").out)
    for row, agent in zip(found["rows"], report.agents, strict=True):
        assert row == row | agent.as_json()
    assert found["usage"] == report.usage.as_json()


def test_an_unknown_run_or_key_is_exit_code_2(cli: Cli, root: Path) -> None:
    record(root)
    ran = cli("tokens", "nosuch")
    assert (ran.code, ran.err) == (2, "outrider: no run 'nosuch' here; there are: first\n")
    assert "choose one of agent, model" in cli("tokens", "first", "--by", "day").err


# ── log ──


def test_log_json_is_the_file_line_by_line(cli: Cli, root: Path) -> None:
    """L1."""
    report = record(root)
    assert cli("log", "latest", "--json").out == (root / report.log).read_text()


def test_log_for_people_has_a_line_per_event(cli: Cli, root: Path) -> None:
    report = record(root)
    lines = cli("log", "first").out.splitlines()
    assert len(lines) == len((root / report.log).read_text().splitlines())
    assert "main:1" in lines[2]
    assert "model_replied" in lines[2]
    assert "stop_reason=tool_use" in lines[2]


def test_log_by_agent_and_by_event(cli: Cli, root: Path) -> None:
    record(root)
    shown = cli("log", "first", "--agent", "explorer", "--event", "tool_returned", "--json").out
    (line,) = map(json.loads, shown.splitlines())
    assert (line["agent_type"], line["tool"]) == ("explorer", "ls")


def test_a_misspelt_event_is_an_error_and_not_an_empty_log(cli: Cli, root: Path) -> None:
    record(root)
    ran = cli("log", "first", "--event", "tool_return")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean tool_returned?" in ran.err


def test_following_shows_lines_as_they_come_and_ends_with_the_run(root: Path) -> None:
    """A reader follows a run that goes on only once the reader has seen its first line."""
    seen = anyio.Event()
    shown: list[str] = []

    async def waiting(request: Request) -> str:
        await seen.wait()
        return "done"

    async def follow(run_dir: RunDir) -> None:
        command = [*WARM, "log", run_dir.run_id, "--follow", "--json"]
        environment = clean_environment(root.parent)
        async with await anyio.open_process(command, cwd=root, env=environment) as process:
            assert process.stdout is not None
            async for chunk in process.stdout:
                shown.append(chunk.decode())
                seen.set()
        assert process.returncode == 0

    async def both() -> None:
        started = anyio.Event()
        async with anyio.create_task_group() as group:

            async def go() -> None:
                model = ScriptedModel(waiting)
                observers = [lambda records: started.set()]
                await run("go", model=model, root=root, run_id="live", observers=observers)

            group.start_soon(go)
            await started.wait()
            await follow(RunDir(root, "live"))

    anyio.run(both)
    lines = [json.loads(line) for line in "".join(shown).splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["run_started", "run_ended"]


def test_only_lines_written_to_their_end_are_shown() -> None:
    chunks = iter(["one\n", "tw", "", "o\n", "", "thr", "", "ee\n", "", "fo", ""])
    alive = iter([True, True, True, False])
    assert list(
        whole_lines(lambda: next(chunks, ""), lambda: next(alive, False), lambda _: None)
    ) == [*("one", "two", "three")]


def test_a_line_for_people_is_inert_and_short_of_noise() -> None:
    line = {
        "ts": "2026-11-30T14:25:01.042Z",
        "event": "model_failed",
        "agent_id": "main",
        "turn": 3,
        "kind": "overloaded",
        "status": None,
        "fatal": False,
        "message": "no room now",
        "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 2},
        "tools": ["ls", "grep"],
        "long": "x" * 500,
    }
    assert pretty(line) == (
        "14:25:01.042  main:3                   model_failed  kind=overloaded "
        f'message="no room now" in=5 out=1 read=2 tools=ls,grep long={"x" * 200}…'
    )


def test_a_log_that_is_gone_is_an_error_in_words(cli: Cli, root: Path) -> None:
    """H3."""
    report = record(root)
    (root / report.log).unlink()
    ran = cli("log", "first")
    assert ran.code == 2
    assert "cannot be read: No such file or directory" in ran.err


# ── tables ──


def test_a_table_too_wide_shortens_the_widest_of_those_that_may_shrink() -> None:
    columns = (Column("a", least=4), Column("n", right=True), Column("b", least=4))
    rows = [["漢字漢字漢字", "1,000", "y" * 30], ["x", "2", "y"]]
    lines = table(columns, rows, 30)
    assert width_of(lines) <= 30
    assert lines[1].endswith("…")
    assert " 1,000  " in lines[1]
    assert lines[0].split() == ["a", "n", "b"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([short_number(n) for n in (0, 999, 12_345, 999_960, 1_234_567)], "0 999 12.3k 1.0M 1.2M"),
        ([short_number(n) for n in (150_400, 2_000_000_000)], "150k 2.0G"),
        ([duration(s) for s in (0, 59.96, 187, 7_500)], "0.0s 1m00s 3m07s 2h05m"),
        ([cost(c) for c in (None, 0.0, 0.01234, 1_234.5)], "? $0.0000 $0.0123 $1,234.50"),
    ],
)
def test_figures_are_short_and_true(made: Sequence[str], expected: str) -> None:
    assert " ".join(made) == expected


def test_log_in_a_pipe_that_closes_early(root: Path) -> None:
    """H3: `outrider log | head -1`."""
    record(root)
    done = subprocess.run(
        f"{' '.join(WARM)} log first --json | head -1",
        shell=True,
        cwd=root,
        env=clean_environment(root.parent),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["event"] == "run_started"
    assert done.stderr == ""
