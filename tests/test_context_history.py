"""Histories, cuts and requests: laws over generated conversations."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.context import compaction, history
from orchestrator.context.request import Place, laid_out, marked_system, newest_place
from orchestrator.messages import Block, Message, assistant, encode, text_block, user
from tests.histories import conversations, orphans, stacked


def _bare(message: Message) -> list[Block]:
    """The blocks without breakpoints, which are no part of the prefix."""
    return [{k: v for k, v in b.items() if k != "cache_control"} for b in message["content"]]


@given(conversations())
def test_c4_every_unit_start_is_a_cut_without_orphans(messages: list[Message]) -> None:
    """C4: cut in front of any assistant message, what stays is valid and so is what goes."""
    entries = stacked(messages)
    for start in history.unit_starts(entries):
        kept = [user("first"), *(e.message for e in entries[start:])]
        dropped = [e.message for e in entries[:start]]
        assert orphans(kept) == []
        assert orphans(dropped) == []


@given(conversations(), st.integers(1, 8), st.integers(1, 100_000), st.booleans())
def test_c3_a_planned_cut_takes_each_message_once_and_keeps_the_newest_turn(
    messages: list[Message], keep_turns: int, keep_weight: int, forced: bool
) -> None:
    """C3, C20: dropped and kept together are the history; the tail is bounded in turns."""
    entries = stacked(messages)[1:]
    cut = compaction.plan(entries, keep_turns, keep_weight, 1 if forced else 4)
    if cut is None:
        return
    kept = entries[cut.dropped :]
    assert (*entries[: cut.dropped], *kept) == entries
    turns = len(history.unit_starts(kept))
    assert 1 <= turns <= keep_turns
    assert turns == 1 or sum(e.weight for e in kept) <= keep_weight
    assert orphans([user("first"), *(e.message for e in kept)]) == []


@given(conversations())
def test_entries_hold_the_bytes_and_the_chain_of_what_is_sent(messages: list[Message]) -> None:
    entries = stacked(messages, b"start")
    before = b"start"
    for item in entries:
        assert item.data == encode(item.message)
        assert item.chain == history.link(before, item.data)
        before = item.chain
    assert history.restack(entries, b"start", binding=True) == entries


@given(conversations())
def test_c16a_after_an_edit_no_thinking_with_another_prefix_is_kept(
    messages: list[Message],
) -> None:
    """C16, C16a: on a binding model a message whose prefix changed loses its thinking whole."""
    entries = stacked(messages)
    edited = (history.entry(user("another first"), 0, b""), *entries[1:])
    for item in history.restack(edited, b"", binding=True):
        assert not any(b["type"] == "thinking" for b in item.message["content"])
        assert item.message["content"]
        assert item.data == encode(item.message)
    kept = history.restack(edited, b"", binding=False)
    assert [e.message for e in kept[1:]] == [e.message for e in entries[1:]]


def test_user_messages_in_a_row_become_one() -> None:
    entries = stacked([user("a"), user("b"), assistant("c"), user("d"), user("e")])
    assert [len(e.message["content"]) for e in entries] == [2, 1, 2]


@settings(max_examples=60)
@given(conversations(), st.one_of(st.none(), st.text(min_size=1, max_size=40)))
def test_the_bytes_up_to_the_last_breakpoint_are_a_prefix_of_the_next_request(
    messages: list[Message], tail: str | None
) -> None:
    """The append-only law: request k up to its last breakpoint begins request k+1."""
    previous: Place | None = None
    sent_before: list[Message] = []
    for end in range(1, len(messages) + 1):
        if messages[end - 1]["role"] != "user":
            continue
        entries = stacked(messages[:end])
        newest = newest_place(entries)
        sent, encoded = laid_out(entries, (previous, newest), tail)
        assert encoded == [encode(message) for message in sent]
        if previous is not None:
            block_list = sent_before[previous.message]["content"][: previous.block + 1]
            assert "cache_control" in sent[previous.message]["content"][previous.block]
            for number in range(previous.message):
                assert _bare(sent_before[number]) == _bare(sent[number])
            again = _bare(sent[previous.message])[: previous.block + 1]
            assert [
                {k: v for k, v in b.items() if k != "cache_control"} for b in block_list
            ] == again
        marks = sum("cache_control" in b for m in sent for b in m["content"])
        assert marks <= 2
        previous, sent_before = newest, sent


def test_breakpoints_stand_after_the_system_prompt_and_after_the_memory() -> None:
    marked = marked_system([text_block("prompt"), text_block("memory")])
    assert all("cache_control" in b for b in marked)
    assert marked_system([]) == []


def test_a_breakpoint_never_stands_on_thinking_or_empty_text() -> None:
    thinking: Block = {"type": "thinking", "thinking": "…", "signature": "s"}
    entries = stacked([user("a"), assistant("said", thinking)])
    assert newest_place(entries) == Place(1, 0)
    assert newest_place(stacked([user({"type": "text", "text": ""})])) is None


def test_what_stands_otherwise_than_ours_is_encoded_anew() -> None:
    """Fields in another order, a mark that is there already, an empty block: the bytes say what is sent."""
    marked: Block = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    turned: Message = {"content": [{"type": "text", "text": "a"}], "role": "user"}
    for message in (turned, user(marked), user({})):
        entries = stacked([message])
        for places in ((), (Place(0, 0),), (Place(0, 7),)):
            for tail in (None, "tail"):
                sent, encoded = laid_out(entries, places, tail)
                assert [json.loads(data) for data in encoded] == sent


def test_a_tail_that_utf_8_cannot_hold_leaves_the_bytes_before_it_as_they_are() -> None:
    (entry,) = stacked([user("schön")])
    sent, (data,) = laid_out([entry], (), "\ud800")
    assert [json.loads(data)] == sent
    assert data.startswith(entry.data[:-2])


def test_a_tail_after_an_assistant_message_becomes_a_message_of_its_own() -> None:
    sent, encoded = laid_out(stacked([user("a"), assistant("b")]), (), "tail")
    assert sent[-1] == user("tail")
    assert encoded[-1] == encode(user("tail"))
