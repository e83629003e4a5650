"""The context time machine over HTTP: what is rebuilt from the journal is, byte for byte, what the
server received."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Limits, Report, run
from orchestrator.events import Compacted, MessageAdded, Offloaded, Record, TodosWritten
from orchestrator.hindsight import Call, calls_of, difference, opening, pieces_of
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing.standin import Answer, Fault, Server, call, say, serve
from orchestrator.testing.standin.brains import LongHaul, keep_facts, thoughtful
from orchestrator.testing.standin.material import lookup

pytestmark = pytest.mark.asyncio

MODEL = "claude-opus-5"
BINDING = "claude-fable-5-2"  # always thinks
RUN = "r"


def as_sent(body: bytes) -> str:
    """The hash that the server makes of a body: there it streams."""
    return blake2b(body[:-1] + b',"stream":true}', digest_size=16).hexdigest()


def rebuilt(root: Path) -> tuple[list[Record], list[Call]]:
    records = list(read_records(RunDir(root, RUN).journal))
    agents = dict.fromkeys(record.agent_id for record in records)
    return records, [call for agent in agents for call in calls_of(records, agent, RUN)]


def check(server: Server, calls: list[Call]) -> None:
    """Every request that the server received is rebuilt, and nothing else is."""
    rows = [row for row in server.ledger.rows if row.endpoint == "messages"]
    assert [row.error for row in server.ledger.rejected] == []
    assert [c.record for c in calls if not c.is_proven] == []
    assert Counter(as_sent(c.request.body) for c in calls) == Counter(r.body_hash for r in rows)
    by_id = {row.request_id: row.body_hash for row in rows}
    for made in calls:
        if made.fact.request_id is not None:
            assert as_sent(made.request.body) == by_id[made.fact.request_id]
        assert sum(p.tokens for p in pieces_of(made)) == (
            made.reported_tokens or made.state.context_tokens
        )
        sent = sum(len(m["content"]) for m in made.request.messages)
        assert len(pieces_of(made)) == sent + len(made.request.tools) + len(made.request.system)


async def at(server: Server, root: Path, task: str, **options: Any) -> Report:
    options.setdefault("model", MODEL)
    return await run(task, base_url=server.base_url, root=root, run_id=RUN, **options)


async def test_every_request_of_a_long_run_is_rebuilt_byte_for_byte(tmp_path: Path) -> None:
    """Many turns, offload, compactions, a plan that the model and a person edit, retries, cut streams,
    summaries that had to be asked for again, a limit and its hand-back."""

    def scribble() -> str:
        """Write into the plan's file, as a person may at any time."""
        path = RunDir(tmp_path, RUN).todos
        path.write_text(f"{path.read_text()}- [ ] by hand <!-- hand -->\n")
        return "done"

    haul = LongHaul(calls=90, kilobytes=4, todo_every=4)

    def brain(body: Mapping[str, Any]) -> Answer:
        answer = haul(body)
        turns = sum(message["role"] == "assistant" for message in body["messages"])
        return Answer([*answer.content, call("scribble")]) if turns in (5, 11) else answer

    asked = iter(range(100))

    def summarizer(body: Mapping[str, Any]) -> Answer:
        # The first is an error text and refused: it is asked for once more, over a transcript.
        return say("Error: no summary") if next(asked) == 0 else keep_facts(body)

    faults = [Fault("cut"), Fault("overloaded", nth=9), Fault("reset", nth=14),
              Fault("silent_eof", nth=30), Fault("cut", purpose="summary", nth=2)]  # fmt: skip
    async with serve(brain, faults=faults, summarizer=summarizer) as server:
        report = await at(server, tmp_path, haul.task, tools=[lookup, scribble],
                          context=Context(window=20_000), limits=Limits(max_turns=70))  # fmt: skip
        records, calls = rebuilt(tmp_path)
        check(server, calls)
    assert (report.status, report.reason) == ("partial", "limit:max_turns")
    facts = [record.fact for record in records]
    assert sum(isinstance(fact, Compacted) for fact in facts) >= 2
    assert {fact.reason for fact in facts if isinstance(fact, Offloaded)} >= {"line"}
    assert any("by hand" in fact.text for fact in facts if isinstance(fact, TodosWritten))
    purposes = Counter(made.fact.purpose for made in calls)
    assert purposes["summary"] >= 4
    assert purposes["handback"] == 1
    assert sum(len(c.request.system) == 0 for c in calls) >= 1  # a transcript, not the own prefix

    # Everything that ever left a request is told where it went, and what is said is so.
    opened = opening(calls)
    ways: Counter[str] = Counter()
    for before, after in pairwise(opened):
        change = difference(calls, before, after)
        for gone in change.gone:
            ways[gone.how] += 1
            if gone.how in ("offloaded", "compacted"):
                assert gone.where is not None
                assert (tmp_path / gone.where).is_file()
            if gone.how == "offloaded" and gone.piece.kind == "tool_result":
                assert gone.where is not None
                assert (tmp_path / gone.where).read_text() == gone.piece.text
        sizes = [sum(p.tokens for p in side) for side in (change.kept, change.came)]
        assert sum(sizes) == sum(p.tokens for p in pieces_of(after))
    assert ways["offloaded"] >= 5
    assert ways["compacted"] >= 10
    assert ways["replaced"] >= 5
    assert ways["unknown"] == 0


