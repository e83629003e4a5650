"""Every command that a page shows and that needs no network is run as it is written, a page's commands one after
another in one workspace, with the rehearsal in the place of a model."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli_process import Cli, clean_environment, cli, root
from tests.test_docs import DOCUMENTS, blocks

__all__ = ["cli", "root"]

# What a page shows and this test does not run, each with the reason.
ELSEWHERE = {
    r"--base-url": "needs a server of the Messages API: tests/test_cli_run.py",
    r"--mcp-config": "needs a server: tests/test_mcp_cli.py",
    r"outrider view\b(?!.*--export)": "serves until it is stopped: tests/test_viewer_server.py",
    r"--tools my": "the modules of docs/tools.md: tests/test_docs_tools.py",
}


# These tell one story: the files that they show are written as they come, and their programs run.
STORIES = ("launch.md", "own-loop.md", "write-a-subagent.md")


def lines_of(document: Path) -> list[str]:
    """The command lines of a page that call `outrider`."""
    shown = (*blocks(document, "sh"), *blocks(document, "console"))
    return commands_in("".join(shown))


def commands_in(block: str) -> list[str]:
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    return [line for line in lines if line.startswith("outrider ")]


def left_out(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in ELSEWHERE)


def run_line(line: str, cli: Cli) -> None:
    if not left_out(line):
        expected = re.search(r"# exit code (\d+)", line)
        ran = cli(*shlex.split(line, comments=True)[1:])
        assert ran.code == int(expected[1] if expected else 0), f"{line}\n{ran.err or ran.out}"


def run_program(code: str, folder: Path) -> str:
    """What a program prints, run as a file in ``folder``."""
    name = re.match(r"# (\w+\.py)\n", code)
    file = folder / (name[1] if name else "shown.py")
    file.write_text(code)
    is_test = file.name.startswith("test_") and "import pytest" in code
    done = subprocess.run(
        [sys.executable, *(("-m", "pytest", "-q") if is_test else ()), file.name],
        cwd=folder,
        env=clean_environment(folder.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if lines_of(d) and d.name not in STORIES],
    ids=lambda d: d.name,
)
def test_the_commands_of_a_page_run_one_after_another(
    document: Path, cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL", "rehearsal")
    monkeypatch.setenv("OUTRIDER_PRICES", '{"rehearsal": {"input": 1, "output": 5}}')
    assert cli("run", "Survey this folder", "--quiet").code == 0
    for line in lines_of(document):
        run_line(line, cli)


@pytest.mark.parametrize("page", STORIES)
def test_a_page_that_tells_a_story_is_true_from_its_beginning_to_its_end(
    page: str, cli: Cli, root: Path
) -> None:
    """Commands run, files are written, programs print what the page says."""
    text = (DOCUMENTS[0].parent / "docs" / page).read_text(encoding="utf-8")
    printed = ""
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "sh":
            for line in commands_in(block):
                run_line(line, cli)
        elif language == "markdown":
            name = re.search(r"^name: (\S+)$", block, re.MULTILINE)
            assert name is not None
            (root / f".outrider/agents/{name[1]}.md").write_text(block)
        elif language == "python":
            printed = run_program(block, root)
        elif language == "text":
            assert printed == block


def test_what_is_left_out_is_shown_somewhere() -> None:
    lines = [line for document in DOCUMENTS for line in lines_of(document)]
    for pattern, why in ELSEWHERE.items():
        assert any(re.search(pattern, line) for line in lines), pattern
        named = re.search(r"tests/\S+\.py", why)
        assert named is not None
        assert (DOCUMENTS[0].parent / named[0]).is_file()


# Pages whose Python is run by other tests than the one below.
PYTHON_ELSEWHERE = {
    "README.md": "tests/test_docs_commands.py",
    **dict.fromkeys(STORIES, "tests/test_docs_commands.py"),
    "mcp.md": "tests/test_mcp_cli.py",
    "stand-in.md": "tests/test_standin_server.py",
    "subagents.md": "tests/test_subagents_docs.py",
    "tools.md": "tests/test_docs_tools.py",
}
MESSAGES = [
    {"role": "user", "content": "Look."},
    {"role": "assistant", "content": [{"type": "text", "text": "I have looked."}]},
]


@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if blocks(d, "python") and d.name not in PYTHON_ELSEWHERE],
    ids=lambda d: d.name,
)
def test_the_python_of_a_page_runs_as_written(document: Path, root: Path) -> None:
    (root / "messages.json").write_text(json.dumps(MESSAGES))
    for code in blocks(document, "python"):
        assert run_program(code, root)


def test_pages_whose_python_is_run_elsewhere_are_named_there() -> None:
    for page, test in PYTHON_ELSEWHERE.items():
        text = (DOCUMENTS[0].parent / test).read_text(encoding="utf-8")
        assert page in text, page


@pytest.mark.parametrize("code", blocks(DOCUMENTS[0], "python"), ids=("first", "tools"))
def test_the_readmes_python_runs_as_written(code: str, root: Path) -> None:
    assert "alpha/alpha.py:3" in run_program(code, root)
