"""What figures say that nobody said in words: broken caches, silent truncation; and the cost of a turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, ModelFacts, Reply, Request, run
from orchestrator import events as ev
from orchestrator.context import request as request_module
from orchestrator.context import watch
from orchestrator.ledger import Usage
from orchestrator.messages import encode
from orchestrator.state import State, apply
from orchestrator.steps import next_step, request_for
from orchestrator.testing import ScriptedModel, call


def log_of(root: Path, name: str) -> list[dict[str, Any]]:
    (log,) = root.glob(".outrider/runs/*/log.jsonl")
    return [e for e in map(json.loads, log.read_text().splitlines()) if e["event"] == name]


@pytest.mark.parametrize(
    ("cached", "read", "broken"),
    [(10_000, 10_000, False), (10_000, 9_100, False), (10_000, 2_000, True), (300, 0, False)],
)
def test_a_cache_is_broken_when_far_less_is_read_than_was_put_there(
    cached: int, read: int, broken: bool
) -> None:
    assert watch.cache_is_broken(cached, read) is broken


class Billing:
    """A model that bills like a service with a prompt cache that may lose everything."""

    def __init__(self, turns: int, lose_at: int = -1) -> None:
        self.turns = turns
        self.lose_at = lose_at
        self.cached = 0

    def __call__(self, request: Request) -> Reply:
        total = len(request.body) // 4
        number = sum(m["role"] == "assistant" for m in request.messages)
        read = 0 if number == self.lose_at else min(self.cached, total)
        self.cached = total
        usage = Usage(0, 10, read, total - read, total - read)
        if request.purpose == "summary" or number >= self.turns:
            return Reply([{"type": "text", "text": "done"}], "end_turn", usage)
        use = call("page", number=number) | {"id": f"c{number}"}
        return Reply([use], "tool_use", usage)


def page(number: int) -> str:
    """A page."""
    return f"page {number} " + "word " * 700


@pytest.mark.asyncio
async def test_a_cache_that_the_service_lost_is_told_with_figures(tmp_path: Path) -> None:
    model = ScriptedModel(Billing(turns=6, lose_at=3))
    await run("go", model=model, root=tmp_path, tools=[page])
    (broken,) = log_of(tmp_path, "cache_broken")
    assert (broken["cause"], broken["read_tokens"], broken["turn"]) == ("service", 0, 4)
    assert broken["expected_tokens"] > 2_000


@pytest.mark.asyncio
async def test_a_run_whose_prefix_holds_tells_of_no_broken_cache(tmp_path: Path) -> None:
    await run("go", model=ScriptedModel(Billing(turns=12)), root=tmp_path, tools=[page])
    assert log_of(tmp_path, "cache_broken") == []


@pytest.mark.asyncio
async def test_where_the_service_offers_it_it_is_asked_why_a_prefix_was_not_reused(
    tmp_path: Path,
) -> None:
    """The API's diagnostics: each request names the reply before; its word is in the log."""
    asked: list[Any] = []

    def script(request: Request) -> Reply:
        asked.append(json.loads(request.body)["diagnostics"])
        number = len(asked)
        use = call("page", number=number) | {"id": f"c{number}"}
        last = number == 3
        return Reply(
            [{"type": "text", "text": "done"}] if last else [use],
            "end_turn" if last else "tool_use",
            Usage(100, 5),
            message_id=f"msg_{number}",
            cache_miss="messages_changed" if number == 2 else None,
        )

    class Telling(ScriptedModel):
        async def describe(self, name: str) -> ModelFacts:
            return ModelFacts(diagnostics=True)

    await run("go", model=Telling(script), root=tmp_path, tools=[page])
    assert asked == [{"previous_message_id": m} for m in (None, "msg_1", "msg_2")]
    (broken,) = log_of(tmp_path, "cache_broken")
    assert (broken["reason"], broken["turn"]) == ("messages_changed", 2)


@pytest.mark.asyncio
async def test_an_edit_of_the_history_is_named_as_the_cause(tmp_path: Path) -> None:
    """After an offload batch the next request reads less; the log says that we did it."""

    class Forgetting(Billing):
        def __call__(self, request: Request) -> Reply:
            if b"[offloaded .outrider" in request.body:
                self.cached = min(self.cached, 1_500)
            return super().__call__(request)

    model = ScriptedModel(Forgetting(turns=20), window=16_000)
    await run("go", model=model, root=tmp_path, tools=[page])
    causes = [e["cause"] for e in log_of(tmp_path, "cache_broken")]
    assert causes[0] == "offload"


