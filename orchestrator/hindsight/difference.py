"""Two requests of an agent side by side: what came, what left, and where it went. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator import events as ev
from orchestrator.context.history import THINKING
from orchestrator.hindsight.calls import Call
from orchestrator.hindsight.pieces import Piece, key_of, pieces_of
from orchestrator.state import State

How = Literal["offloaded", "compacted", "replaced", "left out", "unknown"]


@dataclass(frozen=True, slots=True)
class Gone:
    """A piece that is not in the later request. ``where``: the file that has it, from the workspace;
    ``compaction``: the number of the compaction that took it out."""

    piece: Piece
    how: How
    where: str | None = None
    compaction: int | None = None

    def __str__(self) -> str:
        match self.how:
            case "offloaded":
                return f"moved to {self.where}"
            case "compacted":
                return f"compaction {self.compaction}, kept in {self.where}"
            case "replaced":
                return "replaced: it is made anew for each request"
            case "left out":
                return "left out: what stood before it has changed"
            case _:
                return "not known"


@dataclass(frozen=True, slots=True)
class Difference:
    """``kept``: pieces that both requests have."""

    before: Call
    after: Call
    kept: tuple[Piece, ...]
    came: tuple[Piece, ...]
    gone: tuple[Gone, ...]


def difference(calls: Sequence[Call], before: Call, after: Call) -> Difference:
    """From the request of ``before`` to that of ``after``, both among the agent's ``calls``."""
    old, new = pieces_of(before), pieces_of(after)
    left = Counter(piece.key for piece in old)
    kept, came = [], []
    for piece in new:
        if left[piece.key] > 0:
            left[piece.key] -= 1
            kept.append(piece)
        else:
            came.append(piece)
    gone = []
    ways = _ways(_between(calls, before, after))
    # What is there twice and once afterwards: the newer one is taken to have left.
    for piece in reversed(old):
        if left[piece.key] > 0:
            left[piece.key] -= 1
            gone.append(_way(piece, ways))
    return Difference(before, after, tuple(kept), tuple(came), tuple(reversed(gone)))


def _between(calls: Sequence[Call], before: Call, after: Call) -> Iterable[tuple[State, ev.Record]]:
    for call in calls:
        if before.record.seq < call.record.seq <= after.record.seq:
            yield from call.edits


_Way = tuple[How, str | None, int | None]


def _ways(edits: Iterable[tuple[State, ev.Record]]) -> dict[bytes, _Way]:
    """By a block's key, where the edits took it. What moved to a file first, is there."""
    found: dict[bytes, _Way] = {}
    for state, record in edits:
        fact = record.fact
        if isinstance(fact, ev.Offloaded) and fact.entry is not None and fact.block is not None:
            block = state.messages[fact.entry].message["content"][fact.block]
            found.setdefault(key_of(block), ("offloaded", fact.path, None))
        elif isinstance(fact, ev.Compacted):
            dropped = [
                b for e in state.messages[1 : 1 + fact.messages] for b in e.message["content"]
            ]
            # The summary before this one, and a first request too long to stay whole.
            head = state.messages[0].message["content"][: state.head_blocks]
            for block in (*head, *dropped):
                way: _Way = ("compacted", fact.archive, state.compactions + 1)
                found.setdefault(key_of(block), way)
    return found


def _way(piece: Piece, ways: dict[bytes, _Way]) -> Gone:
    if piece.section in ("todos", "note"):
        return Gone(piece, "replaced")
    if piece.key in ways:
        return Gone(piece, *ways[piece.key])
    if piece.kind in THINKING:
        return Gone(piece, "left out")
    return Gone(piece, "unknown")
