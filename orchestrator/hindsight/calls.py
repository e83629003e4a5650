"""The calls of one agent, each with the request that it sent. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator import events as ev
from orchestrator.context import compaction
from orchestrator.context.compaction import Cut
from orchestrator.context.history import Entry
from orchestrator.context.room import plan_cut
from orchestrator.model import Request
from orchestrator.state import State, follow
from orchestrator.steps import request_for, situation_of, summary_request, transcript_request

Fact = ev.ModelReplied | ev.ModelFailed


@dataclass(frozen=True)
class Call:
    """One model call. ``states``: what the agent's state was since the request can have been made,
    newest first. Mostly that is one; but a plan can be edited while the model answers.

    ``edits``: the records of the agent between the call before and this one, each with the state
    before it.
    """

    record: ev.Record
    fact: Fact
    run_id: str
    states: tuple[State, ...]
    edits: tuple[tuple[State, ev.Record], ...] = ()
    cut: Cut | None = None

    @property
    def turn(self) -> int:
        return self.record.turn

    @property
    def agent_id(self) -> str:
        return self.record.agent_id

    @cached_property
    def _built(self) -> tuple[State, Request]:
        first: tuple[State, Request] | None = None
        for state in self.states:
            for request in self._requests(state):
                first = first or (state, request)
                if self.fact.request_hash in (None, request.digest):
                    return state, request
        assert first is not None, "there is always a state before a call"
        return first

    @property
    def state(self) -> State:
        """The agent's state as the request was made."""
        return self._built[0]

    @property
    def request(self) -> Request:
        return self._built[1]

    @property
    def is_proven(self) -> bool | None:
        """Whether the request is, by its hash, what was sent; ``None``: none was recorded."""
        if self.fact.request_hash is None:
            return None
        return self.request.digest == self.fact.request_hash

    @property
    def reported_tokens(self) -> int | None:
        """What the provider said it read; ``None`` where it said nothing, or read only a part."""
        cut = isinstance(self.fact, ev.ModelReplied) and self.fact.truncated
        usage = self.fact.usage
        return None if usage is None or cut else usage.context_tokens or None

    def _requests(self, state: State) -> Iterator[Request]:
        """What may have been sent in ``state``."""
        if self.fact.purpose != "summary":
            yield request_for(state, self.fact.purpose, run_id=self.run_id)
            return
        cut = self.cut or plan_cut(situation_of(state), forced=True) or Cut(0)
        yield summary_request(state, cut, run_id=self.run_id)
        entries = state.messages[1 : 1 + cut.dropped]
        for part, previous in _parts(entries, state.summary, 0):
            model = state.settings.summary_model
            yield transcript_request(state, part, previous, run_id=self.run_id, model=model)


def _parts(
    entries: Sequence[Entry], previous: str, depth: int
) -> Iterator[tuple[Sequence[Entry], str]]:
    """What a summary over a transcript can have been asked of: all of it, its halves, theirs."""
    yield entries, previous
    parts = compaction.halves(entries) if depth < compaction.MAX_DEPTH else None
    for number, part in enumerate(parts or ()):
        yield from _parts(part, "" if number else previous, depth + 1)


def calls_of(records: Iterable[ev.Record], agent_id: str, run_id: str) -> list[Call]:
    """The calls of one agent in their order, summary calls and failed ones included.

    Raises `JournalError` where a record does not follow from those before it: nobody can say then what
    was sent.
    """
    own = [record for record in records if record.agent_id == agent_id]
    calls: list[Call] = []
    state, since = State(), [State()]
    edits: list[tuple[State, ev.Record]] = []
    for record in own:
        fact = record.fact
        if isinstance(fact, ev.ModelReplied | ev.ModelFailed):
            states = tuple(s for s in reversed(since) if s.started is not None)
            made = Call(record, fact, run_id, states, tuple(edits))
            calls.append(made)
            edits = []
        else:
            edits.append((state, record))
        state = follow(state, record)
        # A call that is tried again sends what it sent before.
        retried = isinstance(fact, ev.ModelFailed) and fact.retry_in_ms is not None
        answered = isinstance(fact, ev.ModelReplied | ev.ModelFailed) and not retried
        since = [state] if answered else [*since, state]
    return _with_cuts(calls, own)


def _with_cuts(calls: Sequence[Call], own: Sequence[ev.Record]) -> list[Call]:
    """Summary calls with the cut of the compaction that they were made for."""
    cuts = [(r.seq, Cut(r.fact.messages)) for r in own if isinstance(r.fact, ev.Compacted)]
    found = []
    for call in calls:
        if call.fact.purpose == "summary":
            later = (cut for seq, cut in cuts if seq > call.record.seq)
            call = Call(
                call.record, call.fact, call.run_id, call.states, call.edits, next(later, None)
            )
        found.append(call)
    return found


def opening(calls: Iterable[Call]) -> list[Call]:
    """The calls that open turns: not those that ask for summaries."""
    return [call for call in calls if call.fact.purpose != "summary"]


def turns_of(calls: Iterable[Call]) -> dict[int, Call]:
    """By turn, the call that made it: the last one, where others failed before."""
    return {call.turn: call for call in opening(calls)}
