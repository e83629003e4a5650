"""What people type in their first hour, and what they are told where it is not what works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.rundir import RUNS, list_runs
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]


def test_a_token_limit_below_a_single_call_is_refused_and_leaves_no_run(
    root: Path, cli: Cli
) -> None:
    ran = cli("run", "Survey", "--model", "rehearsal", "--max-tokens", "9000")
    assert (ran.code, ran.out) == (2, "")
    assert "max_tokens 9,000 is not enough for one call of rehearsal" in ran.err
    assert [p.name for p in (root / RUNS).iterdir()] == [".gitignore"]
    enough = re.search(r"--max-tokens \d+", ran.err)
    assert enough is not None
    assert cli("run", "Survey", "--model", "rehearsal", *enough[0].split()).code == 0


@pytest.mark.parametrize("command", ["tokens", "log", "audit", "context", "replay"])
def test_a_command_that_reads_a_run_means_the_newest_where_none_is_named(
    root: Path, cli: Cli, command: str
) -> None:
    cli("run", "Survey", "--model", "rehearsal", "--run-id", "older", "--quiet")
    cli("run", "Survey", "--model", "rehearsal", "--quiet")
    assert cli(command).out == cli(command, list_runs(root)[0].run_id).out != ""


def test_a_command_that_acts_on_a_run_says_how_one_is_named(root: Path, cli: Cli) -> None:
    for command in ("resume", "fork", "compact", "steer"):
        ran = cli(command)
        assert ran.code == 2
        assert "missing argument 'RUN': a run's id or the beginning of one, or latest" in ran.err


def test_in_a_folder_below_it_is_said_where_the_runs_are(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", "Survey", "--model", "rehearsal", "--quiet")
    monkeypatch.chdir(root / "alpha")
    ran = cli("tokens")
    assert (ran.code, ran.out) == (2, "")
    assert f"there are runs in {root}: give --root .." in ran.err
    assert "give --root .." in cli("runs").out
    assert cli("tokens", "--root", "..").code == 0


def test_settings_of_a_folder_above_are_not_read_and_that_is_said(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('model = "nonsense"\n')
    monkeypatch.chdir(root / "alpha")
    ran = cli("run", "Survey", "--model", "rehearsal")
    assert f"{root}/.outrider/config.toml is not read; to work there: --root .." in ran.err
    assert "is not read" not in cli("run", "Survey", "--model", "rehearsal", "--root", "..").err
    assert "is not read" not in cli("run", "Survey", "--model", "rehearsal", "--quiet").err


@pytest.mark.parametrize(
    ("given", "better"),
    [
        *(("two words", "two-words"), ("notes.txt", "notes"), ("../a b", "a-b"), ("%%", None)),
        *(("..", None), ("a/", None), (".hidden", "hidden"), ("team/", None)),
    ],
)
def test_a_definition_gets_a_name_that_can_be_typed(
    root: Path, cli: Cli, given: str, better: str | None
) -> None:
    ran = cli("agents", "new", given)
    assert (ran.code, ran.out) == (2, "")
    assert "write NAME, or a path to NAME.md" in ran.err
    assert ("for example" in ran.err) == (better is not None)
    assert better is None or ran.err.endswith(f"for example {better}\n")
    assert not (root / ".outrider").exists()


@pytest.mark.parametrize("given", ["reader", "Émile", "team/reader.md", "team/reader.agent.md"])
def test_what_comes_after_a_new_definition_is_said_and_works(
    root: Path, cli: Cli, given: str
) -> None:
    ran = cli("agents", "new", given)
    assert ran.code == 0
    check, run = ran.err.strip().split("edit it, then: ")[1].split("; ")
    assert cli(*check.split()[1:]).code == 0
    assert cli(*run.replace("TASK", "Survey").split()[1:]).code == 0


def test_the_default_model_is_shown_among_the_settings(root: Path, cli: Cli) -> None:
    assert re.search(r"^model +claude-\S+ \(with a key", cli("config", "show").out, re.MULTILINE)


def test_a_rehearsal_repeats_what_it_is_told_and_says_that_it_cannot_follow(
    root: Path, cli: Cli
) -> None:
    first = cli("run", "Survey", "--model", "rehearsal", "--quiet").out
    assert "was said to it" not in first
    for command in (("resume", "latest"), ("fork", "latest", "--at", "1")):
        told = cli(*command, "Only the tests", "--quiet").out
        assert "\n> Only the tests\n\nThat was said to it since." in told
        assert "## Totals" in told


def test_a_misspelt_rule_with_a_pattern_is_refused_with_the_nearest(root: Path, cli: Cli) -> None:
    ran = cli("run", "Survey", "--model", "rehearsal", "--deny", "raed(secret/**)")
    assert ran.code == 2
    assert "the rule 'raed(secret/**)' cannot be read: did you mean read(…)?" in ran.err


def test_a_plan_whose_count_stands_still_is_told_once(root: Path, cli: Cli) -> None:
    """Where texts are left out a line would say the same again."""
    lines = cli("run", "Survey", "--model", "rehearsal").err.splitlines()
    counts = [line.split("s  ")[1] for line in lines if "to-dos" in line]
    assert len(counts) > 1
    assert len(set(counts)) == len(counts)
