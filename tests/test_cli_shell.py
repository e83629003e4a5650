"""The shell from the command line: `--sandbox`, `--network`, `doctor`, what is told before a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.standin import call, say
from orchestrator.testing.standin.answers import Answer, Brain
from tests.shells import needs_sandbox
from tests.test_cli_doctor import findings
from tests.test_cli_process import Cli, cli, root
from tests.test_cli_run import results, served

__all__ = ["cli", "root"]


def asking(command: str) -> Brain:
    """A model that calls bash once and concludes with what it was told."""

    def brain(body: Mapping[str, Any]) -> Answer:
        got = results(body)
        if got:
            content = got[0]["content"]
            return say(content if isinstance(content, str) else content[0]["text"])
        return Answer([call("bash", command=command)])

    return brain


def interfaces_of(path: Path) -> set[str]:
    return {word for word in path.read_text().split() if word.endswith(":")} - {"lo:"}


@needs_sandbox
@pytest.mark.asyncio
async def test_a_rule_brings_the_shell_and_the_sandbox_is_the_default(root: Path) -> None:
    ran = await served(asking("cat ../outside; echo $?"), root, "--allow", "bash")
    assert ran.code == 0
    assert "No such file" in ran.out
    assert "[exit code 0]" in ran.out


@pytest.mark.asyncio
async def test_without_the_sandbox_a_command_reaches_what_the_user_reaches(root: Path) -> None:
    (root.parent / "outside").write_text("reached\n")
    ran = await served(asking("cat ../outside"), root, "--allow", "bash", "--no-sandbox")
    assert ran.out == "reached\n[exit code 0]\n"


@needs_sandbox
@pytest.mark.asyncio
@pytest.mark.parametrize(("option", "interfaces"), [("--network", True), ("--no-network", False)])
async def test_the_network_is_there_with_the_option_only(
    root: Path, option: str, interfaces: bool
) -> None:
    """Beside the loopback, which a sandbox always has of its own."""
    if not (names := interfaces_of(Path("/proc/net/dev"))):
        pytest.skip("this machine has no network interface")
    ran = await served(asking("cat /proc/net/dev"), root, "--allow", "bash", option)
    assert bool(names & set(ran.out.split())) == interfaces


@pytest.mark.asyncio
async def test_a_sandbox_that_cannot_be_had_is_told_before_the_run_and_refused_in_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(root))
    ran = await served(asking("echo ran"), root, "--allow", "bash")
    assert ran.err.startswith("outrider: commands will be refused: the shell needs a sandbox")
    assert ran.out.startswith("[error] ")
    assert "apt-get install bubblewrap" in ran.out
    assert "--no-sandbox" in ran.out


def test_a_project_that_switches_the_sandbox_off_is_told(cli: Cli, root: Path) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text("sandbox = false\nnetwork = true\nquiet = true\n")
    ran = cli("run", "Survey this", "--model", "rehearsal")
    assert "sandbox is set by .outrider/config.toml: false" in ran.err
    assert "network is set by .outrider/config.toml: true" in ran.err


@needs_sandbox
def test_doctor_says_that_the_sandbox_works(cli: Cli) -> None:
    state, text = findings(cli)["shell"]
    assert state == "ok"
    assert "--allow bash" in text


def test_doctor_says_why_there_is_no_sandbox_and_that_is_no_error(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_SANDBOX", "false")
    assert findings(cli)["shell"] == (
        "note",
        "sandbox is off: commands may do whatever you may",
    )
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    monkeypatch.setenv("PATH", str(root))
    ran = cli("doctor")
    assert ran.code == 0
    assert "bubblewrap is not installed" in ran.out


def test_agents_show_counts_the_shell_where_a_rule_enables_it(cli: Cli, root: Path) -> None:
    assert "bash" not in cli("agents", "show", "general").out
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('allow = ["bash"]\n')
    assert "bash" in cli("agents", "show", "general").out
