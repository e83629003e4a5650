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
from collections.abc import Set as AbstractSet
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

    Only messages that carry a breakpoint or the tail are copied.
    """
    marks: dict[int, set[int]] = {}
    for place in places:
        if place is not None and place.message < len(messages):
            marks.setdefault(place.message, set()).add(place.block)
    sent = [m.message for m in messages]
    encoded = [m.data for m in messages]
    for number, blocks in marks.items():
        sent[number], encoded[number] = _marked(messages[number], blocks)
    if tail is not None:
        if not sent or sent[-1]["role"] == "assistant":
            sent.append(user())
            encoded.append(b"")
        sent[-1], encoded[-1] = _with_tail(sent[-1], encoded[-1], text_block(tail))
    return sent, encoded


_END = b"]}"
_MARK_AT_THE_END = b',"cache_control":' + encode(_MARK) + b"}" + _END


def _marked(old: Entry, blocks: AbstractSet[int]) -> tuple[Message, bytes]:
    """The message with breakpoints at ``blocks``."""
    content = list(old.message["content"])
    for index in blocks:
        if index < len(content):
            content[index] = {**content[index], "cache_control": _MARK}
    message: Message = {"role": old.message["role"], "content": content}
    if blocks == {len(content) - 1} and _can_grow(old.message, old.data):
        last = old.message["content"][-1]
        if last and "cache_control" not in last:
            # The usual case: a mark at the very end leaves the bytes before it as they are.
            return message, old.data[: -len(b"}" + _END)] + _MARK_AT_THE_END
    return message, encode(message)


def _with_tail(old: Message, data: bytes, block: Block) -> tuple[Message, bytes]:
    """The message with one block more."""
    message: Message = {"role": old["role"], "content": [*old["content"], block]}
    if not old["content"] or not _can_grow(old, data):
        return message, encode(message)
    return message, data[: -len(_END)] + b"," + encode(block) + _END


def _can_grow(message: Message, data: bytes) -> bool:
    """Whether ``data``, its JSON, ends with its blocks, as those do that are made here."""
    return data.endswith(_END) and list(message)[-1] == "content"
