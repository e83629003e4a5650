"""Memory in whole runs: what is shown, who has the tools, what is recorded."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Permissions, Report, Request, resume, run
from orchestrator.testing import ScriptedModel, call, results
from tests.test_resume import Stop, stopped
from workspace import Memory

pytestmark = pytest.mark.anyio
TOOLS = ["remember", "update_memory", "forget"]


def given(root: Path, text: str, name: str = "MEMORY.md") -> Path:
    file = root / ".outrider" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def define(root: Path, name: str, fields: str) -> None:
    text = f"---\nname: {name}\ndescription: For {name}.\n{fields}\n---\nYou are {name}.\n"
    given(root, text, f"agents/{name}.md")


def memory_tools(request: Request) -> list[str]:
    return [t["name"] for t in request.tools if t["name"] in TOOLS]


class Played:
    """A scripted run: what each agent does by the number of results it has; what was sent is kept."""

    def __init__(self, **moves: list[Any]) -> None:
        self.moves = moves
        self.requests: list[Request] = []
        self.answers: list[str] = []

    def __call__(self, request: Request) -> Any:
        self.requests.append(request)
        have = results(request)
        self.answers += have[-1:]
        moves = self.moves.get(request.agent_type, [])
        return [moves[len(have)]] if len(have) < len(moves) else "done"

    def of(self, agent_type: str) -> list[Request]:
        return [r for r in self.requests if r.agent_type == agent_type]

    async def go(self, root: Path, **options: Any) -> Report:
        return await run("do it", model=ScriptedModel(self), root=root, **options)


def events(root: Path, report: Report, name: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (root / report.log).read_text().splitlines())
    return [line for line in lines if line["event"] == name]


async def test_m1_a_write_changes_the_file_and_not_what_the_session_is_shown(
    tmp_path: Path,
) -> None:
    """M1: byte for byte, in every request; the answer says so; the next session sees the new text."""
    file = given(
        tmp_path, "# Notes\n\n- old fact <!-- a1 2026-01-01 -->\n- gone <!-- b2 2026-01-01 -->\n"
    )
    first = Played(
        main=[
            call("remember", text="new fact"),
            call("update_memory", entry="a1", text="changed fact"),
            call("forget", entry="b2"),
        ]
    )
    report = await first.go(tmp_path)
    assert report.status == "finished"
    assert len(first.requests) == 4
    assert len({json.dumps(r.system) for r in first.requests}) == 1
    assert "- old fact" in first.requests[0].system[1]["text"]
    for answer in first.answers[1:]:
        assert "the next session begins with the change" in answer
    text = file.read_text()
    assert text.startswith(
        f"# Notes\n\n- changed fact <!-- a1 {date.today()} -->\n- new fact <!-- "
    )
    second = Played()
    await second.go(tmp_path)
    assert text.strip() in second.requests[0].system[1]["text"]


async def test_every_write_is_an_event_without_its_text(tmp_path: Path) -> None:
    played = Played(
        main=[
            call("remember", text="CANARY"),
            call("remember", text="CANARY"),
            call("update_memory", entry="CANARY", text="CANARY two"),
            call("forget", entry="nothing"),
            call("forget", entry="CANARY two"),
        ]
    )
    report = await played.go(tmp_path)
    found = events(tmp_path, report, "memory_written")
    assert [line["action"] for line in found] == ["add", "update", "forget"]
    assert len({line["entry"] for line in found}) == 1
    assert {line["path"] for line in found} == {".outrider/MEMORY.md"}
    assert "CANARY" not in (tmp_path / report.log).read_text()


async def test_m2_what_cannot_be_done_is_an_error_result_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    given(tmp_path, "- by hand\n")
    played = Played(
        main=[
            call("forget", entry="x1"),
            call("update_memory", entry="x1", text="y"),
            call("forget", entry="by hand"),
            call("forget", entry="by hand"),
            call("remember", text="x" * 5_000),
            call("remember", text="# one\n## two\n"),
        ]
    )
    report = await played.go(tmp_path)
    assert report.status == "finished"
    said = [results(r)[-1] for r in played.requests[1:]]
    assert said[0].startswith('[error] there is no entry "x1"; nothing was changed.')
    assert '"by hand"' in said[0]
    assert said[1].startswith("[error] there is no entry")
    assert said[2].startswith("Deleted entry ")
    assert said[3].startswith('[error] there is no entry "by hand"')
    assert said[4].startswith("[error] the text has 5,000 characters")
    assert said[5].startswith("Kept as entry ")
    assert [e.text for e in Memory(tmp_path).entries()] == ["# one ## two"]


@pytest.mark.parametrize(
    "secret",
    [
        "the key is sk-ant-api03-abcdefghijklmnop",
        "password: hunter2hunter2",
        "AKIAABCDEFGHIJKLMNOP",
        "deploy with VALUE-OF-THE-VARIABLE",
    ],
)
async def test_what_looks_like_a_secret_is_not_remembered(
    tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the values of variables whose names say so."""
    monkeypatch.setenv("DEPLOY_TOKEN", "VALUE-OF-THE-VARIABLE")
    played = Played(
        main=[call("remember", text=secret), call("remember", text="keys are in the vault")]
    )
    await played.go(tmp_path)
    refused, kept = (results(r)[-1] for r in played.requests[1:])
    assert refused.startswith("[error] the text looks as if it held a secret")
    assert kept.startswith("Kept as entry ")
    assert [e.text for e in Memory(tmp_path).entries()] == ["keys are in the vault"]


