"""`outrider run` with MCP servers: what a person is told, and what a project's files cannot do."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.mcp import own_servers
from orchestrator.mcp.config import read_text
from orchestrator.testing.standin import call, serve
from orchestrator.testing.standin.answers import Answer
from subagents import load
from tests.mcp_tools import processes, program, until
from tests.test_cli_process import Cli, cli, root
from tests.test_cli_run import begin

__all__ = ["cli", "root"]
pytest.importorskip("mcp")
REHEARSE = ("run", "Survey this", "--model", "rehearsal")


def describe(path: Path, **servers: Any) -> str:
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def test_a_server_that_cannot_be_started_is_named_and_the_run_goes_on(root: Path, cli: Cli) -> None:
    """Name, command and last words, also where everything else is quiet."""
    file = describe(
        root.parent / "servers.json",
        broken=program("hostile", "exit"),
        gone={"command": "no-such-program"},
        well=program("hostile", "liar"),
    )
    ran = cli(*REHEARSE, "--mcp-config", file)
    assert ran.code == 0
    command = program("hostile")["command"]
    said = ran.err.splitlines()
    assert (
        f"outrider: MCP server broken ({command}): could not be started: it ended with exit code 3; "
        "its last words: cannot open the database; the run goes on without it"
    ) in said
    assert (
        "outrider: MCP server gone (no-such-program): could not be started: no such program or "
        "folder: no-such-program; the run goes on without it"
    ) in said
    assert any("MCP server well" in line and "left out: tool untyped" in line for line in said)
    assert "Traceback" not in ran.err
    assert "MCP" not in ran.out
    quiet = cli(*REHEARSE, "--mcp-config", file, "--quiet")
    assert sorted(line.split()[3] for line in quiet.err.splitlines()) == ["broken", "gone"]
    assert processes() == []


def test_a_projects_servers_wait_for_a_rule_and_one_line_says_which(root: Path, cli: Cli) -> None:
    mark = root / "started"
    touch = {"command": "touch", "args": [str(mark)]}
    describe(root / ".mcp.json", first=touch, second=touch)
    ran = cli(*REHEARSE)
    assert ran.code == 0
    assert not mark.exists()
    (line,) = [line for line in ran.err.splitlines() if "MCP" in line]
    assert line == (
        "outrider: not started, since no rule names them: MCP servers first, second; to start them: "
        '--allow "mcp(first)" --allow "mcp(second)"'
    )
    cli(*REHEARSE, "--allow", "mcp(second)")
    assert mark.exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('mcp_config = "servers.json"', "mcp_config: not taken from a project's file"),
        ('allow = ["mcp(first)"]', "'mcp(first)' is not taken from a project's file"),
        ('allow = ["read(**)", "mcp__first"]', "'mcp__first' is not taken from a project's file"),
        ('allow = "mcp"', "'mcp' is not taken from a project's file"),
    ],
)
def test_a_projects_configuration_cannot_start_its_servers(
    setting: str, said: str, root: Path, cli: Cli
) -> None:
    mark = root / "started"
    describe(root / ".mcp.json", first={"command": "touch", "args": [str(mark)]})
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text(setting)
    ran = cli(*REHEARSE)
    assert ran.code == 2
    assert ".outrider/config.toml:1: " in ran.err
    assert said in ran.err
    assert not mark.exists()


def test_a_file_that_is_missing_or_wrong_is_one_sentence_and_nothing_was_run(
    root: Path, cli: Cli
) -> None:
    assert cli(*REHEARSE, "--mcp-config", "no.json").err == (
        "outrider: no.json: cannot be read: No such file or directory\n"
    )
    (root / "bad.json").write_text('{"mcpServers": {"a": {"comand": "x"}}}')
    ran = cli(*REHEARSE, "--mcp-config", "bad.json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "outrider: bad.json: server 'a': command is missing: write it as text\n"
    assert not (root / ".outrider").exists()


def test_a_projects_broken_file_is_told_and_costs_nothing_else(root: Path, cli: Cli) -> None:
    (root / ".mcp.json").write_text("{")
    ran = cli(*REHEARSE)
    assert ran.code == 0
    assert ".mcp.json: no valid JSON" in ran.err


def test_without_the_extra_one_sentence_names_it(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.mcp.servers.find_spec", lambda name: None)
    file = describe(root / "servers.json", a={"command": "x"})
    ran = cli(*REHEARSE, "--mcp-config", file)
    assert ran.code == 2
    assert (
        "MCP servers (a) need a package that is not installed: pip install 'outrider[mcp]'"
        in ran.err
    )


DOCUMENT = Path(__file__).parent.parent / "docs" / "mcp.md"


def blocks(language: str) -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_documents_example_prints_what_it_says(tmp_path: Path) -> None:
    for code in blocks("python"):
        (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(code)
    done = subprocess.run(
        [sys.executable, "use_numbers.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (printed,) = blocks("text")
    assert done.stdout == printed


def test_the_documents_files_are_read(tmp_path: Path) -> None:
    (described,) = blocks("json")
    found = read_text(described, "servers.json", {})
    assert found.problems == ()
    assert [(s.name, s.transport) for s in found.servers] == [
        ("numbers", "stdio"),
        ("docs", "http"),
    ]
    assert found.servers[0].env == {"LEVEL": "1"}
    (field,) = blocks("yaml")
    file = tmp_path / "browsing.md"
    file.write_text(f"---\nname: browsing\ndescription: x\n{field}---\nBrowse.\n")
    loaded = load(file)
    assert loaded.problems == []
    (server,) = own_servers(loaded.definitions["browsing"], {}).servers
    assert (server.command, server.args, server.is_named) == ("browser-mcp", ("--headless",), False)


@pytest.mark.asyncio
async def test_a_signal_ends_the_servers_too(root: Path) -> None:
    """Also one that is in the middle of a call and heeds nothing."""
    file = describe(root.parent / "servers.json", s=program("hostile", "plain"))

    async def hang(body: Mapping[str, Any]) -> Answer:
        return Answer([call("mcp__s__stubborn")])

    async with serve(hang) as server:
        process = await begin(server, root, "--mcp-config", file)
        # It answers the first call, hears nothing any more, and is in the second one.
        await until(lambda: _log(root).count(b'"tool_started"') == 2, 60)
        assert len(processes()) == 1
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 130
    assert processes() == []


def _log(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.glob(".outrider/runs/*/log.jsonl"))
