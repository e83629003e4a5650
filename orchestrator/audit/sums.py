"""Whether tokens add up, from the journal's own rows and once more by every fold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from orchestrator import events as ev
from orchestrator.audit.finding import Check, Unreported
from orchestrator.errors import JournalError
from orchestrator.journal import Whole
from orchestrator.ledger import Usage
from orchestrator.readings import summarise
from orchestrator.state import State, follow

FIGURES = tuple(figure.name for figure in fields(Usage))
Figures = dict[str, int]


@dataclass
class Added:
    """Figures as they stand in the rows, added up by nothing but addition."""

    figures: Figures = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))
    calls: int = 0
    unreported: int = 0

    def add(self, usage: Mapping[str, Any] | None) -> None:
        self.calls += 1
        if usage is None:
            self.unreported += 1
            return
        for name in FIGURES:
            self.figures[name] += usage[name]

    def differs(self, usage: Usage) -> str | None:
        """Where ``usage`` is another sum, in words."""
        for name in FIGURES:
            if self.figures[name] != getattr(usage, name):
                return f"{name} are {self.figures[name]:,}, not {getattr(usage, name):,}"
        return None


def calls_of(whole: Iterable[Whole]) -> list[Whole]:
    calls = ev.ModelReplied | ev.ModelFailed
    return [each for each in whole if isinstance(each.record.fact, calls)]


def unreported(calls: Iterable[Whole]) -> Iterator[Unreported]:
    """The calls of which the provider reported nothing."""
    for each in calls:
        record, fact = each.record, each.record.fact
        assert isinstance(fact, ev.ModelReplied | ev.ModelFailed)
        if fact.usage is None:
            kind = fact.kind if isinstance(fact, ev.ModelFailed) else None
            yield Unreported(
                record.agent_id, record.turn, record.seq, fact.event, kind, fact.request_id
            )


def check_responses(calls: Sequence[Whole]) -> Check:
    """Each response is there once. The provider's own ids tell two of them apart."""
    check = Check("responses", checked=len(calls))
    seen: dict[tuple[str, str], list[tuple[str | None, int]]] = {}
    nameless = 0
    for each in calls:
        fact = each.record.fact
        message_id = getattr(fact, "message_id", None)
        request_id = getattr(fact, "request_id", None)
        if getattr(fact, "usage", None) is None:
            continue  # it told nothing that could be counted twice
        if request_id is None and message_id is None:
            nameless += 1
            continue
        # A gateway may give all its answers one request id; then their message ids differ.
        key = ("request", request_id) if request_id is not None else ("message", str(message_id))
        before = seen.setdefault(key, [])
        for other_id, seq in before:
            if message_id is None or other_id is None or other_id == message_id:
                where = f"{each.record.agent_id} turn {each.record.turn}, record {each.record.seq}"
                check.wrong(where, f"{key[0]} {key[1]} was counted before, in record {seq}")
                break
        before.append((message_id, each.record.seq))
    check.said = f"{len(calls):,} counted, none of them twice"
    if nameless:
        check.notes.append(
            f"{nameless} of them came without an id: that they are different is not checked"
        )
    return check


def check_sums(whole: Sequence[Whole]) -> tuple[Check, Usage]:
    """Responses = agents = total, with what each record of an end says; and the total."""
    check = Check("sums")
    by_agent: dict[str, Added] = {}
    total = Added()
    for each in whole:
        fact, agent_id = each.record.fact, each.record.agent_id
        if isinstance(fact, ev.ModelReplied | ev.ModelFailed):
            check.checked += 1
            usage = each.written["usage"]
            by_agent.setdefault(agent_id, Added()).add(usage)
            total.add(usage)
            _check_call(check, each)
        elif isinstance(fact, ev.AgentEnded):
            _check_end(check, each, by_agent.get(agent_id, Added()), fact.usage)
        elif isinstance(fact, ev.RunEnded):
            _check_end(check, each, total, fact.usage)
    _check_readings(check, whole, by_agent, total)
    usage = Usage(**total.figures)
    check.said = (
        f"{total.calls:,} responses = {len(by_agent):,} agents = {usage.total_tokens:,} tokens"
    )
    return check, usage


def _check_call(check: Check, each: Whole) -> None:
    """The figures of one call among themselves."""
    fact, where = each.record.fact, _where(each)
    usage = getattr(fact, "usage", None)
    if usage is None:
        return
    if isinstance(fact, ev.ModelReplied) and fact.context_tokens != usage.context_tokens:
        said = f"context_tokens are {fact.context_tokens:,}, its usage has {usage.context_tokens:,}"
        check.wrong(where, said)
    by_age = usage.ephemeral_5m_input_tokens + usage.ephemeral_1h_input_tokens
    if by_age != usage.cache_creation_input_tokens:
        check.notes.append(
            f"{where}: the provider's cache writes by age are {by_age:,}, its total is "
            f"{usage.cache_creation_input_tokens:,}"
        )


def _check_end(check: Check, each: Whole, added: Added, usage: Usage) -> None:
    if (wrong := added.differs(usage)) is not None:
        check.wrong(_where(each), f"its usage is not the sum of the calls before it: {wrong}")


def _check_readings(
    check: Check, whole: Sequence[Whole], by_agent: Mapping[str, Added], total: Added
) -> None:
    """What `outrider tokens` and reports show is the same sum."""
    summary = summarise((each.record for each in whole), "")
    for row in summary.agents:
        added = by_agent.get(row.agent_id, Added())
        if (wrong := added.differs(row.usage)) is not None:
            check.wrong(row.agent_id, f"the reading of its calls is another sum: {wrong}")
        if (added.calls, added.unreported) != (row.requests, row.unreported):
            check.wrong(row.agent_id, f"{added.calls} calls were read as {row.requests}")
    for agent_id in by_agent.keys() - {row.agent_id for row in summary.agents}:
        check.wrong(agent_id, "it has calls and no beginning")
    if (wrong := total.differs(summary.usage)) is not None:
        check.wrong("the whole run", f"its agents do not add up to the responses: {wrong}")


def check_states(whole: Sequence[Whole]) -> tuple[Check, bool]:
    """Each agent's state, folded anew, agrees with what its end recorded; and whether it could be
    folded to its end."""
    check, follows = Check("states"), True
    try:
        _compare_states(check, whole)
    except JournalError as error:
        check.wrong("the records", str(error).partition(":")[0])
        follows = False
    check.said = f"{check.checked:,} ends agree with the replayed states"
    return check, follows


def _compare_states(check: Check, whole: Sequence[Whole]) -> None:
    for before, each in replayed(whole):
        fact = each.record.fact
        if isinstance(fact, ev.AgentEnded):
            check.checked += 1
            for name, had, said in (
                ("usage", before.ledger.usage, fact.usage),
                ("turns", before.turn, fact.turns),
                ("tool_calls", before.tool_calls, fact.tool_calls),
            ):
                if had != said:
                    check.wrong(_where(each), f"its {name} are not those of its replayed state")


def replayed(whole: Iterable[Whole]) -> Iterator[tuple[State, Whole]]:
    """Each record with its agent's state before it. Raises `JournalError` at one that does not follow."""
    states: dict[str, State] = {}
    for each in whole:
        record = each.record
        before = states.get(record.agent_id, State())
        yield before, each
        states[record.agent_id] = follow(before, record)


def _where(each: Whole) -> str:
    record = each.record
    event = getattr(record.fact, "event", "")
    return f"{record.agent_id} turn {record.turn}, record {record.seq} ({event})"