@pytest.mark.asyncio
async def test_e7_a_prompt_that_was_cut_silently_is_noticed_and_made_smaller(
    tmp_path: Path,
) -> None:
    """E7: reported input far below the request before, to which this one only added."""
    limit = 6_000
    sizes: list[int] = []

    def script(request: Request) -> Any:
        total = len(request.body) // 4
        sizes.append(total)
        # The server keeps what fits its real window and drops the oldest half, without a word.
        told = total if total <= limit else limit // 2
        calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        number = max((c["input"]["number"] for c in calls), default=0)
        if number >= 14:
            return Reply([{"type": "text", "text": "done"}], "end_turn", Usage(told, 5))
        use = call("page", number=number + 1) | {"id": f"c{number}"}
        return Reply([use], "tool_use", Usage(told, 5))

    model = ScriptedModel(script, window=32_000)
    report = await run("go", model=model, root=tmp_path, tools=[page])
    assert report.status == "finished"
    corrected = log_of(tmp_path, "window_corrected")
    assert corrected
    assert corrected[0]["source"] == "truncation"
    assert report.agents[0].window_tokens < 32_000
    cut = next(i for i, size in enumerate(sizes) if size > limit)
    # From then on every request fits what the server had taken whole.
    assert all(size <= limit for size in sizes[cut + 1 :])


@pytest.mark.asyncio
async def test_e1_what_one_agent_learnt_serves_the_next_one_of_its_family(tmp_path: Path) -> None:
    """E1: calibrated per family during the run; what was learnt of the very model goes first."""
    ratios = {"claude-opus-5-5": 0.5, "claude-opus-4-6": 0.4, "claude-haiku-5-5": 0.2}
    folder = tmp_path / ".outrider/agents"
    folder.mkdir(parents=True)
    for model in ratios:
        text = f"---\nname: {model}\ndescription: One.\nmodel: {model}\n---\nDo it.\n"
        (folder / f"{model}.md").write_text(text)
    order = ["claude-haiku-5-5", "claude-opus-4-6", "claude-opus-5-5", "claude-haiku-5-5"]
    learnt: list[tuple[str, float | None]] = []

    def script(request: Request) -> Any:
        usage = Usage(round(len(request.body) * ratios[request.model]), 5)
        done = sum(m["role"] == "assistant" for m in request.messages)
        if request.agent_type != "main" or done == len(order):
            return Reply([{"type": "text", "text": "ok"}], "end_turn", usage)
        use = call("task", prompt="x", subagent_type=order[done]) | {"id": f"t{done}"}
        return Reply([use], "tool_use", usage)

    def observe(records: Any) -> None:
        facts = (record.fact for record in records)
        learnt.extend((f.model, f.tokens_per_byte) for f in facts if isinstance(f, ev.AgentStarted))

    scripted = ScriptedModel(script, name="claude-opus-5-5")
    await run("go", model=scripted, root=tmp_path, observers=[observe])
    expected = [("claude-opus-5-5", None), ("claude-haiku-5-5", None), ("claude-opus-4-6", 0.5),
                ("claude-opus-5-5", 0.5), ("claude-haiku-5-5", 0.2)]  # fmt: skip
    assert [name for name, _ in learnt] == [name for name, _ in expected]
    for (_, ratio), (_, right) in zip(learnt, expected, strict=True):
        assert ratio == (None if right is None else pytest.approx(right, rel=0.1))


# ── the cost of a turn ──


class Watched(dict[str, Any]):
    """A block that counts who looks at it."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        Watched.looks += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        Watched.looks += 1
        return super().get(key, default)


def grown(turns: int) -> State:
    """An agent after ``turns`` turns, each block of which is watched."""
    started = ev.AgentStarted(
        agent_id="main",
        definition="test",
        model="scripted",
        window_tokens=100_000_000,
        output_tokens=1_000,
        brief="go",
        policy={"window": None},
    )
    state = apply(State(), started)
    for _ in range(turns):
        state = turn(state)
    messages = tuple(
        type(e)(
            {"role": e.message["role"], "content": [Watched(b) for b in e.message["content"]]},
            e.data,
            e.weight,
            e.turn,
            e.chain,
            e.bound,
        )
        for e in state.messages
    )
    return type(state)(
        **{f: getattr(state, f) for f in state.__dataclass_fields__ if f != "messages"},
        messages=messages,
    )


def turn(state: State) -> State:
    use = {"type": "tool_use", "id": "c", "name": "page", "input": {"number": 1}}
    replied = ev.ModelReplied(model="m", blocks=[use], stop_reason="tool_use", usage=Usage(100, 5))
    state = apply(state, replied)
    return apply(state, ev.ToolReturned(tool="page", tool_use_id="c", index=0, result="r" * 200))


def test_the_work_of_a_turn_does_not_grow_with_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks looked at and bytes encoded for one more turn: the same after 50 turns and 5,000."""
    work = []
    for turns in (50, 5_000):
        state = grown(turns)
        encoded = 0

        def counting(value: object) -> bytes:
            nonlocal encoded
            data = encode(value)
            encoded += len(data)
            return data

        monkeypatch.setattr(request_module, "encode", counting)
        Watched.looks = 0
        assert next_step(state) is not None
        request_for(state, "agent")
        turn(state)
        work.append((Watched.looks, encoded))
    assert work[0] == work[1]
    assert work[0][0] < 40


def test_settings_reach_the_state() -> None:
    assert grown(1).settings == Context()
