"""The checklist of a strict Messages API, line by line, asked with the real SDK over HTTP."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.testing.standin import Server, Settings, call, say, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.judge import judge

OLD = "claude-haiku-4-5"
NEW = "claude-sonnet-5"
TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
SHORT = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def connect(server: Server) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0)


def user(*content: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": content[0] if content == ("",) else list(map(_block, content)),
    }


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(map(_block, content))}


def system(text: str = "Be brief.") -> dict[str, Any]:
    return {"role": "system", "content": text}


def use(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "look", "input": {}, **more}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "seen"}


def marked(text: str, control: dict[str, str] = SHORT) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": control}


def server_use(name: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "x"}}


def _block(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else value


async def ask(client: AsyncAnthropic, betas: str = "", **body: Any) -> Any:
    """One request as the SDK sends it; whatever is no plain argument goes into the body."""
    fields = {"model": NEW, "max_tokens": 100, "messages": [user("hi")], **body}
    head = {"anthropic-beta": betas} if betas else {}
    arguments = {key: fields.pop(key) for key in ("model", "max_tokens", "messages")}
    return await client.messages.create(**arguments, extra_body=fields, extra_headers=head)


def refused(name: str, message: str, status: int = 400, **body: Any) -> Any:
    return pytest.param(body, status, message, id=name.replace(" ", "-"))


PAIR = [user("go"), assistant(use("a"), use("b"))]
MANUAL = {"type": "enabled", "budget_tokens": 1_024}
EXAMPLE = {**TOOL, "input_schema": {"type": "object", "required": ["key"]}}

TYPED = {
    **TOOL,
    "input_schema": {
        "type": "object",
        "properties": {"key": {"type": "string"}},
        "additionalProperties": False,
    },
}

REFUSED = [
    # 3, 4: roles and order
    refused("3 messages are not empty", "messages: at least one message is required", messages=[]),
    refused(
        "4 there are three roles",
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
        messages=[{"role": "tool", "content": "x"}],
    ),
    refused(
        "4 the first message is the user's",
        'messages: first message must use the "user" role',
        messages=[assistant("hello"), user("hi")],
    ),
    refused(
        "4 a system message is not the first",
        "messages.0: a `system` message may not be the first message",
        messages=[system(), user("hi")],
    ),
    refused(
        "4 a system message follows a user turn",
        "messages.2: a `system` message must follow a `user` message",
        messages=[user("hi"), assistant("hello"), system()],
    ),
    refused(
        "4 a system message is last or precedes an assistant turn",
        "messages.1: a `system` message must be last or precede an `assistant` message",
        messages=[user("hi"), system(), user("more")],
    ),
    refused(
        "4 a system message needs a model that supports it",
        "messages.1.role: `system` messages are not supported by claude-haiku-4-5",
        model=OLD,
        messages=[user("hi"), system()],
    ),
    # 5: version 2026-10-21
    *(
        refused(f"5 {name} is gone, even at its default", f"{name}: `{name}` is not", **{name: 1})
        for name in ("temperature", "top_p", "top_k")
    ),
    refused(
        "5 no document in an assistant message",
        "messages.1.content.0: `document` blocks are not allowed in assistant messages",
        messages=[user("hi"), assistant({"type": "document"}), user("more")],
    ),
    refused(
        "5 no citations on the users text",
        "messages.0.content.0.text.citations: citations are not allowed in user messages",
        messages=[user({"type": "text", "text": "hi", "citations": [{"type": "char_location"}]})],
    ),
    # 6 to 9: calls and results
    refused(
        "6 every call is answered in the next message",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        messages=[*PAIR, user(result("a"))],
    ),
    refused(
        "6 a call at the very end is not answered",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, b",
        messages=PAIR,
    ),
    refused(
        "7 a result needs its call in the previous message",
        "messages.2.content.2: unexpected `tool_use_id` found in `tool_result` blocks: c. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
        messages=[*PAIR, user(result("a"), result("b"), result("c"))],
    ),
    refused(
        "7 a result without any call",
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a",
        messages=[user(result("a"))],
    ),
    refused(
        "8 text before the results",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, b",
        messages=[*PAIR, user("here:", result("a"), result("b"))],
    ),
    refused(
        "8 text between the results",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b",
        messages=[*PAIR, user(result("a"), "and", result("b"))],
    ),
    refused(
        "8 text before the results in a merged turn",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, b",
        messages=[*PAIR, user("here:"), user(result("a"), result("b"))],
    ),
    refused(
        "9 call ids are unique",
        "messages.1.content.1: `tool_use` ids must be unique",
        messages=[user("go"), assistant(use("a"), use("a")), user(result("a"))],
    ),
    refused(
        "9 call ids are unique over the whole conversation",
        "messages.3.content.0: `tool_use` ids must be unique",
        messages=[
            user("go"),
            assistant(use("a")),
            user(result("a")),
            assistant(use("a")),
            user(result("a")),
        ],
    ),
    refused(
        "9 one result for each id",
        "messages.2.content.2: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with id: a",
        messages=[*PAIR, user(result("a"), result("b"), result("a"))],
    ),
    refused(
        "9 a calls input is an object",
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        messages=[user("go"), assistant(use("a", input="x")), user(result("a"))],
    ),
    # 10: tools
    *(
        refused(
            f"10 a tools name is {what}",
            "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
            tools=[{**TOOL, "name": name}],
        )
        for what, name in {"plain": "a.b", "not empty": "", "short": "a" * 65}.items()
    ),
    refused("10 names are unique", "tools: Tool names must be unique.", tools=[TOOL, TOOL]),
    refused(
        "10 an input schema is an object",
        "tools.0.custom.input_schema.type: Input should be 'object'",
        tools=[{"name": "look", "input_schema": {"type": "string"}}],
    ),
    refused(
        "10 examples fit the schema",
        "tools.0.custom.input_examples.0: 'key' is a required property",
        tools=[{**EXAMPLE, "input_examples": [{"other": 1}]}],
    ),
    refused(
        "10 a chosen tool is declared",
        "Tool 'other' not found in provided tools",
        tools=[TOOL],
        tool_choice={"type": "tool", "name": "other"},
    ),
    refused(
        "10 the number of tools is limited",
        "tools: 257 tools are available, the limit is 256",
        tools=[{**TOOL, "name": f"look{index}"} for index in range(257)],
    ),
    refused(
        "10 an input schema is needed",
        "tools.0.custom.input_schema: Field required",
        tools=[{"name": "look"}],
    ),
    refused(
        "10 an example is an object",
        "tools.0.custom.input_examples.0: is not of type 'object'",
        tools=[{**EXAMPLE, "input_examples": ["x"]}],
    ),
    refused(
        "10 an example has values of the declared types",
        "tools.0.custom.input_examples.1: 'key' is not of type 'string'",
        tools=[{**TYPED, "input_examples": [{"key": "x"}, {"key": 1}]}],
    ),
    refused(
        "10 an example has no undeclared keys where none are allowed",
        "tools.0.custom.input_examples.0: 'other' was unexpected",
        tools=[{**TYPED, "input_examples": [{"other": "x"}]}],
    ),
    refused(
        "10 a tool choice is of four kinds",
        "tool_choice: Input should be 'auto', 'any', 'tool' or 'none'",
        tools=[TOOL],
        tool_choice={"type": "some"},
    ),
    refused(
        "10 a tool choice needs tools",
        "tool_choice may only be specified while providing tools.",
        tool_choice={"type": "any"},
    ),
    # 11: empty text
    refused(
        "11 no empty text",
        "messages: text content blocks must be non-empty",
        messages=[user("hi"), assistant({"type": "text", "text": ""}), user("more")],
    ),
    refused(
        "11 no text of white space",
        "messages: text content blocks must contain non-whitespace text",
        messages=[user(" \n")],
    ),
    refused(
        "11 no empty text in the system prompt",
        "system: text content blocks must be non-empty",
        system=[{"type": "text", "text": ""}],
    ),
    refused(
        "11 an empty assistant message only at the end",
        "messages.1: all messages must have non-empty content except for the optional final",
        messages=[user("hi"), assistant(), user("more")],
    ),
    # 12: prefill
    refused(
        "12 no prefill from 4.6 on",
        "This model does not support assistant message prefill. The conversation must end with a "
        "user message.",
        messages=[user("hi"), assistant("The answer is")],
    ),
    refused(
        "12 no white space after an older models prefill",
        "messages: final assistant content cannot end with trailing whitespace",
        model=OLD,
        messages=[user("hi"), assistant("The answer is ")],
    ),
    # 13: the thinking parameter
    refused(
        "13 enabled is gone from 4.7 on",
        "thinking.type: `enabled` is not supported by claude-opus-4-7",
        model="claude-opus-4-7",
        max_tokens=2_000,
        thinking=MANUAL,
    ),
    refused(
        "13 adaptive comes after 4.5",
        "thinking.type: `adaptive` is not supported by claude-haiku-4-5",
        model=OLD,
        thinking={"type": "adaptive"},
    ),
    refused(
        "13 disabled is refused by Fable and Mythos",
        "thinking.type: `disabled` is not supported by claude-fable-5-1",
        model="claude-fable-5-1",
        thinking={"type": "disabled"},
    ),
    refused(
        "13 a budget is at least 1024",
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        model=OLD,
        thinking={"type": "enabled", "budget_tokens": 1_000},
    ),
    refused(
        "13 a budget is below max_tokens",
        "`max_tokens` must be greater than `thinking.budget_tokens`",
        model=OLD,
        max_tokens=1_024,
        thinking=MANUAL,
    ),
    refused(
        "13 a forced tool excludes manual thinking",
        "Thinking may not be enabled when tool_choice forces tool use.",
        model=OLD,
        max_tokens=2_000,
        thinking=MANUAL,
        tools=[TOOL],
        tool_choice={"type": "any"},
    ),
    # 14: cache_control
    refused(
        "14 at most four breakpoints",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        messages=[user(*(marked(f"part {index}") for index in range(5)))],
    ),
    refused(
        "14 the automatic breakpoint counts",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        messages=[user(*(marked(f"part {index}") for index in range(4)))],
        cache_control=SHORT,
    ),
    refused(
        "14 no breakpoint on thinking",
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
        messages=[
            user("hi"),
            assistant(
                {"type": "thinking", "thinking": "", "signature": "", "cache_control": SHORT}
            ),
            user("more"),
        ],
    ),
    refused(
        "14 an hour comes before five minutes",
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come",
        system=[marked("Be brief.")],
        messages=[user(marked("hi", HOUR))],
    ),
    refused(
        "14 the automatic breakpoint agrees with the last blocks own",
        "cache_control: the last block already has a cache_control with a different ttl",
        messages=[user(marked("hi", HOUR))],
        cache_control=SHORT,
    ),
    refused(
        "14 a lifetime is five minutes or an hour",
        "messages.0.content.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
        messages=[user(marked("hi", {"type": "ephemeral", "ttl": "2h"}))],
    ),
    refused(
        "14 an automatic hour does not come after five minutes",
        "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'",
        system=[marked("Be brief.")],
        cache_control=HOUR,
    ),
    # 17: a warm-up
    refused(
        "17 a warm up does not stream",
        "0 cannot be combined with `stream`",
        max_tokens=0,
        stream=True,
    ),
    refused(
        "17 a warm up forces no tool",
        "0 cannot be combined with `tool_choice`",
        max_tokens=0,
        tools=[TOOL],
        tool_choice={"type": "any"},
    ),
    refused(
        "17 a warm up has no output format",
        "0 cannot be combined with `output_config.format`",
        max_tokens=0,
        output_config={"format": {"type": "json_schema", "schema": {}}},
    ),
    refused(
        "17 a warm up has no manual thinking",
        "0 cannot be combined with `thinking`",
        model=OLD,
        max_tokens=0,
        thinking=MANUAL,
    ),
    # 18: paused and mixed turns
    refused(
        "18 nothing is added to a paused turn",
        "messages.2: a paused turn must be sent back as it is, with nothing added",
        messages=[user("hi"), assistant(server_use("s")), user("go on")],
    ),
    refused(
        "18 a mixed turn is followed by results only",
        "messages.2: only `tool_result` blocks may follow a turn whose server tool calls are still",
        messages=[user("hi"), assistant(server_use("s"), use("a")), user(result("a"), "go on")],
    ),
    # parameters and shapes
    refused(
        "max_tokens is a number", "max_tokens: Input should be a valid integer", max_tokens="5"
    ),
    refused(
        "max_tokens is not negative", "max_tokens: must be greater than or equal", max_tokens=-1
    ),
    refused(
        "manual thinking has a budget",
        "thinking.enabled.budget_tokens: Field required",
        model=OLD,
        thinking={"type": "enabled"},
    ),
    refused("messages are a list", "messages: Input should be a valid list", messages="hi"),
    refused(
        "content is text or blocks",
        "messages.0.content: Field required",
        messages=[{"role": "user"}],
    ),
    refused(
        "blocks are objects",
        "messages.0.content: Input should be a list of blocks",
        messages=[{"role": "user", "content": ["hi"]}],
    ),
    refused(
        "blocks are of known types",
        "messages.0.content.0: Input tag 'song' found using 'type' does not match any",
        messages=[user({"type": "song"})],
    ),
    refused(
        "calls are the assistants",
        "messages.0.content.0: Input tag 'tool_use' found using 'type' does not match any",
        messages=[user(use("a"))],
    ),
    refused(
        "text blocks have text", "messages: text: Field required", messages=[user({"type": "text"})]
    ),
    refused(
        "call ids are plain",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        messages=[user("go"), assistant(use("a b"))],
    ),
    refused(
        "the system prompt is text",
        "system.0.type: Input should be 'text'",
        system=[{"type": "image"}],
    ),
    refused(
        "a thread is created or continued",
        "thread.type: Input should be 'create' or 'continue'",
        betas="message-threads-2026-08-12",
        thread={"type": "fork"},
    ),
    refused("unknown parameters are refused", "colour: Extra inputs are not permitted", colour=1),
    refused(
        "a beta parameter needs its header",
        "context_management: Extra inputs are not permitted",
        context_management={"edits": []},
    ),
    refused(
        "max_tokens has a cap",
        "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens",
        model=OLD,
        max_tokens=64_001,
        timeout=1,
    ),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("body", "status", "message"), REFUSED)
async def test_a_request_that_breaks_a_rule_is_refused(
    body: dict[str, Any], status: int, message: str
) -> None:
    """Each line of the checklist: the status, the literal message, and a row that says so."""
    body.pop("timeout", None)
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await ask(client.with_options(timeout=30), **body)
        assert caught.value.status_code == status
        assert message in caught.value.message
        assert caught.value.type == "invalid_request_error"
        [row] = server.ledger.rejected
        assert message in (row.error or "")


def accepted(name: str, **body: Any) -> Any:
    return pytest.param(body, id=name.replace(" ", "-"))


FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}

ACCEPTED = [
    accepted("4 neighbours of one role are merged", messages=[user("a"), user("b")]),
    accepted("4 a system message at the end", messages=[user("hi"), system()]),
    accepted(
        "4 a system message after a server tools result",
        messages=[user("hi"), assistant(server_use("s"), FOUND), system()],
    ),
    accepted(
        "4 a system message before an answer",
        messages=[user("hi"), system(), assistant("x"), user("y")],
    ),
    accepted("8 text after the results", messages=[*PAIR, user(result("b"), result("a"), "note")]),
    accepted(
        "8 results in two merged messages", messages=[*PAIR, user(result("a")), user(result("b"))]
    ),
    accepted(
        "11 a result may be empty",
        messages=[
            user("go"),
            assistant(use("a")),
            user({"type": "tool_result", "tool_use_id": "a"}),
        ],
    ),
    accepted("12 an older model is prefilled", model=OLD, messages=[user("hi"), assistant("So")]),
    accepted("13 manual thinking on an older model", model=OLD, max_tokens=2_000, thinking=MANUAL),
    accepted("14 four breakpoints", messages=[user(*(marked(f"{i}") for i in range(4)))]),
    accepted(
        "14 an hour before five minutes", system=[marked("x", HOUR)], messages=[user(marked("y"))]
    ),
    accepted("17 a warm up", max_tokens=0),
    accepted("18 a paused turn as it is", messages=[user("hi"), assistant(server_use("s"))]),
    accepted(
        "18 a mixed turn with results only",
        messages=[user("hi"), assistant(server_use("s"), use("a")), user(result("a"))],
    ),
    accepted(
        "21 a thread is opened", betas="message-threads-2026-08-12", thread={"type": "create"}
    ),
]


@pytest.mark.asyncio
@pytest.mark.parametrize("body", ACCEPTED)
async def test_a_request_within_the_rules_is_answered(body: dict[str, Any]) -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        await ask(client, **body)
        assert not server.ledger.rejected


FIELDS = [
    "cache_control",
    "content",
    "data",
    "id",
    "input",
    "messages",
    "name",
    "role",
    "signature",
    "source",
    "text",
    "thinking",
    "tool_use_id",
    "ttl",
    "type",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
PARAMETERS = [
    "cache_control",
    "compaction",
    "context_management",
    "max_tokens",
    "messages",
    "output_config",
    "stream",
    "system",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
]


@given(st.dictionaries(st.sampled_from(PARAMETERS), json_values), st.booleans())
def test_no_json_makes_the_rules_stumble(body: dict[str, Any], counting: bool) -> None:
    """Whatever is sent gets a verdict: answered or refused, never a crash."""
    whole = {"model": NEW, "max_tokens": 5, "messages": [user("hi")], **body}
    betas = {"anthropic-beta": "compact-x,context-management-x,message-threads-x"}
    verdict = judge(whole, betas, Settings(), counting=counting)
    assert verdict.rejection is not None or verdict.prompt.tokens > 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "The request body is not valid JSON"),
        (b"\xff", "The request body is not valid JSON"),
        (b"[" * 100_000, "The request body is not valid JSON"),
        (b"[]", "Input should be a valid dictionary"),
        (b'{"max_tokens": 5, "messages": []}', "model: Field required"),
        (b'{"max_tokens": 5, "model": "x"}', "messages: Field required"),
        (b'{"messages": [], "model": "x"}', "max_tokens: Field required"),
    ],
    ids=["torn", "no UTF-8", "deep", "a list", "no model", "no messages", "no max_tokens"],
)
async def test_a_body_that_is_no_request_is_refused(data: bytes, message: str) -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError, match=message):
            await client.post("/v1/messages", cast_to=object, content=data)


@pytest.mark.asyncio
async def test_other_routes_are_not_found() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.NotFoundError):
            await client.get("/v1/files", cast_to=object)


@pytest.mark.asyncio
async def test_1_a_key_in_either_form_and_the_version_are_needed() -> None:
    """Bearer (what the SDK sends) or x-api-key; without one 401, without the version 400."""
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        await ask(client)
        request: dict[str, Any] = {"max_tokens": 1, "model": NEW, "messages": [user("hi")]}
        bearer = {"Authorization": anthropic.Omit()}
        await client.messages.create(**request, extra_headers={**bearer, "x-api-key": "key"})
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(**request, extra_headers={"Authorization": "Bearer"})
        with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
            await client.messages.create(**request, extra_headers={"anthropic-version": ""})


@pytest.mark.asyncio
async def test_2_a_body_over_the_limit_is_too_large() -> None:
    """32 MB; the answer comes although the body was not read, and the connection lives on."""
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.ContentTooLargeError, match="request_too_large"):
            await ask(client, messages=[user("x" * 32 * 1024 * 1024)])
        await ask(client)
        assert [row.status for row in server.ledger.rows] == [413, 200]


@pytest.mark.asyncio
async def test_3_there_are_at_most_100_000_messages() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError, match="at most 100000 messages"):
            await ask(client, messages=[{"role": "user", "content": "x"}] * 100_001)


@pytest.mark.asyncio
async def test_6_counting_tokens_applies_the_rules_of_calls_too() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        count: Any = client.messages.count_tokens
        with pytest.raises(anthropic.BadRequestError, match="ids were found without"):
            await count(model=NEW, messages=PAIR)
        counted = await count(model=NEW, messages=[user("hi")])
        answer = await ask(client)
        assert counted.input_tokens == answer.usage.input_tokens


@pytest.mark.asyncio
async def test_10_too_many_tools_have_an_error_code_of_their_own() -> None:
    settings = Settings(tool_limit=0)
    async with serve(lambda _: say("ok"), settings=settings) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, tools=[TOOL])
        assert caught.value.error_code == "available_tools_limit_exceeded"


@pytest.mark.asyncio
async def test_16_a_prompt_over_the_window_is_too_long_by_both_rules() -> None:
    settings = Settings(window=1_000)
    async with serve(lambda _: say("ok"), settings=settings) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, messages=[user("x" * 8_000)])
        tokens = server.ledger.rows[-1].context_tokens
        assert caught.value.message.count(f"prompt is too long: {tokens} tokens > 1000 maximum")


@pytest.mark.asyncio
async def test_16_newer_rule_generation_ends_at_the_window() -> None:
    """Prompt and max_tokens together may exceed it: the answer is cut at the window's end."""
    settings = Settings(window=1_000)
    async with (
        serve(lambda _: say("long " * 1_000), settings=settings) as server,
        connect(server) as client,
    ):
        answer = await ask(client, messages=[user("x" * 3_600)], max_tokens=500)
        assert answer.stop_reason == "model_context_window_exceeded"
        assert answer.usage.input_tokens + answer.usage.output_tokens == 1_000


