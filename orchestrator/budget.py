"""Limits as a tree: what an agent spends counts for it and for everything above it.

A model call reserves what it may cost before it is made and settles with what was reported, so that
agents working at the same time cannot together pass a limit that each alone would keep. Every agent
keeps enough back for the one turn in which it hands over what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.ledger import Usage

# The last turn at a limit: a conclusion of at most this many tokens.
HANDBACK_OUTPUT_TOKENS = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use; ``None`` is no limit.

    ``max_tokens``, ``max_cost`` (USD), ``max_seconds`` and ``max_agents`` are for the whole run,
    ``max_turns`` for each agent. ``concurrency``: model calls at the same time. ``depth``: how deep
    subagents may spawn (0: no subagents). Raises ``ValueError`` for one that is not over 0 (below 0:
    ``max_agents`` and ``depth``).
    """

    max_tokens: int | None = None
    max_cost: float | None = None
    max_turns: int | None = 200
    max_seconds: float | None = None
    max_agents: int | None = 200
    concurrency: int | None = 8
    depth: int | None = 2

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_cost", "max_turns", "max_seconds", "concurrency"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be over 0, or None for no limit")
        for name in ("max_agents", "depth"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative")


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that a call would pass."""

    name: str
    limit: float


class Budget:
    """One node of the tree. Not shared between threads; every method is atomic between awaits."""

    def __init__(
        self,
        *,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        parent: Budget | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self.parent = parent
        self.tokens: int = 0
        self.cost: float = 0.0
        self.reserved_tokens: int = 0

    @property
    def counts_cost(self) -> bool:
        """Whether a cost limit is set, here or above: only then is a call's price of use."""
        return self.max_cost is not None or (self.parent is not None and self.parent.counts_cost)

    def refuses(self, call_tokens: int, keep_tokens: int) -> Reached | None:
        """The first limit on the way up that a call would pass; ``keep_tokens`` stay for later."""
        if self.max_tokens is not None:
            wanted = self.tokens + self.reserved_tokens + call_tokens + keep_tokens
            if wanted > self.max_tokens:
                return Reached("max_tokens", self.max_tokens)
        # What a call will cost is not known before; the limit stops the next call.
        if self.max_cost is not None and self.cost >= self.max_cost:
            return Reached("max_cost", self.max_cost)
        return self.parent.refuses(call_tokens, keep_tokens) if self.parent else None

    def reserve(self, tokens: int) -> None:
        self.reserved_tokens += tokens
        if self.parent:
            self.parent.reserve(tokens)

    def release(self, tokens: int) -> None:
        self.reserved_tokens -= tokens
        if self.parent:
            self.parent.release(tokens)

    def restore(self, tokens: int, cost: float) -> None:
        """Count what was spent before this process; each node of the tree is told its own sum."""
        self.tokens = tokens
        self.cost = cost

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Count what a call was reported to have used."""
        self.tokens += usage.total_tokens
        self.cost += cost or 0.0
        if self.parent:
            self.parent.spend(usage, cost)
