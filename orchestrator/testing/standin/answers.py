"""What a scripted brain says, and how the service turns it into a reply: ids, signatures, limits."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import thinking
from .models import Model
from .settings import Body
from .tokens import encode, tokens_of

Block = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted reply: content blocks as the API has them, without ids or signatures.

    `stop_reason` defaults to what the blocks imply. `delay` is in seconds, before the first byte.
    """

    content: Sequence[Block] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    delay: float = 0.0


#: Decides from the request alone; may wait.
Brain = Callable[[Body], Answer | Awaitable[Answer]]


def say(text: str) -> Answer:
    """An answer of one text."""
    return Answer([{"type": "text", "text": text}])


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call, to put into an answer's content."""
    return {"type": "tool_use", "name": name, "input": arguments}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it goes out."""

    content: list[dict[str, Any]]
    stop_reason: str
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    output_tokens: int = 1
    thinking_tokens: int = 0
    #: JSON of the last tool call's input where a limit cut it, else `None`.
    cut_input: str | None = None
    #: Blocks of the request that were left out, as the beta reports them.
    transformations: list[dict[str, str]] = field(default_factory=list)


def thinks(body: Body, model: Model) -> bool:
    """Whether the reply may hold thinking."""
    kind = (body.get("thinking") or {}).get("type")
    return kind in ("enabled", "adaptive") or (kind is None and model.always_thinks)


def finish(answer: Answer, body: Body, model: Model, prefix: bytes) -> Reply:
    """Applies what the API guarantees to an answer, and gives ids.

    `prefix` names the prompt: ids follow from it, so the same request is answered the same twice.
    """
    content = [dict(block) for block in _allowed(answer.content, body, model)]
    sizes = [_tokens(block) for block in content]
    thought = sum(n for n, b in zip(sizes, content, strict=True) if b["type"] in thinking.KINDS)
    _identify(content, prefix)
    calls = any(block["type"] == "tool_use" for block in content)
    return Reply(
        content=content,
        stop_reason=answer.stop_reason or ("tool_use" if calls else "end_turn"),
        stop_sequence=answer.stop_sequence,
        stop_details=answer.stop_details,
        output_tokens=max(1, sum(sizes)),
        thinking_tokens=thought,
    )


def _allowed(content: Sequence[Block], body: Body, model: Model) -> list[Block]:
    """No thinking where it is off, no call under `tool_choice: none`, one where only one may be."""
    choice = body.get("tool_choice") or {}
    none = choice.get("type") == "none"
    limit = 0 if none else 1 if choice.get("disable_parallel_tool_use") else len(content)
    thinking_on = thinks(body, model)
    kept: list[Block] = []
    calls = 0
    for block in content:
        kind = block["type"]
        calls += kind == "tool_use"
        if (kind == "tool_use" and calls > limit) or (kind in thinking.KINDS and not thinking_on):
            continue
        kept.append(block)
    return kept


def _identify(content: Sequence[dict[str, Any]], prefix: bytes) -> None:
    for index, block in enumerate(content):
        if block["type"] == "tool_use" and "id" not in block:
            name = hashlib.blake2b(prefix + index.to_bytes(4, "big"), digest_size=11).hexdigest()
            block["id"] = f"toolu_{name}"


def seal(content: Sequence[dict[str, Any]], body: Body, model: Model, prefix: bytes) -> None:
    """Signs the thinking that goes out: last of all, for a signature counts its siblings."""
    blocks = [block for block in content if block["type"] in thinking.KINDS]
    omitted = (body.get("thinking") or {}).get("display") == "omitted"
    for index, block in enumerate(blocks):
        if block["type"] == "redacted_thinking":
            block["data"] = thinking.sign(model.name, prefix, index, len(blocks), "")
            continue
        if omitted:
            block["thinking"] = ""
        text = str(block.get("thinking", ""))
        block["signature"] = thinking.sign(model.name, prefix, index, len(blocks), text)


def _tokens(block: Block) -> int:
    kind = block["type"]
    if kind == "text":
        return tokens_of(len(block["text"].encode("utf-8", "surrogatepass")))
    if kind == "thinking":
        return tokens_of(len(str(block.get("thinking", "")).encode("utf-8", "surrogatepass")))
    if kind == "tool_use":
        return tokens_of(len(block["name"]) + len(encode(block["input"])))
    return tokens_of(len(encode(block)))


def clip(reply: Reply, limit: int, stop_reason: str) -> Reply:
    """The reply cut off after `limit` output tokens: later blocks are missing, one is torn."""
    if reply.output_tokens <= limit:
        return reply
    left, kept, cut_input = limit, [], None
    for block in reply.content:
        size = _tokens(block)
        if size <= left:
            kept.append(block)
            left -= size
            continue
        if left > 0:
            torn, cut_input = _tear(block, left)
            kept.append(torn)
        break
    return replace(
        reply,
        content=kept,
        stop_reason=stop_reason,
        stop_sequence=None,
        output_tokens=limit,
        thinking_tokens=min(reply.thinking_tokens, limit),
        cut_input=cut_input,
    )


def _tear(block: dict[str, Any], tokens: int) -> tuple[dict[str, Any], str | None]:
    size = tokens * 4
    if block["type"] == "text":
        return {**block, "text": block["text"].encode()[:size].decode(errors="ignore")}, None
    if block["type"] == "tool_use":
        whole = encode(block["input"]).decode(errors="replace")
        return {**block, "input": {}}, whole[: max(0, size - len(block["name"]))]
    return block, None