@pytest.mark.asyncio
async def test_16_older_rule_prompt_and_max_tokens_must_fit_together() -> None:
    settings = Settings(window=1_000, overflow="older")
    async with serve(lambda _: say("ok"), settings=settings) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, messages=[user("x" * 3_600)], max_tokens=500)
        tokens = server.ledger.rows[-1].context_tokens
        assert (
            f"input length and `max_tokens` exceed context limit: {tokens} + 500 > 1000, decrease "
            "input length or `max_tokens` and try again"
        ) in caught.value.message


@pytest.mark.asyncio
async def test_17_a_warm_up_fills_the_cache_and_says_nothing() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        long = [user(marked("word " * 2_000))]
        warm = await ask(client, max_tokens=0, messages=long)
        assert (warm.content, warm.usage.output_tokens) == ([], 0)
        after = await ask(client, messages=long)
        assert after.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens > 0


@pytest.mark.asyncio
async def test_19_a_call_torn_by_max_tokens_is_not_to_be_run() -> None:
    """The reply looks valid but for its stop reason: the input is partial or empty."""
    answer = Answer([call("look", key="k" * 4_000)])
    async with serve(lambda _: answer) as server, connect(server) as client:
        whole = await ask(client, tools=[TOOL])
        assert whole.stop_reason == "max_tokens"
        assert whole.content[0].input == {}
        tools: Any = [TOOL]
        messages: Any = [user("hi")]
        async with client.messages.stream(
            model=NEW, max_tokens=100, messages=messages, tools=tools
        ) as stream:
            torn = await stream.get_final_message()
        assert torn.stop_reason == "max_tokens"
        assert torn.content[0].type == "tool_use"
        assert len(str(torn.content[0].input)) < 500


