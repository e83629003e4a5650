"""`outrider agents list|show|check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]


@pytest.fixture
def team(root: Path) -> Path:
    """A project's folder of definitions: one plain, one to be repaired, one that gives nothing."""
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "plain.md").write_text(
        "---\nname: plain\ndescription: Looks at things.\ntools: Read, Grep, Nonsense\n"
        "model: opus\n---\nLook.\n"
    )
    (folder / "repaired.md").write_text(
        "---\nname: repaired\ndescription: Use it: always\n---\nDo.\n"
    )
    (folder / "bad.md").write_text("---\nname: bad\n---\nNo description.\n")
    return folder


def test_list_shows_the_projects_definitions_before_the_built_in_ones(cli: Cli, team: Path) -> None:
    kinds = json.loads(cli("agents", "list", "--json").out)
    assert [kind["name"] for kind in kinds] == [
        *("plain", "repaired"),
        *("explorer", "general", "reviewer", "writer"),
    ]
    assert kinds[0]["tools"] == ["read_file", "grep"]
    assert kinds[0]["unknown_tools"] == ["Nonsense"]
    assert kinds[0]["model"] == "claude-opus-5-5"
    assert kinds[0]["source"].endswith("plain.md")
    shown = cli("agents", "list").out
    assert shown.splitlines()[0].split() == ["name", "model", "tools", "source", "description"]
    assert "Looks at things." in shown


def test_list_takes_files_of_the_command_line_first(cli: Cli, root: Path) -> None:
    """D1."""
    (root / "mine.md").write_text("---\nname: explorer\ndescription: Mine.\n---\nMine.\n")
    kinds = json.loads(cli("agents", "list", "mine.md", "--json").out)
    assert kinds[0]["description"] == "Mine."
    assert [k["name"] for k in kinds].count("explorer") == 1


def test_the_settings_denials_and_aliases_hold_in_what_is_shown(cli: Cli, root: Path) -> None:
    """S10: the tool list shown is the tool list granted."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('deny = ["grep"]\n[models]\nopus = "my-opus"\n')
    (root / "x.md").write_text("---\nname: x\ndescription: X.\nmodel: Opus\n---\nX.\n")
    kinds = {k["name"]: k for k in json.loads(cli("agents", "list", "x.md", "--json").out)}
    assert kinds["explorer"]["tools"] == ["ls", "read_file", "glob"]
    assert kinds["x"]["model"] == "my-opus"


def test_what_is_shown_is_what_a_run_grants(cli: Cli, root: Path) -> None:
    """S10: against the log of a real run whose children are explorers."""
    assert cli("run", "look", "--model", "rehearsal", "--quiet").code == 0
    lines = map(
        json.loads, cli("log", "latest", "--event", "agent_started", "--json").out.splitlines()
    )
    granted = {line["agent_type"]: line["tools"] for line in lines}
    shown = {k["name"]: k["tools"] for k in json.loads(cli("agents", "list", "--json").out)}
    assert granted["explorer"] == shown["explorer"]
    # The main agent has what a definition that inherits everything gets.
    assert granted["main"] == shown["general"]


def test_show_has_tools_model_prompt_and_problems(cli: Cli, team: Path) -> None:
    """D6."""
    shown = cli("agents", "show", "Repaired").out
    assert "prompt       1 tokens" in shown
    assert "warning      " in shown
    assert shown.endswith("\n\nDo.\n")
    kind = json.loads(cli("agents", "show", "repaired", "--json").out)
    assert kind["prompt"] == "Do."
    assert [p["severity"] for p in kind["problems"]] == ["warning"]


def test_show_of_an_unknown_name_gives_the_nearest(cli: Cli) -> None:
    ran = cli("agents", "show", "explorr")
    assert ran.code == 2
    assert ran.err.endswith("did you mean explorer?\n")


def test_check_is_exit_code_2_on_errors_and_says_where(cli: Cli, team: Path) -> None:
    """D6, D5: every message reads path:line: key: what – fix."""
    ran = cli("agents", "check")
    assert ran.code == 2
    (error,) = [line for line in ran.out.splitlines() if line.startswith("error: ")]
    path, line, key, _ = error.removeprefix("error: ").split(":", 3)
    assert path.endswith(".claude/agents/bad.md")
    assert line.isdecimal()
    assert key.strip() == "description"
    assert ran.out.splitlines()[-1].startswith("6 definitions; 1 error, ")


def test_check_of_single_files_and_strict(cli: Cli, team: Path) -> None:
    """D6: strict turns repairs into errors."""
    repaired = str(team / "repaired.md")
    assert cli("agents", "check", repaired).code == 0
    assert cli("agents", "check", repaired, "--strict").code == 2
    assert cli("agents", "check", "/nope.md").code == 2


def test_check_as_json(cli: Cli, team: Path) -> None:
    found = json.loads(cli("agents", "check", str(team), "--json").out)
    assert found["ok"] is False
    assert [d["name"] for d in found["definitions"]] == ["plain", "repaired"]
    assert {"path", "line", "key", "severity", "message"} == set(found["problems"][0])


def test_what_definitions_say_cannot_steer_the_terminal(cli: Cli, root: Path) -> None:
    (root / "evil.md").write_text(
        '---\nname: evil\ndescription: "x\\e[2Jy"\n---\nPrompt \x1b]0;title\x07here.\n'
    )
    for command in (["list", "evil.md"], ["show", "evil", "evil.md"], ["check", "evil.md"]):
        assert not set("\x1b\x07") & set(cli("agents", *command).out)
