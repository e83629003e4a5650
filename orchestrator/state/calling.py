"""What a model call leaves in the state: its reply, or how it failed."""

from __future__ import annotations

from dataclasses import replace

from orchestrator import events as ev
from orchestrator.context.estimate import Estimator
from orchestrator.context.history import THINKING
from orchestrator.context.overflow import is_input_plus_output_overflow, shares_in, window_in
from orchestrator.context.request import newest_place
from orchestrator.evolving import evolve
from orchestrator.ledger import Usage
from orchestrator.messages import assistant as assistant_message
from orchestrator.messages import text_of, tool_uses, user
from orchestrator.state.value import State, append, reminder

_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


def take_reply(state: State, event: ev.ModelReplied) -> State:
    """After a whole reply, whatever it was asked for."""
    state = evolve(state, ledger=state.ledger.with_call(event.usage))
    if event.purpose == "summary":
        return state
    overflowed = event.stop_reason == "model_context_window_exceeded"
    state = _with_shown_todos(state, event)
    usage = event.usage or Usage()
    state = evolve(
        state,
        cached_tokens=usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        edited_by=None,
        message_id=event.message_id,
        failure=None,
        output_limit=None,
        overflowed=overflowed,
        overflows=state.overflows + 1 if overflowed else 0,
        newest_breakpoint=newest_place(state.messages),
        estimator=_taught(state, event),
        turn=state.turn + 1,
        stop_reason=event.stop_reason,
        handed_back=state.handed_back or event.purpose == "handback",
        repairing=False,
        repaired=state.repaired or event.purpose == "repair",
    )
    return _with_content(state, event)


def _taught(state: State, event: ev.ModelReplied) -> Estimator:
    # The figure of a prompt that was cut says nothing of the prompt that was sent.
    if event.truncated:
        return state.estimator.forget_report()
    return state.estimator.learn(state.request_weight, event.context_tokens)


def _with_content(state: State, event: ev.ModelReplied) -> State:
    blocks, uses = event.blocks, tool_uses(event.blocks)
    runs = event.runs_calls
    if uses and not runs:
        blocks = [b for b in blocks if b.get("type") != "tool_use"]
    weight = state.weight
    if blocks:
        state = append(state, assistant_message(*blocks))
    cut = event.stop_reason in _CUT
    before = state.cut_text if state.cut_replies else ""
    return evolve(
        state,
        pending=uses if runs else (),
        results={},
        begun=frozenset(),
        reply_open=not (uses and runs),
        has_thought=state.has_thought or any(b.get("type") in THINKING for b in blocks),
        tool_calls=state.tool_calls + (len(uses) if runs else 0),
        cut_replies=state.cut_replies + 1 if cut else 0,
        cut_text=before + text_of(blocks) if cut else before,
        cut_call=cut and bool(uses),
        turn_weights=(*state.turn_weights[-4:], state.weight - weight),
    )


def _with_shown_todos(state: State, event: ev.ModelReplied) -> State:
    """On a model that binds thinking, what was sent at the tail is part of the prefix from now on: what
    was sent, since a plan may change while the model answers."""
    text = reminder(state) if event.todos_shown is None else event.todos_shown
    if not text or not state.spec.binds_thinking:
        return state
    if state.messages[-1].message["role"] == "assistant":
        return state  # a paused turn went back as it was, without a tail
    index = len(state.messages[-1].message["content"])
    state = evolve(append(state, user(text)), shown_todos=text)
    last = replace(state.messages[-1], reminder=index)
    return evolve(state, messages=(*state.messages[:-1], last))


def take_failure(state: State, event: ev.ModelFailed) -> State:
    """After a call that failed, to be tried again or not."""
    state = evolve(state, ledger=state.ledger.with_call(event.usage))
    if event.purpose == "summary" or event.retry_in_ms is not None:
        return state
    # The report before said that this context would do. A try that is repeated sends the same context,
    # so there it still counts.
    state = evolve(state, estimator=state.estimator.forget_report())
    if event.kind == "overflow":
        # "input + max_tokens": less output is asked for first.
        limit = None if state.overflows else _lower_output(state, event.message)
        return evolve(
            state,
            overflowed=limit is None,
            output_limit=limit,
            overflows=state.overflows + 1,
        )
    return evolve(state, failure=event)


_LEAST_OUTPUT_TOKENS = 256


def _lower_output(state: State, message: str) -> int | None:
    """The output to ask for after an error about input and output together; ``None``: another error,
    or there is no room for any output."""
    if not is_input_plus_output_overflow(message):
        return None
    shares = shares_in(message)
    if shares is None:
        room = state.output_tokens // 2
    else:
        room = (window_in(message) or state.window_tokens) - shares[0]
    return min(room, state.output_tokens) if room >= _LEAST_OUTPUT_TOKENS else None
