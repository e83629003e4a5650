"""All that one agent was sent, turn by turn, rebuilt from its records (`orchestrator.hindsight`). Pure.

Contents stand once each, in ``blocks``; a turn lists them by number, section by section, with what is
new in it, what left since the turn before, and where that went.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.hindsight import (
    SECTIONS,
    Call,
    Piece,
    calls_of,
    difference,
    opening,
    piece_of,
    pieces_of,
    turns_of,
)
from orchestrator.steps import lines_of
from orchestrator.viewer.shown import Tell, length_only

Json = dict[str, Any]


def detail(records: Iterable[Record], run_id: str = "", tell: Tell = length_only) -> Json:
    """``records``: those of one agent, in order; without any, the ``id`` is empty. ``tell``: what is
    told of texts."""
    own = list(records)
    agent_id = own[0].agent_id if own else ""
    facts = [record.fact for record in own]
    brief = next((fact.brief for fact in facts if isinstance(fact, ev.AgentStarted)), "")
    ends = [fact.conclusion for fact in facts if isinstance(fact, ev.AgentEnded)]
    shown = _Shown(tell)
    turns = _turns(calls_of(own, agent_id, run_id), shown) if brief else []
    return {
        "id": agent_id,
        "brief": tell(brief),
        "conclusion": tell(ends[-1]) if ends else "",
        "blocks": shown.blocks,
        "turns": turns,
    }


@dataclass
class _Shown:
    """The contents so far, each once."""

    tell: Tell
    blocks: list[Json] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def number(self, piece: Piece) -> int:
        number = self._numbers.setdefault(piece.key, len(self.blocks))
        if number == len(self.blocks):
            text = self.tell(piece.text)
            self.blocks.append({"title": _title(piece), "text": text, "bytes": piece.weight})
        return number


def _title(piece: Piece) -> str:
    tool = piece.tool or "a tool"
    match piece.kind:
        case "tool":
            return str(piece.block.get("name"))
        case "tool_use":
            return f"call of {piece.block['name']}"
        case "tool_result":
            return f"{'error' if piece.block.get('is_error') else 'result'} of {tool}"
        case kind:
            return kind


def _turns(calls: Sequence[Call], shown: _Shown) -> list[Json]:
    tries: dict[int, int] = {}
    for call in opening(calls):
        tries[call.turn] = tries.get(call.turn, 0) + 1
    told: list[Json] = []
    before: Call | None = None
    last: dict[int, None] = {}
    for turn, call in turns_of(calls).items():
        pieces = pieces_of(call)
        numbers = [shown.number(piece) for piece in pieces]
        now = dict.fromkeys(numbers)
        has_lost = before is not None and any(number not in now for number in last)
        gone = difference(calls, before, call).gone if before and has_lost else ()
        told.append(
            _figures(call, pieces)
            | {
                "turn": turn,
                "attempts": tries[turn],
                "sections": _by_section(pieces, numbers),
                "new": [number for number in now if number not in last],
                "left": [[shown.number(each.piece), str(each)] for each in gone],
                "reply": _reply(call, shown),
            }
        )
        before, last = call, now
    return told


_PROOF = {
    True: "Equal, by its hash, to what was sent.",
    False: "NOT equal, by its hash, to what was sent.",
    None: "Rebuilt from the journal; no hash of what was sent was recorded.",
}
_NAMES = {
    "system": "system prompt",
    "memory": "memory and instructions",
    "request": "first request",
    "todos": "to-dos",
    "note": "asked in this request only",
}


def _figures(call: Call, pieces: Sequence[Piece]) -> Json:
    at = lines_of(call.state)
    reported = call.reported_tokens
    said = "no tokens reported" if reported is None else f"{reported:,} tokens reported"
    weight = sum(piece.weight for piece in pieces) or 1
    return {
        "purpose": call.fact.purpose,
        "proven": call.is_proven,
        "proof": _PROOF[call.is_proven],
        "told": f"{said}, {call.state.context_tokens:,} estimated · lines: offload {at.offload:,}, "
        f"compact {at.compact:,}, exhausted {at.exhausted:,} of {at.window:,}",
        "reported": reported,
        "estimate": call.state.context_tokens,
        # Tokens of a part: its bytes times this.
        "factor": sum(piece.tokens for piece in pieces) / weight,
        "lines": [at.offload, at.compact, at.exhausted, at.window],
    }


def _by_section(pieces: Sequence[Piece], numbers: Sequence[int]) -> list[Json]:
    """In the order in which a model reads them, by the name to show."""
    found: dict[str, list[int]] = {_NAMES.get(name, name): [] for name in SECTIONS}
    for piece, number in zip(pieces, numbers, strict=True):
        found[_NAMES.get(piece.section, piece.section)].append(number)
    return [[name, part] for name, part in found.items() if part]  # type: ignore[misc]


def _reply(call: Call, shown: _Shown) -> list[int]:
    """What the model answered: mostly a part of the next request."""
    blocks = call.fact.blocks if isinstance(call.fact, ev.ModelReplied) else []
    return [shown.number(piece_of("history", block)) for block in blocks]
