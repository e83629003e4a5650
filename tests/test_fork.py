"""A fork begins at a turn of another run, with files and an account of its own."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from orchestrator import ConfigError, Limits, Request, fork, resume, run
from orchestrator.events import RunForked
from orchestrator.journal import read_records
from orchestrator.messages import text_of
from orchestrator.rundir import RunDir
from orchestrator.state import replay
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio


def tree(folder: Path) -> dict[str, str]:
    """Every file of a run with a digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def page() -> str:
    """A long page."""
    return "line\n" * 3_000 + "the end of the page\n"


class Trunk:
    """Plans and reads a page, hands work to a child, changes the plan, concludes."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            return "the child's finding: " + "detail " * 3_000
        self.requests.append(request)
        if "try again" in text_of(request.messages[-1]["content"]):
            return [call("grep", pattern="the end", path=stored(got[1]), output="content")]
        if got and "the end of the page" in got[-1] and len(got) > 2:
            return f"read back: {got[-1]}"
        plan = [
            {"content": "read", "status": "completed" if len(got) > 2 else "pending", "id": "a"}
        ]
        if not got:
            return [call("write_todos", todos=plan), call("page")]
        if len(got) == 2:
            return [call("task", prompt="look")]
        if len(got) == 3:
            return [call("write_todos", todos=plan)]
        return "the trunk's conclusion"


def stored(placeholder: str) -> str:
    return placeholder.removeprefix("[offloaded ").split(" ")[0]


async def test_a_fork_begins_at_the_end_of_a_turn_and_leaves_the_trunk_unchanged(
    tmp_path: Path,
) -> None:
    script = Trunk()
    model = ScriptedModel(script)
    first = await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    assert first.conclusion == "the trunk's conclusion"
    before = tree(RunDir(tmp_path, "trunk").folder)
    script.requests.clear()
    report = await fork(
        "trunk", 2, "try again", model=model, root=tmp_path, tools=[page], new_id="branch"
    )
    assert report.run_id == "branch"
    assert tree(RunDir(tmp_path, "trunk").folder) == before
    # What the first request of the fork holds: the trunk's history up to turn 2, then the new task.
    (head, *_, last) = script.requests[0].messages
    assert text_of(head["content"]) == "go"
    _, offloaded, returned = results(script.requests[0])
    assert offloaded.startswith("[offloaded .outrider/runs/trunk/agents/main/results/")
    assert returned.startswith("[general ")
    assert "try again" in text_of(last["content"])
    # It reads the trunk's offloaded file.
    assert "the end of the page" in report.conclusion
    # To-dos as they were at that turn.
    assert "- [ ] read" in RunDir(tmp_path, "branch").todos.read_text()
    assert "- [x] read" in RunDir(tmp_path, "trunk").todos.read_text()


async def test_a_fork_has_an_account_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel(Trunk())
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    report = await fork(
        "trunk", 2, "try again", model=model, root=tmp_path, tools=[page], new_id="branch"
    )
    (row,) = report.agents
    assert row.requests == 2, "only its own requests"
    assert row.tool_calls == 1
    forked = [
        r.fact
        for r in read_records(RunDir(tmp_path, "branch").journal)
        if isinstance(r.fact, RunForked)
    ]
    assert [(f.from_run, f.at_turn) for f in forked] == [("trunk", 2)]


async def test_e2_what_the_trunk_was_told_of_its_context_does_not_count_in_a_fork(
    tmp_path: Path,
) -> None:
    """E2: what it learnt of its model's tokens does."""
    model = ScriptedModel(Trunk())
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    await fork("trunk", 2, "try again", model=model, root=tmp_path, tools=[page], new_id="branch")
    facts = [
        r.fact for r in read_records(RunDir(tmp_path, "branch").journal) if r.agent_id == "main"
    ]
    ((at, forked),) = [(i, f) for i, f in enumerate(facts) if isinstance(f, RunForked)]
    trunk = replay([*facts[:at], *forked.events()]).estimator
    assert trunk.reported_tokens is not None
    assert replay(facts[: at + 1]).estimator == trunk.forget_report()
    # Its own first reply is what counts from then on.
    assert replay(facts).estimator.reported_tokens is not None


async def test_a_fork_without_a_task_takes_the_next_turn_again(tmp_path: Path) -> None:
    model = ScriptedModel(Trunk())
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    report = await fork("trunk", 3, model=model, root=tmp_path, tools=[page])
    assert report.conclusion == "the trunk's conclusion"
    with pytest.raises(ConfigError, match="had concluded in turn 4: say what else"):
        await fork("trunk", 4, model=model, root=tmp_path, tools=[page])


@pytest.mark.parametrize(
    ("at", "said"),
    [(0, "turns count from 1"), (5, "cannot be forked at turn 5: it has 4 turns")],
)
async def test_a_turn_that_there_was_not_is_named(tmp_path: Path, at: int, said: str) -> None:
    model = ScriptedModel(Trunk())
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    with pytest.raises(ConfigError, match=said):
        await fork("trunk", at, "more", model=model, root=tmp_path, tools=[page])


async def test_a_child_in_the_background_of_the_trunk_is_said_to_be_missing(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            return "done"
        said = "\n".join(text_of(m["content"]) for m in request.messages if m["role"] == "user")
        if "not here" in said:
            return said
        return "waited" if got else [call("task", prompt="look", background=True)]

    model = ScriptedModel(script)
    await run("go", model=model, root=tmp_path, run_id="trunk")
    report = await fork("trunk", 1, model=model, root=tmp_path)
    assert "Subagents that were in the background there are not here: general-" in report.conclusion


async def test_a_fork_can_be_forked_and_resumed(tmp_path: Path) -> None:
    script = Trunk()
    model = ScriptedModel(script)
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    first = await fork(
        "trunk",
        2,
        "try again",
        model=model,
        root=tmp_path,
        tools=[page],
        new_id="one",
        limits=Limits(max_turns=3),
    )
    assert first.reason == "limit:max_turns", "turns count on from the trunk's"
    more = await resume("one", model=model, root=tmp_path, tools=[page], limits={"max_turns": 20})
    assert "the end of the page" in more.conclusion
    second = await fork("one", 3, model=model, root=tmp_path, tools=[page], new_id="two")
    assert "the end of the page" in second.conclusion


async def test_a_missing_tool_needs_consent(tmp_path: Path) -> None:
    model = ScriptedModel(Trunk())
    await run("go", model=model, root=tmp_path, run_id="trunk", tools=[page])
    with pytest.raises(ConfigError, match="main lacks page"):
        await fork("trunk", 2, "try again", model=model, root=tmp_path, tools=[])
    report = await fork(
        "trunk", 2, "try again", model=model, root=tmp_path, tools=[], accept_changes=True
    )
    assert "the end of the page" in report.conclusion
