"""Placeholders: bounded, telling, and not taken for what they are not."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context import history, offload
from orchestrator.context.offload import Media, Part
from orchestrator.context.placeholders import (
    ReadBack,
    line_count,
    media_placeholder,
    old_placeholder,
    placeholder,
)
from orchestrator.events import AgentStarted
from orchestrator.messages import Block, assistant, text_block, tool_result, user
from orchestrator.state import State, apply
from tests.histories import stacked
from tests.pictures import document, image, pdf, png

PATH = ".outrider/runs/20261130-142501-a1b2c3/agents/explorer-0123456789/results/0001-grep.txt"


READERS = st.builds(
    ReadBack, st.sampled_from(["read_file", "bash", "fetch_back"]), st.sampled_from(["grep", None])
)
PLAIN = ReadBack("read_file")


@given(st.text(max_size=8_000), READERS, st.booleans())
def test_o2_a_placeholder_is_at_most_900_characters_whatever_the_text(
    text: str, by: ReadBack, old: bool
) -> None:
    """O2"""
    make = old_placeholder if old else placeholder
    stub = make(PATH, text, by)
    assert len(stub) <= 900
    first, *_, last = stub.split("\n")
    assert first == (
        f"[offloaded {PATH} · {len(text):,} characters, {line_count(text):,} lines"
        " · preview, not the whole]"
    )
    assert f"{by.reader}(" in last
    assert PATH in last


def test_o2_it_shows_both_ends_and_the_call_that_reads_it_back() -> None:
    """O2"""
    stub = placeholder(PATH, "first words\n" + "x" * 9_000 + "\nlast words\n", PLAIN)
    assert "begins: first words" in stub
    assert "last words" in stub.split("ends: ")[1]
    assert stub.endswith(f'\nRead it: read_file(path="{PATH}")')


def test_o2_a_tool_that_searches_is_named_first_where_the_agent_has_one() -> None:
    """O2: a search brings back lines, reading brings back pages."""
    stub = placeholder(PATH, "x" * 9_000, ReadBack("read_file", "grep"))
    assert stub.endswith(f'\nSearch it with grep. Read it: read_file(path="{PATH}")')


@pytest.mark.parametrize(
    ("reader", "tools", "by"),
    [
        ("read_file", ["ls", "read_file", "grep"], ReadBack("read_file", "grep")),
        ("read_file", ["ls", "read_file"], ReadBack("read_file")),
        ("bash", ["bash"], ReadBack("bash", "grep")),
        (None, ["grep"], None),
    ],
)
def test_o2_only_tools_that_the_agent_has_are_named(
    reader: str | None, tools: list[str], by: ReadBack | None
) -> None:
    """O2: with nothing to read it back nothing moves out; a shell has a grep of its own."""
    event = AgentStarted(
        agent_id="main",
        definition="test",
        model="m",
        window_tokens=32_000,
        output_tokens=1_000,
        brief="go",
        tools=tools,
        reader=reader,
    )
    assert apply(State(), event).read_back == by


def test_an_old_result_keeps_the_facts_in_it_by_name() -> None:
    text = "noise " * 200 + "order PROJ-4711 at src/queue.py:88 " + "noise " * 200
    assert "names: PROJ-4711, src/queue.py:88" in old_placeholder(PATH, text, PLAIN)


@pytest.mark.parametrize(("size", "over"), [(5_000, False), (5_001, True)])
def test_o1_the_limit_is_exact(size: int, over: bool) -> None:
    """O1"""
    assert offload.is_over("x" * size, 5_000) is over
    assert not offload.is_over("x" * size, None)
    assert not offload.is_over([{"type": "text", "text": "x" * size}], 5_000)


def test_o9_text_that_looks_like_a_placeholder_is_content_like_any_other() -> None:
    """O9: what is moved is decided by size and place, never by how a text begins."""
    fake = placeholder(PATH, "x", PLAIN) + "y" * 2_000
    use = {"type": "tool_use", "id": "a", "name": "grep", "input": {}}
    turns = [assistant(use), user(tool_result("a", fake))]
    entries = stacked([user("go"), *turns, *turns])
    assert [part.text for part in offload.old_parts(entries, keep_turns=1)] == [fake]


def test_o7_a_placeholder_is_never_moved_again() -> None:
    """O7"""
    stub = placeholder(PATH, "x" * 90_000, PLAIN)
    use = {"type": "tool_use", "id": "a", "name": "grep", "input": {"path": stub}}
    entries = stacked([user("go"), *[assistant(use), user(tool_result("a", stub))] * 5])
    assert offload.old_parts(entries, keep_turns=1) == []


def test_the_newest_turns_and_the_first_message_stay() -> None:
    """O8"""
    use = {"type": "tool_use", "id": "a", "name": "grep", "input": {"pattern": "p" * 2_000}}
    turn = [assistant(use), user(tool_result("a", "r" * 2_000))]
    entries = stacked([user("q" * 9_000), *turn * 4])
    parts = offload.old_parts(entries, keep_turns=2)
    assert [(p.entry, p.block, p.key, p.tool) for p in parts] == [
        (1, 0, "pattern", "grep"),
        (2, 0, None, "grep"),
        (3, 0, "pattern", "grep"),
        (4, 0, None, "grep"),
    ]
    assert offload.old_parts(entries, keep_turns=8) == []


# ── images, documents, results that are lists ──

USE: Block = {"type": "tool_use", "id": "a", "name": "shot", "input": {}}
IMAGE = image(png(9, 9))
PDF = document(pdf(2))
LINK: Block = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def where(parts: list[Part]) -> list[tuple[int, int, str | None, str]]:
    return [(p.entry, p.block, p.key, p.tool) for p in parts]


@given(st.text(max_size=300), st.integers(0, 10**8), READERS)
def test_o2_the_placeholder_of_an_image_is_bounded_too(
    media_type: str, size: int, by: ReadBack
) -> None:
    """O2"""
    assert len(media_placeholder(PATH, media_type, size, by)) <= 900


def test_o2_the_placeholder_of_an_image_says_what_and_where_it_is() -> None:
    """O2"""
    part = Part(1, 0, "shot", "a", "", media=Media("image/png", IMAGE["source"]["data"]))
    size = len(png(9, 9))
    assert part.placeholder("r/1.png", ReadBack("read_file", "grep")) == (
        f"[offloaded r/1.png · image/png, {size:,} bytes · not shown]\n"
        'Read it: read_file(path="r/1.png")'
    )
    shell = part.placeholder("r/1.png", ReadBack("bash"))
    assert shell.endswith("bash(command=\"ls -l 'r/1.png'\")")


def test_old_images_documents_and_large_texts_of_lists_move() -> None:
    """O8, O11: what is elsewhere or small stays, and so do a model's own and the first message's."""
    listed = [text_block("small"), IMAGE, text_block("x" * 2_000), LINK, PDF]
    turn = [assistant(USE, IMAGE), user(tool_result("a", listed), "look at this", IMAGE)]
    entries = stacked([user("go", IMAGE), *turn, *turn])
    parts = offload.old_parts(entries, keep_turns=1)
    assert where(parts) == [
        (2, 0, "content.1", "shot"),
        (2, 0, "content.2", "shot"),
        (2, 0, "content.4", "shot"),
        (2, 2, None, "message"),
    ]
    assert [p.data for p in parts] == [png(9, 9), b"x" * 2_000, pdf(2), png(9, 9)]
    assert [p.suffix for p in parts] == [".png", ".txt", ".pdf", ".png"]
    assert not any(p.is_input for p in parts)


def test_an_image_counts_by_its_fixed_estimate() -> None:
    """E1: its base64 says nothing of its tokens."""
    listed = [image(png(padding=200_000)), text_block("x" * 9_000), text_block("y" * 5_000)]
    entries = stacked([user("go"), assistant(USE), user(tool_result("a", listed))])
    assert [p.key for p in offload.largest_parts(entries, 1)] == ["content.1"]
    gains = {p.key: p.gain for p in offload.largest_parts(entries, 10**9)}
    assert gains == {"content.1": 8_550, "content.0": 5_950, "content.2": 4_550}


def test_of_equal_images_the_older_goes_first() -> None:
    """O6: what was just read back is the last to go again."""
    turn = [assistant(USE), user(tool_result("a", [IMAGE]))]
    entries = stacked([user("go"), *turn, *turn, *turn])
    assert [p.entry for p in offload.largest_parts(entries, 6_000)] == [2, 4]


def test_o9_an_argument_named_like_a_place_in_a_list_is_an_argument() -> None:
    """O9, O11"""
    use: Block = {"type": "tool_use", "id": "a", "name": "t", "input": {"content.0": "x" * 2_000}}
    (part,) = offload.largest_parts(stacked([user("go"), assistant(use)]), 1)
    assert part.is_input
    assert offload.moved(use, part.key, "stub")["input"] == {"content.0": "stub"}


contents = st.lists(
    st.sampled_from([IMAGE, PDF, LINK, text_block("small"), text_block("x" * 2_000)]), max_size=8
)


@given(st.lists(contents, min_size=1, max_size=3), contents)
def test_o3_moving_keeps_the_order_of_blocks_and_all_that_is_not_moved(
    results: list[list[Block]], sent: list[Block]
) -> None:
    """O3, O7: each stub stands where its part stood; nothing is left to move; the weight falls by
    about what was promised."""
    answers = [tool_result(f"c{n}", listed) for n, listed in enumerate(results)]
    uses = [{**USE, "id": f"c{n}"} for n in range(len(results))]
    entries = list(stacked([user("go"), assistant(*uses), user(*answers, *sent)]))
    parts = offload.largest_parts(entries, 10**9)
    before = sum(e.weight for e in entries)
    for number, part in enumerate(parts):
        old = entries[part.entry]
        stub = part.placeholder(f"r/{number}", PLAIN)
        block = offload.moved(old.message["content"][part.block], part.key, stub)
        entries[part.entry] = history.with_block(old, part.block, block)
    assert offload.largest_parts(entries, 10**9) == []
    assert before - sum(e.weight for e in entries) >= sum(p.gain for p in parts) - 200 * len(parts)

    left = [*answers, *sent]
    now = entries[2].message["content"]
    stubs: list[str] = []
    for old_block, new_block in zip(left, now, strict=True):
        pairs = (
            zip(old_block["content"], new_block["content"], strict=True)
            if old_block["type"] == "tool_result"
            else [(old_block, new_block)]
        )
        for was, is_now in pairs:
            if was != is_now:
                assert was["type"] != "image" or was is not LINK
                stubs.append(is_now["text"].split(" ")[1])
    assert sorted(stubs) == sorted(f"r/{n}" for n in range(len(parts)))


@given(st.binary(max_size=100))
def test_o3_an_image_is_stored_as_its_bytes(data: bytes) -> None:
    """O3: line breaks in base64 change nothing."""
    assert Media("image/png", base64.encodebytes(data).decode()).data == data


@pytest.mark.parametrize("encoded", ["no base64!", "iVBORw0KGgo=" * 2, "\ud800"])
def test_o3_what_is_no_base64_is_stored_as_it_stands(encoded: str) -> None:
    """O3: nothing is ever lost."""
    part = Part(1, 0, "shot", "a", "", media=Media("image/tiff", encoded))
    assert part.data.decode("utf-8", "surrogatepass") == encoded
    assert part.suffix == ".bin"
