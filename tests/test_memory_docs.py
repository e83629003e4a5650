"""`docs/memory.md` is true: its file and its definition are read as it says, its commands run."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from orchestrator.cli.memory_shown import OLD_DAYS
from subagents import load
from tests.test_cli_process import Cli, cli, root
from workspace import SNAPSHOT_CHARS, Memory
from workspace.entries import MOST_ENTRY_CHARS
from workspace.instructions import ALL_CHARS, DEEPEST_IMPORT

__all__ = ["cli", "root"]
TEXT = (Path(__file__).parent.parent / "docs/memory.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_its_memory_file_has_the_entries_that_it_speaks_of(root: Path) -> None:
    file = root / ".outrider/MEMORY.md"
    file.parent.mkdir()
    file.write_text(blocks("markdown")[0])
    entries = Memory(root).entries()
    assert [(entry.id, entry.date) for entry in entries[:2]] == [
        ("3fa81c", date(2026, 11, 2)),
        ("b07d55", date(2026, 11, 28)),
    ]
    assert (entries[2].text, entries[2].date) == ("Please keep answers short.", None)
    assert len(entries) == 3


def test_its_definition_loads_without_a_problem_and_names_the_file_of_its_memory(
    tmp_path: Path,
) -> None:
    (tmp_path / "x.md").write_text(blocks("markdown")[1])
    loaded = load(tmp_path / "x.md")
    assert loaded.problems == []
    (definition,) = loaded.definitions.values()
    assert definition.memory == "agent"
    assert f"`{Memory(tmp_path, definition.name).path}`" in TEXT


@pytest.mark.parametrize("block", blocks("sh"))
def test_its_commands_run_one_after_the_other(cli: Cli, root: Path, block: str) -> None:
    commands = [shlex.split(line) for line in block.splitlines()]
    assert {words[2] for words in commands} == {"add", "show", "update", "forget", "review"}
    for words in commands:
        ran = cli(*words[1:])
        assert (ran.code, bool(ran.out)) == (0, True), words
    assert Memory(root).entries() == ()
    assert [e.text for e in Memory(root, "reviewer").entries()] == ["Look at the changelog, too"]


def test_its_figures_are_those_of_the_code() -> None:
    for figure, words in (
        (SNAPSHOT_CHARS, "A session is shown at most {:,} characters"),
        (MOST_ENTRY_CHARS, "An entry has at most {:,} characters"),
        (SNAPSHOT_CHARS, "A file is shown up to {:,} characters"),
        (ALL_CHARS, "all together up to {:,}"),
    ):
        assert words.format(figure) in TEXT
    assert (DEEPEST_IMPORT, OLD_DAYS // 30) == (5, 6)  # "five deep", "half a year"
