"""Skill folders: which are found, what is wrong with one, what the tool answers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from orchestrator import ToolError
from orchestrator.skills import Skills, SkillTool, find_skills, offered
from orchestrator.skills.tool import LISTING, PAGE_CHARS
from subagents import estimate
from workspace import Access, Denied, Refused, Rule, WorkspaceError


def skill(folder: Path, name: str, text: str | None = None, **files: str) -> Path:
    """Write a skill; left out, its text is a proper one."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(
        text or f"---\nname: {name}\ndescription: For {name}.\n---\nDo {name}.\n"
    )
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(content)
    return place


def tool(found: Skills, *deny: str) -> SkillTool:
    rules = tuple(Rule(pattern, f"read({pattern})") for pattern in deny)
    made = offered(found.known, lambda private: Access(rules, readable_private=private))
    assert made is not None
    return made


def said(found: Skills) -> list[str]:
    return [f"{p.severity}: {p.key}: {p.message}" for p in found.problems]


# ── finding ──


def test_the_projects_nearest_folder_goes_first_then_the_users(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    root, home = tmp_path / "repo/api", tmp_path / "home/skills"
    places = [
        *(root / ".outrider/skills", root / ".claude/skills"),
        *(tmp_path / "repo/.outrider/skills", tmp_path / "repo/.claude/skills", home),
    ]
    for number, place in enumerate(places):
        skill(place, "same", f"---\nname: same\ndescription: Of place {number}.\n---\nx")
        skill(place, f"own-{number}")
    skill(tmp_path / ".claude/skills", "above-the-project")
    found = find_skills(root, [home])
    assert found.known["same"].description == "Of place 0."
    assert list(found.known) == ["own-0", "same", *(f"own-{n}" for n in range(1, 5))]
    hidden = [p for p in found.problems if p.key == "name"]
    assert [p.severity for p in hidden] == ["warning"] * 4
    assert str(hidden[0]) == (
        f"{places[1]}/same/SKILL.md:1: name: 'same' of {places[1]}/same/SKILL.md "
        f"is hidden by {places[0]}/same/SKILL.md – rename one"
    )


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / ".claude/skills/empty").mkdir(parents=True)
    (tmp_path / ".claude/skills/notes.md").write_text("x")
    found = find_skills(tmp_path, [tmp_path / "missing"])
    assert (found.known, found.problems) == ({}, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "error: file: has no front matter – begin it with ---, name, description and ---"),
        ("# Only text\n", "error: file: has no front matter – begin it with"),
        ("---\nname: x\n", "error: fence: is never closed – add a line --- after the last field"),
        ("---\nname: x\n---\ny", "error: description: is missing – say what the skill is for"),
        ("---\nname: x\ndescription:\n---\ny", "error: description: is missing"),
        ("---\nname: x\ndescription: [a]\n---\ny", "error: description: is missing"),
        ("---\nname: x\0\n---\ny", "error: file: holds a NUL byte – save it as plain text"),
    ],
)
def test_a_file_that_gives_no_skill_is_a_problem_line_and_the_others_are_there(
    tmp_path: Path, text: str, problem: str
) -> None:
    place = tmp_path / ".claude/skills"
    skill(place, "good")
    bad = skill(place, "bad")
    (bad / "SKILL.md").write_text(text)
    found = find_skills(tmp_path)
    assert list(found.known) == ["good"]
    assert said(found)[-1].startswith(problem)
    assert re.fullmatch(rf"{bad}/SKILL.md:\d+: \w+: .+ – .+", str(found.problems[-1]))


def test_what_can_be_repaired_is_with_a_warning(tmp_path: Path) -> None:
    """As tolerant as with definitions."""
    place = tmp_path / ".claude/skills"
    skill(place, "unquoted", "---\nname: unquoted\ndescription: Use it: always\n---\nx")
    skill(place, "no name", "---\ndescription: >\n  Over\n  lines.\n---\nx")
    skill(place, "bad-name", "---\nname: a/b\ndescription: c\ndescription: d\n---\nx")
    skill(place, "number", "---\nname: 007\ndescription: c\n---\nx")
    found = find_skills(tmp_path)
    assert {s.name: s.description for s in found.known.values()} == {
        "unquoted": "Use it: always",
        "no-name": "Over lines.",
        "bad-name": "d",
        "007": "c",
    }
    assert {p.severity for p in found.problems} == {"warning"}
    assert "warning: name: is missing, the folder's is used – write name: no-name" in said(found)
    assert "warning: name: 'a/b' is no legal name, the folder's is used – write name: bad-name" in (
        said(found)
    )