COMPACT = "compact-2026-09-04"


@pytest.mark.asyncio
async def test_20_a_compaction_is_one_signed_block_that_comes_first() -> None:
    async with serve(lambda _: say("It was about ships.")) as server, connect(server) as client:
        asked = {"type": "summarize"}
        done = await ask(
            client, COMPACT, messages=[user("hi"), assistant("x"), user("y")], compaction=asked
        )
        assert done.stop_reason == "compaction"
        [block] = (part.model_dump() for part in done.content)
        assert (block["type"], block["content"]) == ("compaction", "It was about ships.")
        await ask(client, COMPACT, messages=[assistant(block), user("go on")])
        failed = {**block, "content": None}
        await ask(client, COMPACT, messages=[user("hi", failed)])
        for code, messages in {
            "compaction_block_ambiguous": [assistant(block, block), user("go on")],
            "compaction_block_misplaced": [user("hi", block)],
            "compaction_content_mismatch": [user({**block, "content": "other"}, "hi")],
            "compaction_signature_invalid": [user({**block, "signature": "x"}, "hi")],
            "compaction_tool_changes_mismatch": [user({**block, "tool_changes": [1]}, "hi")],
        }.items():
            with pytest.raises(anthropic.BadRequestError) as caught:
                await ask(client, COMPACT, messages=messages)
            assert caught.value.error_code == code


