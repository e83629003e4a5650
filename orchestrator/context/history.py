"""The history as entries: each message with its bytes, weight and chain digest, made once. Pure.

Histories alternate: a user message that follows a user message is joined to it. So every cut in
front of an assistant message leaves a valid conversation, and no tool result loses its call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from orchestrator.context.estimate import weigh
from orchestrator.messages import Block, Message, encode, text_block

THINKING = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of the history.

    ``chain`` is a digest of everything up to and including this message as it is sent now;
    ``bound`` is the digest of everything before it when the model produced it.
    """

    message: Message
    data: bytes
    weight: int
    turn: int
    chain: bytes
    bound: bytes = b""
    # Index of the block that restates the to-dos, where one became history (`context.request`).
    reminder: int | None = None


def link(chain: bytes, data: bytes) -> bytes:
    """The chain digest after ``data``."""
    return blake2b(data, key=chain, digest_size=16).digest()


def entry(message: Message, turn: int, before: bytes, *, reminder: int | None = None) -> Entry:
    data = encode(message)
    weight = weigh(message["content"], len(data))
    bound = before if message["role"] == "assistant" else b""
    return Entry(message, data, weight, turn, link(before, data), bound, reminder)


def append(
    entries: Sequence[Entry], start: bytes, message: Message, turn: int
) -> tuple[Entry, ...]:
    """``entries`` with ``message`` at the end; ``start`` is the chain before the first entry."""
    if entries and message["role"] == "user" == entries[-1].message["role"]:
        *earlier, last = entries
        joined: Message = {"role": "user", "content": last.message["content"] + message["content"]}
        before = earlier[-1].chain if earlier else start
        return (*earlier, entry(joined, turn, before, reminder=last.reminder))
    before = entries[-1].chain if entries else start
    return (*entries, entry(message, turn, before))


def restack(entries: Iterable[Entry], start: bytes, *, binding: bool) -> tuple[Entry, ...]:
    """The entries after an edit: chains computed anew, to-do reminders gone.

    On a model that binds thinking to its prefix, a message whose prefix changed loses all of its
    thinking: the old prefix never comes back, so it could never be sent again.
    """
    stacked: list[Entry] = []
    before = start
    for old in entries:
        new = _without_reminder(old)
        if binding and old.bound and old.bound != before:
            new = _without_thinking(new)
        if new is old:
            new = replace(old, chain=link(before, old.data))
        else:
            made = entry(new.message, new.turn, before)
            new = replace(made, bound=old.bound)
        stacked.append(new)
        before = new.chain
    return tuple(stacked)


def _without_reminder(old: Entry) -> Entry:
    if old.reminder is None:
        return old
    content = [b for i, b in enumerate(old.message["content"]) if i != old.reminder]
    return replace(old, message={"role": "user", "content": content}, reminder=None)


def _without_thinking(old: Entry) -> Entry:
    content = [b for b in old.message["content"] if b.get("type") not in THINKING]
    if len(content) == len(old.message["content"]):
        return old
    # An assistant message may not be empty.
    content = content or [text_block("(thought without words)")]
    return replace(old, message={"role": "assistant", "content": content})


def thoughtless(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries without any thinking; their chains are stale until `restack`."""
    return tuple(
        new if new is old else replace(entry(new.message, old.turn, b""), reminder=old.reminder)
        for old in entries
        for new in (_without_thinking(old),)
    )


def with_block(old: Entry, index: int, block: Block) -> Entry:
    """The entry with one block replaced; its chain is stale until `restack`."""
    content = [block if i == index else b for i, b in enumerate(old.message["content"])]
    message: Message = {"role": old.message["role"], "content": content}
    data = encode(message)
    return replace(old, message=message, data=data, weight=weigh(content, len(data)))


def unit_starts(entries: Sequence[Entry]) -> list[int]:
    """Where a cut may fall: in front of each assistant message that is not the second half of a paused
    turn. Everything from there on is valid by itself, since calls are answered in the very next
    message."""
    return [
        number
        for number, item in enumerate(entries)
        if item.message["role"] == "assistant"
        and (number == 0 or not _is_paused(entries[number - 1].message))
    ]


def _is_paused(message: Message) -> bool:
    """Whether a call that the service runs itself is still open: its result is in the next half."""
    if message["role"] == "user":
        return False
    open_calls = {b["id"] for b in message["content"] if b.get("type") == "server_tool_use"}
    return bool(open_calls - {b.get("tool_use_id") for b in message["content"]})
