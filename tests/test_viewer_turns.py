"""The turn inspector: all that an agent was sent, from its records alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.errors import Overloaded
from orchestrator.journal import read_records
from orchestrator.messages import text_of
from orchestrator.model import Reply
from orchestrator.rundir import RunDir
from orchestrator.testing import call, results
from orchestrator.viewer import detail, in_full
from tests.viewing import LongRead, record_run, two_children


def told(root: Path, agent_id: str = "main") -> dict[str, Any]:
    records = read_records(RunDir(root, "first").journal, agent=agent_id)
    return detail(records, tell=in_full)


def texts_of(request: Request) -> list[str]:
    """The texts of a request's messages, block by block, as the model was sent them."""
    texts = []
    for message in request.messages:
        for block in message["content"]:
            match block["type"]:
                case "text":
                    texts.append(block["text"])
                case "tool_use":
                    given = json.dumps(block["input"], ensure_ascii=False)
                    texts.append(f"{block['name']}({given})")
                case _:
                    texts.append(text_of(block["content"]))
    return texts


def told_texts(told: dict[str, Any], turn: dict[str, Any]) -> list[str]:
    around = ("tools", "system prompt", "memory and instructions")
    return [
        told["blocks"][number]["text"]
        for name, part in turn["sections"]
        if name not in around
        for number in part
    ]


@pytest.mark.parametrize("settings", [{"offload_at": None}, {"offload_at": 2_000}])
def test_every_turn_tells_exactly_what_the_model_was_sent(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Also over compactions and offloads: the texts, in their order, and nothing else."""
    haul = LongRead()
    report = haul.go(tmp_path, **settings)
    assert report.agents[0].compactions > 0 or report.agents[0].offloaded > 0
    sent = [request for request in haul.requests if request.purpose != "summary"]
    main = told(tmp_path)
    assert len(main["turns"]) == len(sent)
    for turn, request in zip(main["turns"], sent, strict=True):
        assert turn["proven"] is True
        assert turn["proof"].startswith("Equal")
        assert told_texts(main, turn) == texts_of(request)
        parts = dict(turn["sections"])
        names = [main["blocks"][number]["title"] for number in parts["tools"]]
        assert names == [tool["name"] for tool in request.tools]
        assert [main["blocks"][n]["text"] for n in parts["system prompt"]] == [
            block["text"] for block in request.system[:1]
        ]


def test_what_left_says_where_it_went(tmp_path: Path) -> None:
    LongRead().go(tmp_path, offload_at=None)
    main = told(tmp_path)
    left = [where for turn in main["turns"] for _, where in turn["left"]]
    assert any(where.startswith("compaction 1, kept in .outrider/") for where in left)
    assert all(left)


def test_what_is_new_and_what_left_account_for_every_change(tmp_path: Path) -> None:
    LongRead().go(tmp_path, offload_at=None)
    before: set[int] = set()
    for turn in told(tmp_path)["turns"]:
        now = {number for _, part in turn["sections"] for number in part}
        assert (before - {number for number, _ in turn["left"]}) | set(turn["new"]) == now
        before = now


def test_a_plan_that_changed_is_restated(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        done = len(results(request))
        status = ("pending", "completed")
        todos = [{"content": "look", "status": status[min(done, 1)]}]
        return [call("write_todos", todos=todos)] if done < 2 else "done"

    record_run(tmp_path, script)
    turns = told(tmp_path)["turns"]
    assert ["to-dos" in dict(turn["sections"]) for turn in turns] == [False, True, True]
    assert [where.partition(":")[0] for _, where in turns[2]["left"]] == ["replaced"]


def test_a_call_that_is_tried_again_is_one_turn(tmp_path: Path) -> None:
    tries: list[int] = []

    def script(request: Request) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise Overloaded("no room", retry_after=0.01)
        return "done"

    record_run(tmp_path, script)
    (turn,) = told(tmp_path)["turns"]
    assert turn["attempts"] == 2
    assert turn["reply"] != []


def test_a_childs_detail_is_its_own(tmp_path: Path) -> None:
    record_run(tmp_path, two_children)
    records = list(read_records(RunDir(tmp_path, "first").journal))
    child = next(r.agent_id for r in records if r.agent_id.startswith("explorer"))
    found = told(tmp_path, child)
    assert found["brief"] == "as explorer"
    assert found["conclusion"] == "seen it"
    assert "as reviewer" not in json.dumps(found)


def test_lines_and_reported_tokens_stand_beside_the_estimate(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        from orchestrator.ledger import Usage

        return Reply([{"type": "text", "text": "x"}], "end_turn", Usage(500, 1, 200, 50))

    record_run(tmp_path, script)
    (turn,) = told(tmp_path)["turns"]
    assert turn["reported"] == 750
    assert turn["estimate"] > 0
    offload, compact, exhausted, window = turn["lines"]
    assert offload < compact < exhausted < window
