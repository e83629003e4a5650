"""Messages in the provider's own shape (Messages API JSON), and pure questions about them.

They stay plain JSON: unknown and signed blocks must go back to the server unchanged, and validating
them against a library's models silently loses what the model does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

# A content block of any type, known or not: text, tool_use, tool_result, thinking, image, …
Block = dict[str, Any]
Role = Literal["user", "assistant"]


class Message(TypedDict):
    """One message as it is sent: ``content`` is always a list of blocks here."""

    role: Role
    content: list[Block]


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def user(*content: str | Block) -> Message:
    """A user message of the given texts and blocks."""
    return {"role": "user", "content": [_as_block(part) for part in content]}


def assistant(*content: str | Block) -> Message:
    """An assistant message of the given texts and blocks."""
    return {"role": "assistant", "content": [_as_block(part) for part in content]}


def _as_block(part: str | Block) -> Block:
    return text_block(part) if isinstance(part, str) else part


def in_blocks(message: Mapping[str, Any]) -> Message:
    """A message as it may come from elsewhere, its content a plain text or blocks."""
    content = message["content"]
    blocks = [text_block(content)] if isinstance(content, str) else list(content)
    return {"role": message["role"], "content": blocks}


def text_of(content: str | Sequence[Block]) -> str:
    """All text in a message's or a result's content, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def tool_uses(content: Iterable[Block]) -> tuple[Block, ...]:
    """The calls of the user's tools in an assistant message, in order."""
    return tuple(block for block in content if block.get("type") == "tool_use")


def tool_result(tool_use_id: str, content: str | list[Block], *, is_error: bool = False) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if is_error:
        block["is_error"] = True
    return block


def encode(value: object) -> bytes:
    """Compact UTF-8 JSON. A lone surrogate, which UTF-8 cannot hold, stays a JSON escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
