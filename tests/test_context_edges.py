"""Edges of the pipeline that went wrong once: tiny windows, paused turns, follow-ups, dense text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Request, run
from orchestrator import events as ev
from orchestrator.context import compaction
from orchestrator.context.room import Compact
from orchestrator.ledger import Usage
from orchestrator.messages import Block, Message, assistant, text_block, user
from orchestrator.rundir import RunDir
from orchestrator.state import State, apply
from orchestrator.steps import CallModel, End, next_step, request_for, transcript_request
from orchestrator.testing import ScriptedModel, call, results
from tests.histories import stacked

USE: Block = {"type": "tool_use", "id": "a", "name": "grep", "input": {"q": "x"}}


def started(brief: str, window: int, *, binds: bool = False, **settings: Any) -> State:
    return apply(
        State(),
        ev.AgentStarted(
            agent_id="main",
            definition="test",
            model="m",
            window_tokens=window,
            output_tokens=8_000,
            brief=brief,
            reader="read_file",
            binds_thinking=binds,
            policy=settings,
        ),
    )


def reply(*said: str | Block, stop: str | None = None) -> ev.ModelReplied:
    blocks = [text_block(b) if isinstance(b, str) else b for b in said]
    calls = any(b["type"] == "tool_use" for b in blocks)
    stop = stop or ("tool_use" if calls else "end_turn")
    return ev.ModelReplied(
        model="m", blocks=blocks, stop_reason=stop, usage=Usage(100, 1), context_tokens=100
    )


RESULT = ev.ToolReturned(tool="grep", tool_use_id="a", index=0, result="r")


def turns(state: State, count: int) -> State:
    for _ in range(count):
        state = apply(apply(state, reply(USE)), RESULT)
    return state


def bare(messages: list[Message]) -> list[Any]:
    return [
        (m["role"], [{k: v for k, v in b.items() if k != "cache_control"} for b in m["content"]])
        for m in messages
    ]


@pytest.mark.parametrize("window", [512, 700, 1_023, 2_000])
def test_e3_in_a_tiny_window_input_and_reserve_fit_or_the_agent_ends(window: int) -> None:
    """E3"""
    for chars in range(100, 8_000, 300):
        state = started("x" * chars, window)
        fits = state.context_tokens + state.output_tokens <= window
        assert fits or isinstance(next_step(state), End)


def test_c16a_nothing_comes_between_the_halves_of_a_paused_turn() -> None:
    """C16a: a plan that changes meanwhile is shown after it."""
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    state = started("go", 32_000, binds=True)
    state = apply(state, reply(thought, "searching", stop="pause_turn"))
    state = apply(state, ev.TodosWritten(text="- [ ] a person's item\n", done=0, total=1))
    sent = request_for(state, "agent")
    state = apply(apply(state, reply(thought, USE)), RESULT)
    now = request_for(state, "agent")
    assert bare(list(now.messages[:2])) == bare(list(sent.messages))
    assert now.messages[2]["role"] == "assistant"
    assert "a person's item" in json.dumps(now.messages[-1])


def test_c3_what_joined_the_first_request_stays_there_through_compactions() -> None:
    """C3, C7: a follow-up before the first reply is neither lost nor doubled."""
    state = started("go", 32_000)
    follow_up = "FIRST FOLLOW-UP: never touch a/b.py"
    state = apply(state, ev.MessageAdded(text=follow_up, origin="user"))
    for round_ in range(3):
        state = turns(state, 3)
        state = apply(apply(state, reply("answer")), ev.MessageAdded(text="NEXT", origin="user"))
        fact = ev.Compacted(
            trigger="manual",
            before_tokens=0,
            after_tokens=0,
            messages=4,
            calls=0,
            fallback=False,
            archive="h",
            summary=f"summary {round_}",
        )
        state = apply(state, fact)
        text = json.dumps([e.message for e in state.messages])
        assert text.count(follow_up) == 1
        assert [n for n in range(3) if f"summary {n}" in text] == [round_]
        assert text.startswith('[{"role": "user", "content": [{"type": "text", "text": "go"}')


@pytest.mark.parametrize("unit", ["word ", "敏捷的棕色狐狸"])
def test_c9_the_summary_call_over_a_transcript_fits_also_at_three_bytes_a_token(unit: str) -> None:
    """C9"""
    window = 16_000
    text = unit * (6_000 // len(unit))
    big = [m for _ in range(12) for m in (assistant(text), user(text))]
    request = transcript_request(started("go", window), stacked(big), "", model=None)
    assert len(request.body) / 3 + request.max_tokens <= window


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        ("input length and `max_tokens` exceed context limit: 195000 + 8000 > 200000", 5_000),
        ("the sum of input and output tokens is over the limit of the context window", 4_000),
    ],
)
def test_e7_input_and_output_together_over_the_window_lower_the_output_first(
    error: str, asked: int
) -> None:
    """E7: also where the window is the one that we knew; afterwards as much as before is asked for."""
    state = started("x" * 600_000, 200_000)
    assert request_for(state, "agent").max_tokens == 8_000
    state = apply(state, ev.ModelFailed(model="m", kind="overflow", status=400, message=error))
    assert next_step(state) == CallModel()
    assert request_for(state, "agent").max_tokens == asked
    state = apply(apply(state, reply(USE)), RESULT)
    assert request_for(state, "agent").max_tokens == 8_000


@pytest.mark.parametrize("kind", ["overflow", "bad_request", "timeout"])
def test_e2_a_call_that_was_given_up_makes_the_last_report_stale(kind: str) -> None:
    """E2: the factor that was learnt stays. A try that is repeated sends the same context once more, for
    which the report still counts."""
    state = turns(started("go", 200_000), 3)
    known = state.estimator
    assert known.reported_tokens is not None
    failed = ev.ModelFailed(model="m", kind=kind, status=400, message="no")
    repeated = apply(state, failed.model_copy(update={"retry_in_ms": 10}))
    assert repeated.estimator == known
    given_up = apply(state, failed).estimator
    assert given_up == known.forget_report()
    assert given_up.tokens_per_byte == known.tokens_per_byte


def test_c4_a_cut_leaves_the_halves_of_a_paused_turn_together() -> None:
    """C4: the result of a call that the service ran is in the second half."""
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    state = turns(started("go", 32_000, keep_turns=1), 5)
    state = apply(state, reply("searching", server, stop="pause_turn"))
    state = apply(apply(state, reply(found, "found", USE)), RESULT)
    cut = compaction.plan(state.messages[1:], 1, 10**9)
    assert cut is not None
    kept = json.dumps([e.message for e in state.messages[1:][cut.dropped :]])
    assert "server_tool_use" in kept
    assert "web_search_tool_result" in kept


@pytest.mark.parametrize("level", ["normal", "full"])
def test_c19_a_compaction_that_is_asked_for_comes_before_the_next_call_at_any_level(
    level: str,
) -> None:
    """C19: once, whatever it frees; asked for where there is nothing to cut, it changes nothing."""
    state = turns(started("go", 200_000 if level == "normal" else 2_000, keep_turns=2), 6)
    asked = apply(state, ev.Steered(command="compact"))
    step = next_step(asked)
    assert isinstance(step, Compact)
    assert step.trigger == "manual"
    fact = ev.Compacted(
        trigger="manual",
        before_tokens=asked.context_tokens,
        after_tokens=0,
        messages=step.cut.dropped,
        calls=1,
        fallback=False,
        archive="h",
        summary="s",
    )
    done = apply(asked, fact)
    assert not isinstance(next_step(done), Compact)
    early = apply(turns(started("go", 200_000), 1), ev.Steered(command="compact"))
    assert next_step(early) == CallModel()


@pytest.mark.anyio
async def test_c2_an_archive_that_cannot_be_written_drops_nothing_and_is_told(
    tmp_path: Path,
) -> None:
    """C2: the run goes on as far as its window lets it, and ends with its reason."""

    def page(number: int) -> str:
        """Page."""
        return f"page {number} " + "word " * 700

    def script(request: Request) -> Any:
        history = RunDir(tmp_path, request.run_id).agent("main").history
        history.mkdir(parents=True, exist_ok=True)  # a folder where the file should be
        assert len(request.messages) == 1 or "page 1 " in str(request.messages)
        return [call("page", number=len(results(request)) + 1)]

    model = ScriptedModel(script, window=32_000)
    context = Context(offload_at=None)
    report = await run("go", model=model, root=tmp_path, tools=[page], context=context)
    assert (report.status, report.reason) == ("failed", "exhausted")
    log = (tmp_path / report.log).read_text()
    assert log.count('"event":"offload_failed"') == 1
    assert '"tool":"archive"' in log


@pytest.mark.anyio
async def test_o6_an_agent_that_cannot_read_a_file_back_keeps_its_results(tmp_path: Path) -> None:
    """O2, O6: with grep alone a large text would come back larger each time."""
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "g.md").write_text("---\nname: g\ndescription: d\ntools: grep, big\n---\nG\n")

    def big() -> str:
        """Big."""
        return "\n".join(f"line {n} of a long text" for n in range(2_000))

    def script(request: Request) -> Any:
        return str(len(results(request)[0])) if results(request) else [call("big")]

    report = await run("go", model=ScriptedModel(script), root=tmp_path, tools=[big], agent="g")
    assert report.conclusion == str(len(big()))
    assert report.agents[0].offloaded == 0


@pytest.mark.anyio
async def test_o5_many_results_too_small_for_a_file_of_their_own_still_fit(tmp_path: Path) -> None:
    """O5: with the shortest of placeholders."""

    def small(number: int) -> str:
        """Small."""
        return f"{number} " + "w" * 1_400

    def script(request: Request) -> Any:
        assert len(request.body) // 4 + request.max_tokens <= 16_000
        return "seen" if results(request) else [call("small", number=n) for n in range(40)]

    model = ScriptedModel(script, window=16_000)
    report = await run("go", model=model, root=tmp_path, tools=[small])
    assert (report.status, report.conclusion) == ("finished", "seen")
