"""A request by its pieces: each block of it, the section that it belongs to, and its tokens. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

from orchestrator.context.estimate import weigh
from orchestrator.hindsight.calls import Call
from orchestrator.messages import Block, encode, text_of

Section = Literal["system", "memory", "tools", "request", "summary", "history", "todos", "note"]
SECTIONS: tuple[Section, ...] = (
    *("tools", "system", "memory", "request", "summary", "history", "todos", "note"),
)
"""In the order in which a model reads them. ``memory``: project instructions and the memory file;
``request``: the first request, and after a compaction the user's newest; ``note``: what is asked in
that one request only (to hand back, to summarise)."""

_MARK = "cache_control"


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of a request. ``tokens``: its share of what the provider reported for the whole
    request, by size; where it reported nothing, of the estimate. ``has_breakpoint``: the service is
    asked to keep everything up to here in its cache."""

    section: Section
    block: Block
    key: bytes
    bytes: int
    weight: int
    message: int | None = None
    index: int | None = None
    turn: int | None = None
    has_breakpoint: bool = False
    tool: str | None = None
    tokens: int = 0

    @property
    def kind(self) -> str:
        """The block's type; ``tool`` for a tool's description."""
        return "tool" if self.section == "tools" else str(self.block.get("type", "?"))

    @property
    def text(self) -> str:
        """What it says, for people; images and documents are named."""
        block = self.block
        match self.kind:
            case "text":
                return str(block["text"])
            case "thinking":
                return str(block.get("thinking", ""))
            case "tool_result":
                return _result(block.get("content") or "")
            case "tool_use":
                return f"{block['name']}({json.dumps(block['input'], ensure_ascii=False)})"
            case "image" | "document":
                return f"({self.kind})"
            case _:
                return json.dumps(block, ensure_ascii=False)


def _result(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    media = [f"({b['type']})" for b in content if b.get("type") != "text"]
    return "\n".join([text_of(content), *media]).strip()


def key_of(block: Block) -> bytes:
    """What a block is, wherever breakpoints stand."""
    return _digest(encode(_plain(block)))


def _plain(block: Block) -> Block:
    return {name: value for name, value in block.items() if name != _MARK}


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def pieces_of(call: Call) -> list[Piece]:
    """The pieces of the call's request, in the order in which a model reads them."""
    request = call.request
    found = [piece_of("tools", tool) for tool in request.tools]
    found += [piece_of("memory" if n else "system", b) for n, b in enumerate(request.system)]
    found += _of_messages(call)
    return _with_tokens(found, call.reported_tokens or call.state.context_tokens)


def piece_of(section: Section, block: Block, **more: Any) -> Piece:
    """``block`` as a piece of ``section``, encoded once; without tokens, which are a request's."""
    plain = _plain(block)
    data = encode(plain)
    weight = weigh([plain], len(data))
    return Piece(section, plain, _digest(data), len(data), weight,
                 has_breakpoint=_MARK in block, **more)  # fmt: skip


def _of_messages(call: Call) -> Iterator[Piece]:
    names: dict[str, str] = {}
    for number, message in enumerate(call.request.messages):
        for index, block in enumerate(message["content"]):
            if block.get("type") == "tool_use":
                names[block["id"]] = block["name"]
            used = block.get("tool_use_id", block.get("id"))
            yield piece_of(
                _section(call, number, index),
                block,
                message=number,
                index=index,
                turn=_turn(call, number),
                tool=names.get(used) if isinstance(used, str) else None,
            )


def _turn(call: Call, number: int) -> int | None:
    entries = call.state.messages
    own = call.fact.purpose != "summary" or len(call.request.messages) >= len(entries)
    return entries[number].turn if own and number < len(entries) else None


def _section(call: Call, number: int, index: int) -> Section:
    state, messages = call.state, call.state.messages
    if number >= len(messages) or index >= len(messages[number].message["content"]):
        return "note" if call.fact.purpose in ("handback", "summary") else "todos"
    if index == messages[number].reminder:
        return "todos"
    if number > 0 or index >= state.head_blocks:
        return "history"
    return "summary" if index == 1 and state.compactions else "request"


def _with_tokens(pieces: Sequence[Piece], total: int) -> list[Piece]:
    """Each piece's share of ``total``; they add up to it exactly."""
    weight = sum(piece.weight for piece in pieces) or 1
    found, before = [], 0
    for piece in pieces:
        after = before + piece.weight
        share = round(after * total / weight) - round(before * total / weight)
        found.append(replace(piece, tokens=share))
        before = after
    return found
