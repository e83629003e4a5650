"""The figures of docs/pipeline.md are those of the policy and of the worked example."""

from __future__ import annotations

import re

import pytest

from orchestrator import Context
from orchestrator.context import policy, window_for
from tests.test_context_worked_examples import STORY, SUMMARY, WINDOW, played
from tests.test_docs import ROOT

PAGE = (ROOT / "docs/pipeline.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    table = PAGE.split(f"| {head} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("row", rows("W"), ids=lambda row: row[0])
def test_the_lines_in_a_window_are_those_of_the_policy(row: list[str]) -> None:
    working, *said = map(number, row)
    reserve = policy.reserve_within(working)
    at = policy.lines(Context(), working, reserve)
    assert said == [at.offload, at.compact, at.exhausted]


def test_the_levels_and_the_settings_are_those_of_the_policy() -> None:
    assert [row[0] for row in rows("level")] == ["normal", "offload", "compact", "exhausted"]
    assert policy.OFFLOAD_SHARE == 0.75
    assert (policy.HEADROOM_MIN_TOKENS, policy.HEADROOM_MAX_TOKENS) == (10_000, 40_000)
    assert policy.WORKING_WINDOW_TOKENS == 200_000 <= window_for("claude-sonnet-5-5").input_cap
    assert Context().offload_at == 5_000


def test_the_worked_example_adds_up_and_is_played() -> None:
    said = [(number(row[1]), number(row[2])) for row in rows("what came")]
    assert [tokens for tokens, _ in said[2:]] == [tokens for _, _, tokens in STORY]
    total = 0
    for tokens, context in said:
        total += tokens
        assert context == total
    session = played(Context(window=WINDOW, compact_at=0.92, offload_at=None))
    assert f"a summary of {SUMMARY} tokens" in PAGE
    bold = re.search(r"\*\*([\d,]+)\*\*", PAGE)
    assert bold is not None
    assert number(bold[1]) == session.tokens
    assert [name for (name, _, _) in STORY[-2:]] == session.parts[-2:]
