"""`docs/skills.md` is true: its skill is found and read, its commands run, its figures and places hold."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.skills import FOLDERS, find_skills, offered
from orchestrator.skills.tool import LISTING, PAGE_CHARS
from tests.test_cli_process import Cli, cli, root
from workspace import Access

__all__ = ["cli", "root"]
TEXT = (Path(__file__).parent.parent / "docs/skills.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.anyio
async def test_its_skill_is_found_where_it_says_without_a_problem(tmp_path: Path) -> None:
    (text,) = blocks("markdown")
    for place in re.findall(r"`(\S+/release-notes/SKILL\.md)`", TEXT):
        workspace = tmp_path / place.split("/")[0]
        file = workspace / place
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.with_name("style.md").write_text("STYLE")
        found = find_skills(workspace)
        assert found.problems == []
        tool = offered(found.known, lambda private: Access(readable_private=private))
        assert tool is not None
        assert "1. Read the merged changes" in await tool.skill("release-notes")
        assert await tool.skill("release-notes", file="style.md") == "STYLE"


def test_its_commands_run(cli: Cli, root: Path) -> None:
    file = root / ".claude/skills/release-notes/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(blocks("markdown")[0])
    (block,) = blocks("sh")
    for line in block.splitlines():
        ran = cli(*shlex.split(line)[1:])
        assert ran.code == 0
        assert "release-notes" in ran.out


def test_its_figures_and_places_are_those_of_the_code() -> None:
    assert f"has at most {LISTING:,}\ntokens" in TEXT
    assert f"at most {PAGE_CHARS:,} characters" in TEXT
    places = TEXT.split("## Where skills are")[1].split("##")[0]
    assert [name for name in re.findall(r"`([^`]+)`", places) if name in FOLDERS] == list(FOLDERS)
