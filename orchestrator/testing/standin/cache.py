"""The prompt cache: entries only at breakpoints, found by a short look back from each breakpoint.

An entry names a prefix of tools, system and messages. It can be read once the answer to the request
that wrote it has begun, lives for five minutes or an hour from that request's start, and every read
renews it. Nothing shorter than the model's minimum is kept. Not modelled: eviction under load, and
the loss of the messages' part when `tool_choice` or the thinking settings change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .models import Model
from .tokens import Prompt

#: Positions examined from each breakpoint, the breakpoint's own included.
LOOKBACK = 20
LIFETIMES = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How a prompt's input tokens are billed. The four figures add up to the whole prompt."""

    uncached: int
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    #: Entries to keep once the answer begins: prefix and lifetime.
    entries: tuple[tuple[bytes, str], ...] = ()
    read_entry: bytes | None = None

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h

    @property
    def total(self) -> int:
        return self.uncached + self.read + self.written


def plan(prompt: Prompt, minimum: int, known: Callable[[bytes], bool]) -> CacheUse:
    """What a prompt reads and writes, given which prefixes are readable now."""
    points = [p for p in prompt.breakpoints if prompt.tokens_at(p.position) >= minimum]
    if not points:
        return CacheUse(prompt.tokens)
    found = max(_look_back(prompt, point.position, known) for point in points)
    read = prompt.tokens_at(found) if found >= 0 else 0
    hour = max((prompt.tokens_at(p.position) for p in points if p.ttl == "1h"), default=0)
    last = max(prompt.tokens_at(p.position) for p in points)
    written_1h = max(0, hour - read)
    return CacheUse(
        uncached=prompt.tokens - max(last, read),
        read=read,
        written_5m=last - read - written_1h,
        written_1h=written_1h,
        entries=tuple((prompt.hashes[p.position], p.ttl) for p in points),
        read_entry=prompt.hashes[found] if found >= 0 else None,
    )


def _look_back(prompt: Prompt, position: int, known: Callable[[bytes], bool]) -> int:
    """The newest readable position within reach of a breakpoint; -1: none."""
    for candidate in range(position, max(-1, position - LOOKBACK), -1):
        if known(prompt.hashes[candidate]):
            return candidate
    return -1


class Cache:
    """The entries of all models. `clock` gives seconds; tests may pass their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expiry: dict[tuple[str, bytes], tuple[float, str]] = {}

    def plan(self, prompt: Prompt, model: Model) -> tuple[CacheUse, float]:
        """What this prompt reads and writes, and the moment from which its entries live."""
        now = self._clock()

        def known(prefix: bytes) -> bool:
            return self._expiry.get((model.name, prefix), (0.0, ""))[0] > now

        return plan(prompt, model.cache_minimum, known), now

    def begin(self, use: CacheUse, model: Model, started: float) -> None:
        """Called when an answer begins: from here on its entries can be read."""
        if use.read_entry is not None:
            key = (model.name, use.read_entry)
            ttl = self._expiry[key][1]
            self._expiry[key] = (started + LIFETIMES[ttl], ttl)
        for prefix, ttl in use.entries:
            expiry = self._expiry.get((model.name, prefix), (0.0, ""))[0]
            if started + LIFETIMES[ttl] >= expiry:
                self._expiry[(model.name, prefix)] = (started + LIFETIMES[ttl], ttl)
