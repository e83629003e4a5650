"""A reply from the events of its stream: no network, no SDK."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.claude.faults import Target
from orchestrator.claude.fold import ReplyFold
from orchestrator.claude.sse import EventDecoder
from orchestrator.errors import (
    ContextOverflow,
    InvalidReply,
    ModelError,
    Overloaded,
    RateLimited,
    ServerFailed,
    StreamCut,
)
from orchestrator.ledger import Usage
from orchestrator.messages import Block
from orchestrator.model import Reply

Event = dict[str, Any]
TARGET = Target("http://server", "m")


def begin(**usage: Any) -> Event:
    return {"type": "message_start", "message": {"model": "m-1", "content": [], "usage": usage}}


def start(index: int, block: Block) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **what: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **what}}


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def end(reason: str = "end_turn", **usage: Any) -> tuple[Event, Event]:
    return (
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    )


def fold(*events: Event) -> Reply:
    folded = ReplyFold(TARGET, "req_1")
    for event in events:
        folded.feed(event)
    return folded.finish()


def text(index: int, *pieces: str) -> tuple[Event, ...]:
    return (
        start(index, {"type": "text", "text": ""}),
        *(delta(index, "text_delta", text=piece) for piece in pieces),
        stop(index),
    )


# -- blocks


def test_text_is_joined_and_the_reply_names_model_request_and_reason() -> None:
    reply = fold(begin(input_tokens=3), *text(0, "Hel", "lo"), *end(output_tokens=2))
    assert reply == Reply(
        content=[{"type": "text", "text": "Hello"}],
        stop_reason="end_turn",
        usage=Usage(input_tokens=3, output_tokens=2),
        model="m-1",
        request_id="req_1",
    )


def test_thinking_keeps_its_signature_also_where_its_text_is_empty() -> None:
    reply = fold(
        begin(),
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", thinking="Let me "),
        delta(0, "thinking_delta", thinking="see."),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        start(1, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(1, "signature_delta", signature="ZW1wdHk="),
        stop(1),
        start(2, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
        stop(2),
        *end(),
    )
    assert reply.content == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "ZW1wdHk="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
    ]


def test_a_tool_call_s_input_is_joined_and_parsed_once_whole() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    reply = fold(
        begin(),
        start(0, call),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        delta(0, "input_json_delta", partial_json='.py"}'),
        stop(0),
        *end("tool_use"),
    )
    assert reply.content == [{**call, "input": {"path": "a.py"}}]


def test_a_call_without_arguments_has_an_empty_input() -> None:
    for block in ({"type": "tool_use", "input": {}}, {"type": "tool_use"}):
        reply = fold(begin(), start(0, block), stop(0), *end("tool_use"))
        assert reply.content == [{"type": "tool_use", "input": {}}]


def test_llama_cpp_closes_all_blocks_at_the_end_and_starts_calls_without_input() -> None:
    reply = fold(
        begin(input_tokens=10),
        start(0, {"type": "text", "text": ""}),
        delta(0, "text_delta", text="I look."),
        start(1, {"type": "tool_use", "id": "a", "name": "ls"}),
        delta(1, "input_json_delta", partial_json='{"path":"."}'),
        start(2, {"type": "tool_use", "id": "b", "name": "ls"}),
        delta(2, "input_json_delta", partial_json="{}"),
        stop(0),
        stop(1),
        stop(2),
        *end("tool_use", output_tokens=9),
    )
    assert reply.content == [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"path": "."}},
        {"type": "tool_use", "id": "b", "name": "ls", "input": {}},
    ]
    assert reply.usage == Usage(input_tokens=10, output_tokens=9)


def test_deltas_of_open_blocks_may_interleave() -> None:
    reply = fold(
        begin(),
        start(0, {"type": "text", "text": ""}),
        start(1, {"type": "text", "text": ""}),
        delta(1, "text_delta", text="b1"),
        delta(0, "text_delta", text="a1"),
        delta(1, "text_delta", text="b2"),
        *end(),
    )
    assert [block["text"] for block in reply.content] == ["a1", "b1b2"]


def test_a_server_that_numbers_every_block_0_loses_none() -> None:
    reply = fold(begin(), *text(0, "one"), *text(0, "two"), *end())
    assert [block["text"] for block in reply.content] == ["one", "two"]


def test_citations_are_collected_in_order() -> None:
    reply = fold(
        begin(),
        start(0, {"type": "text", "text": "", "citations": None}),
        delta(0, "text_delta", text="as said"),
        delta(0, "citations_delta", citation={"n": 1}),
        delta(0, "citations_delta", citation={"n": 2}),
        *end(),
    )
    assert reply.content == [{"type": "text", "text": "as said", "citations": [{"n": 1}, {"n": 2}]}]


def test_blocks_of_server_tools_and_of_unknown_types_come_through_unchanged() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}
    novel = {"type": "new_block", "payload": {"deep": [1, None]}, "text": ""}
    reply = fold(
        begin(),
        start(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        start(1, result),
        start(2, novel),
        *end(),
    )
    assert reply.content[0]["input"] == {"query": "x"}
    assert reply.content[1:] == [result, novel]


def test_deltas_of_unknown_types_join_text_and_keep_the_rest() -> None:
    reply = fold(
        begin(),
        start(0, {"type": "compaction", "content": None}),
        delta(0, "compaction_delta", content="sum"),
        delta(0, "compaction_delta", content="mary", signature="s", parts=[1]),
        *end("compaction"),
    )
    assert reply.content == [
        {"type": "compaction", "content": "summary", "signature": "s", "parts": [1]}
    ]


def test_empty_text_blocks_are_left_out_and_blank_ones_kept() -> None:
    reply = fold(begin(), *text(0), *text(1, " "), *text(2, ""), *end())
    assert reply.content == [{"type": "text", "text": " "}]


@given(st.lists(st.text(st.characters(codec=None), min_size=1)))
def test_any_text_in_any_pieces_survives_lone_surrogates_included(pieces: list[str]) -> None:
    reply = fold(begin(), *text(0, *pieces), *end())
    whole = "".join(pieces)
    assert reply.content == ([{"type": "text", "text": whole}] if whole else [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.integers(1, 9))
def test_any_input_in_any_pieces_is_parsed_to_what_it_was(value: Event, size: int) -> None:
    encoded = json.dumps(value)
    pieces = [encoded[at : at + size] for at in range(0, len(encoded), size)]
    reply = fold(
        begin(),
        start(0, {"type": "tool_use"}),
        *(delta(0, "input_json_delta", partial_json=piece) for piece in pieces),
        *end("tool_use"),
    )
    assert reply.content[0]["input"] == value


# -- ends and figures


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_a_call_cut_short_by_the_limit_has_an_empty_input(reason: str) -> None:
    reply = fold(
        begin(),
        start(0, {"type": "tool_use", "name": "write"}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        *end(reason),
    )
    assert reply.content == [{"type": "tool_use", "name": "write", "input": {}}]
    assert reply.stop_reason == reason


@pytest.mark.parametrize("partial", ['{"a"', "[1]", '"text"', '{"n": NaN}', "[" * 100_000])
def test_a_whole_call_whose_input_is_no_json_object_is_an_invalid_reply(partial: str) -> None:
    with pytest.raises(InvalidReply, match="the input of a call of write is not a JSON object"):
        fold(
            begin(),
            start(0, {"type": "tool_use", "name": "write"}),
            delta(0, "input_json_delta", partial_json=partial),
            *end("tool_use"),
        )


def test_later_figures_replace_earlier_ones_unless_they_are_null() -> None:
    reply = fold(
        begin(input_tokens=10, cache_read_input_tokens=90, output_tokens=1),
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4}},
        *end(input_tokens=12, cache_read_input_tokens=None, output_tokens=8),
    )
    assert reply.usage == Usage(input_tokens=12, cache_read_input_tokens=90, output_tokens=8)


def test_cache_writes_are_told_apart_by_their_lifetime() -> None:
    by_age = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}
    reply = fold(begin(cache_creation_input_tokens=7, cache_creation=by_age), *end())
    assert reply.usage is not None
    assert reply.usage.ephemeral_5m_input_tokens == 3
    assert reply.usage.ephemeral_1h_input_tokens == 4


def test_unknown_stop_reasons_pass_through() -> None:
    assert fold(begin(), *end("a_new_reason")).stop_reason == "a_new_reason"


def test_a_stop_sequence_that_llama_cpp_calls_end_turn_is_one() -> None:
    hit = {"stop_reason": "end_turn", "stop_sequence": "5"}
    reply = fold(begin(), {"type": "message_delta", "delta": hit}, {"type": "message_stop"})
    assert reply.stop_reason == "stop_sequence"


def test_pings_and_unknown_events_change_nothing() -> None:
    plain = [begin(), *text(0, "a", "b"), *end()]
    noisy = [thing for event in plain for thing in ({"type": "ping"}, event, {"type": "news"})]
    assert fold(*noisy) == fold(*plain)


def test_what_comes_after_the_end_is_ignored() -> None:
    late = {"type": "error", "error": {"type": "api_error", "message": "late"}}
    assert fold(begin(), *text(0, "whole"), *end(), late).content[0]["text"] == "whole"


WHOLE = (begin(input_tokens=5), *text(0, "He", "llo"), *end("tool_use", output_tokens=3))


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_stream_that_stops_after_any_event_but_the_last_is_cut(length: int) -> None:
    """E9: the partial reply is discarded, and what was reported so far is counted."""
    with pytest.raises(StreamCut) as cut:
        fold(*WHOLE[:length])
    assert cut.value.request_id == "req_1"
    reported = None if length == 0 else Usage(5, 3 if length == len(WHOLE) - 1 else 0)
    assert cut.value.usage == reported


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("overloaded_error", "Overloaded", Overloaded),
        ("rate_limit_error", "slow down", RateLimited),
        ("api_error", "Internal server error", ServerFailed),
        ("an_error_to_come", "?", ServerFailed),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextOverflow),
    ],
)
def test_an_error_event_after_200_is_a_typed_error_with_the_usage_so_far(
    kind: str, message: str, expected: type[ModelError]
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": message}}
    with pytest.raises(expected) as failed:
        fold(begin(input_tokens=7), *text(0, "par"), error)
    assert type(failed.value) is expected
    assert failed.value.usage == Usage(input_tokens=7)
    assert failed.value.request_id == "req_1"


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "message_start"},
        {"type": "message_start", "message": None},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": [], "content_block": {}},
        delta(3, "text_delta", text="to no block"),
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "message_delta"},
        {"type": "message_stop"},
    ],
    ids=json.dumps,
)
def test_an_event_without_what_it_must_hold_is_an_invalid_reply(broken: Event) -> None:
    with pytest.raises(InvalidReply):
        fold(broken, *end())


# -- bytes to events


def decode(*chunks: bytes) -> list[Event]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


STREAM = (
    b": a comment\n\n"
    b'event: ping\ndata: {"type":"ping"}\n\n'
    b'event: a\r\nid: 7\r\ndata: {"type":"a",\r\ndata: "text":"\xe2\x80\xa8 \xc3\xa9"}\r\n\r\n'
    b'data:{"type":"b"}\n\n\n'
)
EVENTS = [{"type": "ping"}, {"type": "a", "text": "\u2028 é"}, {"type": "b"}]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6).map(sorted))
def test_events_do_not_depend_on_how_their_bytes_are_cut(cuts: list[int]) -> None:
    bounds = [0, *cuts, len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(bounds)]
    assert decode(*chunks) == EVENTS


def test_an_event_without_its_closing_line_is_dropped() -> None:
    assert decode(b'data: {"type":"ping"}\n\ndata: {"type":"message_stop"}\n') == [{"type": "ping"}]


def test_an_event_that_says_its_type_only_in_its_name_has_it() -> None:
    assert decode(b'event: error\ndata: {"error":{"message":"x"}}\n\n') == [
        {"type": "error", "error": {"message": "x"}}
    ]


def test_an_error_event_in_plain_text_keeps_its_text() -> None:
    assert decode(b"event: error\ndata: upstream gone\n\n") == [
        {"type": "error", "error": {"message": "upstream gone"}}
    ]


@pytest.mark.parametrize("data", [b"{", b"[DONE]", b"[1]", b"\xff", b"1" * 5_000, b"[" * 100_000])
def test_data_that_is_no_json_object_is_a_json_error(data: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        decode(b"event: a\ndata: " + data + b"\n\n")


@pytest.mark.parametrize(
    ("diagnostics", "told"),
    [
        (
            {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 9}},
            "tools_changed",
        ),
        ({"cache_miss_reason": {"type": "unavailable"}}, None),
        ({"cache_miss_reason": None}, None),
        (None, None),
    ],
)
def test_the_services_diagnosis_of_the_cache_is_kept(diagnostics: Any, told: str | None) -> None:
    started = begin()
    started["message"] |= {"id": "msg_7", "diagnostics": diagnostics}
    reply = fold(started, *end())
    assert (reply.message_id, reply.cache_miss) == ("msg_7", told)
