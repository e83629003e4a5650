"""`outrider memory show|add|update|forget|review`."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest

from orchestrator.cli.memory_shown import OLD_DAYS, reviewed
from tests.test_cli_process import Cli, clean_environment, cli, root
from tests.warm import WARM
from workspace import Memory

__all__ = ["cli", "root"]
TODAY = date.today()


def given(root: Path, text: str) -> Path:
    file = root / ".outrider/MEMORY.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_entries_are_added_shown_changed_and_deleted(cli: Cli, root: Path) -> None:
    added = cli("memory", "add", "Ann cuts releases")
    (entry,) = Memory(root).entries()
    assert (added.code, added.out) == (0, f"{entry.id} kept in .outrider/MEMORY.md\n")
    assert cli("memory", "add", "ann cuts  releases").out == (
        f"{entry.id} is already in .outrider/MEMORY.md\n"
    )
    assert cli("memory", "show").out.splitlines()[1].split(maxsplit=2) == [
        *(entry.id, TODAY.isoformat(), "Ann cuts releases"),
    ]
    assert cli("memory", "update", entry.id, "Bob cuts releases").code == 0
    assert json.loads(cli("memory", "show", "--json").out) == {
        "schema": 1,
        "path": ".outrider/MEMORY.md",
        "agent": None,
        "chars": len((root / ".outrider/MEMORY.md").read_text()),
        "limit_chars": 10_000,
        "entries": [
            {"id": entry.id, "text": "Bob cuts releases", "date": TODAY.isoformat(), "line": 1}
        ],
    }
    assert cli("memory", "forget", entry.id).out == f"{entry.id} deleted from .outrider/MEMORY.md\n"
    nothing = cli("memory", "show")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no entries in .outrider/MEMORY.md" in nothing.err


def test_what_people_wrote_is_listed_with_an_id_by_which_it_can_be_deleted(
    cli: Cli, root: Path
) -> None:
    file = given(root, "# Ours\n\n- by hand\n\nMore.\n")
    (entry,) = json.loads(cli("memory", "show", "--json").out)["entries"]
    assert (entry["text"], entry["date"], entry["line"]) == ("by hand", None, 3)
    assert cli("memory", "forget", entry["id"]).code == 0
    assert file.read_text() == "# Ours\n\n\nMore.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("forget", "x1"), 'there is no entry "x1"; nothing was changed'),
        (("update", "x1", "y"), "there is no entry"),
        (("add", " "), "the text is empty"),
        (("add", "x" * 1_001), "has 1,001 characters, an entry at most 1,000"),
        (("add", "token sk-ant-api03-abcdefghijklmnop"), "looks as if it held a secret"),
        (
            ("add", "x", "--agent", "reviwer"),
            "no definition is called 'reviwer'; there are: explorer",
        ),
    ],
)
def test_what_cannot_be_done_is_exit_code_2_with_one_sentence(
    cli: Cli, root: Path, arguments: tuple[str, ...], said: str
) -> None:
    """M2."""
    ran = cli("memory", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not (root / ".outrider").exists()


def test_an_agents_memory_is_its_own(cli: Cli, root: Path) -> None:
    assert cli("memory", "add", "Check the changelog", "--agent", "Reviewer").code == 0
    assert (root / ".outrider/memory/reviewer.md").is_file()
    shown = json.loads(cli("memory", "show", "--agent", "reviewer", "--json").out)
    assert (shown["path"], shown["agent"]) == (".outrider/memory/reviewer.md", "reviewer")
    assert [e["text"] for e in shown["entries"]] == ["Check the changelog"]
    assert json.loads(cli("memory", "show", "--json").out)["entries"] == []


def test_a_memory_over_its_limit_is_said_to_be_shortened(cli: Cli, root: Path) -> None:
    """M3."""
    given(root, "".join(f"- fact {n} {'x' * 90} <!-- e{n} 2026-01-01 -->\n" for n in range(100)))
    ran = cli("memory", "show")
    assert len(ran.out.splitlines()) == 101
    assert "of which a session is shown 10,000: the oldest entries are left out" in ran.err


def of_days_ago(root: Path, *texts: tuple[str, int | None]) -> Path:
    lines = []
    for number, (text, days) in enumerate(texts):
        mark = "" if days is None else f" <!-- e{number} {TODAY - timedelta(days)} -->"
        lines.append(f"- {text}{mark}\n")
    return given(root, "".join(lines))


def test_a_review_has_the_oldest_first_and_marks_what_is_old_or_said_twice(root: Path) -> None:
    of_days_ago(
        root, *(("By hand", None), ("new", 0), ("limit", OLD_DAYS), ("old", 400), ("OLD!", 1))
    )
    found = reviewed(Memory(root).entries(), TODAY)
    assert [(each.entry.text, each.remarks) for each in found] == [
        ("old", ("old: 400 days",)),
        ("limit", ()),
        ("OLD!", ("same as e3",)),
        ("new", ()),
        ("By hand", ()),
    ]


def test_off_a_terminal_a_review_is_a_list_and_changes_nothing(cli: Cli, root: Path) -> None:
    file = of_days_ago(root, ("one", 300), ("one", 2))
    before = file.read_bytes()
    ran = cli("memory", "review")
    assert ran.code == 0
    head, first, second = ran.out.splitlines()
    assert head.split() == ["id", "date", "remarks", "text"]
    assert "old: 300 days" in first
    assert "same as e0" in second
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("k\nf\n\nforget\n", ["one", "three"]),
        ("f\nwhat?\nq\n", ["two", "three", "four"]),
    ],
)
def test_on_a_terminal_each_entry_is_kept_or_deleted_as_asked(
    root: Path, typed: str, left: list[str]
) -> None:
    file = of_days_ago(root, ("one", 40), ("two", 30), ("three", 20), ("four", 10))
    file.write_text("# Ours\n" + file.read_text())
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*WARM, "memory", "review"],
        cwd=root,
        env=clean_environment(root.parent, TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = bytearray()
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:  # how a pseudo terminal on Linux says that its other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    assert b"1 of 4 \xc2\xb7 e0" in shown
    assert f"{4 - len(left)} of 4 entries deleted".encode() in shown
    assert [entry.text for entry in Memory(root).entries()] == left
    assert file.read_text().startswith("# Ours\n")