def test_fields_that_do_nothing_here_are_said_to(tmp_path: Path) -> None:
    place = tmp_path / ".claude/skills"
    skill(place, "wide", "---\nname: wide\ndescription: c\nallowed-tools: Bash(*), Write\n---\nx")
    skill(
        place, "people", "---\nname: people\ndescription: c\ndisable-model-invocation: true\n---\nx"
    )
    found = find_skills(tmp_path)
    assert list(found.known) == ["wide"]
    assert said(found) == [
        "info: disable-model-invocation: the skill is for people – models are not offered it",
        "info: allowed-tools: grants nothing – an agent's tools are those of its definition",
    ]


def test_folders_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    """P3: of the project, none leads out of it; a user's own may be linked from anywhere."""
    outside, place = tmp_path / "outside", tmp_path / "ws/.claude/skills"
    skill(outside, "linked")
    place.mkdir(parents=True)
    (place / "linked").symlink_to(outside / "linked")
    (place / "loop").mkdir()
    (place / "loop/SKILL.md").symlink_to("SKILL.md")
    (place / "stolen").mkdir()
    (place / "stolen/SKILL.md").symlink_to(outside / "linked/SKILL.md")
    (place / "pipe").mkdir()
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "large").mkdir()
    (place / "large/SKILL.md").write_text("x" * 1_000_001)
    found = find_skills(tmp_path / "ws")
    assert found.known == {}
    assert {p.severity for p in found.problems} == {"error"}
    lines = sorted(Path(p.path).parent.name + ": " + p.message for p in found.problems)
    for line, expected in zip(
        lines,
        (
            "large: is larger than 1,000,000 bytes – shorten it",
            "linked: leads out of the project – ",
            "loop: cannot be read (",
            "pipe: cannot be read (",
            "stolen: cannot be read (",
        ),
        strict=True,
    ):
        assert line.startswith(expected)
    home = tmp_path / "home"
    home.mkdir()
    (home / "linked").symlink_to(outside / "linked")
    assert list(find_skills(tmp_path / "ws", [home]).known) == ["linked"]


# ── the listing ──


@pytest.mark.parametrize("count", [1, 3, 40, 3_000])
def test_the_listing_is_bounded_in_sum_whatever_there_is(tmp_path: Path, count: int) -> None:
    from orchestrator.skills import Skill

    known = {
        f"skill-{n}": Skill(f"skill-{n}", "Long words\n- in lines. " * 40, tmp_path, f"s/{n}", "x")
        for n in range(count)
    }
    text = SkillTool(known, Access()).listing()
    assert estimate(text) <= LISTING == 1_000
    assert text.count("\n- ") < count
    if count < 3_000:
        assert all(name in text for name in known)
    else:
        assert "and more" in text


# ── the tool ──

pytestmark = pytest.mark.anyio


async def test_a_skill_is_its_text_and_the_names_of_the_files_beside_it(tmp_path: Path) -> None:
    files = {"ref/a.md": "A", "run.sh": "echo", ".hidden": "x", "__pycache__/x.pyc": "x"}
    skill(tmp_path / ".claude/skills", "pdf", **files)
    skill(tmp_path / "home", "own", **{"more.md": "MORE"})
    used = tool(find_skills(tmp_path, [tmp_path / "home"]))
    assert await used.skill("PDF ") == (
        "[skill pdf · in .claude/skills/pdf · other files (read_file, or file=): run.sh, ref/a.md]\n\n"
        "Do pdf."
    )
    assert await used.skill("pdf", "ref/a.md") == "A"
    assert used.folders == [".claude/skills/pdf", "home/own"]


async def test_a_users_skill_lies_outside_and_its_files_come_through_the_tool(
    tmp_path: Path,
) -> None:
    (tmp_path / "ws").mkdir()
    skill(tmp_path / "home", "own", **{"more.md": "MORE"})
    skill(tmp_path / "home", "bare")
    used = tool(find_skills(tmp_path / "ws", [tmp_path / "home"]))
    assert await used.skill("own") == (
        "[skill own · outside the workspace · other files (file=): more.md]\n\nDo own."
    )
    assert await used.skill("own", "more.md") == "MORE"
    assert (
        await used.skill("bare")
        == "[skill bare · outside the workspace · no other files]\n\nDo bare."
    )
    assert used.folders == []


