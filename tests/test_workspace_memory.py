"""The memory file and the project's instructions."""

from pathlib import Path

import pytest

from workspace import Memory, project_instructions
from workspace.text import SNAPSHOT_CHARS


def test_missing_files_are_empty_text(tmp_path: Path) -> None:
    assert Memory(tmp_path).snapshot() == ""
    assert project_instructions(tmp_path) == ""


def test_the_memory_file_is_read_as_it_is(tmp_path: Path) -> None:
    """M1."""
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider" / "MEMORY.md").write_bytes(b"- one\r\n- two \xe9\n")
    assert Memory(tmp_path).snapshot() == "- one\r\n- two \ufffd\n"


def test_a_memory_file_over_its_limit_is_cut_visibly(tmp_path: Path) -> None:
    """M3: never silently; exactly at the limit it is whole."""
    (tmp_path / ".outrider").mkdir()
    file = tmp_path / ".outrider" / "MEMORY.md"
    file.write_text("x" * SNAPSHOT_CHARS)
    assert Memory(tmp_path).snapshot() == "x" * SNAPSHOT_CHARS
    file.write_text("x" * (SNAPSHOT_CHARS + 1))
    assert Memory(tmp_path).snapshot() == "x" * SNAPSHOT_CHARS + (
        "\n[cut: the first 10,000 of 10,001 characters of .outrider/MEMORY.md]\n"
    )


def test_both_instruction_files_come_under_their_names(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    (tmp_path / "CLAUDE.md").write_text("Be brief.\n")
    assert project_instructions(tmp_path) == (
        "## AGENTS.md\n\nUse tabs.\n\n## CLAUDE.md\n\nBe brief.\n"
    )


@pytest.mark.parametrize("claude", ["Use tabs.", "@AGENTS.md\n", "@./AGENTS.md", "AGENTS.md", "\n"])
def test_a_file_that_adds_nothing_is_left_out(tmp_path: Path, claude: str) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    (tmp_path / "CLAUDE.md").write_text(claude)
    assert project_instructions(tmp_path) == "## AGENTS.md\n\nUse tabs.\n"


def test_a_symlink_between_the_two_comes_once(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("Be brief.\n")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    assert project_instructions(tmp_path) == "## AGENTS.md\n\nBe brief.\n"


def test_two_files_that_only_name_each_other_do_not_vanish_silently(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("@CLAUDE.md")
    (tmp_path / "CLAUDE.md").write_text("Be brief.")
    assert project_instructions(tmp_path) == "## CLAUDE.md\n\nBe brief.\n"


def test_instructions_that_lead_outside_are_named_not_read(tmp_path: Path) -> None:
    """P3."""
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "AGENTS.md").symlink_to("../secret")
    text = project_instructions(tmp_path / "ws")
    assert "SECRET" not in text
    assert "not read" in text


def test_long_instructions_are_cut_visibly(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x" * 20_000)
    text = project_instructions(tmp_path)
    assert len(text) < SNAPSHOT_CHARS + 200
    assert "[cut: the first 10,000 of 20,000 characters of AGENTS.md]" in text
