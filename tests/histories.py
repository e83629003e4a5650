"""Generated conversations for property tests: parallel calls, thinking, images, one huge message."""

from __future__ import annotations

from hypothesis import strategies as st

from orchestrator.context import history
from orchestrator.context.history import Entry
from orchestrator.messages import Block, Message, assistant, text_block, tool_result, user

texts = st.text(
    alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=60
)
IMAGE: Block = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" * 20},
}


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """One turn: an assistant message and, if it called tools, the answers to all its calls."""
    blocks: list[Block] = []
    if draw(st.booleans()):
        blocks.append({"type": "thinking", "thinking": draw(texts), "signature": draw(texts)})
    if draw(st.booleans()):
        blocks.append(text_block(draw(texts)))
    calls = draw(st.integers(0, 4))
    # Ids repeat between turns on purpose: servers and scripts reuse them.
    ids = [f"call_{i}" for i in range(calls)]
    blocks += [
        {"type": "tool_use", "id": i, "name": "grep", "input": {"q": draw(texts)}} for i in ids
    ]
    if not blocks:
        blocks = [text_block("ok")]
    messages = [assistant(*blocks)]
    if calls:
        answers = [tool_result(i, draw(results())) for i in ids]
        messages.append(user(*answers))
    else:
        messages.append(user(draw(texts)))
    return messages


@st.composite
def results(draw: st.DrawFn) -> str | list[Block]:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return [text_block("a picture"), IMAGE]
    if kind == 1:
        return "x" * draw(st.integers(5_000, 60_000))
    return draw(texts)


@st.composite
def conversations(draw: st.DrawFn, max_turns: int = 14) -> list[Message]:
    """A first request and turns, ending with a user message."""
    messages = [user(draw(texts))]
    for turn in draw(st.lists(turns(), min_size=1, max_size=max_turns)):
        messages += turn
    return messages


def stacked(messages: list[Message], start: bytes = b"") -> tuple[Entry, ...]:
    entries: tuple[Entry, ...] = ()
    for number, message in enumerate(messages):
        entries = history.append(entries, start, message, number)
    return entries


def orphans(messages: list[Message]) -> list[str]:
    """Every call without its result right after it, and every result without its call before it."""
    wrong: list[str] = []
    for number, message in enumerate(messages):
        uses = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        following = messages[number + 1]["content"] if number + 1 < len(messages) else []
        answers = [b["tool_use_id"] for b in following if b["type"] == "tool_result"]
        wrong += [f"{number}: {i} unanswered" for i in uses if i not in answers]
        own = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        before = messages[number - 1]["content"] if number else []
        called = [b["id"] for b in before if b["type"] == "tool_use"]
        wrong += [f"{number}: {i} without call" for i in own if i not in called]
    return wrong
