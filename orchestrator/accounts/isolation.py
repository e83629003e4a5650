"""What one agent alone would have carried, and what delegation and offload cost instead. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.ledger import READ_PRICE, WRITE_5M_PRICE, Usage
from orchestrator.messages import tool_uses
from orchestrator.state import State, follow
from subagents import DELEGATING


@dataclass(frozen=True, slots=True)
class Isolation:
    """Input tokens, each counted in every request that it was part of.

    ``alone``: of one agent that does everything in one history, from which nothing leaves; its
    context is counted up to its window. ``main``, ``delegated``: what the main agent and all others
    did carry. ``requests``, ``peak``, ``over_window``: of the agent alone, the last one its requests
    that would not have fit. The same weighted by price: ``alone_weighted``, ``weighted``.
    """

    alone: int
    main: int
    delegated: int
    requests: int
    peak: int
    over_window: int
    window: int
    agents: int
    alone_weighted: int
    weighted: int

    @property
    def saved(self) -> int:
        """Negative where delegation and offload cost more than they saved."""
        return self.alone - self.main - self.delegated

    @property
    def saved_weighted(self) -> int:
        return self.alone_weighted - self.weighted

    def as_json(self) -> dict[str, Any]:
        described = {f"{name}_tokens": value for name, value in asdict(self).items()}
        for name in ("requests", "over_window", "agents"):
            described[name] = described.pop(f"{name}_tokens")
        return described | {
            "saved_tokens": self.saved,
            "saved_weighted_tokens": self.saved_weighted,
        }


def isolation(records: Iterable[Record]) -> Isolation | None:
    """The account of a run; ``None`` where nothing was kept out of the main agent's context: no
    subagent, no offload, no compaction. Raises `JournalError` where the records are of no run."""
    known = list(records)
    kept_out = (ev.AgentSpawned, ev.Offloaded, ev.Compacted)
    if not any(isinstance(record.fact, kept_out) for record in known):
        return None
    states = _last_states(known)
    main = next((r.fact for r in known if isinstance(r.fact, ev.AgentStarted)), None)
    if main is None:
        return None
    alone = _Alone(states[main.agent_id].window_tokens)
    for record in known:
        alone.take(record, states[record.agent_id].estimator.tokens_per_byte)
    carried: dict[bool, Usage] = {True: Usage(), False: Usage()}
    for record in known:
        if isinstance(record.fact, ev.ModelReplied | ev.ModelFailed):
            carried[record.agent_id == main.agent_id] += record.fact.usage or Usage()
    total = carried[True] + carried[False]
    return Isolation(
        alone=alone.carried,
        main=carried[True].context_tokens,
        delegated=carried[False].context_tokens,
        requests=alone.requests,
        peak=alone.peak,
        over_window=alone.over_window,
        window=alone.window,
        agents=sum(isinstance(r.fact, ev.AgentStarted) for r in known),
        # Where the run had no cache, the one agent is given none either.
        alone_weighted=round(alone.weighted) if _is_cached(total) else alone.carried,
        weighted=round(total.weighted),
    )


class _Alone:
    """The one agent: the same replies and the same results, whole, in the order of the journal."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.context = self.sent = 0
        self.carried = self.requests = self.peak = self.over_window = 0
        self.weighted = 0.0
        self._began = False

    def take(self, record: Record, tokens_per_byte: float) -> None:
        fact = record.fact
        if isinstance(fact, ev.ToolReturned) and fact.tool not in DELEGATING:
            self.context += round(fact.chars * tokens_per_byte)
        elif isinstance(fact, ev.ModelReplied) and fact.purpose != "summary":
            usage = fact.usage or Usage()
            if not self._began:  # the first request: system, tools, task
                self._began, self.context = True, usage.context_tokens
            if not _only_delegates(fact):
                self._send()
                self.context += usage.output_tokens

    def _send(self) -> None:
        """One request with all that came so far, as far as the window takes it. What was in the one
        before is read from the cache, what is new is written to it."""
        self.requests += 1
        self.peak = max(self.peak, self.context)
        self.over_window += self.context > self.window
        now = min(self.context, self.window)
        old = min(self.sent, now)
        self.carried += now
        self.weighted += READ_PRICE * old + WRITE_5M_PRICE * (now - old)
        self.sent = now


def _only_delegates(reply: ev.ModelReplied) -> bool:
    names = [use["name"] for use in tool_uses(reply.blocks)]
    return bool(names) and all(name in DELEGATING for name in names)


def _last_states(records: Sequence[Record]) -> dict[str, State]:
    states: dict[str, State] = {}
    for record in records:
        states[record.agent_id] = follow(states.get(record.agent_id, State()), record)
    return states


def _is_cached(usage: Usage) -> bool:
    return usage.cache_read_input_tokens + usage.cache_creation_input_tokens > 0
