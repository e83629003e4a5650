"""Skills in whole runs, and `outrider skills`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Permissions, Request, run, toolbox
from orchestrator.places import user_skill_folders
from orchestrator.skills import offered
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, cli, root
from tests.test_skills import skill

__all__ = ["cli", "root"]
LISTING = "Skills: instructions for kinds of tasks."


class Played:
    """What each agent does by the number of results it has; what was sent is kept."""

    def __init__(self, **moves: list[Any]) -> None:
        self.moves = moves
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        have, moves = len(results(request)), self.moves.get(request.agent_type, [])
        return [moves[have]] if have < len(moves) else "done"

    def first(self, agent_type: str) -> Request:
        return next(r for r in self.requests if r.agent_type == agent_type)

    def answers(self, agent_type: str) -> list[str]:
        return results([r for r in self.requests if r.agent_type == agent_type][-1])

    async def go(self, at: Path, **options: Any) -> None:
        report = await run("do it", model=ScriptedModel(self), root=at, **options)
        assert report.status == "finished"


def tools(request: Request) -> list[str]:
    return [t["name"] for t in request.tools]


@pytest.mark.anyio
async def test_skills_are_listed_by_name_and_read_when_they_are_asked_for(tmp_path: Path) -> None:
    skill(tmp_path / ".claude/skills", "pdf", **{"ref.md": "REFERENCE"})
    skill(tmp_path / ".outrider/skills", "own", **{"a.md": "OWN-FILE"})
    played = Played(
        main=[
            call("skill", name="pdf"),
            call("read_file", path=".claude/skills/pdf/ref.md"),
            call("read_file", path=".outrider/skills/own/a.md"),
            call("skill", name="own", file="a.md"),
            call("skill", name="nothing"),
            call("skill", name="own", file="../../MEMORY.md"),
            call("write_file", path=".outrider/skills/own/a.md", content="x"),
        ]
    )
    await played.go(tmp_path)
    main = played.first("main")
    text = main.system[0]["text"]
    assert f"{LISTING} Read the one that fits" in text
    assert "\n- own: For own.\n- pdf: For pdf.\n\nWorkspace: " in text
    assert b"Do pdf" not in main.body
    said = played.answers("main")
    assert said[0].endswith("\n\nDo pdf.")
    assert said[1].endswith("]\nREFERENCE")
    assert said[2].endswith("]\nOWN-FILE")
    assert said[3] == "OWN-FILE"
    assert said[4] == "[error] no skill 'nothing'; there are: own, pdf"
    assert said[5].startswith("[error] .outrider/skills/own/../../MEMORY.md: '..' is not allowed")
    assert said[6].startswith(("[error] .outrider/skills/own/a.md: nothing under", "[denied by "))
    assert (tmp_path / ".outrider/skills/own/a.md").read_text() == "OWN-FILE"
    assert len({json.dumps(r.system) for r in played.requests}) == 1


@pytest.mark.anyio
async def test_without_skills_there_is_neither_tool_nor_listing(tmp_path: Path) -> None:
    played = Played()
    await played.go(tmp_path)
    assert "skill" not in tools(played.first("main"))
    assert LISTING not in played.first("main").system[0]["text"]


@pytest.mark.anyio
async def test_a_denied_tool_and_denied_files_take_the_listing_away_too(tmp_path: Path) -> None:
    """P4, S10."""
    skill(tmp_path / ".claude/skills", "pdf")
    for rule in ("skill", "read(.claude/**)"):
        played = Played(main=[call("skill", name="pdf")])
        await played.go(tmp_path, permissions=Permissions(deny=(rule,)))
        main = played.first("main")
        assert "skill" not in tools(main)
        assert LISTING not in main.system[0]["text"]
        assert "Do pdf" not in played.answers("main")[0]


@pytest.mark.anyio
async def test_children_are_offered_skills_as_their_definitions_grant_the_tool(
    tmp_path: Path,
) -> None:
    """And an agent without the tool reads nothing of our own folder."""
    skill(tmp_path / ".outrider/skills", "own")
    folder = tmp_path / ".outrider/agents"
    folder.mkdir()
    for name, fields in (("claude", "tools: Read, Skill"), ("reader", "tools: Read"), ("all", "")):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: b\n{fields}\n---\nx\n")
    kinds = ("claude", "reader", "all")
    read = [call("read_file", path=".outrider/skills/own/SKILL.md")]
    played = Played(
        main=[call("task", prompt="x", subagent_type=kind) for kind in kinds],
        **dict.fromkeys(kinds, read),
    )
    await played.go(tmp_path)
    has = {
        k: ("skill" in tools(r), LISTING in r.system[0]["text"])
        for k in kinds
        if (r := played.first(k))
    }
    assert has == {"claude": (True, True), "reader": (False, False), "all": (True, True)}
    assert {k: played.answers(k)[0].endswith("Do own.\n") for k in kinds} == {
        "claude": True,
        "reader": False,
        "all": True,
    }


@pytest.mark.anyio
async def test_allowed_tools_of_a_skill_widen_nothing(tmp_path: Path) -> None:
    """P6, D5: not for an agent whose definition grants less, nor against a denial."""
    text = "---\nname: wide\ndescription: b\nallowed-tools: write_file, Bash(*), delete_file\n---\nWrite x."
    skill(tmp_path / ".claude/skills", "wide", text)
    folder = tmp_path / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text(
        "---\nname: reader\ndescription: b\ntools: Read, Skill\n---\nx\n"
    )
    played = Played(
        main=[call("skill", name="wide"), call("task", prompt="x", subagent_type="reader")],
        reader=[call("skill", name="wide"), call("write_file", path="x", content="x")],
    )
    await played.go(tmp_path, permissions=Permissions(deny=("delete_file",)))
    assert tools(played.first("reader")) == ["read_file", "skill"]
    assert played.answers("reader")[1].startswith("[error] no tool 'write_file'")
    after = [r for r in played.requests if r.agent_type == "main"][-1]
    assert tools(after) == tools(played.first("main"))
    assert "delete_file" not in tools(after)
    assert not (tmp_path / "x").exists()


@pytest.mark.anyio
async def test_a_bad_skill_does_not_stop_a_run(tmp_path: Path) -> None:
    skill(tmp_path / ".claude/skills", "bad", "no fields")
    skill(tmp_path / ".claude/skills", "good")
    played = Played()
    await played.go(tmp_path)
    assert "\n- good: For good.\n\nWorkspace: " in played.first("main").system[0]["text"]


@pytest.mark.anyio
async def test_hundreds_of_skills_cost_at_most_their_bound(tmp_path: Path) -> None:
    from subagents import estimate

    for number in range(300):
        description = f"For task {number}. " + "Many words. " * 50
        text = f"---\nname: skill-{number}\ndescription: {description}\n---\nx"
        skill(tmp_path / ".claude/skills", f"skill-{number}", text)
    played = Played()
    await played.go(tmp_path)
    text = played.first("main").system[0]["text"]
    assert estimate(text[text.index(LISTING) : text.index("Workspace: ")]) <= 1_050


# ── the command line ──


def test_the_command_lists_skills_and_their_problems(cli: Cli, root: Path) -> None:
    skill(root / ".claude/skills", "pdf")
    skill(user_skill_folders()[0], "mine")
    ran = cli("skills")
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()] == [
        ["name", "source"],
        ["pdf", ".claude/skills/pdf/SKILL.md"],
        ["mine", f"{user_skill_folders()[0]}/mine/SKILL.md"],
    ]
    skill(root / ".claude/skills", "bad", "no fields")
    ran = cli("skills", "--json")
    assert ran.code == 2
    found = json.loads(ran.out)
    assert (found["ok"], [s["name"] for s in found["skills"]]) == (False, ["pdf", "mine"])
    assert found["problems"] == [
        {
            "path": ".claude/skills/bad/SKILL.md",
            "line": 1,
            "key": "file",
            "severity": "error",
            "message": "has no front matter – begin it with ---, name, description and ---",
        }
    ]


def test_a_run_says_what_is_wrong_with_a_skill_and_goes_on(cli: Cli, root: Path) -> None:
    skill(root / ".claude/skills", "bad", "no fields")
    ran = cli("run", "look", "--model", "rehearsal")
    assert ran.code == 0
    assert "/.claude/skills/bad/SKILL.md:1: file: has no front matter – begin it with" in ran.err


def test_what_agents_show_of_skills_is_what_a_run_grants(cli: Cli, root: Path) -> None:
    """S10."""
    (root / "reader.md").write_text(
        "---\nname: reader\ndescription: b\ntools: Read, Skill\n---\nx\n"
    )
    skill(root / ".claude/skills", "pdf")
    kinds = {
        k["name"]: k["tools"] for k in json.loads(cli("agents", "list", "reader.md", "--json").out)
    }
    assert kinds["reader"] == ["read_file", "skill"]
    assert "skill" in kinds["general"]
    assert "skill" not in kinds["explorer"]


@pytest.mark.anyio
async def test_skills_are_looked_at_once_for_each_set_of_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each agent's rules are asked about a skill once, and once more where a grant narrows them; what
    the narrower ones forbid is not listed."""
    skill(tmp_path / ".claude/skills", "pdf")
    kind = tmp_path / ".outrider/agents/narrow.md"
    kind.parent.mkdir(parents=True)
    kind.write_text("---\nname: narrow\ndescription: d\ntools: Read(src/**), skill\n---\nx")
    looked: list[None] = []

    def counted(*given: Any) -> Any:
        looked.append(None)
        return offered(*given)

    monkeypatch.setattr(toolbox, "offered", counted)
    await Played().go(tmp_path)
    assert len(looked) == 1
    looked.clear()
    played = Played(main=[call("task", prompt="x", subagent_type="narrow")])
    await played.go(tmp_path)
    assert len(looked) == 3
    assert "pdf" in played.first("main").system[0]["text"]
    assert "pdf" not in played.first("narrow").system[0]["text"]
