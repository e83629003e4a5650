"""The rules of a conversation: roles, content, and every call answered at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import Rejection
from .models import Model
from .settings import Body
from .tokens import blocks_of, nested

MAX_MESSAGES = 100_000
ROLES = ("user", "assistant", "system")

PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user "
    "message."
)
UNANSWERED = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)
UNASKED = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must "
    "have a corresponding `tool_use` block in the previous message."
)

_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
#: Results of tools that the service itself runs; they stand in the assistant's own turn.
_SERVER_RESULTS = frozenset(
    [
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "mcp_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    ]
)
_SERVER_CALLS = frozenset({"mcp_tool_use", "server_tool_use"})
_ANYWHERE = frozenset({"compaction", "container_upload", "image", "search_result", "text"})
_BLOCKS = {
    "user": _ANYWHERE | {"document", "tool_result"},
    "assistant": _ANYWHERE
    | _SERVER_RESULTS
    | _SERVER_CALLS
    | {"document", "fallback", "mcp_tool_listing", "redacted_thinking", "thinking", "tool_use"},
    "system": frozenset({"compaction", "text", "tool_addition", "tool_removal"}),
}

Block = Mapping[str, Any]


def check(body: Body, model: Model) -> Rejection | None:
    """The first objection to `messages` and `system`."""
    messages = body["messages"]
    rejection = _shape(messages) or _system_prompt(body.get("system"))
    if rejection is not None:
        return rejection
    for index, message in enumerate(messages):
        last = index == len(messages) - 1
        rejection = _message(index, message, last)
        if rejection is not None:
            return rejection
    turns = list(_turns(messages))
    return (
        _order(messages, turns, model)
        or _unique_calls(turns)
        or _pairs(turns)
        or _ending(messages, turns, model)
    )


def _shape(messages: Any) -> Rejection | None:
    if not isinstance(messages, list):
        return Rejection("messages: Input should be a valid list")
    if not messages:
        return Rejection("messages: at least one message is required")
    if len(messages) > MAX_MESSAGES:
        return Rejection(f"messages: at most {MAX_MESSAGES} messages are allowed")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            return Rejection(
                f"messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
            )
        content = message.get("content")
        if not isinstance(content, (str, list)):
            return Rejection(f"messages.{index}.content: Field required")
        if isinstance(content, list) and not all(isinstance(b, dict) for b in content):
            return Rejection(f"messages.{index}.content: Input should be a list of blocks")
    return None


def _system_prompt(system: Any) -> Rejection | None:
    if system is None or isinstance(system, str):
        return None
    for index, block in enumerate(system):
        if block.get("type") != "text":
            return Rejection(f"system.{index}.type: Input should be 'text'")
        rejection = _text("system", block)
        if rejection is not None:
            return rejection
    return None


def _message(index: int, message: Mapping[str, Any], last: bool) -> Rejection | None:
    content = message["content"]
    role = message["role"]
    if not content:
        if role == "assistant" and last:
            return None
        return Rejection(
            f"messages.{index}: all messages must have non-empty content except for the optional "
            "final assistant message"
        )
    for place, block in enumerate(blocks_of(content)):
        path = f"messages.{index}.content.{place}"
        rejection = _block(path, role, block)
        if rejection is not None:
            return rejection
    return None


def _block(path: str, role: str, block: Block) -> Rejection | None:
    kind = block.get("type")
    if kind not in _BLOCKS[role]:
        return Rejection(
            f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
            f" for role '{role}'"
        )
    if kind == "document" and role == "assistant":
        return Rejection(f"{path}: `document` blocks are not allowed in assistant messages")
    for part in (block, *nested(block)):
        rejection = _text("messages", part) if part.get("type") == "text" else None
        if rejection is not None:
            return rejection
    if kind == "text" and role == "user" and block.get("citations"):
        return Rejection(f"{path}.text.citations: citations are not allowed in user messages")
    return _call(path, block) if kind == "tool_use" else None


def _text(where: str, block: Block) -> Rejection | None:
    text = block.get("text")
    if not isinstance(text, str):
        return Rejection(f"{where}: text: Field required")
    if text == "":
        return Rejection(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        return Rejection(f"{where}: text content blocks must contain non-whitespace text")
    return None


def _call(path: str, block: Block) -> Rejection | None:
    if not isinstance(block.get("id"), str) or not _ID.match(block["id"]):
        return Rejection(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("input"), dict):
        return Rejection(f"{path}.tool_use.input: Input should be a valid dictionary")
    return None


@dataclass(slots=True)
class _Turn:
    """Neighbouring messages of one role, which the service reads as one."""

    role: str
    first: int
    blocks: list[tuple[str, Block]] = field(default_factory=list)

    def of(self, kind: str) -> Iterator[tuple[str, Block]]:
        return ((path, block) for path, block in self.blocks if block.get("type") == kind)

    @property
    def calls(self) -> list[str]:
        return [block["id"] for _, block in self.of("tool_use")]

    def leading_results(self) -> list[str]:
        """Ids answered before anything else is said: only these count."""
        ids = []
        for _, block in self.blocks:
            if block.get("type") != "tool_result":
                break
            ids.append(block.get("tool_use_id", ""))
        return ids

    @property
    def last_kind(self) -> str | None:
        return self.blocks[-1][1].get("type") if self.blocks else None

    @property
    def open_server_call(self) -> bool:
        """A server tool was called and its result has not come yet."""
        opened = {b.get("id") for _, b in self.blocks if b.get("type") in _SERVER_CALLS}
        if not opened:
            return False
        closed = {b.get("tool_use_id") for _, b in self.blocks if b.get("type") in _SERVER_RESULTS}
        return bool(opened - closed)


def _turns(messages: Sequence[Mapping[str, Any]]) -> Iterator[_Turn]:
    turn: _Turn | None = None
    for index, message in enumerate(messages):
        if turn is None or turn.role != message["role"]:
            if turn is not None:
                yield turn
            turn = _Turn(message["role"], index)
        blocks = enumerate(blocks_of(message["content"]))
        turn.blocks += [(f"messages.{index}.content.{place}", block) for place, block in blocks]
    if turn is not None:
        yield turn


def _order(messages: Sequence[Any], turns: Sequence[_Turn], model: Model) -> Rejection | None:
    first = turns[0]
    if first.role == "system":
        return Rejection("messages.0: a `system` message may not be the first message")
    compacted = bool(first.blocks) and first.blocks[0][1].get("type") == "compaction"
    if first.role != "user" and not compacted:
        return Rejection('messages: first message must use the "user" role')
    for before, turn, after in zip(turns, turns[1:], [*turns[2:], None], strict=False):
        if turn.role != "system":
            continue
        where = f"messages.{turn.first}"
        if not model.system_role:
            return Rejection(f"{where}.role: `system` messages are not supported by {model.name}")
        if before.role != "user" and before.last_kind not in _SERVER_RESULTS:
            return Rejection(f"{where}: a `system` message must follow a `user` message")
        if after is not None and after.role != "assistant":
            return Rejection(
                f"{where}: a `system` message must be last or precede an `assistant` message"
            )
    return None


def _unique_calls(turns: Sequence[_Turn]) -> Rejection | None:
    seen: set[str] = set()
    for turn in turns:
        for path, block in turn.of("tool_use"):
            if block["id"] in seen:
                return Rejection(f"{path}: `tool_use` ids must be unique")
            seen.add(block["id"])
    return None


def _pairs(turns: Sequence[_Turn]) -> Rejection | None:
    """Calls are answered by the results that open the very next user turn, each once."""
    before: _Turn | None = None
    spoken = [turn for turn in turns if turn.role != "system"]
    for turn, after in zip(spoken, [*spoken[1:], None], strict=True):
        calls = turn.calls
        answered = set(after.leading_results()) if after is not None else set()
        missing = [call for call in calls if call not in answered]
        if missing:
            where = next(path for path, block in turn.of("tool_use") if block["id"] == missing[0])
            message = ".".join(where.split(".")[:2])
            return Rejection(f"{message}: {UNANSWERED.format(ids=', '.join(missing))}")
        rejection = _results(turn, before)
        if rejection is not None:
            return rejection
        before = turn
    return None


def _results(turn: _Turn, before: _Turn | None) -> Rejection | None:
    calls = set(before.calls) if before is not None else set()
    counts: Counter[str] = Counter()
    for path, block in turn.of("tool_result"):
        name = block.get("tool_use_id", "")
        if name not in calls:
            return Rejection(f"{path}: {UNASKED.format(id=name)}")
        counts[name] += 1
        if counts[name] > 1:
            return Rejection(
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` "
                f"blocks with id: {name}"
            )
    mixed = before is not None and bool(calls) and before.open_server_call
    if mixed and any(block.get("type") != "tool_result" for _, block in turn.blocks):
        return Rejection(
            f"messages.{turn.first}: only `tool_result` blocks may follow a turn whose server tool "
            "calls are still open"
        )
    return None


def _ending(messages: Sequence[Any], turns: Sequence[_Turn], model: Model) -> Rejection | None:
    """A conversation ends with the user, except that a paused turn goes back as it is."""
    last = turns[-1]
    if last.role == "system":
        return None
    if last.role == "user":
        paused = len(turns) > 1 and turns[-2].open_server_call and not turns[-2].calls
        if paused and turns[-2].role == "assistant":
            return Rejection(
                f"messages.{last.first}: a paused turn must be sent back as it is, with nothing "
                "added"
            )
        return None
    if last.last_kind in _SERVER_CALLS | _SERVER_RESULTS:
        return None
    if not model.prefill:
        return Rejection(PREFILL)
    text = last.blocks[-1][1].get("text", "") if last.blocks else ""
    if text != text.rstrip():
        return Rejection("messages: final assistant content cannot end with trailing whitespace")
    return None
