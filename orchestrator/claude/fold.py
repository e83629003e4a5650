"""A reply, folded from the events of its stream. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from orchestrator.claude.faults import Target, from_answer
from orchestrator.claude.sse import Event
from orchestrator.errors import InvalidReply, StreamCut
from orchestrator.ledger import Usage
from orchestrator.messages import Block
from orchestrator.model import Reply

# The reply ended before the model did: a tool's input may stop in mid-word.
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})


@dataclass(slots=True)
class _Part:
    """A block that is growing. Pieces are joined once, at the end."""

    block: Block
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def grow(self, key: str, text: str) -> None:
        self.pieces.setdefault(key, []).append(text)


# Answers of the diagnosis that say nothing about the prefix.
_NO_REASON = ("unavailable", "previous_message_not_found")


class ReplyFold:
    """Feed it a stream's events in order; `finish` gives the reply.

    Blocks are kept as they came, unknown types included, except that an empty text block is left
    out: the API writes such blocks and refuses to read them.
    """

    def __init__(self, target: Target, request_id: str | None = None) -> None:
        self._target = target
        self.request_id = request_id
        self._started = False
        self._parts: list[_Part] = []
        self._at: dict[int, _Part] = {}
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._message_id: str | None = None
        self._cache_miss: str | None = None
        self._stop: dict[str, Any] = {}
        self.complete: bool = False

    @property
    def usage(self) -> Usage | None:
        """What was reported so far; ``None``: nothing."""
        return Usage.of(self._usage) if self._usage else None

    def feed(self, event: Event) -> None:
        """Take one event in. Pings and unknown events change nothing.

        Raises the error of an ``error`` event, and `InvalidReply` for an event out of place.
        """
        step = _STEPS.get(event["type"])
        if step is None or self.complete:
            return
        try:
            step(self, event)
        except (AttributeError, KeyError, TypeError) as error:
            self._invalid(f"a {event['type']} event without what it must hold: {error!r}")

    def finish(self) -> Reply:
        """The whole reply. Raises `StreamCut` if its end never came, and `InvalidReply`."""
        if not self.complete:
            text = self._target.sentence(StreamCut)
            raise StreamCut(text, usage=self.usage, request_id=self.request_id)
        if not self._started:
            self._invalid("a message_stop without a message_start")
        return Reply(
            content=[block for part in self._parts if not _is_empty(block := self._built(part))],
            stop_reason=self._stop_reason(),
            usage=self.usage,
            model=self._model,
            request_id=self.request_id,
            message_id=self._message_id,
            cache_miss=self._cache_miss,
        )

    # -- one step per event type; content_block_stop needs none, since llama.cpp sends all of them
    # -- at the end, after the last block

    def _message_start(self, event: Event) -> None:
        message = event["message"]
        self._started = True
        self._model = message.get("model") or ""
        self._message_id = message.get("id")
        self._diagnose(message)
        self._report(message.get("usage"))

    def _block_start(self, event: Event) -> None:
        part = _Part(dict(event["content_block"]))
        self._parts.append(part)
        self._at[event["index"]] = part

    def _block_delta(self, event: Event) -> None:
        part, delta = self._at[event["index"]], event["delta"]
        match delta["type"]:
            case "input_json_delta":
                part.grow("input", delta["partial_json"] or "")
            case "citations_delta":
                part.block["citations"] = [
                    *(part.block.get("citations") or ()),
                    delta["citation"],
                ]
            case "signature_delta":
                part.block["signature"] = delta["signature"]
            case _:
                _apply(part, delta)

    def _message_delta(self, event: Event) -> None:
        self._stop |= event["delta"]
        self._diagnose(event)
        self._report(event.get("usage"))

    def _message_stop(self, _event: Event) -> None:
        self.complete = True

    def _error(self, event: Event) -> NoReturn:
        headers = {"request-id": self.request_id} if self.request_id else {}
        raise from_answer(200, event, headers, self._target, usage=self.usage)

    # -- helpers

    def _diagnose(self, source: Mapping[str, Any]) -> None:
        """Why the prompt cache could not be used, where that was asked and is known by now."""
        reason = (source.get("diagnostics") or {}).get("cache_miss_reason") or {}
        if reason.get("type") not in (None, *_NO_REASON):
            self._cache_miss = str(reason["type"])

    def _report(self, usage: Mapping[str, Any] | None) -> None:
        """Figures are cumulative: a later one replaces, a missing or null one does not."""
        self._usage |= {key: value for key, value in (usage or {}).items() if value is not None}

    def _stop_reason(self) -> str | None:
        reason: str | None = self._stop.get("stop_reason")
        # llama.cpp calls a stop sequence that was hit the end of the turn.
        if reason == "end_turn" and self._stop.get("stop_sequence") is not None:
            return "stop_sequence"
        return reason

    def _built(self, part: _Part) -> Block:
        block = part.block
        pieces = dict(part.pieces)
        if str(block.get("type")).endswith("tool_use"):
            # llama.cpp starts the block without an input.
            block.setdefault("input", {})
        partial = "".join(pieces.pop("input", ()))
        if partial:
            block["input"] = self._parsed(partial, str(block.get("name")))
        for key, texts in pieces.items():
            block[key] = (block.get(key) or "") + "".join(texts)
        return block

    def _parsed(self, partial: str, tool: str) -> dict[str, Any]:
        try:
            value = json.loads(partial, parse_constant=_refuse)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
        if self._stop.get("stop_reason") not in _CUT_SHORT:
            self._invalid(f"the input of a call of {tool} is not a JSON object")
        return {}

    def _invalid(self, what: str) -> NoReturn:
        text = self._target.sentence(InvalidReply, what)
        raise InvalidReply(text, usage=self.usage, request_id=self.request_id) from None


def _apply(part: _Part, delta: Mapping[str, Any]) -> None:
    """Text is joined on, whatever else a delta holds replaces: right for text, thinking, and, as
    far as one can know, for types that are yet to come."""
    for key, value in delta.items():
        if key == "type":
            continue
        if isinstance(value, str) and isinstance(part.block.get(key), str | None):
            part.grow(key, value)
        else:
            part.block[key] = value


def _is_empty(block: Block) -> bool:
    return block.get("type") == "text" and not block.get("text")


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity are no JSON, and no server would take them back."""
    raise ValueError(constant)


_STEPS: dict[str, Callable[[ReplyFold, Event], None]] = {
    "message_start": ReplyFold._message_start,
    "content_block_start": ReplyFold._block_start,
    "content_block_delta": ReplyFold._block_delta,
    "message_delta": ReplyFold._message_delta,
    "message_stop": ReplyFold._message_stop,
    "error": ReplyFold._error,
}
