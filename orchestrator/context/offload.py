"""Offload: what of a history is large enough to move to a file, losslessly, and how it leaves. Pure.

What stays in its place is in `placeholders`; where the file is and how it is written is the
workspace's affair (`workspace.ResultStore`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.context.estimate import BYTES_PER_TOKEN, MEDIA_TOKENS, MEDIA_TYPES
from orchestrator.context.history import Entry, unit_starts
from orchestrator.context.placeholders import (
    PLACEHOLDER_CHARS,
    ReadBack,
    is_placeholder,
    media_placeholder,
    old_placeholder,
    terse_placeholder,
)
from orchestrator.messages import Block, text_block, text_of

# Smaller parts stay: their placeholder would be no smaller.
LEAST_PART_CHARS = 1_500
# Where nothing else is left to make room, a placeholder says only where it is and how to read it.
_LEAST_TERSE_CHARS = 700
_TERSE_CHARS = 300
# What an image or a document weighs, whatever its base64 (`estimate.weigh`).
MEDIA_WEIGHT = int(MEDIA_TOKENS * BYTES_PER_TOKEN)


def is_over(content: str | list[Block], limit: int | None) -> bool:
    """Whether a tool's output is over its birth limit in characters (exactly at it stays inline)."""
    return limit is not None and isinstance(content, str) and len(content) > limit


def characters(content: str | list[Block]) -> int:
    """Characters of text in a tool's output."""
    return len(content) if isinstance(content, str) else len(text_of(content))


_SUFFIXES = {
    "application/pdf": ".pdf",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
}


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a document: ``encoded`` is its base64, as it stands in the message."""

    media_type: str
    encoded: str

    @property
    def data(self) -> bytes:
        """Its bytes. What is no base64 is kept as it stands: nothing is ever lost."""
        try:
            return base64.b64decode("".join(self.encoded.split()), validate=True)
        except ValueError:
            return self.encoded.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Part:
    """Something in the history that can move to a file: an argument of a call, a tool result or a
    block of one, an image or document that a user sent.

    ``entry`` and ``block`` say where it is. ``key`` names the argument, or the block in a result's
    list (`inner_key`); it is ``None`` for what is the whole block. Of an image or document,
    ``media`` is what is stored and ``text`` is empty.
    """

    entry: int
    block: int
    tool: str
    tool_use_id: str
    text: str
    key: str | None = None
    media: Media | None = None
    is_input: bool = False
    is_terse: bool = False

    @property
    def data(self) -> bytes:
        """The bytes to store."""
        if self.media is None:
            return self.text.encode("utf-8", "surrogatepass")
        return self.media.data

    @property
    def suffix(self) -> str:
        """How a file's name tells what it is."""
        return ".txt" if self.media is None else _SUFFIXES.get(self.media.media_type, ".bin")

    @property
    def gain(self) -> int:
        """About the weight that goes: the text, or the fixed estimate, without its placeholder."""
        weight = MEDIA_WEIGHT if self.media else len(self.text.encode(errors="replace"))
        return weight - (_TERSE_CHARS if self.is_terse else PLACEHOLDER_CHARS // 2)

    def placeholder(self, path: str, by: ReadBack) -> str:
        """What stands in the history once the part is stored at ``path``."""
        if self.media is not None:
            return media_placeholder(path, self.media.media_type, len(self.media.data), by)
        make = terse_placeholder if self.is_terse else old_placeholder
        return make(path, self.text, by)


def old_parts(messages: Sequence[Entry], keep_turns: int) -> list[Part]:
    """The parts that are older than the newest ``keep_turns`` turns. The first message stays."""
    starts = unit_starts(messages)
    return list(_parts(messages, starts[-keep_turns] if len(starts) > keep_turns else 0))


def largest_parts(messages: Sequence[Entry], needed: int) -> list[Part]:
    """The largest parts, wherever they are, until about ``needed`` bytes are gained. Small ones count
    too: their placeholders are the shortest there are."""
    chosen: list[Part] = []
    gained = 0
    small = (
        replace(part, is_terse=part.media is None and len(part.text) <= LEAST_PART_CHARS)
        for part in _parts(messages, len(messages), _LEAST_TERSE_CHARS)
    )
    for part in sorted(small, key=lambda p: -p.gain):
        if gained >= needed:
            break
        chosen.append(part)
        gained += part.gain
    return chosen


def _parts(messages: Sequence[Entry], end: int, least: int = LEAST_PART_CHARS) -> Iterable[Part]:
    names: dict[str, str] = {}
    for number in range(1, end):
        calls: dict[str, str] = {}
        message = messages[number].message
        for index, block in enumerate(message["content"]):
            if block.get("type") == "tool_use":
                calls[block["id"]] = block["name"]
                yield from _inputs(number, index, block, least)
            elif block.get("type") == "tool_result":
                name = names.get(block["tool_use_id"], "tool")
                yield from _result(number, index, block, name, least)
            elif message["role"] == "user" and (media := _media(block)) is not None:
                yield Part(number, index, "message", "", "", media=media)
        names = calls


def _inputs(number: int, index: int, block: Block, least: int) -> Iterable[Part]:
    for key, value in block["input"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > least and not is_placeholder(text):
            yield Part(number, index, block["name"], block["id"], text, key, is_input=True)


def _result(number: int, index: int, block: Block, name: str, least: int) -> Iterable[Part]:
    content = block.get("content")
    call_id = block["tool_use_id"]
    if isinstance(content, str):
        if len(content) > least and not is_placeholder(content):
            yield Part(number, index, name, call_id, content)
        return
    for inner, item in enumerate(content or ()):
        key = inner_key(inner)
        if (media := _media(item)) is not None:
            yield Part(number, index, name, call_id, "", key, media)
        elif (
            item.get("type") == "text"
            and len(item["text"]) > least
            and not is_placeholder(item["text"])
        ):
            yield Part(number, index, name, call_id, item["text"], key)


def _media(block: Block) -> Media | None:
    """The image or document in a block; ``None`` where its bytes are elsewhere, or it is text."""
    source = block.get("source")
    if (
        block.get("type") not in MEDIA_TYPES
        or not isinstance(source, dict)
        or source.get("type") != "base64"
        or not isinstance(source.get("data"), str)
    ):
        return None
    return Media(str(source.get("media_type", "")), source["data"])


_INNER = "content."


def inner_key(index: int) -> str:
    """The ``key`` of a block in the list that is a tool result's content."""
    return f"{_INNER}{index}"


def moved(block: Block, key: str | None, stub: str) -> Block:
    """The block with a part of it replaced by its placeholder.

    ``key``: the argument of a call; ``content.<n>``, the n-th block (from 0) of a result that is a
    list; ``None``, all of a result, or an image or document that stands by itself.
    """
    match block.get("type"), key:
        case "tool_use", str():
            return {**block, "input": {**block["input"], key: stub}}
        case "tool_result", None:
            return {**block, "content": stub}
        case "tool_result", str():
            at = int(key.removeprefix(_INNER))
            content = block["content"]
            return {**block, "content": [*content[:at], text_block(stub), *content[at + 1 :]]}
        case _:
            return text_block(stub)
