"""S14: agent descriptions in the main context are bounded in sum; full text on demand."""

from __future__ import annotations

import pytest

from subagents import (
    Definition,
    DescribeTool,
    Loaded,
    SpawnError,
    estimate,
    is_shortened,
    listing,
)

LONG = "Looks for what is wrong with the build. " * 200
KINDS = {
    "builder": Definition(
        *("builder", LONG, "Build."),
        tools=("Read", "Bash(make:*)"),
        model=("other", "Haiku"),
        max_turns=5,
        can_spawn=("a", "b"),
        todos=False,
        returns={"ok": "boolean"},
    ),
    "plain": Definition("plain", "Plain.", "x"),
}


def tool(definitions: Loaded) -> DescribeTool:
    return DescribeTool(
        definitions,
        lambda d: ("read_file", "bash(make:*)") if d.name == "builder" else ("ls", "read_file"),
        lambda d: d.model_for("big", {"haiku": "small"}),
    )


def test_a_listing_without_room_is_shortened_and_says_so() -> None:
    """S14: whether `describe_subagent` is worth its place."""
    assert is_shortened(KINDS)
    assert is_shortened(Loaded(KINDS))
    assert "shortened" in listing(KINDS)
    assert not is_shortened({"plain": KINDS["plain"]})
    assert not is_shortened({})
    exactly = estimate(listing({"plain": KINDS["plain"]}))
    assert not is_shortened({"plain": KINDS["plain"]}, exactly)
    assert is_shortened({"plain": KINDS["plain"]}, exactly - 1)


@pytest.mark.anyio
async def test_the_full_text_of_a_kind_is_to_be_had() -> None:
    """S14: description, model, the tools that it really gets (S10), and its limits."""
    text = await tool(Loaded(KINDS)).describe_subagent("Builder")
    assert text.splitlines() == [
        "builder",
        LONG,
        "model: small",
        "tools: read_file, bash(make:*)",
        "max_turns: 5",
        "can_spawn: a, b",
        "returns: {'ok': 'boolean'}",
    ]
    plain = await tool(Loaded(KINDS)).describe_subagent(" plain ")
    assert plain == "plain\nPlain.\nmodel: big\ntools: ls, read_file"


@pytest.mark.anyio
async def test_an_unknown_kind_lists_the_valid_names() -> None:
    """S9."""
    with pytest.raises(SpawnError, match="there are: builder, plain"):
        await tool(Loaded(KINDS)).describe_subagent("nobody")
