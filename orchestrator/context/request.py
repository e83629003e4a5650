"""The one place where a request to a model is put together. Pure.

``[system + tools] [memory] [first request, summary] [history] [to-dos as they are now]``

Breakpoints, four at most: after system and tools, after memory, where the previous request's newest
one was, and at the newest end. The bytes up to a request's last breakpoint (the breakpoints
themselves apart) are a prefix of the next request, unless the history was edited in between: ten
parallel results are more blocks than the service looks back over, so without the third breakpoint
the conversation would never be read from the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.context.history import THINKING, Entry
from orchestrator.messages import Block, Message, encode, text_block, user

_MARK: Block = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True)
class Place:
    """A block in the messages: message number and block number, from 0."""

    message: int
    block: int


def marked_system(system: Sequence[Block]) -> list[Block]:
    """System blocks with their breakpoints: after the first (which covers the tools) and the last."""
    ends = {0, len(system) - 1}
    return [{**b, "cache_control": _MARK} if i in ends else b for i, b in enumerate(system)]


def newest_place(messages: Sequence[Entry]) -> Place | None:
    """The last block that may carry a breakpoint: thinking and empty text may not."""
    for number in range(len(messages) - 1, -1, -1):
        content = messages[number].message["content"]
        for index in range(len(content) - 1, -1, -1):
            block = content[index]
            if block.get("type") not in THINKING and block.get("text") != "":
                return Place(number, index)
    return None


def laid_out(
    messages: Sequence[Entry], places: Sequence[Place | None], tail: str | None
) -> tuple[list[Message], list[bytes]]:
    """The messages as sent, and their bytes: breakpoints at ``places``, ``tail`` as a last user text.

    Only messages that carry a breakpoint or the tail are copied and encoded again.
    """
    touched: dict[int, list[Block]] = {}
    for place in places:
        if place is None or place.message >= len(messages):
            continue
        content = touched.setdefault(
            place.message, list(messages[place.message].message["content"])
        )
        if place.block < len(content):
            content[place.block] = {**content[place.block], "cache_control": _MARK}
    sent = [m.message for m in messages]
    encoded = [m.data for m in messages]
    if tail is not None:
        if not sent or sent[-1]["role"] == "assistant":
            sent.append(user())
            encoded.append(b"")
        last = len(sent) - 1
        touched.setdefault(last, list(sent[last]["content"])).append(text_block(tail))
    for number, content in touched.items():
        sent[number] = {"role": sent[number]["role"], "content": content}
        encoded[number] = encode(sent[number])
    return sent, encoded
