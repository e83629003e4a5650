"""What the documents say is true: code runs, options exist, links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.cli.app import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
EXAMPLES = sorted((ROOT / "examples").rglob("README.md"))


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


def command_lines() -> list[str]:
    lines = [
        line
        for d in (*DOCUMENTS, *EXAMPLES)
        for block in blocks(d, "sh")
        for line in block.splitlines()
    ]
    inline = [code for d in DOCUMENTS for code in re.findall(r"`(outrider [^`]+)`", d.read_text())]
    return sorted({line for line in (*lines, *inline) if re.search(r"\boutrider [a-z-]", line)})


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the program, with the words that call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *path, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    return {"--help", *(o for p in command.params for o in (*p.opts, *p.secondary_opts))}


@pytest.mark.parametrize("line", command_lines())
def test_every_command_that_is_shown_exists_with_its_options(line: str) -> None:
    shown = re.split(r"\boutrider (?=[a-z-])", " ".join(line.split("#")[0].split()), maxsplit=1)[1]
    words = [word.strip("[](),;") for word in shown.split()]
    path = max((p for p in COMMANDS if p == tuple(words[: len(p)])), key=len)
    assert path or words[0].startswith("-"), "no such command"
    asked = {option for word in words for option in re.findall(r"--[a-z][a-z-]+", word)}
    assert asked <= options_of(COMMANDS[path])


# Options of other programs that pages name.
OF_OTHERS = {
    "--jinja",  # of llama-server
    *("--curve", "--read-back"),  # of benchmarks/replay.py
    *("--brain", "--think"),  # of python -m orchestrator.testing.standin
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_every_option_that_is_named_in_a_sentence_is_one_of_some_command(document: Path) -> None:
    known = set().union(*map(options_of, COMMANDS.values())) | OF_OTHERS
    prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = {
        o for code in re.findall(r"`(--[a-z][^`]*)`", prose) for o in re.findall(r"--[a-z-]+", code)
    }
    assert named <= known


@pytest.mark.parametrize("document", [*DOCUMENTS, *EXAMPLES], ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", document.read_text("utf-8")):
        if "://" not in target:
            page = document.parent / target if target else document
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can name, as they are made from its headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_index_and_the_index_in_the_readme() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for document in DOCUMENTS:
        if document.name not in ("index.md", "README.md"):
            assert f"({document.name})" in index.replace("../", ""), document
    assert "(docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
