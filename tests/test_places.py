"""D1: where a user's own definitions are."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.places import user_agent_folders
from subagents import discover


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_users_folders_are_ours_first_and_need_not_be_there(home: Path) -> None:
    """D1."""
    folders = user_agent_folders()
    assert folders == (home / "config/outrider/agents", home / "home/.claude/agents")
    (home / "project").mkdir()
    assert discover(home / "project", (), folders).problems == []


def test_of_equal_names_ours_holds_and_both_are_named(home: Path) -> None:
    """D1: the same name twice: by order, with a warning naming both."""
    for number, folder in enumerate(user_agent_folders()):
        folder.mkdir(parents=True)
        text = f"---\nname: mine\ndescription: Number {number}.\n---\nWork.\n"
        (folder / "mine.md").write_text(text)
    (home / "project").mkdir()
    found = discover(home / "project", (), user_agent_folders())
    assert found.definitions["mine"].description == "Number 0."
    [problem] = found.problems
    assert all(str(folder / "mine.md") in problem.message for folder in user_agent_folders())