@pytest.mark.asyncio
async def test_20_a_compaction_can_be_streamed() -> None:
    async with serve(lambda _: say("It was about ships.")) as server, connect(server) as client:
        messages: Any = [user("hi"), assistant("x"), user("y")]
        async with client.beta.messages.stream(
            model=NEW,
            max_tokens=100,
            messages=messages,
            extra_body={"compaction": {"type": "summarize"}},
            betas=["compact-2026-09-04"],
        ) as stream:
            done = await stream.get_final_message()
        assert done.stop_reason == "compaction"
        block = done.content[0].to_dict()
        assert block["content"] == "It was about ships."
        await ask(client, COMPACT, messages=[assistant(block), user("go on")])


@pytest.mark.asyncio
async def test_20_a_compaction_request_excludes_edits_and_open_turns() -> None:
    betas = f"{COMPACT},context-management-2025-06-27"
    async with serve(lambda _: say("x")) as server, connect(server) as client:
        asked = {"type": "summarize"}
        with pytest.raises(anthropic.BadRequestError, match="cannot be combined"):
            await ask(client, betas, compaction=asked, context_management={"edits": []})
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(
                client, betas, compaction=asked, messages=[user("a"), assistant(server_use("s"))]
            )
        assert caught.value.error_code == "compaction_incomplete_turn"
        late = [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]
        with pytest.raises(anthropic.BadRequestError, match="must be the first edit"):
            await ask(client, betas, context_management={"edits": late})
        low = [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}]
        with pytest.raises(anthropic.BadRequestError, match="greater than or equal to 50000"):
            await ask(client, betas, context_management={"edits": low})


