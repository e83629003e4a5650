"""`apply`: the state after one more event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce

from orchestrator import events as ev
from orchestrator.context import history
from orchestrator.context.estimate import Estimator
from orchestrator.context.policy import Context
from orchestrator.evolving import evolve
from orchestrator.ledger import Ledger
from orchestrator.messages import Block, tool_result, user
from orchestrator.state.calling import take_failure, take_reply
from orchestrator.state.edits import compact, offload_parts, switch_model
from orchestrator.state.value import State, append

# The name in an `offload_failed` event for the archive of a compaction.
ARCHIVE = "archive"
STOPPED = "cancelled"
"""The limit, and the reason of the end, of an agent that is stopped from outside."""
MOST_DENIED_TURNS = 5
"""Turns in a row in which every call was denied, after which an agent hands back what it has."""
_DENIED = re.compile(r"\[denied by (.*?)\](?: |$)", re.DOTALL)


def replay(events: Iterable[ev.Event]) -> State:
    """The state after ``events``, the journal's records of one agent."""
    return reduce(apply, events, State())


def apply(state: State, event: ev.Event) -> State:
    """The state after ``event``. Events that change nothing for the agent return it as it is."""
    match event:
        case ev.AgentStarted():
            return _start(event)
        case ev.ModelReplied():
            return take_reply(state, event)
        case ev.ModelFailed():
            return take_failure(state, event)
        case ev.ToolReturned():
            return take_result(state, event)
        case ev.MessageAdded():
            return _hear(state, event)
        case ev.Offloaded():
            return offload_parts(state, event)
        case ev.Compacted():
            return compact(state, event)
        case _:
            return _note(state, event)


def _note(state: State, event: ev.Event) -> State:  # noqa: C901 (one arm for each kind of event)
    match event:
        case ev.AgentResumed():
            return _go_on(state, event)
        case ev.RunForked():
            return _fork(state, event)
        case ev.TodosWritten(text=text):
            return evolve(state, todos=text)
        case ev.ToolStarted():
            return _begin_call(state, event)
        case ev.AgentSpawned(child_id=child_id, background=True):
            return evolve(state, background=state.background | {child_id})
        case ev.BudgetReached(name=name):
            return evolve(state, limit=name, failure=None)
        case ev.Steered():
            return _steer(state, event)
        case ev.ModelSwitched():
            return switch_model(state, event)
        case ev.OffloadFailed(tool=tool):
            archive = tool == ARCHIVE
            return evolve(
                state,
                store_failed=state.store_failed or not archive,
                archive_failed=state.archive_failed or archive,
            )
        case ev.LevelChanged(level=level):
            return evolve(state, level=level)
        case ev.WindowCorrected(tokens=tokens):
            return evolve(state, window_tokens=tokens)
        case ev.AgentEnded():
            return evolve(state, ended=event)
        case _:
            return state


def _steer(state: State, event: ev.Steered) -> State:
    match event.command:
        case "compact":
            return evolve(state, compact_asked=True)
        case "cancel":
            return evolve(state, limit=STOPPED, failure=None)
        case "budget" if event.name == "max_turns" and event.value is not None:
            return evolve(
                state, started=state.spec.model_copy(update={"max_turns": int(event.value)})
            )
        case _:
            return state


def _go_on(state: State, event: ev.AgentResumed) -> State:
    """What the settings forbade may be allowed now; the history stays as it is."""
    started = state.spec
    if event.max_turns is not None:
        started = started.model_copy(update={"max_turns": event.max_turns})
    if state.ended is not None:
        state = _after_its_end(state)
    return evolve(
        state,
        started=started,
        settings=state.settings if event.policy is None else Context(**event.policy),
        window_tokens=event.window_tokens or state.window_tokens,
        limit=None,
        handed_back=False,
        failure=None,
        store_failed=False,
        archive_failed=False,
    )


def _after_its_end(state: State) -> State:
    """Whatever had ended the agent holds no longer."""
    return evolve(
        state,
        ended=None,
        overflowed=False,
        overflows=0,
        output_limit=None,
        idle_compactions=0,
        cut_replies=0,
        repairing=False,
        repaired=False,
    )


def _fork(state: State, event: ev.RunForked) -> State:
    """The other run's history; its account, its cache and its children are not this one's."""
    state = reduce(apply, event.events(), state)
    return evolve(
        state,
        ledger=Ledger(),
        tool_calls=0,
        estimator=state.estimator.forget_report(),
        cached_tokens=0,
        message_id=None,
        background=frozenset(),
        readable=(*state.readable, *event.readable),
    )


def _begin_call(state: State, event: ev.ToolStarted) -> State:
    index = event.index
    if index is None:
        ids = [use["id"] for use in state.pending]
        index = ids.index(event.tool_use_id) if event.tool_use_id in ids else None
    return state if index is None else evolve(state, begun=state.begun | {index})


def _hear(state: State, event: ev.MessageAdded) -> State:
    by_user = event.origin == "user"
    return evolve(
        append(state, user(event.text)),
        reply_open=False,
        newest_request=event.text if by_user else state.newest_request,
        repairing=event.repair,
        # A new request of the user's has a conclusion of its own, to be put right once.
        repaired=state.repaired and not by_user,
        asked_by=event.asked_by if by_user else state.asked_by,
        background=state.background - {event.child_id},
        # A question after the end: the agent goes on from what it knows.
        ended=None if by_user else state.ended,
        failure=None if by_user else state.failure,
    )


def _start(event: ev.AgentStarted) -> State:
    fixed = [event.encoded_system, event.encoded_tools]
    start = reduce(history.link, fixed, b"")
    first = history.append((), start, user(event.brief), 0)
    return State(
        started=event,
        settings=Context(**event.policy),
        messages=first,
        fixed_weight=sum(map(len, fixed)),
        start_chain=start,
        weight=first[0].weight,
        window_tokens=event.window_tokens,
        estimator=Estimator(event.tokens_per_byte or Estimator().tokens_per_byte),
    )


def take_result(state: State, event: ev.ToolReturned) -> State:
    block = tool_result(event.tool_use_id, event.result, is_error=event.is_error)
    results = {**state.results, event.index: block}
    if event.seen:
        state = evolve(state, seen={**state.seen, **event.seen})
    if len(results) < len(state.pending):
        return evolve(state, results=results)
    # Results go back in the order of the calls, whatever order they came in.
    answered = [results[i] for i in range(len(state.pending))]
    state = evolve(state, pending=(), results={}, begun=frozenset())
    state = _after_denials(append(state, {"role": "user", "content": answered}), answered)
    *earlier, newest = state.turn_weights
    return evolve(state, turn_weights=(*earlier, newest + state.messages[-1].weight))


def _after_denials(state: State, answered: Sequence[Block]) -> State:
    """Who is denied again and again, and gets no other call through, cannot go on."""
    rules = [found[1] if (found := _DENIED.match(_said(block))) else None for block in answered]
    if None in rules:
        return evolve(state, denied_turns=0) if state.denied_turns else state
    turns, rule = state.denied_turns + 1, rules[-1] or ""
    limit = f"permission:{rule}" if turns >= MOST_DENIED_TURNS else None
    return evolve(state, denied_turns=turns, denied_by=rule, limit=state.limit or limit)


def _said(block: Block) -> str:
    content = block.get("content")
    return content if block.get("is_error") and isinstance(content, str) else ""
