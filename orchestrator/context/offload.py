"""Offload: large content moves to a file, losslessly, and a bounded placeholder stays. Pure.

Where the file is and how it is written is the workspace's affair (`workspace.ResultStore`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.context import facts
from orchestrator.context.history import Entry, unit_starts
from orchestrator.messages import Block, text_of

PLACEHOLDER_CHARS = 900
_PREVIEW_CHARS = 160
# What is left in old history is only to be recognised: less of it is shown.
_OLD_PREVIEW_CHARS = 100
_NAMED_CHARS = 160
# Smaller parts stay: their placeholder would be no smaller.
LEAST_PART_CHARS = 1_500
_FIRST_LINE = "[offloaded {path} · {chars:,} characters, {lines:,} lines · preview, not the whole]"


def is_over(content: str | list[Block], limit: int | None) -> bool:
    """Whether a tool's output is over its birth limit in characters (exactly at it stays inline)."""
    return limit is not None and isinstance(content, str) and len(content) > limit


def line_count(text: str) -> int:
    """Lines as an editor counts them: a last line without newline counts."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def placeholder(path: str, text: str, reader: str) -> str:
    """What stands in the history for ``text`` from its birth on: where it is, how large, its ends,
    how to read it back. ``reader`` is the name of the tool that the agent does that with. At most
    `PLACEHOLDER_CHARS` characters for any text.
    """
    return _placeholder(path, text, reader, _PREVIEW_CHARS, "")


def old_placeholder(path: str, text: str, reader: str) -> str:
    """`placeholder` for what the agent has seen whole before: less of its ends, but the facts in it
    by name, since the agent may remember them."""
    named = ""
    for fact in facts.extract_from([text]):
        if len(named) + len(fact) > _NAMED_CHARS:
            break
        named += f"{', ' if named else 'names: '}{fact}"
    return _placeholder(path, text, reader, _OLD_PREVIEW_CHARS, named)


def _placeholder(path: str, text: str, reader: str, preview_chars: int, named: str) -> str:
    first = _FIRST_LINE.format(path=path, chars=len(text), lines=line_count(text))
    last = "\n".join(part for part in (named, _read_call(reader, path)) if part)
    room = PLACEHOLDER_CHARS - len(first) - len(last) - len("\nbegins: \n…\nends: \n")
    preview = max(0, min(preview_chars, room // 2))
    head = _one_line(text[: preview * 2])[:preview]
    tail = _one_line(text[-preview * 2 :] if preview else "")[-preview:] if preview else ""
    return f"{first}\nbegins: {head}\n…\nends: {tail}\n{last}"


def _read_call(reader: str, path: str) -> str:
    if reader == "bash":
        return f"Read it: bash(command=\"sed -n '1,200p' '{path}'\")"
    if reader == "grep":
        return f'Search it: grep(pattern="…", path="{path}", output="content")'
    return f'Read it: {reader}(path="{path}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def characters(content: str | list[Block]) -> int:
    """Characters of text in a tool's output."""
    return len(content) if isinstance(content, str) else len(text_of(content))


@dataclass(frozen=True, slots=True)
class Part:
    """Something in the history that can move to a file: a tool result, or an argument of a call.

    ``entry`` and ``block`` say where it is; ``key`` names the argument. ``text`` is what is stored.
    """

    entry: int
    block: int
    tool: str
    tool_use_id: str
    text: str
    key: str | None = None

    @property
    def gain(self) -> int:
        """About the bytes that go: the text without its placeholder."""
        return len(self.text.encode(errors="replace")) - PLACEHOLDER_CHARS // 2


def old_parts(messages: Sequence[Entry], keep_turns: int) -> list[Part]:
    """The parts that are older than the newest ``keep_turns`` turns. The first message stays."""
    starts = unit_starts(messages)
    return list(_parts(messages, starts[-keep_turns] if len(starts) > keep_turns else 0))


def largest_parts(messages: Sequence[Entry], needed: int) -> list[Part]:
    """The largest parts, wherever they are, until about ``needed`` bytes are gained."""
    chosen: list[Part] = []
    gained = 0
    for part in sorted(_parts(messages, len(messages)), key=lambda p: -p.gain):
        if gained >= needed:
            break
        chosen.append(part)
        gained += part.gain
    return chosen


def _parts(messages: Sequence[Entry], end: int) -> Iterable[Part]:
    names: dict[str, str] = {}
    for number in range(1, end):
        calls: dict[str, str] = {}
        for index, block in enumerate(messages[number].message["content"]):
            if block.get("type") == "tool_use":
                calls[block["id"]] = block["name"]
                yield from _inputs(number, index, block)
            elif block.get("type") == "tool_result":
                name = names.get(block["tool_use_id"], "tool")
                yield from _result(number, index, block, name)
        names = calls


def _inputs(number: int, index: int, block: Block) -> Iterable[Part]:
    for key, value in block["input"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > LEAST_PART_CHARS:
            yield Part(number, index, block["name"], block["id"], text, key)


def _result(number: int, index: int, block: Block, name: str) -> Iterable[Part]:
    text = block.get("content")
    if isinstance(text, str) and len(text) > LEAST_PART_CHARS:
        yield Part(number, index, name, block["tool_use_id"], text)


def moved(block: Block, key: str | None, stub: str) -> Block:
    """The block with a part of it replaced by its placeholder."""
    if key is None:
        return {**block, "content": stub}
    return {**block, "input": {**block["input"], key: stub}}