@pytest.mark.asyncio
async def test_21_no_thread_is_kept_so_a_client_must_replay() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        thread = {"type": "continue", "previous_message_id": "msg_1"}
        with pytest.raises(anthropic.NotFoundError) as caught:
            await ask(client, "message-threads-2026-08-12", thread=thread)
        assert caught.value.error_code == "thread_not_found"


@pytest.mark.asyncio
async def test_23_errors_carry_their_type_and_a_request_id_in_body_and_header() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await ask(client, messages=[])
        body: Any = caught.value.body
        assert body["type"] == "error"
        assert body["request_id"] == caught.value.request_id == server.ledger.rows[0].request_id


@pytest.mark.asyncio
async def test_unknown_models_are_refused_only_if_the_settings_say_so() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        assert (await ask(client, model="some-local-model")).content[0].text == "ok"
    strict = Settings(unknown_models="reject")
    async with serve(lambda _: say("ok"), settings=strict) as server, connect(server) as client:
        with pytest.raises(anthropic.NotFoundError) as caught:
            await ask(client, model="some-local-model")
        assert caught.value.type == "not_found_error"
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("some-local-model")


@pytest.mark.asyncio
async def test_models_tell_their_limits_and_capabilities() -> None:
    async with serve(lambda _: say("ok")) as server, connect(server) as client:
        model = await client.models.retrieve(OLD)
        assert (model.max_input_tokens, model.max_tokens) == (200_000, 64_000)
        assert model.capabilities is not None
        assert not model.capabilities.thinking.types.adaptive.supported
        names = [entry.id async for entry in client.models.list()]
        assert "claude-fable-5-2" in names


@pytest.mark.asyncio
async def test_smaller_servers_lack_counting_and_the_list_of_models() -> None:
    settings = Settings(count_tokens=False, model_list=False)
    async with serve(lambda _: say("ok"), settings=settings) as server, connect(server) as client:
        messages: Any = [user("hi")]
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.count_tokens(model=NEW, messages=messages)
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve(NEW)


@pytest.mark.asyncio
async def test_calls_stay_within_tool_choice() -> None:
    """The service keeps `none` and `disable_parallel_tool_use`; so does the stand-in."""
    answer = Answer([{"type": "text", "text": "x"}, call("look"), call("look")])
    async with serve(lambda _: answer) as server, connect(server) as client:
        both = await ask(client, tools=[TOOL])
        assert [block.type for block in both.content] == ["text", "tool_use", "tool_use"]
        one = await ask(
            client, tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}
        )
        assert [block.type for block in one.content] == ["text", "tool_use"]
        none = await ask(client, tools=[TOOL], tool_choice={"type": "none"})
        assert ([block.type for block in none.content], none.stop_reason) == (["text"], "end_turn")