async def test_m4_with_memory_off_there_are_no_tools_and_nothing_is_shown_or_written(
    tmp_path: Path,
) -> None:
    """M4: also for a definition that asks for it."""
    file = given(tmp_path, "- MARK <!-- a1 2026-01-01 -->\n")
    own = given(tmp_path, "- OWN-MARK <!-- a1 2026-01-01 -->\n", "memory/keeper.md")
    define(tmp_path, "keeper", "memory: agent")
    before = {p: p.read_bytes() for p in (file, own)}
    played = Played(
        main=[call("remember", text="x"), call("task", prompt="y", subagent_type="keeper")],
        keeper=[call("forget", entry="a1")],
    )
    await played.go(tmp_path, memory=False)
    assert {r.agent_type for r in played.requests} == {"main", "keeper"}
    for request in played.requests:
        assert memory_tools(request) == []
        assert b"MARK" not in request.body
        assert len(request.system) == 1
    assert results(played.of("main")[1])[0].startswith("[error] no tool 'remember'")
    assert {p: p.read_bytes() for p in before} == before
    assert not (tmp_path / ".outrider/runs/memory.lock").exists()


async def test_children_have_the_memory_that_their_definition_names(tmp_path: Path) -> None:
    given(tmp_path, "- PROJECT-MARK <!-- a1 2026-01-01 -->\n")
    given(tmp_path, "- AGENT-MARK <!-- a1 2026-01-01 -->\n", "memory/own.md")
    define(tmp_path, "own", "memory: agent\ntools: [read_file]")
    define(tmp_path, "claudes", "memory: user")
    define(tmp_path, "shared", "memory: project\ndisallowed_tools: [forget]")
    define(tmp_path, "none", "memory: none")
    define(tmp_path, "open", "tools: [read_file, remember]")
    kinds = ("own", "claudes", "shared", "none", "open")
    write = [call("remember", text="from a child")]
    played = Played(
        main=[call("task", prompt="x", subagent_type=kind) for kind in kinds],
        **dict.fromkeys(kinds, write),
    )
    report = await played.go(tmp_path)
    assert report.status == "finished"
    seen = {kind: played.of(kind)[0] for kind in kinds}
    marks = {kind: (b"PROJECT-MARK" in r.body, b"AGENT-MARK" in r.body) for kind, r in seen.items()}
    assert marks == {
        "own": (False, True),
        "claudes": (False, False),
        "shared": (True, False),
        "none": (False, False),
        "open": (False, False),
    }
    assert {kind: memory_tools(r) for kind, r in seen.items()} == {
        "own": TOOLS,
        "claudes": TOOLS,
        "shared": ["remember", "update_memory"],
        "none": [],
        "open": [],
    }
    assert [t["name"] for t in seen["own"].tools] == ["read_file", *TOOLS]
    texts = {
        agent: [e.text for e in Memory(tmp_path, agent).entries()]
        for agent in (None, "own", "claudes", "none", "open")
    }
    assert texts == {
        None: ["PROJECT-MARK", "from a child"],
        "own": ["AGENT-MARK", "from a child"],
        "claudes": ["from a child"],
        "none": [],
        "open": [],
    }
    written = events(tmp_path, report, "memory_written")
    assert [(e["agent_type"], e["path"]) for e in written] == [
        ("own", ".outrider/memory/own.md"),
        ("claudes", ".outrider/memory/claudes.md"),
        ("shared", ".outrider/MEMORY.md"),
    ]


