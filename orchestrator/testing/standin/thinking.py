"""Signed thinking: issued with the prefix it came from, checked when it comes back.

A signature carries the model, the prefix, the block's place among its siblings, and a keyed digest
of the text, so that checking needs no memory of what was issued.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Rejection
from .models import Model
from .settings import Body, Settings
from .tokens import Prompt, blocks_of

KINDS = ("thinking", "redacted_thinking")
_KEY = b"stand-in for the Messages API"

MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
UNSIGNED = "Invalid `signature` in `thinking` block"
UNBOUND = (
    f"{UNSIGNED}. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@dataclass(frozen=True, slots=True)
class Seal:
    """What a signature says: where the block was produced, and its place among its siblings."""

    model: str
    prefix: bytes
    index: int
    count: int
    digest: str


def _digest(head: str, text: str) -> str:
    data = f"{head}|{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=12, key=_KEY).hexdigest()


def _head(model: str, prefix: bytes, index: int, count: int) -> str:
    return f"{model}|{prefix.hex()}|{index}|{count}"


def sign(model: str, prefix: bytes, index: int, count: int, text: str) -> str:
    head = _head(model, prefix, index, count)
    return base64.b64encode(f"{head}|{_digest(head, text)}".encode()).decode()


def read(signature: object) -> Seal | None:
    """The seal in a signature; `None`: not one of ours."""
    try:
        plain = base64.b64decode(str(signature), validate=True).decode()
        model, prefix, index, count, digest = plain.split("|")
        return Seal(model, bytes.fromhex(prefix), int(index), int(count), digest)
    except (ValueError, binascii.Error):
        return None


@dataclass(frozen=True, slots=True)
class _Block:
    """A thinking block of a request: its place, its seal, and the prefixes that would be right."""

    path: str
    latest: bool
    seal: Seal | None
    genuine: bool
    fits: bool


def _blocks(messages: Sequence[Mapping[str, Any]], prompt: Prompt) -> Iterator[_Block]:
    latest_from = _latest_turn(messages)
    turn = 0
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if index == 0 or messages[index - 1]["role"] != "assistant":
            turn = prompt.starts[index]
        for place, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") not in KINDS:
                continue
            seal, genuine = _examine(block)
            # A paused turn goes on behind its own first half: any prefix from the turn's start fits.
            here = prompt.starts[index] + place
            fits = seal is not None and any(
                prompt.hash_before(position) == seal.prefix for position in range(turn, here + 1)
            )
            latest = latest_from is not None and index >= latest_from
            yield _Block(f"messages.{index}.content.{place}", latest, seal, genuine, fits)


def _examine(block: Mapping[str, Any]) -> tuple[Seal | None, bool]:
    redacted = block["type"] == "redacted_thinking"
    seal = read(block.get("data" if redacted else "signature"))
    if seal is None:
        return None, False
    head = _head(seal.model, seal.prefix, seal.index, seal.count)
    return seal, seal.digest == _digest(head, "" if redacted else str(block.get("thinking")))


def _latest_turn(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Index of the first message of the last run of assistant messages."""
    latest = None
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "assistant":
            latest = index
        elif latest is not None:
            break
    return latest


def check(
    body: Body, prompt: Prompt, model: Model, settings: Settings
) -> tuple[Rejection | None, list[dict[str, str]]]:
    """Checks every thinking block that came back; also lists the blocks that are left out."""
    if not any(m["role"] == "assistant" for m in body["messages"]):
        return None, []
    blocks = list(_blocks(body["messages"], prompt))
    rejection = _complete([block for block in blocks if block.latest])
    if rejection is not None:
        return rejection, []
    enforced, drop = _binding(body, model, settings)
    dropped: list[dict[str, str]] = []
    for block in blocks:
        if block.seal is None or not block.genuine:
            return Rejection(f"{block.path}: {MODIFIED if block.latest else UNSIGNED}"), []
        if block.seal.model != model.name:
            dropped.append(_dropped(block, "model_binding_mismatch"))
        elif enforced and not block.fits:
            if not drop:
                return Rejection(f"{block.path}: {UNBOUND}"), []
            dropped.append(_dropped(block, "prefix_binding_mismatch"))
    return None, dropped


def _dropped(block: _Block, reason: str) -> dict[str, str]:
    return {"type": "thinking_dropped", "path": block.path, "reason": reason}


def _binding(body: Body, model: Model, settings: Settings) -> tuple[bool, bool]:
    """Whether prefixes are compared, and whether a block that fails is dropped."""
    control = (body.get("thinking") or {}).get("block_binding")
    asked = settings.binding == "always" or control is not None
    # Behind a compaction block of the service's own, the kept turns' thinking stays valid.
    first = blocks_of(body["messages"][0]["content"])
    compacted = bool(first) and first[0].get("type") == "compaction"
    enforced = model.binds_thinking and settings.binding != "never" and asked and not compacted
    return enforced, (control or {}).get("prefix_mismatch_behavior") == "drop_block"


def _complete(latest: Sequence[_Block]) -> Rejection | None:
    """The latest turn's thinking is all there, in order, or all left out."""
    expected: dict[tuple[bytes, int], int] = {}
    for block in latest:
        if block.seal is None:
            continue
        siblings = (block.seal.prefix, block.seal.count)
        if block.seal.index != expected.get(siblings, 0):
            return Rejection(f"{block.path}: {MODIFIED}")
        expected[siblings] = block.seal.index + 1
    if any(seen != count for (_, count), seen in expected.items()):
        return Rejection(f"{latest[-1].path}: {MODIFIED}")
    return None
