"""What compaction keeps word for word: requests, facts, and summaries that are worth having."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context import compaction, facts
from orchestrator.messages import Message, assistant, tool_result, user
from tests.histories import IMAGE, conversations, orphans, stacked

NAMED = [
    "https://example.org/a?b=1",
    "src/app/main.py:42",
    "docs/guide.md",
    ".github/workflows/ci.yml",
    ".outrider/runs/r1/agents/main/results/0001-lookup.txt",
    "../shared/notes.md:7",
    "3f2b8c1e-0000-4a11-9c3d-1234567890ab",
    "9f86d081884c7d65",
    "PROJ-1234",
    "order_77x",
    "#4711",
    "$1,250.50",
    "17.5%",
    "2026-11-30",
    "2026年11月30日",
    "v2.14.0",
    "`run_agent`",
    "《合同》",
]


@pytest.mark.parametrize("fact", NAMED)
def test_c7_named_shapes_are_found_wherever_they_stand(fact: str) -> None:
    """C7: ids, paths with lines, amounts, dates, versions, URLs, quoted names."""
    for message in (
        user(f"Please see {fact} now"),
        assistant(f"I found {fact}, as asked."),
        user(tool_result("t", f"line\n{fact}\nline")),
    ):
        assert fact in facts.extract([message])


@pytest.mark.parametrize(
    "rule",
    [
        "Always use tabs in Makefiles.",
        "never touch the vendored code",
        "Please do not commit to main.",
        "总是使用中文回答。",
        "不要修改测试文件。",
    ],
)
def test_c7_a_users_rules_are_kept_as_sentences_and_come_first(rule: str) -> None:
    """C7"""
    found = facts.extract([user(f"The id is PROJ-1. {rule}\nSee a/b.py:3")])
    assert found[0] == rule
    assert "PROJ-1" in found


def test_rules_count_only_from_users() -> None:
    assert facts.extract([assistant("I will always do that.")]) == []


@given(
    st.lists(st.text(min_size=1, max_size=9), unique=True, max_size=150),
    st.lists(st.text(min_size=1, max_size=9), unique=True, max_size=150),
)
def test_c7_what_was_kept_stays_and_what_does_not_fit_is_counted(
    kept: list[str], new: list[str]
) -> None:
    """C7: up to 200 entries."""
    merged, left_out = facts.merge(kept, new)
    assert len(merged) <= 200
    assert {*merged, *left_out} == {*kept, *new}
    assert not {*merged} & {*left_out}
    assert set(kept) <= set(merged)


def test_user_rules_go_before_other_facts_when_there_is_no_room() -> None:
    merged, left_out = facts.merge([f"a/{n}.py" for n in range(200)], ["never push"])
    assert merged[0] == "never push"
    assert left_out == ["a/199.py"]


def test_c7_a_request_over_4000_tokens_keeps_its_ends_and_says_where_it_is() -> None:
    """C7: verbatim up to 4,000 tokens."""
    short = "x" * 16_000
    assert compaction.pinned(short, "history.md") == short
    long = "BEGIN" + "x" * 30_000 + "END"
    kept = compaction.pinned(long, "history.md")
    assert kept.startswith("BEGIN")
    assert kept.endswith("END")
    assert "the whole request is in history.md" in kept
    assert len(kept) < 16_200


@given(conversations())
def test_c9_halves_are_the_whole_and_valid_by_themselves(messages: list[Message]) -> None:
    """C9, C3, C4: dividing a summary loses nothing and orphans nothing."""
    entries = stacked(messages)[1:]
    parts = compaction.halves(entries)
    if parts is None:
        return
    one, other = parts
    assert (*one, *other) == tuple(entries)
    assert one
    assert other
    for part in parts:
        assert orphans([user("x"), *(e.message for e in part)]) == []


def test_c17_a_transcript_names_images_and_does_not_hold_them() -> None:
    """C17"""
    entries = stacked([user("a"), assistant("b"), user(tool_result("t", [IMAGE])), user(IMAGE)])
    assert compaction.has_media(entries)
    assert IMAGE["source"]["data"] not in compaction.transcript(entries, "")
    assert not compaction.has_media(entries[:2])


@pytest.mark.parametrize(
    ("summary", "good"),
    [
        ("Goal: x. Done: y.", True),
        ("", False),
        ("   ", False),
        ("Error: overloaded", False),
        ("[error] nothing", False),
        ("API Error: 529", False),
        ("I cannot help with that", False),
        ("x" * 900, False),
    ],
)
def test_c10_a_summary_must_say_something_and_be_shorter_than_what_it_replaces(
    summary: str, good: bool
) -> None:
    """C10"""
    assert compaction.is_acceptable(summary, 800) is good


def test_a_mechanical_summary_is_bounded_and_takes_in_the_one_before() -> None:
    """C10"""
    turns = [m for n in range(200) for m in (assistant(f"step {n}"), user(f"result {n}"))]
    assert compaction.mechanical(stacked(turns[:4]), "EARLIER").startswith("EARLIER")
    text = compaction.mechanical(stacked(turns), "EARLIER")
    for _ in range(20):
        text = compaction.mechanical(stacked(turns), text)
    assert text.startswith("[earlier lines are in the archive]")
    assert "step 199" in text
    assert len(text.splitlines()) < 70
    assert len(text) < 70 * 330


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("src/app/a.py:12:def f():", "src/app/a.py:12"),
        ("2026-01-27-3f2b8c1e-0000-4a11-9c3d-1234567890ab", "3f2b8c1e-0000-4a11-9c3d-1234567890ab"),
        ("$DIR/data/x.json", "$DIR/data/x.json"),
        ("(...src/app/a.py:12)", "src/app/a.py:12"),
        ("see .9f86d081884c7d65.", "9f86d081884c7d65"),
    ],
)
def test_c7_shapes_inside_words_are_found_too(text: str, fact: str) -> None:
    """C7: as in the output of a search."""
    assert fact in facts.extract_from([text])


def test_c7_facts_in_nested_arguments_are_found() -> None:
    """C7"""
    items = [{"content": "fix src/q.py:88", "status": "pending"}]
    use = {"type": "tool_use", "id": "t", "name": "write_todos", "input": {"todos": items}}
    assert "src/q.py:88" in facts.extract([assistant(use)])


@pytest.mark.parametrize(("window", "most"), [(8_000, 40), (32_000, 80), (200_000, 200)])
def test_c7_fewer_facts_stand_beside_the_summary_of_a_small_window(window: int, most: int) -> None:
    """C7: the others are in a file that is named there."""
    assert facts.most_for(window) == most


@pytest.mark.parametrize("unit", ["x", "a/", "1,", "a.b-", "1.1", "`", "$1", "2026-11-30", "中文"])
def test_extraction_is_linear_in_the_text(unit: str) -> None:
    """A megabyte without a space is looked through in one pass; a quadratic rule would not end."""
    assert facts.extract_from([unit * (1_000_000 // len(unit))]) is not None
