"""All that one agent was sent, turn by turn, told from its records alone. Pure.

Contents stand once each, in ``blocks``; a turn lists them by number, section by section, with what is
new in it, what was left out of it since the turn before, and where that went.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from orchestrator import events as ev
from orchestrator.context.history import THINKING
from orchestrator.events import Record
from orchestrator.messages import Block, encode, text_block, text_of, tool_uses
from orchestrator.state import State, apply, reminder
from orchestrator.steps import lines_of

Json = dict[str, Any]
_MEDIA = frozenset({"image", "document"})


def detail(records: Iterable[Record]) -> Json:
    """``records``: those of one agent, in order."""
    reading = _Reading()
    for record in records:
        reading.take(record)
    return {
        "id": reading.agent_id,
        "brief": reading.brief,
        "conclusion": reading.conclusion,
        "blocks": reading.blocks,
        "turns": reading.turns,
    }


@dataclass
class _Reading:
    state: State = field(default_factory=State)
    agent_id: str = ""
    brief: str = ""
    conclusion: str = ""
    blocks: list[Json] = field(default_factory=list)
    turns: list[Json] = field(default_factory=list)
    # A block is recognised by being the same object; it is kept, so that no other gets its id.
    _known: dict[int, int] = field(default_factory=dict)
    _kept: list[Block] = field(default_factory=list)
    _plans: dict[str, Block] = field(default_factory=dict)
    _tools: dict[str, str] = field(default_factory=dict)
    _before: dict[int, None] = field(default_factory=dict)
    _gone: list[tuple[str, str]] = field(default_factory=list)
    _compacted: list[str] = field(default_factory=list)

    def take(self, record: Record) -> None:
        fact = record.fact
        match fact:
            case ev.AgentStarted():
                self.agent_id, self.brief = record.agent_id, fact.brief
            case ev.AgentEnded():
                self.conclusion = fact.conclusion
            case ev.ModelReplied() | ev.ModelFailed() if fact.purpose != "summary":
                self._call(record.turn, fact)
            case ev.Offloaded(entry=int()):
                self._gone.append((fact.tool_use_id, f"offloaded to {fact.path}"))
            case ev.Compacted():
                number = self.state.compactions + 1
                self._compacted.append(f"compaction {number}, archived in {fact.archive}")
        if self.state.started is not None or isinstance(fact, ev.AgentStarted):
            self.state = apply(self.state, fact)
        if isinstance(fact, ev.ModelReplied) and fact.purpose != "summary":
            self.turns[-1]["reply"] = [self._number(b) for b in fact.blocks]

    def _call(self, turn: int, fact: ev.ModelReplied | ev.ModelFailed) -> None:
        """A call goes out. One that is tried again was sent the same: it is one turn."""
        if not self.turns or self.turns[-1]["turn"] != turn or self.turns[-1]["reply"]:
            self.turns.append(self._sent(turn, fact.purpose))
        now = self.turns[-1]
        now["attempts"] += 1
        if isinstance(fact, ev.ModelReplied):
            now["reported"] = fact.context_tokens or None

    def _sent(self, turn: int, purpose: str) -> Json:
        state = self.state
        sections = [(name, [self._number(b) for b in part]) for name, part in self._sections()]
        now = {number: None for _, part in sections for number in part}
        at = lines_of(state)
        sent: Json = {
            "turn": turn,
            "purpose": purpose,
            "attempts": 0,
            "estimate": state.context_tokens,
            "reported": None,
            "factor": round(state.estimator.tokens_per_byte, 5),
            "lines": [at.offload, at.compact, at.exhausted, at.window],
            "sections": sections,
            "new": [number for number in now if number not in self._before],
            "left": [[n, self._where(n)] for n in self._before if n not in now],
            "reply": [],
        }
        self._before, self._gone, self._compacted = now, [], []
        return sent

    def _sections(self) -> Iterator[tuple[str, list[Block]]]:
        """In the order in which they are sent."""
        state, spec = self.state, self.state.spec
        yield "tools", spec.tool_schemas
        yield "system prompt", spec.system[:1]
        yield "memory and instructions", spec.system[1:]
        first, *history = (entry.message["content"] for entry in state.messages)
        head = 1 + (state.compactions > 0)
        yield "first request", first[:1]
        yield "summary", first[1:head]
        yield "history", [*first[head:], *(block for content in history for block in content)]
        yield "to-dos", self._todos()

    def _todos(self) -> list[Block]:
        state = self.state
        newest = state.messages[-1].message
        text = reminder(state) if newest["role"] == "user" else None
        # It is made anew for every request; while it says the same, it is the same.
        return [] if text is None else [self._plans.setdefault(text, text_block(text))]

    def _number(self, block: Block) -> int:
        number = self._known.get(id(block))
        if number is None:
            number = self._known[id(block)] = len(self.blocks)
            self._kept.append(block)
            self.blocks.append(self._described(block))
        return number

    def _described(self, block: Block) -> Json:
        for use in tool_uses([block]):
            self._tools[use["id"]] = use["name"]
        kind = "tool" if "input_schema" in block else str(block.get("type"))
        return {"kind": kind, "title": self._title(block), **_text_of(block)}

    def _title(self, block: Block) -> str:
        match block.get("type"):
            case "tool_use":
                return f"call of {block['name']}"
            case "tool_result":
                said = "error" if block.get("is_error") else "result"
                return f"{said} of {self._tools.get(block['tool_use_id'], 'a tool')}"
            case kind:
                return str(block.get("name") or kind)

    def _where(self, number: int) -> str:
        """Where a block went that was in the request before."""
        block = self._kept[number]
        call_id = block.get("tool_use_id") or block.get("id")
        for moved, where in self._gone:
            if moved == call_id:
                return where
        if block.get("type") == "text" and block["text"].startswith("<todos>"):
            return "restated as it is now"
        if self._compacted:
            return self._compacted[-1]
        return "thinking is left out" if block.get("type") in THINKING else "replaced"


def _text_of(block: Block) -> Json:
    """The text to show, and the block's weight in bytes."""
    size = len(encode(block))
    kind = block.get("type")
    if kind == "text":
        text = block["text"]
    elif kind == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False, indent=1)
    elif kind == "tool_result":
        text = _result(block.get("content") or "")
    elif kind in THINKING:
        text = block.get("thinking") or "(encrypted)"
    elif kind in _MEDIA:
        text = f"[{block.get('source', {}).get('media_type', kind)}, {size:,} bytes]"
    else:
        text = json.dumps(block, ensure_ascii=False, indent=1)
    return {"text": text, "bytes": size}


def _result(content: str | list[Block]) -> str:
    if isinstance(content, str):
        return content
    media = [_text_of(block)["text"] for block in content if block.get("type") in _MEDIA]
    return "\n".join([text_of(content), *media]).strip()
