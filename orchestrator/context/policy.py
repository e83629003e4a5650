"""The context policy: four levels, computed from an estimate and a window. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.context.windows import Window

Level = Literal["normal", "offload", "compact", "exhausted"]

# Recall and cost decay long before a million tokens.
WORKING_WINDOW_TOKENS = 200_000
OUTPUT_TOKENS = 8_000
HEADROOM_MIN_TOKENS = 10_000
HEADROOM_MAX_TOKENS = 40_000
OFFLOAD_SHARE = 0.75
GAIN_SHARE = 0.2
# Replayed over recorded sessions, 0.1 bills 1 to 3 points more; 0.2 half a point to 2.5 less, but with
# more compactions, which lose what an offload keeps (`docs/replay.md`).
OFFLOAD_GAIN_SHARE = 0.15
KEEP_SHARE = 0.2
# Compaction waits until this many turns beyond the kept ones have gathered.
GATHER_TURNS = 4


@dataclass(frozen=True, slots=True)
class Context:
    """How an agent's context is kept small.

    ``offload_at``: results over so many characters move to a file at birth (``None``: never).
    ``compact_at``: share of the working window at which history is summarised (``None``: by headroom).
    ``compaction``: whether it is summarised at all; without it a full context ends the agent.
    ``window``: working window in tokens (``None``: the model's input cap, at most 200,000).
    ``keep_turns``: newest turns that a compaction keeps whole.
    ``summary_model``: the model that writes summaries (``None``: the agent's own; ``"rules"``: none).
    ``summary_tokens``: the length that a summary is asked to keep to.

    Raises ``ValueError`` for a setting that cannot be.
    """

    offload_at: int | None = 5_000
    compact_at: float | None = None
    compaction: bool = True
    window: int | None = None
    keep_turns: int = 8
    summary_model: str | None = None
    summary_tokens: int = 800

    def __post_init__(self) -> None:
        if self.offload_at is not None and self.offload_at < 1:
            raise ValueError("offload_at must be at least 1 character, or None for never")
        if self.compact_at is not None and not 0 < self.compact_at <= 1:
            raise ValueError("compact_at is a share of the window: over 0 and at most 1")
        if self.window is not None and self.window < 1_000:
            raise ValueError("window must be at least 1,000 tokens")
        if self.keep_turns < 1:
            raise ValueError("keep_turns must be at least 1")


@dataclass(frozen=True, slots=True)
class Lines:
    """The policy's lines in tokens, each the least context at which its level begins."""

    window: int
    reserve: int
    offload: int
    compact: int
    exhausted: int


def working_window(settings: Context, window: Window) -> int:
    """W in tokens. A ``window`` above the known cap raises ``ValueError`` naming the cap."""
    if settings.window is None:
        return min(window.input_cap, WORKING_WINDOW_TOKENS)
    if window.known and settings.window > window.input_cap:
        raise ValueError(
            f"a window of {settings.window:,} tokens is above the model's input cap of "
            f"{window.input_cap:,}: choose at most that"
        )
    return settings.window


def output_reserve(working: int, window: Window) -> int:
    """Output tokens to ask for: 8,000, never more than the model gives or an eighth of W.

    In a small window a larger reserve would make the compact line and the exhausted line one: the
    estimate's error then decides (replayed on recorded sessions at 32k).
    """
    return min(window.output_cap, reserve_within(working))


def reserve_within(working: int) -> int:
    """The most output to ask for in a window of ``working`` tokens."""
    return max(256, min(OUTPUT_TOKENS, working // 8))


def lines(settings: Context, working: int, reserve: int, largest_recent_turn: int = 0) -> Lines:
    """The four lines for W = ``working``, with the size of the largest of the last five turns."""
    headroom = max(HEADROOM_MIN_TOKENS, reserve + largest_recent_turn)
    headroom = min(headroom, HEADROOM_MAX_TOKENS, working // 4)
    at = working - headroom if settings.compact_at is None else int(settings.compact_at * working)
    return Lines(
        window=working,
        reserve=reserve,
        offload=int(OFFLOAD_SHARE * at),
        compact=at,
        exhausted=working - reserve,
    )


def level(tokens: int, at: Lines) -> Level:
    """Where a context of ``tokens`` stands."""
    if tokens >= at.exhausted and tokens >= at.compact:
        return "exhausted"
    if tokens >= at.compact:
        return "compact"
    return "offload" if tokens >= at.offload else "normal"
