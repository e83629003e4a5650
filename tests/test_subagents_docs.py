"""`docs/subagents.md` is true: its definitions load, it has all fields, its messages are the reader's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from subagents import FOLDERS, builtin, load, parse, problem_of, schema_of
from subagents.fields import OURS

TEXT = (Path(__file__).parent.parent / "docs/subagents.md").read_text(encoding="utf-8")

# Files that are not well, each in another way.
ODD = (
    *(b"---\nname: a\ndescription: b\n", b"---\nname: a\n\nProse.\n\n---\nmore"),
    *(b"# A\n\n```yaml\n---\nname: a\n---\n```", b"name: a\ndescription: b\n---\nx"),
    *(b"---\nname: a\ndescription: b\n---\ntools: Read\nx", b"---\nname: a\n---\nx"),
    *(b"---\nname: a\0\n---\nx", "---\ndescription: \u2019\n---\nx".encode("cp1252")),
    *(b"---\nname: a\ndescription: b\n...\nx", b"---\nname: a\ndescription: b\n---\n"),
)
FIELDS = (
    *("description: b: c", "tools:\n\t- Read", "name: x\nname: a/b", "name: 007"),
    *("allowedTools: Read", "tools: all", "tools:", "tools: Raed", "permissions: nonsense"),
    *("permissionMode: odd", "can_spawn: 7", "effort: enormous", "todos: maybe", "mood: good"),
    *("description: {{ABOUT}}", "max_turns: many", "returns: {verdict: thing}"),
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def said() -> str:
    """Everything that the reader says of the odd files."""
    odd = [*ODD, *(f"---\ndescription: b\n{lines}\n---\nx".encode() for lines in FIELDS)]
    found = [problem for data in odd for problem in parse(data, PurePath("a.md"))[1]]
    found += parse(b'name = "a"\ndescription = ', PurePath("a.toml"))[1]
    return "\n".join(map(str, found))


def test_its_definitions_load_without_a_problem(tmp_path: Path) -> None:
    for number, text in enumerate(blocks("markdown")):
        (tmp_path / f"{number}.md").write_text(text)
    loaded = load(tmp_path)
    assert loaded.problems == []
    assert list(loaded.definitions) == ["date-checker", "counter"]
    checker = loaded.definitions["date-checker"]
    assert checker.permissions == {"deny": ["read(secret/**)"]}
    (conclusion,) = blocks("json")
    assert json.loads(conclusion)["verdict"] == "faulty"
    assert problem_of(conclusion, schema_of(checker.returns or {}), is_child=True) is None


def test_it_has_every_field_of_ours() -> None:
    table = TEXT.split("## Fields")[1].split("**Permissions**")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == OURS


def test_its_places_are_those_that_are_read() -> None:
    table = TEXT.split("## Where definitions are")[1].split("## Fields")[0]
    assert [name for name in re.findall(r"`([^`]+)`", table) if name in FOLDERS] == list(FOLDERS)
    assert set(builtin().definitions) <= set(re.findall(r"`([^`]+)`", table))


def quoted() -> list[str]:
    tables = TEXT.split("## What is repaired")[1]
    rows = re.findall(r"^\|.*\| `([^`]+)` \|$", tables, re.MULTILINE)
    beside = re.findall(r"\((?:info: )?`([a-z ]+[A-Za-z ]+, kept|is no usable[^`]*)`\)", TEXT)
    return [*rows, *beside]


@pytest.mark.parametrize("message", quoted())
def test_its_messages_are_what_the_reader_says(message: str) -> None:
    """D2, D3, D4."""
    assert message in said()


def test_all_messages_of_its_tables_are_looked_at() -> None:
    tables = TEXT.split("## What is repaired")[1]
    rows = [line for line in tables.splitlines() if line.startswith("|")]
    assert len(quoted()) == len(rows) - 4 + 2  # two heads of two lines, and two beside the tables


def test_its_python_runs_as_written(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/helper.md").write_text("---\nname: helper\ndescription: b\n---\nx\n")
    (tmp_path / ".outrider/agents").mkdir(parents=True)
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['helper']\n", "")
