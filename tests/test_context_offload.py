"""Placeholders: bounded, telling, and not taken for what they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context import offload
from orchestrator.messages import assistant, tool_result, user
from tests.histories import stacked

PATH = ".outrider/runs/20261130-142501-a1b2c3/agents/explorer-0123456789/results/0001-grep.txt"


@given(st.text(max_size=8_000), st.sampled_from(["read_file", "bash", "grep"]), st.booleans())
def test_o2_a_placeholder_is_at_most_900_characters_whatever_the_text(
    text: str, reader: str, old: bool
) -> None:
    """O2"""
    make = offload.old_placeholder if old else offload.placeholder
    stub = make(PATH, text, reader)
    assert len(stub) <= 900
    first, *_, last = stub.split("\n")
    assert first == (
        f"[offloaded {PATH} · {len(text):,} characters, {offload.line_count(text):,} lines"
        " · preview, not the whole]"
    )
    assert reader in last
    assert PATH in last


def test_o2_it_shows_both_ends_and_the_call_that_reads_it_back() -> None:
    """O2"""
    stub = offload.placeholder(PATH, "first words\n" + "x" * 9_000 + "\nlast words\n", "read_file")
    assert "begins: first words" in stub
    assert "last words" in stub.split("ends: ")[1]
    assert stub.endswith(f'Read it: read_file(path="{PATH}")')


def test_an_old_result_keeps_the_facts_in_it_by_name() -> None:
    text = "noise " * 200 + "order PROJ-4711 at src/queue.py:88 " + "noise " * 200
    assert "names: PROJ-4711, src/queue.py:88" in offload.old_placeholder(PATH, text, "read_file")


@pytest.mark.parametrize(("size", "over"), [(5_000, False), (5_001, True)])
def test_o1_the_limit_is_exact(size: int, over: bool) -> None:
    """O1"""
    assert offload.is_over("x" * size, 5_000) is over
    assert not offload.is_over("x" * size, None)
    assert not offload.is_over([{"type": "text", "text": "x" * size}], 5_000)


def test_o9_text_that_looks_like_a_placeholder_is_content_like_any_other() -> None:
    """O9: what is moved is decided by size and place, never by how a text begins."""
    fake = offload.placeholder(PATH, "x", "read_file") + "y" * 2_000
    use = {"type": "tool_use", "id": "a", "name": "grep", "input": {}}
    turns = [assistant(use), user(tool_result("a", fake))]
    entries = stacked([user("go"), *turns, *turns])
    assert [part.text for part in offload.old_parts(entries, keep_turns=1)] == [fake]


def test_o7_a_placeholder_is_never_moved_again() -> None:
    """O7"""
    stub = offload.placeholder(PATH, "x" * 90_000, "read_file")
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
