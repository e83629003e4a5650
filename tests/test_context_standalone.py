"""The pipeline on its own: pure functions on lists of messages, and the examples that use them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import context as ctx
from orchestrator.context import Compact, Context, Full, Offload
from orchestrator.messages import Message, assistant, tool_result, user
from tests.histories import conversations, orphans

MODEL = "some-local-model"


@settings(max_examples=50, deadline=None)
@given(conversations(max_turns=30), st.integers(2_000, 32_000), st.integers(1, 8))
def test_c3_c4_whatever_is_decided_and_applied_the_messages_stay_valid_and_nothing_is_lost(
    messages: list[Message], window: int, keep_turns: int
) -> None:
    """C3, C4, O3: stored and archived contents are whole; the loop ends."""
    before = copy.deepcopy(messages)
    limits = Context(window=window, keep_turns=keep_turns)
    current: list[Any] = list(messages)
    stored: list[str] = []
    archived: list[Any] = []
    for _ in range(20):
        step = ctx.decide(current, limits, model=MODEL)
        if isinstance(step, Offload):
            assert step.parts
            stored += [part.text for part in step.parts]
            paths = [f"results/{len(stored)}-{n}" for n in range(len(step.parts))]
            smaller = ctx.offloaded(current, step.parts, paths)
        elif isinstance(step, Compact):
            archived += current[1 : 1 + step.cut.dropped]
            question = ctx.summary_question(current, step.cut, limits)
            assert orphans(question) == []
            smaller = ctx.compacted(current, step.cut, "They talked.", archive="history.md")
        else:
            assert step is None or isinstance(step, Full)
            break
        assert orphans(smaller) == []
        assert len(smaller) <= len(current)
        current = smaller
    else:
        pytest.fail("the pipeline did not come to an end")
    assert messages == before
    assert len(archived) + len(current) - 1 >= len(messages) - 1
    assert current[0]["content"][0] == messages[0]["content"][0]


def test_strings_are_contents_too_and_nothing_is_changed_in_place() -> None:
    messages = [{"role": "user", "content": "hello"}]
    assert ctx.decide(messages, model=MODEL) is None
    cut = ctx.Cut(2)
    longer = [
        *messages,
        {"role": "assistant", "content": "a " * 300},
        {"role": "user", "content": "b"},
    ]
    made = ctx.compacted(longer, cut, "Short.", archive="h.md", known_facts=["PROJ-1"])
    assert messages[0]["content"] == "hello"
    assert made[0]["content"][0]["text"] == "hello"
    assert "PROJ-1" in made[0]["content"][1]["text"]


def test_a_placeholder_names_the_tools_of_the_loop_that_it_is_made_for() -> None:
    """O2"""
    stub = ctx.placeholder("r/1.txt", "x" * 9_000, reader="show", searcher="find")
    assert stub.endswith('Search it with find. Read it: show(path="r/1.txt")')
    assert "Search" not in ctx.placeholder("r/1.txt", "x" * 9_000)


def test_a_summary_that_says_nothing_gives_way_to_one_by_rules() -> None:
    """C10"""
    messages = [user("go"), assistant("I looked at a.py"), user("and b"), assistant("x"), user("y")]
    made = ctx.compacted(messages, ctx.Cut(2), "", archive="h.md")
    assert "I looked at a.py" in made[0]["content"][1]["text"]


def test_an_estimator_that_has_learnt_moves_the_lines() -> None:
    messages = [user("go")]
    for n in range(30):
        use = {"type": "tool_use", "id": f"c{n}", "name": "grep", "input": {}}
        messages += [assistant(use), user(tool_result(f"c{n}", "word " * 200))]
    limits = Context(window=20_000)
    assert ctx.decide(messages, limits, model=MODEL) is None
    dense = ctx.Estimator().learn(1_000, 700)
    assert ctx.decide(messages, limits, model=MODEL, estimator=dense) is not None


def test_the_example_with_an_own_loop_finds_what_its_model_forgot() -> None:
    from examples import own_loop

    assert own_loop.main() == "Read 60 pages; what was lost: PROJ-4711."


def test_the_example_as_a_langgraph_node_does_too() -> None:
    pytest.importorskip("langgraph")
    from examples import langgraph_node

    assert langgraph_node.main() == "Read 60 pages; what was lost: PROJ-4711."
