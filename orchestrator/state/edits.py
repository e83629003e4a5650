"""Edits of the history: parts moved to files, old turns given way to a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from orchestrator import events as ev
from orchestrator.context import history, offload
from orchestrator.context.compaction import pinned, render
from orchestrator.context.estimate import Estimator
from orchestrator.context.history import Entry
from orchestrator.context.policy import GAIN_SHARE
from orchestrator.evolving import evolve
from orchestrator.messages import text_of, user
from orchestrator.state.value import State


def offload_parts(state: State, event: ev.Offloaded) -> State:
    """After something moved to a file; at birth nothing of the history changes."""
    state = evolve(state, offloaded=state.offloaded + 1)
    if event.entry is None or event.block is None:
        return state
    old = state.messages[event.entry]
    block = offload.moved(old.message["content"][event.block], event.key, event.placeholder)
    edited = history.with_block(old, event.block, block)
    messages = (*state.messages[: event.entry], edited, *state.messages[event.entry + 1 :])
    # Chains are made anew once for a batch; it is journalled as one, so its end never lacks.
    if not event.batch_end:
        return evolve(state, messages=messages)
    state = evolve(
        state,
        facts=tuple(event.facts) or state.facts,
        more_facts=(*state.more_facts, *event.more_facts),
    )
    return _edited(state, messages, "offload")


def compact(state: State, event: ev.Compacted) -> State:
    """After the oldest turns gave way to a summary, which joins the first request."""
    dropped = state.compacted_messages + event.messages
    summary = render(event.summary, event.archive, dropped, event.facts, event.facts_path)
    request = pinned(state.spec.brief, event.archive)
    # What joined the first message before the first reply stays there: a follow-up, a nudge of ours.
    joined = state.messages[0].message["content"][state.head_blocks :]
    kept = state.messages[1 + event.messages :]
    said = (*kept, *history.append((), b"", user(*joined), 0)) if joined else kept
    own = [request, summary, *_request_that_would_go(state, said, event.archive)]
    first = user(*own, *joined)
    head = history.append((), state.start_chain, first, 0)
    if kept and kept[0].message["role"] == "user":
        head = history.append(head, state.start_chain, kept[0].message, kept[0].turn)
        kept = kept[1:]
    state = evolve(
        state,
        summary=event.summary,
        facts=tuple(event.facts),
        more_facts=(*state.more_facts, *event.more_facts),
        compacted_messages=dropped,
        compactions=state.compactions + 1,
        idle_compactions=_idle(state, event),
        store_failed=False,
        compacted_turn=state.turn,
        compact_asked=False,
        head_blocks=len(own),
    )
    return _edited(state, (*head, *kept), "compaction")


def switch_model(state: State, event: ev.ModelSwitched) -> State:
    """After another model took over: nothing that was said of the old one's requests holds."""
    spec = state.spec.model_copy(
        update={
            "model": event.to,
            "window_tokens": event.window_tokens,
            "output_tokens": event.output_tokens,
            "binds_thinking": event.binds_thinking,
            "diagnostics": event.diagnostics,
        }
    )
    messages = history.thoughtless(state.messages)
    stacked = history.restack(messages, state.start_chain, binding=event.binds_thinking)
    return evolve(
        state,
        started=spec,
        messages=stacked,
        weight=sum(e.weight for e in stacked),
        window_tokens=event.window_tokens,
        newest_breakpoint=None,
        shown_todos="",
        # What the old model's reports have taught is a first guess for the new one.
        estimator=Estimator(state.estimator.tokens_per_byte),
        cached_tokens=0,
        edited_by=None,
        message_id=None,
        has_thought=False,
        output_limit=None,
        failure=None,
    )


def _request_that_would_go(state: State, kept: Sequence[Entry], archive: str) -> Iterable[str]:
    """The user's newest request after the first, where it is in no message that is kept."""
    newest = state.newest_request
    if newest and not any(newest in text_of(e.message["content"]) for e in kept):
        yield f"The user's newest request:\n{pinned(newest, archive)}"


def _idle(state: State, event: ev.Compacted) -> int:
    """Automatic compactions in a row that freed less than their share of the window."""
    freed = event.before_tokens - event.after_tokens
    return 0 if freed >= GAIN_SHARE * state.window_tokens else state.idle_compactions + 1


def _edited(
    state: State, messages: tuple[Entry, ...], by: Literal["offload", "compaction"]
) -> State:
    """After an edit of the history: chains anew, reported usage stale, no previous breakpoint."""
    binding = state.spec.binds_thinking
    stacked = history.restack(messages, state.start_chain, binding=binding)
    return evolve(
        state,
        messages=stacked,
        weight=sum(e.weight for e in stacked),
        newest_breakpoint=None,
        shown_todos="",
        estimator=state.estimator.forget_report(),
        overflowed=False,
        edited_by=by,
    )
