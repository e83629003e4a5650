"""Modules that an agent writes into the workspace are no part of the program that runs it.

Much is imported late, when it is needed first. Were the workspace searched for it, an agent that may do
nothing but write files could have its own code run, with its user's rights and keys.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.testing.standin import call, say
from orchestrator.testing.standin.answers import Answer
from tests.test_cli_process import clean_environment, cli, root
from tests.test_cli_run import results, served

__all__ = ["cli", "root"]

# One of the standard library, which nothing has imported yet; one that is not there at all.
PLANTED = ("colorsys", "zz_not_installed")
CODE = "open('ran', 'w').close()\n"
TOOLS = '''
def look() -> str:
    """Import late, as programs do."""
    import helper
    import colorsys
    try:
        import zz_not_installed
    except ModuleNotFoundError:
        return f"{helper.WORD}; {colorsys.__file__}"
    return "planted"
'''


@pytest.mark.asyncio
async def test_what_an_agent_writes_is_not_imported_though_tools_of_the_workspace_are(
    root: Path,
) -> None:
    """`--tools` finds modules of the workspace, and what these import of what was there before."""
    (root / "mytools.py").write_text(TOOLS)
    (root / "helper.py").write_text("WORD = 'helped'\n")

    def brain(body: Mapping[str, Any]) -> Answer:
        got = results(body)
        if not got:
            writes = [call("write_file", path=f"{m}.py", content=CODE) for m in PLANTED]
            return Answer(writes)
        if len(got) == len(PLANTED):
            return Answer([call("look")])
        return say(str(got[-1]["content"]))

    ran = await served(brain, root, "--tools", "mytools:look")
    assert ran.code == 0
    assert all((root / f"{module}.py").exists() for module in PLANTED)
    assert "helped; " in ran.out
    assert str(root) not in ran.out
    assert not (root / "ran").exists()


def plain(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(root.parent)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", PLANTED)
def test_a_program_that_searches_the_folder_does_import_it(root: Path, module: str) -> None:
    """So that the tests beside this one could fail."""
    (root / f"{module}.py").write_text(CODE)
    plain(root, "-c", f"import {module}")
    assert (root / "ran").exists()


def test_as_a_module_of_python_it_searches_the_current_folder_for_nothing(root: Path) -> None:
    """`python -m orchestrator`, beside files of the names of packages that it needs."""
    for module in ("structlog", "rich", "yaml", "filelock", "genai_prices", *PLANTED):
        (root / f"{module}.py").write_text(CODE)
    done = plain(root, "-m", "orchestrator", "run", "Survey this", "--model", "rehearsal")
    assert (done.returncode, done.stderr[-300:] if done.returncode else "") == (0, "")
    assert not (root / "ran").exists()
