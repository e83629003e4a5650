"""`outrider init`, shell completion, and that every command's help has examples."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config import Settings, load_settings
from subagents import discover
from tests.test_cli_process import Cli, cli, outrider, root
from tests.test_docs import COMMANDS

__all__ = ["cli", "root"]
MADE = [".outrider/config.toml", ".outrider/MEMORY.md", ".outrider/agents/my-agent.md"]


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def uncommented(text: str) -> str:
    """The file with every setting of it in force."""
    return re.sub(r"^# (?=\[|[a-z_-]+ = )", "", text, flags=re.MULTILINE)


# ── what it writes ──


def test_it_writes_three_files_and_nothing_else_and_says_what_to_try(cli: Cli, root: Path) -> None:
    before = files(root)
    ran = cli("init")
    assert ran.code == 0
    assert files(root).keys() - before.keys() == set(MADE)
    assert ran.out.splitlines()[:3] == [f"made  {path}" for path in MADE]
    assert ran.out.count("outrider ") == 4


def test_the_commands_that_it_names_work_there(cli: Cli, root: Path) -> None:
    said = cli("init").out.partition("Try next:")[2]
    for line in filter(None, said.splitlines()):
        ran = cli(*shlex.split(line, comments=True)[1:])
        assert ran.code == 0, line


def test_nothing_that_is_there_is_overwritten(cli: Cli, root: Path) -> None:
    (root / ".outrider/agents").mkdir(parents=True)
    for path in (*MADE[:2], ".outrider/agents/mine.md"):
        (root / path).write_text("# mine\n")
    before = files(root)
    ran = cli("init", "--json")
    assert json.loads(ran.out) == {"schema": 1, "made": [], "kept": MADE}
    assert files(root) == before


def test_where_a_file_is_in_the_way_it_says_so(cli: Cli, root: Path) -> None:
    (root / ".outrider").write_text("")
    ran = cli("init")
    assert (ran.code, ran.out) == (2, "")
    assert "is a file: a folder is needed there" in ran.err


def test_the_first_definition_has_no_problem_and_the_memory_no_entry(cli: Cli, root: Path) -> None:
    cli("init")
    assert cli("agents", "check", "--strict").code == 0
    assert "my-agent" in discover(root, (), ()).definitions
    assert json.loads(cli("memory", "show", "--json").out)["entries"] == []


# ── the settings ──


def test_the_settings_file_is_valid_and_changes_nothing_as_it_is(cli: Cli, root: Path) -> None:
    before = load_settings(root).settings
    cli("init")
    assert load_settings(root).settings == before


def test_it_names_every_setting_that_a_project_may_have_each_with_a_line_of_explanation(
    cli: Cli, root: Path
) -> None:
    cli("init")
    text = (root / MADE[0]).read_text()
    # Servers are no project's to start, and `asking` is `ask` with yes or no.
    assert tomllib.loads(uncommented(text)).keys() == (
        Settings.model_fields.keys() - {"mcp_config", "asking"}
    )
    lines = text.splitlines()
    for above, line in pairwise(lines):
        if re.match(r"# ([a-z_]+ = |\[)", line) and not above.startswith("# ["):
            assert re.match(r"# [A-Z].*\.$", above), line


def test_what_it_shows_is_the_default_or_said_to_be_an_example(cli: Cli, root: Path) -> None:
    defaults: dict[str, Any] = load_settings(root).settings.model_dump()
    cli("init")
    file = root / MADE[0]
    lines = file.read_text().splitlines()
    file.write_text(uncommented(file.read_text()))
    shown = load_settings(root).settings.model_dump()
    for above, line in pairwise(lines):
        if found := re.match(r"# \[?([a-z_]+)(?: = |\]$)", line):
            name = found[1]
            if name in defaults:  # and no line of a table
                assert (shown[name] != defaults[name]) == ("Example" in above), line


# ── help and completion ──


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_examples_that_call_that_command_with_options_that_it_has(
    path: tuple[str, ...],
) -> None:
    described = COMMANDS[path].help.partition("Examples:")[2].strip().splitlines()
    assert described
    for line in described:
        words = shlex.split(line[re.search(r"\boutrider ", line).end() :].split("|")[0])  # type: ignore[union-attr]
        assert tuple(words[: len(path)]) == path, line
        called = max((p for p in COMMANDS if p == tuple(words[: len(p)])), key=len)
        known = {name for p in COMMANDS[called].params for name in (*p.opts, *p.secondary_opts)}
        asked = {word.split("=")[0] for word in words if word.startswith("--")}
        assert asked <= {*known, "--help"}, line


def test_the_shell_completes_commands_and_options(root: Path) -> None:
    def completed(words: str, number: int) -> list[str]:
        return outrider(
            root,
            _OUTRIDER_COMPLETE="complete_bash",
            COMP_WORDS=words,
            COMP_CWORD=str(number),
        ).out.split()

    assert completed("outrider mem", 1) == ["memory"]
    assert completed("outrider memory for", 2) == ["forget"]
    assert completed("outrider run --max-to", 2) == ["--max-tokens"]
