"""A run as the page tells it: a pure fold over the records, handed out in pieces.

Two kinds of things leave here. *Rows* describe what is true now (the run, each agent, each tool); they
are sent again when they change. *Lists* only grow (calls, marks, events); of them, what is new is
sent. Both are tagged with the record that they came from, so a page that knows everything up to some
record asks for what came `since`, and a page that was away for a while needs nothing else.

Times are milliseconds since the run's first record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.ledger import Usage
from orchestrator.progress import Board, one_line
from orchestrator.readings import AgentRow, Price, RunSummary, Tally, unpriced
from orchestrator.viewer.items import Lists
from orchestrator.viewer.shown import Clean, Tell, Text, length_only, without_shapes
from todos import parse

# What is sent with an agent's row of a long text; the whole is in its detail.
HEAD_CHARS = 1_200

Patch = dict[str, Any]


@dataclass
class ToolRow:
    """One tool over all agents. ``ms``: how long its calls took, added up."""

    name: str
    calls: int = 0
    errors: int = 0
    chars: int = 0
    ms: int = 0


@dataclass
class Story:
    """The records so far.

    ``tell``: what is told of texts; ``hint``: where that is their length alone, the command that shows
    them. ``clean``: all that leaves goes through it. ``alive``: whether somebody holds the run (``None``:
    not looked yet); ``problem``: why its journal cannot be read on.
    """

    run_id: str
    price: Price = unpriced
    tell: Tell = length_only
    clean: Clean = without_shapes
    hint: str = ""
    seq: int = 0
    alive: bool | None = None
    problem: str = ""
    board: Board = field(default_factory=Board)
    tally: Tally = field(init=False)
    _began: float | None = None
    _version: str = ""
    _numbers: dict[str, int] = field(default_factory=dict)
    _changed: dict[str, int] = field(default_factory=dict)
    _tools: dict[str, ToolRow] = field(default_factory=dict)
    _tools_changed: int = 0
    _briefs: dict[str, Text] = field(default_factory=dict)
    _todos: dict[str, tuple[int, str]] = field(default_factory=dict)
    _conclusions: dict[str, tuple[int, ev.AgentEnded]] = field(default_factory=dict)
    _lists: Lists = field(init=False)

    def __post_init__(self) -> None:
        # Asked twice for each call: for the call, and for its agent.
        self.price = lru_cache(maxsize=1)(self.price)
        self.tally = Tally(self.price)
        self._lists = Lists(self.price, self.tell, self.clean)

    def take_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        """One more record; they come in the journal's order."""
        if self._began is None:
            self._began = record.ts
        self.seq = record.seq
        self.tally.take(record)
        if not isinstance(record.fact, ev.RunResumed):
            # That would leave out the time in which nobody worked; the page's times are the journal's.
            self.board = self.board.after(record)
        self._touch(record)
        self._lists.take(record, self._number(record.agent_id), self._ms(record.ts))

    # ── handing out ──

    def since(self, rows_after: int, lists_after: int, most: int = 2_000) -> Patch:
        """What a page lacks that has the rows up to one record and the lists up to another. The
        lists go on for at most ``most`` records; ``seq`` says how far they are then, ``last`` how far
        there is to go. All of it is clean."""
        upto = min(self.seq, lists_after + most)
        patch: Patch = {
            "seq": upto,
            "last": self.seq,
            "run": self._run_row(),
            "agents": [self._agent_row(a) for a, at in self._changed.items() if at > rows_after],
            "todos": {
                agent: [[t.status, self.tell(t.content)] for t in parse(text)]
                for agent, (at, text) in self._todos.items()
                if at > rows_after
            },
            "conclusions": {
                agent: self._conclusion_row(fact)
                for agent, (at, fact) in self._conclusions.items()
                if at > rows_after
            },
        }
        if self._tools_changed > rows_after:
            patch["tools"] = [vars(row) for row in self._tools.values()]
        if any(at > rows_after for at in self._changed.values()):
            patch["order"] = [
                self._number(row.agent_id) for row in self.tally.summary(self.run_id).agents
            ]
        return {**self.clean(patch), **self._lists.between(lists_after, upto)}

    def whole(self) -> Patch:
        """Everything, for a page that is a file."""
        return self.since(-1, 0, self.seq)

    def _run_row(self) -> Patch:
        found = self.tally.summary(self.run_id)
        return {
            "id": self.run_id,
            "task": self._head(found.task),
            "hint": self.hint,
            "model": found.model,
            "version": self._version,
            "status": found.status or _not_ended(self.alive),
            "reason": found.reason,
            "started": found.started,
            "seconds": round(found.seconds, 1),
            "cost": found.cost_usd,
            "requests": sum(row.requests for row in found.agents),
            "unreported": found.unreported,
            "problem": self.problem,
            **_usage(found.usage),
            **self._most(found),
        }

    def _most(self, found: RunSummary) -> Patch:
        """Where the tokens went, at a glance: the agent with the most, the tool that brought the most
        text into contexts, each with its share."""
        patch: Patch = {"top_agent": None, "top_tool": None}
        if found.agents and (total := found.usage.total_tokens):
            most = max(found.agents, key=lambda row: row.usage.total_tokens)
            tokens = most.usage.total_tokens
            patch["top_agent"] = [self._number(most.agent_id), tokens, tokens / total]
        chars = sum(row.chars for row in self._tools.values())
        if chars:
            tool = max(self._tools.values(), key=lambda row: row.chars)
            patch["top_tool"] = [tool.name, tool.chars, tool.chars / chars]
        return patch

    def _agent_row(self, agent_id: str) -> Patch:
        row = self.tally.agents.get(agent_id) or AgentRow(agent_id)
        view = self.board.agents.get(agent_id)
        return {
            "n": self._number(agent_id),
            "id": agent_id,
            "parent": row.parent_id and self._numbers.get(row.parent_id),
            "type": row.agent_type,
            "depth": view.depth if view else 0,
            "brief": self._briefs.get(agent_id, ""),
            "model": row.model,
            "status": row.status,
            "reason": row.reason,
            "doing": view.state if view else "",
            "turns": row.turns,
            "requests": row.requests,
            "unreported": row.unreported,
            "tool_calls": row.tool_calls,
            "cost": row.cost_usd,
            "peak": row.peak_context_tokens,
            "window": row.window_tokens,
            "offloaded": row.offloaded,
            "compactions": row.compactions,
            "conclusion_tokens": row.conclusion_tokens,
            "returned_tokens": row.returned_tokens,
            "conclusion_path": row.conclusion_path,
            "seconds": round(row.seconds, 1),
            "began": self._ms(view.began) if view else 0,
            "ended": self._ms(view.ended) if view and view.ended is not None else None,
            **_usage(row.usage),
        }

    def _head(self, task: str) -> Text:
        head, left = self.tell(task, HEAD_CHARS), len(task) - HEAD_CHARS
        if isinstance(head, int) or left <= 0:
            return head
        return f"{head} … ({left:,} more characters: first request of the main agent)"

    def _conclusion_row(self, fact: ev.AgentEnded) -> Patch:
        return {
            "text": self.tell(fact.conclusion, HEAD_CHARS),
            "chars": len(fact.conclusion),
            "path": fact.path,
            "artifacts": fact.artifacts,
        }

    # ── taking in ──

    def _touch(self, record: Record) -> None:
        """Which rows are not as they were."""
        fact = record.fact
        self._changed[record.agent_id] = record.seq
        match fact:
            case ev.RunStarted():
                self._version = fact.version
            case ev.AgentStarted():
                told = self.tell(fact.brief)
                self._briefs[record.agent_id] = one_line(told) if isinstance(told, str) else told
                if fact.parent_id is not None:
                    self._changed[fact.parent_id] = record.seq
            case ev.AgentEnded():
                self._conclusions[record.agent_id] = (record.seq, fact)
                self._touch_parent(record)
            case ev.AgentResumed() | ev.MessageAdded():
                self._touch_parent(record)
            case ev.TodosWritten():
                self._todos[record.agent_id] = (record.seq, fact.text)
            case ev.ToolReturned():
                self._count(record.seq, fact)

    def _touch_parent(self, record: Record) -> None:
        """How many children an agent waits for is part of its own row."""
        view = self.board.agents.get(record.agent_id)
        if view is not None and view.parent_id is not None:
            self._changed[view.parent_id] = record.seq

    def _count(self, seq: int, fact: ev.ToolReturned) -> None:
        row = self._tools.setdefault(fact.tool, ToolRow(fact.tool))
        row.calls += 1
        row.errors += fact.is_error
        row.chars += fact.chars
        row.ms += fact.ms
        self._tools_changed = seq

    def _number(self, agent_id: str) -> int:
        return self._numbers.setdefault(agent_id, len(self._numbers))

    def _ms(self, ts: float) -> int:
        return 0 if self._began is None else round((ts - self._began) * 1_000)


def _not_ended(alive: bool | None) -> str:
    return "reading" if alive is None else "running" if alive else "crashed"


def _usage(usage: Usage) -> Patch:
    return {
        "input": usage.input_tokens,
        "read": usage.cache_read_input_tokens,
        "write": usage.cache_creation_input_tokens,
        "write_1h": usage.ephemeral_1h_input_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
        "cache_share": usage.cache_read_input_tokens / usage.context_tokens
        if usage.context_tokens
        else None,
    }