async def test_m1_an_agent_that_starts_later_in_the_session_is_shown_the_same(
    tmp_path: Path,
) -> None:
    """What was written meanwhile comes with the next session, for every agent."""
    given(tmp_path, "- old <!-- a1 2026-01-01 -->\n")
    define(tmp_path, "shared", "memory: project")
    played = Played(
        main=[call("remember", text="new"), call("task", prompt="x", subagent_type="shared")]
    )
    await played.go(tmp_path)
    main, child = played.of("main")[0], played.of("shared")[0]
    text = main.system[1]["text"]
    assert "- old" in text
    assert child.system[1]["text"] == text


async def test_m1_a_run_that_is_resumed_is_shown_what_it_began_with(tmp_path: Path) -> None:
    """Also after it has written itself; what it had written is not written again."""
    file = given(tmp_path, "- old <!-- a1 2026-01-01 -->\n")
    played = Played(main=[call("remember", text="new"), call("remember", text="newer")])
    await stopped(tmp_path, played, Stop("memory_written"))
    file.write_text(file.read_text() + "- by hand\n")
    report = await resume("r", model=ScriptedModel(played), root=tmp_path)
    assert report.status == "finished"
    assert len(played.requests) >= 3
    assert len({json.dumps(r.system) for r in played.requests}) == 1
    texts = [entry.text for entry in Memory(tmp_path).entries()]
    assert texts == ["old", "new", "by hand", "newer"]


async def test_a_child_has_no_memory_tool_that_its_parent_lacks(tmp_path: Path) -> None:
    """P6."""
    define(tmp_path, "keeper", "memory: agent")
    played = Played(main=[call("task", prompt="x", subagent_type="keeper")])
    await played.go(tmp_path, permissions=Permissions(deny=("forget",)))
    assert memory_tools(played.of("main")[0]) == ["remember", "update_memory"]
    assert memory_tools(played.of("keeper")[0]) == ["remember", "update_memory"]


async def test_m3_agents_of_two_runs_at_once_lose_nothing(tmp_path: Path) -> None:
    async def session(name: str) -> None:
        calls = [call("remember", text=f"{name} {n}") for n in range(12)]
        model = ScriptedModel(lambda request: "done" if results(request) else calls)
        await run("x", model=model, root=tmp_path)

    async with anyio.create_task_group() as group:
        group.start_soon(session, "one")
        group.start_soon(session, "two")
    texts = sorted(e.text for e in Memory(tmp_path).entries())
    assert texts == sorted(f"{name} {n}" for name in ("one", "two") for n in range(12))


async def test_no_file_tool_reads_or_writes_the_memory(tmp_path: Path) -> None:
    """L8, M2: entries are changed one by one, never the file as a whole."""
    file = given(tmp_path, "- MARK\n")
    path = ".outrider/MEMORY.md"
    played = Played(
        main=[
            call("read_file", path=path),
            call("write_file", path=path, content="x"),
            call("edit_file", path=path, old_string="MARK", new_string="x"),
            call("delete_file", path=path),
        ]
    )
    await played.go(tmp_path)
    assert len(played.answers) == 4
    refused = ("[error] .outrider/MEMORY.md: ", "[denied by ")
    assert all(answer.startswith(refused) for answer in played.answers)
    assert file.read_text() == "- MARK\n"
