"""The token count and the prompt cache: laws on generated prompts, and what the SDK is told."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.testing.standin import Server, Settings, call, say, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.cache import LOOKBACK, Cache, plan
from orchestrator.testing.standin.models import MODELS
from orchestrator.testing.standin.tokens import IMAGE_TOKENS, measure

MODEL = "claude-sonnet-5"
SHORT = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
#: About 1,500 tokens: more than this model's minimum.
LONG = "word " * 1_200


def connect(server: Server) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0)


def block(text: str, control: dict[str, str] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text, **({"cache_control": control} if control else {})}


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


texts = st.text(max_size=30)
blocks = st.builds(block, texts, st.sampled_from([None, None, SHORT, HOUR]))
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, max_size=8),
)
bodies = st.fixed_dictionaries(
    {"messages": st.lists(messages, min_size=1, max_size=6)},
    optional={
        "system": st.lists(blocks, max_size=3),
        "tools": st.lists(st.builds(lambda name: {"name": name}, texts), max_size=3),
    },
)


def bare(value: Any) -> Any:
    if isinstance(value, list):
        return [bare(part) for part in value]
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items() if key != "cache_control"}
    return value


@given(bodies)
def test_tokens_are_a_quarter_of_the_prompts_json_without_cache_marks(body: Any) -> None:
    prompt = {key: bare(body.get(key, [])) for key in ("tools", "system", "messages")}
    size = len(json.dumps(prompt, ensure_ascii=False, separators=(",", ":")).encode())
    assert measure(body).tokens == math.ceil(size / 4)


@given(bodies, st.integers(0, 3_000))
def test_input_read_and_written_always_add_up(body: Any, minimum: int) -> None:
    """Also when every block has been seen, and when some have."""
    prompt = measure(body)
    for known in (set(), set(prompt.hashes), set(prompt.hashes[::3])):
        use = plan(prompt, minimum, known.__contains__)
        assert use.uncached + use.read + use.written_5m + use.written_1h == prompt.tokens
        assert min(use.uncached, use.read, use.written_5m, use.written_1h) >= 0


@given(bodies, blocks)
def test_a_longer_conversation_keeps_the_hashes_of_its_prefix(body: Any, more: Any) -> None:
    longer = {**body, "messages": [*body["messages"], {"role": "user", "content": [more]}]}
    assert measure(longer).hashes[: len(measure(body).hashes)] == measure(body).hashes


def test_a_text_and_its_block_are_the_same_prompt_and_marks_do_not_count() -> None:
    plain = measure({"system": "s", "messages": [{"role": "user", "content": "hi"}]})
    long = measure({"system": [block("s", HOUR)], "messages": [user(block("hi", SHORT))]})
    assert (plain.hashes, plain.tokens) == (long.hashes, long.tokens)


def test_an_image_counts_the_same_whatever_its_size() -> None:
    def tokens(data: str) -> int:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        image = {"type": "image", "source": source}
        result = {"type": "tool_result", "tool_use_id": "a", "content": [image]}
        return measure({"messages": [user(image, result)]}).tokens

    assert tokens("A") == tokens("A" * 100_000)
    assert 2 * IMAGE_TOKENS < tokens("A") < 2 * IMAGE_TOKENS + 100


def test_entries_can_be_read_once_the_answer_begins_and_end_with_their_lifetime() -> None:
    """Five minutes or an hour from the start of the request; every read renews them."""
    now = [1_000.0]
    cache = Cache(lambda: now[0])
    model = MODELS[MODEL]
    prompt = measure({"messages": [user(block(LONG, SHORT))]})
    first, started = cache.plan(prompt, model)
    assert (first.read, first.written_5m > 0) == (0, True)
    assert cache.plan(prompt, model)[0].read == 0  # the first answer has not begun
    cache.begin(first, model, started)
    assert cache.plan(prompt, model)[0].read == first.written
    now[0] += 299
    again, started = cache.plan(prompt, model)
    cache.begin(again, model, started)
    now[0] += 299
    assert cache.plan(prompt, model)[0].read == first.written
    now[0] += 2
    assert cache.plan(prompt, model)[0].read == 0


def test_an_entry_belongs_to_one_model() -> None:
    cache = Cache()
    prompt = measure({"messages": [user(block(LONG, SHORT))]})
    use, started = cache.plan(prompt, MODELS[MODEL])
    cache.begin(use, MODELS[MODEL], started)
    assert cache.plan(prompt, MODELS["claude-sonnet-4-6"])[0].read == 0


@pytest.mark.parametrize(("back", "read"), [(LOOKBACK - 1, True), (LOOKBACK, False)])
def test_a_breakpoint_looks_back_20_positions_its_own_included(back: int, read: bool) -> None:
    old = measure({"messages": [user(block(LONG, SHORT))]})
    parts = [block(f"part {index}") for index in range(back)]
    parts[-1]["cache_control"] = SHORT
    new = measure({"messages": [user(block(LONG), *parts)]})
    assert (plan(new, 0, {old.hashes[0]}.__contains__).read > 0) is read


@pytest.mark.parametrize(
    ("minimum", "models"),
    [
        (512, "opus-5 fable-5 mythos-5"),
        (1_024, "opus-4-8 sonnet-5 sonnet-4-6 sonnet-4-5"),
        (2_048, "opus-4-7 mythos-preview"),
        (4_096, "opus-4-6 opus-4-5 haiku-4-5"),
    ],
)
def test_15_a_prompt_below_the_models_minimum_is_silently_not_cached(
    minimum: int, models: str
) -> None:
    def written(tokens: int, model: str) -> int:
        text = "x" * (tokens * 4 - len(json.dumps(bare(body("")), separators=(",", ":"))) - 32)
        return Cache().plan(measure(body(text)), MODELS[model])[0].written

    def body(text: str) -> Any:
        return {"messages": [user(block(text, SHORT))]}

    for model in models.split():
        assert written(minimum - 16, f"claude-{model}") == 0
        assert written(minimum + 16, f"claude-{model}") >= minimum


@pytest.mark.asyncio
async def test_the_cache_as_the_sdk_sees_it() -> None:
    """Written, read, extended; lifetimes apart; below the minimum silently nothing."""
    async with serve(lambda _: say("ok")) as server, connect(server) as client:

        async def usage(system: Any, *content: Any) -> Any:
            answer: Any = await client.messages.create(
                model=MODEL, max_tokens=50, system=system, messages=[user(*content)]
            )
            return answer.usage

        small = await usage([block("short", SHORT)], block("hi"))
        assert (small.cache_creation_input_tokens, small.cache_read_input_tokens) == (0, 0)
        first = await usage([block(LONG, HOUR)], block("hi"))
        assert first.cache_creation.ephemeral_1h_input_tokens > 1_024
        assert first.cache_creation.ephemeral_5m_input_tokens == 0
        second = await usage([block(LONG, HOUR)], block(LONG, SHORT))
        assert second.cache_read_input_tokens == first.cache_creation_input_tokens
        assert second.cache_creation.ephemeral_5m_input_tokens > 1_024
        assert second.cache_creation.ephemeral_1h_input_tokens == 0
        third = await usage([block("Other. " + LONG, HOUR)], block(LONG, SHORT))
        assert third.cache_read_input_tokens == 0


@pytest.mark.asyncio
async def test_parallel_requests_cannot_read_each_others_unfinished_prefix() -> None:
    """Of two sent together both write; one sent after the first answer has begun reads."""
    import anyio

    async with serve(lambda _: Answer([block("ok")], delay=0.05)) as server, connect(server) as c:

        async def ask() -> None:
            await c.messages.create(model=MODEL, max_tokens=50, messages=[user(block(LONG, SHORT))])

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
        await ask()
        written = [row.cache_creation_input_tokens > 0 for row in server.ledger.rows]
        assert written == [True, True, False]


def history(turns: int, calls: int) -> list[Any]:
    """A conversation with so many parallel calls a turn; 150 tokens in each result."""
    out: list[Any] = [user(block("Do it."))]
    for turn in range(turns):
        names = [f"t{turn}-{index}" for index in range(calls)]
        uses = [{"type": "tool_use", "id": n, "name": "look", "input": {}} for n in names]
        out.append({"role": "assistant", "content": [block("Next."), *uses]})
        results = [{"type": "tool_result", "tool_use_id": n, "content": "x" * 600} for n in names]
        out.append(user(*results))
    return out


def mark(message: Any) -> Any:
    *rest, last = message["content"]
    return {**message, "content": [*rest, {**last, "cache_control": SHORT}]}


@pytest.mark.asyncio
@pytest.mark.parametrize("calls", [1, 10, 30])
async def test_two_breakpoints_read_what_one_sliding_breakpoint_cannot(calls: int) -> None:
    """Ten parallel calls and results are more blocks than the look-back: a single breakpoint at
    the end never reads past the fixed prefix. One more where the last one was reads it all."""
    tools: Any = [{"name": "look", "description": LONG, "input_schema": {"type": "object"}}]
    tools[0]["cache_control"] = SHORT

    async def read(client: AsyncAnthropic, *, marks: int) -> tuple[int, int]:
        before, turns = history(3, calls), history(4, calls)
        old = [*before[:-1], mark(before[-1])]
        new = [*turns[:-1], mark(turns[-1])]
        if marks == 2:
            new[len(before) - 1] = mark(new[len(before) - 1])
        usages = []
        for messages in (old, new):
            answer: Any = await client.messages.create(
                model=MODEL, max_tokens=50, tools=tools, messages=messages
            )
            usages.append(answer.usage)
        prefix = usages[0].cache_creation_input_tokens + usages[0].cache_read_input_tokens
        return usages[1].cache_read_input_tokens, prefix

    async with serve(lambda _: say("ok")) as one, connect(one) as client:
        seen, whole = await read(client, marks=1)
        assert (seen == whole) is (calls == 1)
        assert seen > 1_024
    async with serve(lambda _: say("ok")) as two, connect(two) as client:
        seen, whole = await read(client, marks=2)
        assert seen == whole


@pytest.mark.asyncio
async def test_the_automatic_breakpoint_follows_the_conversation() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:

        async def ask(*texts: str) -> Any:
            content: Any = [user(*map(block, texts))]
            answer = await client.messages.create(
                model=MODEL, max_tokens=50, messages=content, cache_control={"type": "ephemeral"}
            )
            return answer.usage

        first = await ask(LONG)
        second = await ask(LONG, "and more")
        assert second.cache_read_input_tokens == first.cache_creation_input_tokens > 0


@pytest.mark.asyncio
async def test_what_was_told_is_what_the_ledger_holds() -> None:
    """Row by row, streamed or not, the figures of the SDK's usage objects."""
    settings = Settings(agent_of=lambda body: "somebody")
    brain = Answer([block("hello " * 300), call("look", key=LONG)])
    tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
    content: Any = [user(block(LONG, SHORT))]
    async with serve(lambda _: brain, settings=settings) as server, connect(server) as client:
        told: list[Any] = []
        for _ in range(3):
            answer = await client.messages.create(
                model=MODEL, max_tokens=9_000, messages=content, tools=tools
            )
            async with client.messages.stream(
                model=MODEL, max_tokens=9_000, messages=content, tools=tools
            ) as stream:
                told += [answer.usage, (await stream.get_final_message()).usage]
        for row, usage in zip(server.ledger.rows, told, strict=True):
            assert row.input_tokens == usage.input_tokens
            assert row.output_tokens == usage.output_tokens
            assert row.cache_read_input_tokens == usage.cache_read_input_tokens
            assert row.cache_creation_input_tokens == usage.cache_creation_input_tokens
            assert row.ephemeral_5m_input_tokens == usage.cache_creation.ephemeral_5m_input_tokens
            parts = (row.input_tokens, row.cache_read_input_tokens, row.cache_creation_input_tokens)
            assert sum(parts) == row.context_tokens
        totals = server.ledger.totals()
        assert totals["output_tokens"] == sum(usage.output_tokens for usage in told)
        assert server.ledger.by_agent() == {"somebody": totals}
