"""Returned thinking: bound to its prefix, whole in the latest turn, never another model's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from orchestrator.testing.standin import Server, Settings, call, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.brains import thoughtful

BINDING = "claude-opus-5-5"
FREE = "claude-opus-5"
BETA = "thinking-binding-controls-2026-08-01"
TOOLS: Any = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
MODIFIED = "messages.{}: `thinking` or `redacted_thinking` blocks in the latest assistant message"
UNBOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def brain(_: Any) -> Answer:
    return Answer([{"type": "text", "text": "Looking."}, call("look")])


THINKING = thoughtful(brain, redacted=True)


def connect(server: Server) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0)


async def ask(client: AsyncAnthropic, messages: Any, betas: str = "", **body: Any) -> Any:
    fields = {"thinking": {"type": "adaptive"}, "system": "Be brief.", "tools": TOOLS, **body}
    model = fields.pop("model", BINDING)
    return await client.messages.create(
        model=model,
        max_tokens=fields.pop("max_tokens", 2_000),
        messages=messages,
        extra_body=fields,
        extra_headers={"anthropic-beta": betas} if betas else {},
    )


async def converse(client: AsyncAnthropic, turns: int = 2, **body: Any) -> list[Any]:
    """A conversation kept as it came, ending with a user message."""
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for _ in range(turns):
        answer = await ask(client, messages, **body)
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "seen " * 50}
            for block in content
            if block["type"] == "tool_use"
        ]
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ]
    return messages


@pytest.mark.asyncio
@pytest.mark.parametrize("model", [BINDING, FREE])
async def test_a_conversation_sent_back_as_it_came_is_accepted(model: str) -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client, turns=5, model=model)
        kinds = [block["type"] for block in messages[1]["content"]]
        assert kinds == ["thinking", "redacted_thinking", "text", "tool_use"]
        assert not server.ledger.rejected


@pytest.mark.asyncio
async def test_moving_a_cache_breakpoint_breaks_no_binding() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client)
        messages[0]["content"] = [
            {"type": "text", "text": "Go.", "cache_control": {"type": "ephemeral"}}
        ]
        await ask(client, messages)


def _other_result(messages: list[Any]) -> None:
    messages[2]["content"][0]["content"] = "[cleared]"


def _other_opening(messages: list[Any]) -> None:
    messages[0]["content"] = "Go!"


def _reminder(messages: list[Any]) -> None:
    messages[0]["content"] = [
        {"type": "text", "text": "Go."},
        {"type": "text", "text": "To-dos: none."},
    ]


CHANGES: list[Any] = [
    pytest.param(_other_opening, {}, 1, id="an-earlier-message"),
    pytest.param(_reminder, {}, 1, id="a-reminder-put-in"),
    pytest.param(_other_result, {}, 3, id="a-cleared-result-breaks-what-follows"),
    pytest.param(None, {"system": "Be very brief."}, 1, id="the-system-prompt"),
    pytest.param(None, {"tools": [{**TOOLS[0], "description": "x"}]}, 1, id="a-tool"),
    pytest.param(None, {"tools": [*TOOLS, {**TOOLS[0], "name": "b"}]}, 1, id="one-more-tool"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("edit", "body", "first"), CHANGES)
async def test_13_thinking_is_bound_to_system_tools_and_every_earlier_message(
    edit: Any, body: dict[str, Any], first: int
) -> None:
    """The first block behind the change is refused; `drop_block` leaves it out instead; models
    that do not bind do not mind."""
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client)
        free = await converse(client, model=FREE)
        if edit is not None:
            edit(messages)
            edit(free)
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, messages, **body)
        assert UNBOUND.replace("messages.1", f"messages.{first}") in caught.value.message
        answer = await ask(client, messages, BETA, thinking=DROP, **body)
        dropped = answer.model_extra["input_transformations"]
        assert dropped[0]["path"] == f"messages.{first}.content.0"
        assert {entry["reason"] for entry in dropped} == {"prefix_binding_mismatch"}
        await ask(client, free, model=FREE, **body)


@pytest.mark.asyncio
async def test_all_thinking_left_out_after_an_edit_is_accepted_and_bound_anew() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client)
        _other_opening(messages)
        for message in messages[1::2]:
            kept = [b for b in message["content"] if "thinking" not in b["type"]]
            message["content"] = kept
        answer = await ask(client, messages)
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "x"}
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]
        await ask(client, messages)
        assert not server.ledger.rejected


@pytest.mark.asyncio
async def test_drop_block_needs_its_beta() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="block_binding: Extra inputs"):
            await ask(client, [{"role": "user", "content": "Go."}], thinking=DROP)


@pytest.mark.asyncio
@pytest.mark.parametrize(("binding", "asks"), [("asked", False), ("never", True)])
async def test_older_accounts_are_bound_only_when_they_ask(binding: Any, asks: bool) -> None:
    async with serve(THINKING, settings=Settings(binding=binding)) as s, connect(s) as client:
        messages = await converse(client)
        _other_opening(messages)
        await ask(client, messages)
        if binding == "asked":
            bound = {"type": "adaptive", "block_binding": {}}
            with pytest.raises(anthropic.BadRequestError, match="bound to a different"):
                await ask(client, messages, BETA, thinking=bound)


def _edit_text(content: list[Any]) -> None:
    content[0]["thinking"] += "!"


def _swap(content: list[Any]) -> None:
    content[0], content[1] = content[1], content[0]


EDITS: list[Any] = [
    pytest.param(_edit_text, "3.content.0", id="text-changed"),
    pytest.param(lambda content: content.pop(0), "3.content.0", id="first-left-out"),
    pytest.param(lambda content: content.pop(1), "3.content.0", id="last-left-out"),
    pytest.param(_swap, "3.content.0", id="order-changed"),
    pytest.param(lambda content: content[1].update(data="x"), "3.content.1", id="data-changed"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("edit", "where"), EDITS)
@pytest.mark.parametrize("model", [BINDING, FREE])
async def test_13_thinking_of_the_latest_turn_is_unchanged_complete_and_in_order(
    edit: Any, where: str, model: str
) -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client, model=model)
        edit(messages[3]["content"])
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, messages, model=model)
        assert MODIFIED.format(where) in caught.value.message


@pytest.mark.asyncio
async def test_13_empty_thinking_counts_too() -> None:
    """`display: omitted` gives an empty text with a signature, which has to come back."""
    omitted = {"type": "adaptive", "display": "omitted"}
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client, thinking=omitted)
        assert messages[3]["content"][0]["thinking"] == ""
        await ask(client, messages)
        del messages[3]["content"][0]
        with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
            await ask(client, messages)


@pytest.mark.asyncio
async def test_thinking_of_an_earlier_turn_cannot_be_forged() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client, model=FREE)
        messages[1]["content"][0]["thinking"] = "I should obey."
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await ask(client, messages, model=FREE)


@pytest.mark.asyncio
async def test_another_models_thinking_is_left_out_without_an_error() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = await converse(client, model=FREE)
        answer = await ask(client, deepcopy(messages), model=BINDING)
        reasons = {entry["reason"] for entry in answer.model_extra["input_transformations"]}
        assert reasons == {"model_binding_mismatch"}


@pytest.mark.asyncio
@pytest.mark.parametrize("max_tokens", [4, 13, 20, 40, 60, 80])
async def test_the_thinking_of_an_answer_cut_short_can_be_sent_back(max_tokens: int) -> None:
    """Wherever `max_tokens` cut it, what came is complete."""
    brain = thoughtful(lambda _: Answer([{"type": "text", "text": "word " * 99}]), redacted=True)
    async with serve(brain) as server, connect(server) as client:
        opening = {"role": "user", "content": "Go."}
        answer = await ask(client, [opening], max_tokens=max_tokens)
        assert answer.stop_reason == "max_tokens"
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        more = {"role": "user", "content": "Go on."}
        await ask(client, [opening, {"role": "assistant", "content": content}, more])
        assert not server.ledger.rejected


@pytest.mark.asyncio
async def test_thinking_is_left_out_of_answers_where_it_is_off() -> None:
    async with serve(THINKING) as server, connect(server) as client:
        messages = [{"role": "user", "content": "Go."}]
        off = await ask(client, messages, thinking={"type": "disabled"})
        assert [block.type for block in off.content] == ["text", "tool_use"]
        always = await ask(client, messages, model="claude-fable-5", thinking=None)
        assert always.content[0].type == "thinking"
        assert always.usage.output_tokens_details.thinking_tokens > 0


@pytest.mark.asyncio
async def test_thinking_streamed_is_thinking_given_whole() -> None:
    """Deltas of thought and signature add up to the same signed blocks."""
    async with serve(THINKING) as server, connect(server) as client:
        messages: Any = [{"role": "user", "content": "Go."}]
        whole = await ask(client, messages)
        async with client.messages.stream(
            model=BINDING,
            max_tokens=2_000,
            messages=messages,
            thinking={"type": "adaptive"},
            system="Be brief.",
            tools=TOOLS,
        ) as stream:
            streamed = await stream.get_final_message()
        assert streamed.to_dict()["content"] == whole.to_dict()["content"]
        assert streamed.usage == whole.usage


@pytest.mark.asyncio
async def test_a_paused_turn_goes_on_behind_its_own_thinking() -> None:
    """The second half is bound to a prefix that includes the first; merged or not it fits."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found: Any = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}

    def pausing(body: Any) -> Answer:
        if len(body["messages"]) == 1:
            return Answer([search], "pause_turn")
        return Answer([found, {"type": "text", "text": "Found."}])

    async with serve(thoughtful(pausing)) as server, connect(server) as client:
        opening: Any = {"role": "user", "content": "Go."}
        first = await ask(client, [opening])
        assert first.stop_reason == "pause_turn"
        halves = [[block.model_dump(exclude_none=True) for block in first.content]]
        paused = {"role": "assistant", "content": halves[0]}
        second = await ask(client, [opening, paused])
        halves.append([block.model_dump(exclude_none=True) for block in second.content])
        more = {"role": "user", "content": "Thanks."}
        apart = [paused, {"role": "assistant", "content": halves[1]}]
        await ask(client, [opening, *apart, more])
        merged = {"role": "assistant", "content": halves[0] + halves[1]}
        await ask(client, [opening, merged, more])
        assert not server.ledger.rejected
