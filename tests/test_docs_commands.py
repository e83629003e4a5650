"""Every command that a page shows and that needs no network is run as it is written, a page's commands one after
another in one workspace, with the rehearsal in the place of a model."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli_process import Cli, cli, root
from tests.test_docs import DOCUMENTS, blocks

__all__ = ["cli", "root"]

# What a page shows and this test does not run, each with the reason.
ELSEWHERE = {
    r"--base-url": "needs a server of the Messages API: tests/test_cli_run.py",
    r"--mcp-config": "needs a server: tests/test_mcp_cli.py",
    r"outrider view\b(?!.*--export)": "serves until it is stopped: tests/test_viewer_server.py",
    r"--tools my": "the modules of docs/tools.md: tests/test_docs_tools.py",
}


def lines_of(document: Path) -> list[str]:
    """The command lines of a page that call `outrider`."""
    shown = (*blocks(document, "sh"), *blocks(document, "console"))
    lines = [line.removeprefix("$ ") for block in shown for line in block.splitlines()]
    return [line for line in lines if line.startswith("outrider ")]


def left_out(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in ELSEWHERE)


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if lines_of(d)], ids=lambda d: d.relative_to(d.parent.parent)
)
def test_the_commands_of_a_page_run_one_after_another(
    document: Path, cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL", "rehearsal")
    monkeypatch.setenv("OUTRIDER_PRICES", '{"rehearsal": {"input": 1, "output": 5}}')
    assert cli("run", "Survey this folder", "--quiet").code == 0
    for line in lines_of(document):
        if not left_out(line):
            ran = cli(*shlex.split(line, comments=True)[1:])
            assert ran.code == 0, f"{line}\n{ran.err or ran.out}"


def test_what_is_left_out_is_shown_somewhere() -> None:
    lines = [line for document in DOCUMENTS for line in lines_of(document)]
    for pattern, why in ELSEWHERE.items():
        assert any(re.search(pattern, line) for line in lines), pattern
        named = re.search(r"tests/\S+\.py", why)
        assert named is not None
        assert (DOCUMENTS[0].parent / named[0]).is_file()


@pytest.mark.parametrize("code", blocks(DOCUMENTS[0], "python"), ids=("first", "tools"))
def test_the_readmes_python_runs_as_written(code: str, root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "alpha/alpha.py:3" in done.stdout
