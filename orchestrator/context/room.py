"""Making room: what moves out, what is summarised, and when nothing is left to try. Pure.

Offload comes first, since it loses nothing; compaction second. Both only where a line is crossed, and
only when they free enough to be worth a broken prefix or a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.context import compaction
from orchestrator.context.compaction import Cut
from orchestrator.context.history import Entry
from orchestrator.context.offload import Part, largest_parts, old_parts
from orchestrator.context.policy import (
    GAIN_SHARE,
    GATHER_TURNS,
    KEEP_SHARE,
    OFFLOAD_GAIN_SHARE,
    Context,
    Lines,
)

MAX_IDLE_COMPACTIONS = 3
# Rejections in a row as too large: answered by an offload, then by a compaction, then by the end.
MAX_OVERFLOWS = 2

# Bytes of what stands around a summary: where the archive is, that it is history.
_AROUND_SUMMARY = 400

Trigger = Literal["line", "manual", "overflow"]


@dataclass(frozen=True, slots=True)
class Offload:
    """Move parts of the history to files, together."""

    reason: Literal["line", "sum", "tail", "overflow"]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """Summarise the messages before the cut (the first message, always kept, is not counted)."""

    trigger: Trigger
    cut: Cut


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing is left that would make the context smaller."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A context at the moment before a model call.

    ``tokens``: its estimate. ``can_offload``: whether there is a store that can be written and read
    back; ``can_archive``: whether what a compaction drops can be kept. ``idle_compactions``: how many
    in a row freed too little; ``has_grown``: whether anything was added since the last of them.
    """

    messages: Sequence[Entry]
    settings: Context
    at: Lines
    tokens: int
    tokens_per_byte: float
    can_offload: bool = True
    can_archive: bool = True
    idle_compactions: int = 0
    has_grown: bool = True

    def movable(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        usable = self.can_offload and self.settings.offload_at is not None
        return tuple(parts) if usable else ()

    @property
    def may_compact(self) -> bool:
        """An automatic compaction that freed little may not run again before anything was added."""
        return (
            self.settings.compaction
            and self.can_archive
            and self.idle_compactions < MAX_IDLE_COMPACTIONS
            and (self.has_grown or not self.idle_compactions)
        )


def make_room(now: Situation) -> Offload | Compact | Full | None:
    """What the lines ask for; ``None``: send as it is."""
    full = now.tokens >= now.at.exhausted
    if now.tokens < now.at.offload and not full:
        return None
    if (parts := _old_batch(now)) is not None:
        return Offload("line", parts)
    if now.tokens < now.at.compact and not full:
        return None
    if now.may_compact:
        cut = plan_cut(now, forced=full)
        # When the window is full anything helps; else a summary must be worth its call.
        least = 0.0 if full else GAIN_SHARE * now.at.window
        if cut is not None and _freed(now, cut) > least:
            return Compact("line", cut)
    return _last_resort(now) if full else None


def after_overflow(now: Situation, overflows: int) -> Offload | Compact | Full:
    """A request was refused as too large, for the ``overflows``-th time in a row: first the largest
    part goes, losslessly, then history is compacted. Each makes the request smaller."""
    if overflows <= 1 and (parts := now.movable(largest_parts(now.messages, 1))):
        return Offload("overflow", parts)
    can_compact = now.settings.compaction and now.can_archive
    cut = plan_cut(now, forced=True) if can_compact else None
    if cut is None or overflows > MAX_OVERFLOWS or _freed(now, cut) <= 0:
        return Full()
    return Compact("overflow", cut)


def plan_cut(now: Situation, *, forced: bool) -> Cut | None:
    """Where a compaction would cut, if there is enough to cut."""
    keep_weight = int(KEEP_SHARE * now.at.window / now.tokens_per_byte)
    gather = 1 if forced else GATHER_TURNS
    return compaction.plan(now.messages[1:], now.settings.keep_turns, keep_weight, gather)


def _last_resort(now: Situation) -> Offload | Full:
    """What is left is the newest turns: their parts go one by one, the largest first, and small ones
    too, with the shortest of placeholders."""
    needed = max(1, round((now.tokens - now.at.compact) / now.tokens_per_byte))
    parts = now.movable(largest_parts(now.messages, needed))
    if not parts:
        return Full()
    newest = len(now.messages) - 1
    return Offload("sum" if all(p.entry == newest for p in parts) else "tail", parts)


def _old_batch(now: Situation) -> tuple[Part, ...] | None:
    """The large parts of old turns, if together they are worth breaking the cached prefix for."""
    parts = now.movable(old_parts(now.messages, now.settings.keep_turns))
    gain = sum(p.gain for p in parts) * now.tokens_per_byte
    return parts if parts and gain >= OFFLOAD_GAIN_SHARE * now.at.window else None


def _freed(now: Situation, cut: Cut) -> float:
    """About the tokens that a compaction would free: what goes, less the summary that comes."""
    weight = sum(e.weight for e in now.messages[1 : 1 + cut.dropped])
    return (weight - _AROUND_SUMMARY) * now.tokens_per_byte - now.settings.summary_tokens
