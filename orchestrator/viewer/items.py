"""The lists of a story, which only grow: model calls, tool calls, marks on the timeline, events. Pure.

An item is a list of values (``page/state.js`` names their places) that begins with the seq of its record.
It is clean from the start: it is handed out as often as somebody asks.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from orchestrator import events as ev
from orchestrator.events import Fact, Record
from orchestrator.ledger import Usage
from orchestrator.progress import one_line
from orchestrator.readings import Price
from orchestrator.viewer.shown import Clean, Tell

_EVENT_CHARS = 240

Item = list[Any]


@dataclass
class Lists:
    """``price``, ``tell``, ``clean``: as in `Story`."""

    price: Price
    tell: Tell
    clean: Clean
    models: list[Item] = field(default_factory=list)
    calls: list[Item] = field(default_factory=list)
    marks: list[Item] = field(default_factory=list)
    events: list[Item] = field(default_factory=list)
    _running: dict[tuple[str, str], int] = field(default_factory=dict)

    def take(self, record: Record, number: int, now: int) -> None:
        """One more record; ``number`` is its agent's, ``now`` its time in milliseconds."""
        fact, head = record.fact, [record.seq, number, record.turn]
        self.events.append([*head, now, fact.event, self.clean(told(fact))])
        match fact:
            case ev.ModelReplied():
                self._add(self.models, [*head, now - fact.latency_ms, now, *self._replied(record)])
            case ev.ModelFailed():
                self._add(self.models, [*head, now, now, *self._failed(record)])
            case ev.ToolStarted():
                self._running[record.agent_id, fact.tool_use_id] = now
            case ev.ToolReturned():
                start = self._running.pop((record.agent_id, fact.tool_use_id), now - fact.ms)
                self._add(self.calls, [*head, start, now, fact.tool, fact.chars, fact.is_error])
            case _:
                if mark := _mark(fact):
                    self._add(self.marks, [*head, now, *mark])

    def between(self, after: int, upto: int) -> dict[str, list[Item]]:
        """The items of the records after one and up to another."""
        return {
            name: _between(getattr(self, name), after, upto)
            for name in ("models", "calls", "marks", "events")
        }

    def _add(self, items: list[Item], item: Item) -> None:
        items.append(self.clean(item))

    def _replied(self, record: Record) -> Item:
        fact = record.fact
        assert isinstance(fact, ev.ModelReplied)
        return [*_tokens(fact), fact.estimate_tokens, fact.stop_reason or "", self._cost(record)]

    def _failed(self, record: Record) -> Item:
        fact = record.fact
        assert isinstance(fact, ev.ModelFailed)
        why = self.tell(fact.message, _EVENT_CHARS)
        return [*_tokens(fact), 0, f"failed: {fact.kind}", self._cost(record), why]

    def _cost(self, record: Record) -> float | None:
        fact = record.fact
        assert isinstance(fact, ev.ModelReplied | ev.ModelFailed)
        return None if fact.usage is None else self.price(fact.model, fact.usage, record.ts)


def _tokens(fact: ev.ModelReplied | ev.ModelFailed) -> Item:
    usage = fact.usage or Usage()
    return [
        *(fact.purpose, fact.model, usage.input_tokens, usage.cache_read_input_tokens),
        *(usage.cache_creation_input_tokens, usage.output_tokens),
    ]


def _mark(fact: Fact) -> Item | None:
    """What the timeline points out: kind, tokens (0: none to speak of), words."""
    match fact:
        case ev.Offloaded():
            kind = "birth" if fact.reason == "birth" else "offload"
            return [kind, 0, f"{fact.chars:,} characters of {fact.tool} to {fact.path}"]
        case ev.Compacted():
            figures = f"{fact.before_tokens:,} → {fact.after_tokens:,} tokens"
            return ["compaction", fact.after_tokens, f"{fact.messages} messages, {figures}"]
        case ev.CacheBroken():
            why = fact.cause if fact.reason is None else f"{fact.cause}: {fact.reason}"
            figures = f"read {fact.read_tokens:,} of {fact.expected_tokens:,}"
            return ["cache", fact.read_tokens, f"{figures} ({why})"]
        case ev.LevelChanged():
            return ["level", fact.context_tokens, f"{fact.level}, line {fact.limit_tokens:,}"]
        case ev.WindowCorrected():
            return ["window", fact.tokens, f"{fact.tokens:,} tokens ({fact.source})"]
        case ev.BudgetReached():
            return ["limit", 0, f"{fact.name} {fact.limit:g}"]
        case _:
            return None


# ── one event in a line ──

_ELSEWHERE = frozenset(
    {"event", "agent_id", "parent_id", "agent_type", "tool_use_id", "index", "message_id"}
    | {"request_id", "usage", "model_config"}
)


@lru_cache(maxsize=64)
def _fields(kind: type[Fact]) -> tuple[str, ...]:
    return tuple(f for f in kind.model_fields if f not in _ELSEWHERE and f not in kind.content)


@lru_cache(maxsize=64)
def _has_usage(kind: type[Fact]) -> bool:
    # A field that is not there is looked for in many places.
    return "usage" in kind.model_fields


def told(fact: Fact) -> str:
    """The event's fields, without texts of people and models, as ``outrider log`` shows them."""
    said = [
        f"{name}={_value(value)}"
        for name in _fields(type(fact))
        if (value := getattr(fact, name)) is not None and value is not False and value != []
    ]
    usage = getattr(fact, "usage", None) if _has_usage(type(fact)) else None
    if isinstance(usage, Usage):
        said.append(f"in={usage.context_tokens} out={usage.output_tokens}")
    return one_line(" ".join(said), _EVENT_CHARS)


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _between(items: list[Item], after: int, upto: int) -> list[Item]:
    first = bisect_right(items, after, key=_seq)
    return items[first : bisect_right(items, upto, key=_seq)]


def _seq(item: Item) -> int:
    seq: int = item[0]
    return seq
