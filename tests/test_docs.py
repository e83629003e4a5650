"""What the documents say is true: code runs, options exist, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]


def blocks(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_readme_shows_code_that_runs_within_its_first_25_lines() -> None:
    """That it runs is shown by `test_docs_commands`."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    for language, says in (("sh", "outrider run"), ("python", "anyio.run(main)")):
        start = lines.index(f"```{language}")
        assert says in "\n".join(lines[start : lines.index("```", start)])


def test_the_readmes_definition_is_read_without_a_problem(tmp_path: Path) -> None:
    from subagents import load

    (text,) = blocks(ROOT / "README.md", "markdown")
    file = tmp_path / "date-checker.md"
    file.write_text(text)
    loaded = load(file)
    assert loaded.problems == []
    assert loaded.definitions["date-checker"].tools == ("read_file", "grep")


def options(help_text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]+", help_text))


def command_lines() -> list[str]:
    lines = [line for d in DOCUMENTS for block in blocks(d, "sh") for line in block.splitlines()]
    inline = [code for d in DOCUMENTS for code in re.findall(r"`(outrider [^`]+)`", d.read_text())]
    return sorted({line for line in (*lines, *inline) if re.search(r"\boutrider [a-z]", line)})


@pytest.mark.parametrize("line", command_lines())
def test_every_command_that_is_shown_exists_with_its_options(line: str) -> None:
    words = line[re.search(r"\boutrider [a-z]", line).start() :].split("#")[0].split()  # type: ignore[union-attr]
    command = [w for w in words[1:3] if re.fullmatch(r"[a-z]+", w) and w != "latest"]
    has_subcommand = command[0] in ("agents", "config", "memory", "runs")
    asked = [sys.executable, "-m", "orchestrator", *command[: 1 + has_subcommand], "--help"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False)
    if shown.returncode:
        shown = subprocess.run([*asked[:4], "--help"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert options(" ".join(words)) <= options(shown.stdout)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target
