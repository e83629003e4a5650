"""A deterministic token count, chained block by block so that any prefix has a size and a name.

The count is the UTF-8 length of the prompt's compact JSON, divided by four and rounded up:
`{"tools":[…],"system":[…],"messages":[…]}`, with text shorthands written as text blocks and without
`cache_control`. An image counts as 1,600 tokens whatever its size. The order is the one in which
the service reads a prompt, so one chain serves the count, the prompt cache and bound thinking.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_600
_FRAME = len('{"tools":[],"system":[],"messages":[]}')
_MESSAGE_FRAME = len('{"role":"","content":[]}')

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which JSON can carry and UTF-8 cannot, become `?`."""
    return _encode(value).encode("utf-8", "replace")


def tokens_of(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A `cache_control` mark: the block's position in the chain and its lifetime."""

    position: int
    ttl: str


@dataclass(slots=True)
class Prompt:
    """The measured prompt. Positions count blocks over tools, system and messages together."""

    hashes: list[bytes] = field(default_factory=list)
    #: Bytes of the prompt up to and including each block.
    ends: list[int] = field(default_factory=list)
    breakpoints: list[Breakpoint] = field(default_factory=list)
    #: Position of each message's first block.
    starts: list[int] = field(default_factory=list)
    size: int = 0
    #: The newest position that may carry a breakpoint: no thinking, no empty text.
    cacheable: int = -1

    @property
    def tokens(self) -> int:
        return tokens_of(self.size)

    def tokens_at(self, position: int) -> int:
        return tokens_of(self.ends[position])

    def hash_before(self, position: int) -> bytes:
        """The name of everything that stands before this position."""
        return self.hashes[position - 1] if position > 0 else b""

    def _add(self, tag: bytes, block: Mapping[str, Any]) -> None:
        ttl, data = None, encode(block)
        if b'"cache_control"' in data:
            ttl, data = _ttl(block), encode(_bare(block))
        chained = hashlib.blake2b(self.hash_before(len(self.hashes)), digest_size=16)
        chained.update(tag)
        chained.update(data)
        self.hashes.append(chained.digest())
        self.size += _weight(block, data)
        self.ends.append(self.size)
        if _is_cacheable(block):
            self.cacheable = len(self.hashes) - 1
        if ttl is not None:
            self.breakpoints.append(Breakpoint(len(self.hashes) - 1, ttl))

    def _add_all(self, tag: bytes, blocks: Sequence[Mapping[str, Any]]) -> None:
        for index, block in enumerate(blocks):
            self.size += index > 0  # the comma
            self._add(tag, block)


def blocks_of(content: Any) -> Sequence[Mapping[str, Any]]:
    """A message's content as blocks: a string is shorthand for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def measure(body: Mapping[str, Any]) -> Prompt:
    """Counts and chains the prompt of a request whose shape has been checked."""
    prompt = Prompt(size=_FRAME)
    prompt._add_all(b"tool", body.get("tools") or [])
    prompt._add_all(b"system", blocks_of(body.get("system")))
    for index, message in enumerate(body["messages"]):
        role = message["role"]
        prompt.starts.append(len(prompt.hashes))
        prompt.size += _MESSAGE_FRAME + len(role) + (index > 0)
        prompt._add_all(role.encode(), blocks_of(message.get("content")))
    automatic = body.get("cache_control")
    if automatic and prompt.cacheable >= 0:
        mark = Breakpoint(prompt.cacheable, automatic.get("ttl") or "5m")
        if all(point.position != mark.position for point in prompt.breakpoints):
            prompt.breakpoints.append(mark)
    return prompt


def nested(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The blocks inside a tool result or another container."""
    inner = block.get("content")
    if isinstance(inner, list):
        yield from (part for part in inner if isinstance(part, dict))


def _ttl(block: Mapping[str, Any]) -> str | None:
    """The lifetime asked for at this block; a mark inside a container counts at its end."""
    control = block.get("cache_control")
    if control is None:
        control = next((p["cache_control"] for p in nested(block) if p.get("cache_control")), None)
    return None if control is None else str(control.get("ttl") or "5m")


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    if isinstance(bare.get("content"), list):
        bare["content"] = [_bare(part) for part in nested(bare)]
    return bare


def _is_cacheable(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    return kind not in ("thinking", "redacted_thinking") and block.get("text") != ""


def _weight(block: Mapping[str, Any], data: bytes) -> int:
    if b'"type":"image"' not in data:
        return len(data)
    images = [part for part in (block, *nested(block)) if part.get("type") == "image"]
    surplus = sum(len(encode(_bare(part))) - IMAGE_TOKENS * BYTES_PER_TOKEN for part in images)
    return len(data) - surplus
