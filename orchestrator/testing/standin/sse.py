"""A reply on the wire: usage figures, one JSON message, or the stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .answers import Reply
from .cache import CacheUse
from .settings import Settings
from .tokens import encode

#: Characters of text in one delta. Few and large: a stand-in is asked thousands of times.
TEXT_CHUNK = 4_000

Usage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event and the usage figures that it tells the client."""

    name: str
    data: bytes
    usage: Mapping[str, Any] | None = None

    def encode(self) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (self.name.encode(), self.data)


def usage_of(use: CacheUse, reply: Reply, *, cached: bool = True) -> Usage:
    """The usage of a whole reply, as the service reports it; plain servers have no cache fields."""
    if not cached:
        return {"input_tokens": use.total, "output_tokens": reply.output_tokens}
    return {
        "input_tokens": use.uncached,
        "cache_creation_input_tokens": use.written,
        "cache_read_input_tokens": use.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": use.written_5m,
            "ephemeral_1h_input_tokens": use.written_1h,
        },
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"thinking_tokens": reply.thinking_tokens},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


def message(message_id: str, model: str, reply: Reply, usage: Usage) -> dict[str, Any]:
    """The reply as one JSON object."""
    body: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": reply.content,
        "stop_reason": reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "stop_details": reply.stop_details,
        "usage": usage,
    }
    if reply.transformations:
        body["input_transformations"] = list(reply.transformations)
    return body


def events(
    message_id: str, model: str, reply: Reply, usage: Usage, settings: Settings
) -> list[Event]:
    """The reply as a stream. Usage counts are cumulative: the last ones told are the totals."""
    opening = {**usage, "output_tokens": 1}
    opening.pop("output_tokens_details", None)
    start = message(message_id, model, reply, opening)
    start |= {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    out = [_event("message_start", {"message": start}, opening)]
    if settings.pings:
        out.append(_PING)
    late: list[Event] = []
    for index, block in enumerate(reply.content):
        torn = reply.cut_input if index == len(reply.content) - 1 else None
        out += _block(index, block, torn, settings)
        stop = _event("content_block_stop", {"index": index})
        (late if settings.late_stops else out).append(stop)
        if settings.unknown_events:
            out.append(_event("content_block_score", {"index": index, "score": 1}))
    closing = {key: value for key, value in usage.items() if key in _CUMULATIVE}
    delta = {
        "stop_reason": reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "stop_details": reply.stop_details,
    }
    out += late
    out.append(_event("message_delta", {"delta": delta, "usage": closing}, closing))
    out.append(_STOP)
    return out


_CUMULATIVE = frozenset(
    [
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "input_tokens",
        "output_tokens",
        "output_tokens_details",
        "server_tool_use",
    ]
)


def _event(name: str, fields: Mapping[str, Any], usage: Usage | None = None) -> Event:
    return Event(name, encode({"type": name, **fields}), usage)


_PING = _event("ping", {})
_STOP = _event("message_stop", {})


def _delta(index: int, kind: str, key: str, value: str) -> Event:
    return _event("content_block_delta", {"index": index, "delta": {"type": kind, key: value}})


def _block(
    index: int, block: Mapping[str, Any], torn: str | None, settings: Settings
) -> Iterator[Event]:
    """A block's start and deltas. Kinds without deltas of their own come whole in the start."""
    kind = block["type"]
    empty: dict[str, Any] = dict(block)
    deltas: list[Event] = []
    if kind == "text":
        empty["text"] = ""
        deltas = [_delta(index, "text_delta", "text", part) for part in _chunks(block["text"])]
    elif kind == "thinking":
        empty |= {"thinking": "", "signature": ""}
        thought = _chunks(str(block.get("thinking", "")))
        deltas = [_delta(index, "thinking_delta", "thinking", part) for part in thought]
        deltas.append(_delta(index, "signature_delta", "signature", block["signature"]))
    elif kind in ("tool_use", "server_tool_use"):
        empty["input"] = {}
        if settings.bare_calls:
            del empty["input"]
        deltas = _input(index, block, torn)
    elif kind == "compaction":
        empty["content"] = ""
        deltas = [_delta(index, "compaction_delta", "content", str(block["content"]))]
    yield _event("content_block_start", {"index": index, "content_block": empty})
    yield from deltas


def _input(index: int, block: Mapping[str, Any], torn: str | None) -> list[Event]:
    """The input in two halves, so that no client gets by on reading the first delta alone."""
    text = encode(block["input"]).decode() if torn is None else torn
    half = len(text) // 2
    parts = [part for part in (text[:half], text[half:]) if part]
    return [_delta(index, "input_json_delta", "partial_json", part) for part in parts]


def _chunks(text: str) -> Iterator[str]:
    for start in range(0, len(text), TEXT_CHUNK):
        yield text[start : start + TEXT_CHUNK]