@pytest.mark.parametrize(
    "file", ["../own2/SKILL.md", "/etc/hostname", "~/x", "a\0b", "link", "missing", "linked/x", "."]
)
@pytest.mark.parametrize("where", ["home", "ws/.claude/skills"])
async def test_no_file_outside_of_the_skill_or_the_workspace_is_read(
    tmp_path: Path, file: str, where: str
) -> None:
    """P2, P3."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/x").write_text("SECRET")
    own = skill(tmp_path / where, "own")
    skill(tmp_path / where, "own2")
    (own / "link").symlink_to(tmp_path / "secret/x")
    (own / "linked").symlink_to(tmp_path / "secret")
    used = tool(find_skills(tmp_path / "ws", [tmp_path / "home"]))
    with pytest.raises(WorkspaceError):
        await used.skill("own", file)


async def test_a_skill_that_a_rule_denies_is_not_there_nor_are_its_files(tmp_path: Path) -> None:
    """P4."""
    place = tmp_path / ".claude/skills"
    skill(place, "open", **{"ok.md": "OK", "private/x.md": "SECRET"})
    skill(place, "shut")
    (place / "open/alias.md").symlink_to("private/x.md")
    found = find_skills(tmp_path)
    used = tool(found, "shut/", "**/private/**")
    assert used.listing() == "- open: For open.\n"
    with pytest.raises(ToolError, match="no skill 'shut'; there are: open"):
        await used.skill("shut")
    assert "other files (read_file, or file=): alias.md, ok.md]" in await used.skill("open")
    for file in ("private/x.md", "alias.md"):
        with pytest.raises(Denied):
            await used.skill("open", file)
    denied = offered(found.known, lambda private: Access((Rule("**", "read(**)"),)))
    assert denied is None


async def test_skills_of_ours_are_readable_for_the_tool_alone(tmp_path: Path) -> None:
    place = skill(tmp_path / ".outrider/skills", "own", **{"a.md": "A"})
    (place / "out.md").symlink_to("../../MEMORY.md")
    (tmp_path / ".outrider/MEMORY.md").write_text("- MARK\n")
    used = tool(find_skills(tmp_path))
    assert (await used.skill("own")).startswith("[skill own · in .outrider/skills/own · ")
    assert await used.skill("own", "a.md") == "A"
    with pytest.raises(Refused):
        await used.skill("own", "out.md")


async def test_a_long_text_comes_in_pages_that_join_to_the_whole(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(6_000))
    skill(tmp_path / ".claude/skills", "long", f"---\nname: long\ndescription: b\n---\n{text}")
    used = tool(find_skills(tmp_path))
    got, offset = "", 0
    while True:
        answer = (await used.skill("long", offset=offset)).partition("\n\n")[2]
        note = re.search(
            r'\n\[characters \d+–\d+ of \d+ · go on: skill\(name="long", offset=(\d+)\)\]$', answer
        )
        assert len(answer) <= PAGE_CHARS + 100
        got += answer[: note.start()] if note else answer
        if note is None:
            break
        offset = int(note[1])
    assert got == text.strip()
    with pytest.raises(ToolError, match="offset 99999999 is past the end"):
        await used.skill("long", offset=99_999_999)
    assert await used.skill("long", offset=-5) == await used.skill("long")


async def test_an_unknown_skill_and_bytes_are_errors_that_say_what_there_is(tmp_path: Path) -> None:
    for number in range(40):
        skill(tmp_path / ".claude/skills", f"s{number:02}")
    (tmp_path / ".claude/skills/s00/x.bin").write_bytes(b"\xff\xfe\x00")
    used = tool(find_skills(tmp_path))
    with pytest.raises(ToolError, match=r"no skill 'x.*s29 and 10 more$") as caught:
        await used.skill("x" * 5_000)
    assert len(str(caught.value)) < 400
    with pytest.raises(ToolError, match=r"x\.bin: is not text \(3 bytes\)"):
        await used.skill("s00", "x.bin")


async def test_a_skill_that_changes_or_vanishes_meanwhile_is_no_crash(tmp_path: Path) -> None:
    place = skill(tmp_path / ".claude/skills", "own")
    used = tool(find_skills(tmp_path))
    (place / "SKILL.md").write_text("no fields any more")
    assert (await used.skill("own")).endswith("\n\nno fields any more")
    (place / "SKILL.md").unlink()
    with pytest.raises(WorkspaceError, match="not found"):
        await used.skill("own")
