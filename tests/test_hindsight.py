"""`outrider context`: what a model was sent, for people and programs, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Context, Request, run
from orchestrator.events import AgentSpawned, ModelReplied, TodosWritten
from orchestrator.hindsight import calls_of, pieces_of, turns_of
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.model import Reply
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_audit import rewrite
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]
RUN = "first"


def big(number: int) -> str:
    """A large result.

    Args:
        number: Which one.
    """
    return f"result {number}: " + f"\x1b[31mred{number}\x1b[0m " * 700


SENT: list[Request] = []


def script(request: Request) -> Any:
    """A plan, six large results of which old ones move to files, then a child."""
    SENT.append(request)
    if request.agent_type != "main":
        return "The child is done."
    done = len(results(request))
    if done == 0:
        return [call("write_todos", todos=[{"content": "read", "status": "in_progress"}])]
    if done < 14:
        return [call("big", number=done)]
    return [call("task", prompt="look")] if done == 14 else "All done."


@pytest.fixture
def recorded(root: Path) -> Path:
    SENT.clear()

    async def go() -> None:
        await run("Read them all.", model=ScriptedModel(script), root=root, run_id=RUN, tools=[big],
                  context=Context(window=32_000, keep_turns=2, offload_at=20_000))  # fmt: skip

    anyio.run(go)
    return root


def test_the_request_in_json_is_the_one_that_was_sent(cli: Cli, recorded: Path) -> None:
    """Turn by turn; `proven` by the hash that was recorded when it was sent."""
    main = [request for request in SENT if request.agent_type == "main"]
    for turn, request in enumerate(main, 1):
        found = json.loads(cli("context", "latest", "--turn", str(turn), "--json").out)
        assert found["request"] == json.loads(request.body)
        assert (found["proven"], found["bytes"]) == (True, len(request.body))
        assert sum(section["tokens"] for section in found["sections"]) == found["reported_tokens"]
        marks = json.dumps(found["request"]).count("cache_control")
        assert len(found["breakpoints"]) == marks > 0
    names = [section["name"] for section in found["sections"]]
    assert names == ["tools", "system", "request", "history", "todos"]


def test_the_newest_turn_of_the_main_agent_is_shown_unless_asked(cli: Cli, recorded: Path) -> None:
    shown = cli("context", RUN).out
    assert shown.startswith("main · turn 16 · agent · scripted · end_turn\n")
    assert "\nequal, by its hash, to what was sent (" in shown
    assert "\n── todos · message 31 · text · " in shown
    child = cli("context", RUN, "--agent", "general", "--turn", "1").out
    assert "· turn 1 · agent · scripted · end_turn\n" in child
    assert "\nlook\n" in child


def test_what_models_and_tools_wrote_cannot_steer_the_terminal(cli: Cli, recorded: Path) -> None:
    """H1: escape codes are shown as text."""
    shown = cli("context", RUN, "--turn", "4").out
    assert "red2" in shown
    assert "\x1b" not in shown


def test_a_difference_says_where_everything_went(cli: Cli, recorded: Path) -> None:
    """Each placeholder came, and each text that left is in the file that is named."""
    offloaded = 0
    for turn in range(2, 17):
        found = json.loads(cli("context", RUN, "--turn", str(turn), "--diff", "--json").out)
        assert found["diff"]["since_turn"] == turn - 1
        for gone in found["diff"]["left"]:
            if gone["went"]["how"] == "offloaded":
                offloaded += 1
                text = (recorded / gone["went"]["path"]).read_text()
                assert text == gone["text"]
                assert gone["tool"] == "big"
                shown = cli("context", RUN, "--turn", str(turn), "--diff").out
                assert f"\n    → moved to {gone['went']['path']}\n" in shown
            else:
                assert (gone["section"], gone["went"]["how"]) == ("todos", "replaced")
    assert offloaded >= 3
    first = cli("context", RUN, "--turn", "1", "--diff").out
    assert first.endswith("turn 1 is the first: there is none before it\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--turn", "99"), "--turn 99: main has turns 1 to 16"),
        (("--turn", "0"), "--turn 0: main has turns 1 to 16"),
        (
            ("--agent", "nobody"),
            "--agent nobody is no agent of this run; there are: main, general-",
        ),
        (("--agent", ""), "is no agent of this run"),
    ],
)
def test_what_is_not_there_is_exit_code_2(
    cli: Cli, recorded: Path, options: tuple[str, ...], said: str
) -> None:
    ran = cli("context", RUN, *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_request_that_is_not_what_was_sent_is_said_to_be_that(cli: Cli, recorded: Path) -> None:
    """A reply of an earlier turn changed in the journal: the requests after it cannot be equal."""
    place = RunDir(recorded, RUN)
    seqs = [r.seq for r in read_records(place.journal) if isinstance(r.fact, ModelReplied)]
    rewrite(recorded, seqs[2], lambda fact: fact.model_copy(update={"blocks": [
        {"type": "tool_use", "id": "call_5_0", "name": "big", "input": {"number": 99}}]}))  # fmt: skip
    assert "\nNOT equal, by its hash, to what was sent\n" in cli("context", RUN, "--turn", "6").out
    assert json.loads(cli("context", RUN, "--turn", "2", "--json").out)["proven"] is True


def test_without_a_recorded_hash_nothing_is_called_proven(cli: Cli, recorded: Path) -> None:
    """An older journal."""
    place = RunDir(recorded, RUN)
    seqs = [r.seq for r in read_records(place.journal) if isinstance(r.fact, ModelReplied)]
    rewrite(recorded, seqs[2], lambda fact: fact.model_copy(update={"request_hash": None}))
    assert "rebuilt, not proven" in cli("context", RUN, "--turn", "3").out
    found = json.loads(cli("context", RUN, "--turn", "3", "--json").out)
    assert found["proven"] is None


@pytest.mark.anyio
async def test_a_plan_that_changes_while_the_model_answers_was_not_sent(tmp_path: Path) -> None:
    """A background child ends during a call, and the plan follows it: the request had the old plan."""
    ended = anyio.Event()
    sent: list[Request] = []

    async def slow(request: Request) -> Any:
        sent.append(request)
        if request.agent_type != "main":
            return Reply([{"type": "text", "text": "Here is what was found."}], usage=Usage(9, 9))
        if len(results(request)) == 0:
            todo = {"id": "1", "content": "find", "status": "pending"}
            return [call("write_todos", todos=[todo])]
        if len(results(request)) == 1:
            return [call("task", prompt="find", background=True, todo="1")]
        if not ended.is_set():
            await ended.wait()
        return "All is found."

    def watch(records: Any) -> None:
        texts = [r.fact.text for r in records if isinstance(r.fact, TodosWritten)]
        if any("[x]" in text for text in texts):
            ended.set()

    await run("x", model=ScriptedModel(slow), root=tmp_path, run_id=RUN, observers=[watch])
    records = list(read_records(RunDir(tmp_path, RUN).journal))
    assert any(isinstance(record.fact, AgentSpawned) for record in records)
    calls = calls_of(records, "main", RUN)
    assert all(made.is_proven for made in calls)
    bodies = [request.body for request in sent if request.agent_type == "main"]
    assert [made.request.body for made in calls] == bodies
    third = turns_of(calls)[3]
    (todos,) = [piece.text for piece in pieces_of(third) if piece.section == "todos"]
    assert "[x]" not in todos
    assert "[x]" in third.states[0].todos
