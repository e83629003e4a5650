"""Beta parameters: which header lets them in, and the rules of compaction, threads and edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import Rejection
from .settings import Body
from .thinking import read, sign
from .tokens import blocks_of

#: Parameter → the start of the beta name that admits it; "" stands for any beta.
_ADMITTED_BY = {
    "block_binding": "thinking-binding-controls-",
    "compaction": "compact-",
    "context_management": "context-management-",
    "thread": "message-threads-",
    "billing_policy": "",
    "fallback_credit_token": "",
    "fallbacks": "",
    "mcp_servers": "",
    "output_format": "",
}
MIN_COMPACTION_TRIGGER = 50_000
_COMPACTION = "compaction"


def allows(parameter: str, betas: frozenset[str]) -> bool:
    """Whether the `anthropic-beta` header admits this parameter."""
    prefix = _ADMITTED_BY.get(parameter)
    return prefix is not None and any(name.startswith(prefix) for name in betas)


def check(body: Body) -> Rejection | None:
    """The first objection to what a beta added to the request."""
    return (
        _thread(body.get("thread"))
        or _edits(body.get("context_management"))
        or _compaction_blocks(body["messages"])
        or _compaction_request(body)
    )


def _thread(thread: Mapping[str, Any] | None) -> Rejection | None:
    """No thread is ever kept: best effort, so a client must be able to replay."""
    if thread is None or thread.get("type") == "create":
        return None
    if thread.get("type") != "continue":
        return Rejection("thread.type: Input should be 'create' or 'continue'")
    name = thread.get("previous_message_id")
    return Rejection(f"thread: no thread for {name}", 404, "thread_not_found")


def _edits(management: Mapping[str, Any] | None) -> Rejection | None:
    edits = (management or {}).get("edits") or []
    for index, edit in enumerate(edits):
        kind = str(edit.get("type"))
        if kind.startswith("clear_thinking") and index > 0:
            return Rejection(f"context_management.edits.{index}: `{kind}` must be the first edit")
        trigger = (edit.get("trigger") or {}).get("value", MIN_COMPACTION_TRIGGER)
        if kind.startswith("compact_") and trigger < MIN_COMPACTION_TRIGGER:
            return Rejection(
                f"context_management.edits.{index}.trigger.value: Input should be greater than or "
                f"equal to {MIN_COMPACTION_TRIGGER}"
            )
    return None


def _compactions(messages: Any) -> Iterator[tuple[int, int, Mapping[str, Any], str]]:
    for index, message in enumerate(messages):
        for place, block in enumerate(blocks_of(message["content"])):
            # A block without content is a failed compaction: it changes nothing anywhere.
            if block.get("type") == _COMPACTION and block.get("content") is not None:
                yield index, place, block, message["role"]


def _compaction_blocks(messages: Any) -> Rejection | None:
    found = list(_compactions(messages))
    if len(found) > 1:
        return _refused("only one `compaction` block with content is allowed", "block_ambiguous")
    for index, place, block, role in found:
        if (index, place) != (0, 0) or role == "system":
            return _refused("the `compaction` block must come first", "block_misplaced")
        seal = read(block.get("signature"))
        if seal is None:
            return _refused("the `signature` does not verify", "signature_invalid")
        if sign(seal.model, seal.prefix, 0, 1, block["content"]) != block["signature"]:
            return _refused("`content` differs from what was signed", "content_mismatch")
        if block.get("tool_changes"):
            return _refused("`tool_changes` differs from what was sent", "tool_changes_mismatch")
    return None


def _compaction_request(body: Body) -> Rejection | None:
    if body.get(_COMPACTION) is None:
        return None
    if body.get("context_management") is not None:
        return Rejection("compaction: cannot be combined with `context_management`")
    messages = body["messages"]
    if messages[-1]["role"] == "assistant" and any(
        block.get("type") != "text" for block in blocks_of(messages[-1]["content"])
    ):
        return _refused("the last `assistant` turn is not finished", "incomplete_turn")
    if not any(m["role"] != "system" and m["content"] for m in messages):
        return _refused("there is nothing to summarize", "nothing_to_summarize")
    return None


def _refused(message: str, code: str) -> Rejection:
    return Rejection(f"compaction: {message}", error_code=f"compaction_{code}")


def compaction_block(model: str, prefix: bytes, summary: str) -> dict[str, Any]:
    """The signed block that a compaction request is answered with."""
    return {
        "type": _COMPACTION,
        "content": summary,
        "encrypted_content": None,
        "signature": sign(model, prefix, 0, 1, summary),
        "tool_changes": [],
    }