async def test_on_a_model_that_binds_thinking_too(tmp_path: Path) -> None:
    """There the plan becomes history, and thinking leaves with the prefix that it stood on."""
    brain = LongHaul(calls=60, kilobytes=4)

    def planning(body: Mapping[str, Any]) -> Answer:
        answer = brain(body)
        calls = [b for b in answer.content if b["type"] == "tool_use"]
        if not calls:
            return answer
        todo = {"id": "1", "content": f"at {calls[0]['input']}", "status": "in_progress"}
        return Answer([*answer.content, call("write_todos", todos=[todo])])

    async with serve(thoughtful(planning)) as server:
        await at(server, tmp_path, brain.task, model=BINDING, tools=[lookup],
                 context=Context(window=20_000))  # fmt: skip
        records, calls = rebuilt(tmp_path)
        check(server, calls)
    assert any(isinstance(record.fact, Compacted) for record in records)
    opened = opening(calls)
    ways = Counter(
        gone.how
        for before, after in pairwise(opened)
        for gone in difference(calls, before, after).gone
    )
    assert ways["left out"] >= 1
    assert ways["unknown"] == 0


async def test_children_their_repairs_and_questions_after_their_end_too(tmp_path: Path) -> None:
    """A conclusion that does not fit is put right; a finished child is asked, and answers."""
    agents = tmp_path / ".outrider/agents"
    agents.mkdir(parents=True)
    (agents / "counter.md").write_text(
        "---\nname: counter\ndescription: Counts.\nreturns: {type: object, properties: {count: "
        "{type: integer}}, required: [count]}\n---\nCount.\n"
    )

    def brain(body: Mapping[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        if "Count the" in text.split("tool_use")[0] and "Count." in json.dumps(body["system"]):
            return say('{"count": 3}' if "cannot be used" in text else "three, I think")
        if "tool_result" not in text:
            return Answer(
                [call("task", prompt=f"Count the {x}s.", subagent_type="counter") for x in "ab"]
            )
        children = [part.split(" ")[1] for part in text.split("[counter ")[0:]]
        child = text.split("[counter ")[1].split(" ")[0]
        assert children
        if text.count("tool_result") < 3:
            return Answer([call("ask_task", agent_id=child, question="Count the last ones.")])
        return say("All is counted, by two children that were asked again.")

    async with serve(brain) as server:
        report = await at(server, tmp_path, "Have things counted, please.")
        records, calls = rebuilt(tmp_path)
        check(server, calls)
    assert [agent.status for agent in report.agents] == ["finished"] * 3
    assert {made.fact.purpose for made in calls} >= {"agent", "repair"}
    asked = [r for r in records if isinstance(r.fact, MessageAdded) and r.fact.origin == "user"]
    assert len(asked) == 1


async def test_a_plan_that_changes_while_the_model_thinks_does_not_change_what_it_thought_on(
    tmp_path: Path,
) -> None:
    """C16a: a background child ends during a call, and its item of the plan follows it; the thinking of
    that call stays bound to the plan that was sent."""
    ended = asyncio.Event()

    async def brain(body: Mapping[str, Any]) -> Answer:
        if "find it now" in json.dumps(body["messages"][0]):
            return say("Here is what was found, all of it.")
        turns = sum(message["role"] == "assistant" for message in body["messages"])
        if turns == 0:
            todo = {"id": "1", "content": "find", "status": "pending"}
            return Answer([call("write_todos", todos=[todo])])
        if turns == 1:
            return Answer([call("task", prompt="find it now", background=True, todo="1")])
        if turns == 2:
            await ended.wait()
            return Answer([call("lookup", key="a/1")])
        return say("All is done, here is the end of it.")

    def watch(records: Any) -> None:
        texts = [r.fact.text for r in records if isinstance(r.fact, TodosWritten)]
        if any("[x]" in text for text in texts):
            ended.set()

    async with serve(thoughtful(brain)) as server:
        report = await at(server, tmp_path, "x", model=BINDING, tools=[lookup], observers=[watch])
        check(server, rebuilt(tmp_path)[1])
    assert report.status == "finished"
