"""`outrider doctor` and `outrider config show`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from orchestrator.testing.standin import say, serve
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]


def findings(cli: Cli, *arguments: str) -> dict[str, tuple[str, str]]:
    found = json.loads(cli("doctor", "--json", *arguments).out)["findings"]
    return {f["name"]: (f["state"], f["text"]) for f in found}


def test_a_fresh_folder_is_well_and_a_missing_key_is_a_note(cli: Cli) -> None:
    ran = cli("doctor")
    assert ran.code == 0
    assert "note   key          none: set ANTHROPIC_API_KEY, or use --model rehearsal" in ran.out


def test_a_key_is_named_and_never_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: secrets never."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret-value")
    ran = cli("doctor")
    assert "ANTHROPIC_API_KEY is set" in ran.out
    assert "very-secret" not in ran.out


def test_an_address_that_does_not_answer_is_exit_code_2(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://me:word@127.0.0.1:{port}")
    ran = cli("doctor")
    assert ran.code == 2
    assert f"http://127.0.0.1:{port} does not answer: Connection refused" in ran.out
    assert "word" not in ran.out
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "file:///etc/passwd")
    assert findings(cli)["server"][0] == "error"


@pytest.mark.asyncio
async def test_any_answer_of_the_address_will_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio

    async with serve(lambda _: say("x")) as server:
        monkeypatch.setenv("OUTRIDER_BASE_URL", server.base_url)
        found = await anyio.to_thread.run_sync(findings, cli)
    assert found["server"] == ("ok", f"{server.base_url} answers")


def test_settings_that_cannot_be_used_are_an_error_with_their_place(cli: Cli, root: Path) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text("max_turn = 3\n")
    ran = cli("doctor")
    assert ran.code == 2
    assert "error  settings     .outrider/config.toml:1: max_turn: no such setting" in ran.out


def test_a_misspelt_variable_is_a_note(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODLE", "x")
    assert findings(cli)["settings"] == (
        "note",
        "OUTRIDER_MODLE: no such setting; did you mean model?",
    )


def test_problems_of_definitions_are_counted(cli: Cli, root: Path) -> None:
    (root / ".claude/agents").mkdir(parents=True)
    (root / ".claude/agents/bad.md").write_text("---\nname: bad\n---\nx\n")
    assert findings(cli)["definitions"] == (
        "note",
        "4 definitions, 1 problem: outrider agents check",
    )


def test_a_file_in_the_place_of_the_runs_is_an_error(cli: Cli, root: Path) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/runs").write_text("")
    state, text = findings(cli)["workspace"]
    assert state == "error"
    assert text.endswith(".outrider/runs is not writable: runs are kept there")


def test_optional_parts_are_looked_at(cli: Cli) -> None:
    assert findings(cli)["[server]"] == ("ok", "installed")


# ── config show ──


def test_config_show_says_where_each_value_comes_from(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text("depth = 1\n")
    monkeypatch.setenv("OUTRIDER_MAX_TURNS", "none")
    found = json.loads(cli("config", "show", "--json").out)
    assert found["depth"] == {"value": 1, "from": ".outrider/config.toml"}
    assert found["max_turns"] == {"value": None, "from": "OUTRIDER_MAX_TURNS"}
    assert found["keep_turns"] == {"value": 8, "from": "default"}
    shown = [line.split() for line in cli("config", "show").out.splitlines()]
    assert ["max_turns", "none", "OUTRIDER_MAX_TURNS"] in shown
    assert ["depth", "1", ".outrider/config.toml"] in shown


def test_config_show_never_shows_a_secret(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1: secrets never."""
    monkeypatch.setenv("OUTRIDER_BASE_URL", "http://me:pass-word@host/?token=abcdef123")
    for shown in (cli("config", "show").out, cli("config", "show", "--json").out):
        assert "host" in shown
        assert "pass-word" not in shown
        assert "abcdef123" not in shown


def test_config_show_of_a_bad_file_is_exit_code_2(cli: Cli, root: Path) -> None:
    """H3."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text("depth = -1\n")
    ran = cli("config", "show")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "outrider: .outrider/config.toml:1: depth: must not be negative\n"
