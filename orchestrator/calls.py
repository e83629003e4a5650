"""Model calls: the budget before, the one retry around, the record after."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio

from orchestrator.agent import Agent
from orchestrator.budget import HANDBACK_OUTPUT_TOKENS, Reached
from orchestrator.context import policy, watch
from orchestrator.context.overflow import window_in
from orchestrator.errors import CallTimedOut, ModelError, Overloaded, RateLimited
from orchestrator.events import (
    BudgetReached,
    CacheBroken,
    Fact,
    LevelChanged,
    ModelFailed,
    ModelReplied,
    Steered,
    TodosWritten,
    WindowCorrected,
)
from orchestrator.fallback import switch_after
from orchestrator.gate import Gate
from orchestrator.intents import begun_with
from orchestrator.ledger import Usage
from orchestrator.model import Purpose, Reply, Request
from orchestrator.retry import wait_before_retry
from orchestrator.state import State
from orchestrator.steps import lines_of, request_for
from todos import parse

# At its deadline an agent still gets this long to hand over what it has.
HANDBACK_SECONDS = 60.0
_LATE_SECONDS = 1.0
# No model in use has less; a figure below it says something else.
MIN_WINDOW_TOKENS = 512


class _NotBegun(CallTimedOut):
    """Nothing was sent: the run was being stopped before the call's turn had come."""


async def call_model(agent: Agent, purpose: Purpose) -> None:
    """Make the agent's next call, or record the limit that forbids it."""
    await _take_in_edited_todos(agent)
    if purpose == "agent" and (reached := _limit_of(agent)) is not None:
        await agent.record(BudgetReached(name=reached.name, limit=reached.limit))
        return
    await _note_level(agent)
    request = request_for(agent.state, purpose, run_id=agent.seams.run_id)
    outcome = await send(agent, request, agent.state.context_tokens)
    if isinstance(outcome, ModelError) and _is_given_up(agent, purpose):
        # Not the call's failure counts, but that the agent is to hand back what it has.
        await agent.record(Steered(command="cancel"))
    elif isinstance(outcome, ModelError):
        await _after_failure(agent, outcome, purpose)


async def _after_failure(agent: Agent, error: ModelError, purpose: Purpose) -> None:
    """A call was given up: the time is over, or another model takes over."""
    if purpose == "agent":
        left = agent.seconds_left()
        if left is not None and left <= 0:
            await agent.record(BudgetReached(name="max_seconds", limit=_seconds_of(agent)))
            return
    if (switched := switch_after(agent.state, error, agent.seams.fallback)) is not None:
        await agent.record(switched)


async def send(agent: Agent, request: Request, estimate: int) -> Reply | ModelError:
    """Send ``request`` until it is answered or given up: then the error. Either is recorded."""
    reserved = estimate + request.max_tokens
    agent.budget.reserve(reserved)
    try:
        attempt, begun = 0, time.monotonic()
        while True:
            attempt += 1
            started = time.monotonic()
            request = _timed(agent, request)
            try:
                reply = await _attempt(agent, request)
            except _NotBegun as error:
                return error
            except ModelError as error:
                wait = _wait_after(agent, error, attempt, request.purpose, begun)
                if isinstance(error, RateLimited | Overloaded):
                    agent.seams.gates.before(request.model).slow_down(wait or 0.0)
                await _record_failure(agent, request, error, wait)
                if wait is None:
                    return error
                with agent.seams.reins.at_most(_after_stop(request.purpose, 0)):
                    await anyio.sleep(wait)
                if _is_given_up(agent, request.purpose):
                    return error
            else:
                latency_ms = round((time.monotonic() - started) * 1000)
                await _record_reply(agent, request, reply, estimate, latency_ms)
                return reply
    finally:
        agent.budget.release(reserved)


def _timed(agent: Agent, request: Request) -> Request:
    """The request with the time that a try has now. It is the one that is sent and recorded: a copy
    made later would have its body joined once more."""
    seconds = _seconds_for(agent, request.purpose)
    return request if seconds == request.seconds else replace(request, seconds=seconds)


async def _attempt(agent: Agent, request: Request) -> Reply:
    """One try, holding one of the run's places for model calls, and never past the agent's deadline."""
    purpose, reins = request.purpose, agent.seams.reins
    gate = agent.seams.gates.before(request.model)
    # The model is told, so that it can say what a late answer had cost; the scope is for those that
    # do not listen, and for the waiting before the call.
    after_stop = reins.at_most(_after_stop(purpose, reins.model_seconds))
    late = math.inf if request.seconds is None else request.seconds + _LATE_SECONDS
    with after_stop, anyio.move_on_after(late):
        async with AsyncExitStack() as held:
            await _enter(agent, held, gate, purpose)
            reply = await agent.seams.model(request)
        gate.succeeded()
        return reply
    raise CallTimedOut("the time was over before the model had answered")


async def _enter(agent: Agent, held: AsyncExitStack, gate: Gate, purpose: Purpose) -> None:
    """Take one of the places for model calls, when it is this call's turn."""
    reins = agent.seams.reins
    if reins.is_stopping and purpose == "handback":
        # One call, and a person is waiting: not for as long as a service asks all others to wait.
        await held.enter_async_context(agent.seams.slots)
        return
    with agent.patient(), reins.at_most(_after_stop(purpose, 0)):
        await reins.released()
        await gate.enter(held, agent.seams.slots)
    if _is_given_up(agent, purpose):
        raise _NotBegun("the run is being stopped")


def _seconds_for(agent: Agent, purpose: Purpose) -> float | None:
    """How long one try may take."""
    left = agent.seconds_left()
    seconds = None if left is None else max(left, 0.0)
    if purpose != "handback":
        return seconds
    if seconds is not None:
        seconds += HANDBACK_SECONDS
    reins = agent.seams.reins
    if reins.is_stopping:
        seconds = min(math.inf if seconds is None else seconds, reins.model_seconds)
    return seconds


def _after_stop(purpose: Purpose, seconds: float) -> float:
    """How long after a stop something may take. Handing back begins only then."""
    return math.inf if purpose == "handback" else seconds


def _is_given_up(agent: Agent, purpose: Purpose) -> bool:
    return agent.seams.reins.is_stopping and purpose != "handback"


def _wait_after(
    agent: Agent, error: ModelError, attempt: int, purpose: Purpose, begun: float
) -> float | None:
    if _is_given_up(agent, purpose):
        return None
    left = agent.seconds_left()
    if left is not None and purpose == "handback":
        left += HANDBACK_SECONDS
    reins = agent.seams.reins
    if reins.is_stopping:
        until = begun + reins.model_seconds - time.monotonic()
        left = until if left is None else min(left, until)
    return wait_before_retry(error, attempt, deadline_in=left, jitter=random.random())


async def _record_failure(
    agent: Agent, request: Request, error: ModelError, wait: float | None
) -> None:
    failed = ModelFailed(
        purpose=request.purpose,
        model=request.model,
        kind=error.kind,
        status=error.status,
        message=str(error),
        usage=error.usage,
        request_id=error.request_id,
        retry_in_ms=None if wait is None else round(wait * 1000),
        request_hash=request.digest,
    )
    facts: list[Fact] = [failed]
    if error.usage is not None:
        _spend(agent, request.model, error.usage)
    named = window_in(str(error)) if error.kind == "overflow" else None
    # Only downwards: a larger number is not what refused this request.
    if named is not None and named < agent.state.window_tokens:
        facts.append(WindowCorrected(model=request.model, tokens=named, source="error"))
    await agent.record(*facts)


async def _record_reply(
    agent: Agent, request: Request, reply: Reply, estimate: int, latency_ms: int
) -> None:
    if reply.usage is not None:
        _spend(agent, request.model, reply.usage)
    now = reply.usage.context_tokens if reply.usage else 0
    truncated = request.purpose == "agent" and _was_truncated(agent.state, now)
    replied = ModelReplied(
        purpose=request.purpose,
        model=reply.model or request.model,
        blocks=reply.content,
        stop_reason=reply.stop_reason,
        usage=reply.usage,
        request_id=reply.request_id,
        message_id=reply.message_id,
        estimate_tokens=estimate,
        context_tokens=now,
        truncated=truncated,
        latency_ms=latency_ms,
        request_hash=request.digest,
        todos_shown=request.todos_shown,
    )
    begun = begun_with(replied, agent.tools)
    await agent.record(replied, *begun, *_noticed(agent.state, request, reply, truncated))


def _spend(agent: Agent, model: str, usage: Usage) -> None:
    cost = agent.seams.price(model, usage) if agent.budget.counts_cost else None
    agent.budget.spend(usage, cost)


def _was_truncated(state: State, now_tokens: int) -> bool:
    before = state.estimator.reported_tokens
    return not state.has_thought and watch.was_truncated(before, now_tokens)


def _noticed(state: State, request: Request, reply: Reply, truncated: bool) -> Iterator[Fact]:
    """What the reply's figures say beside the reply, for the agent's own calls."""
    if truncated:
        # The request before was taken whole, this one was not: the window lies between them.
        window = max(state.estimator.reported_tokens or 0, MIN_WINDOW_TOKENS)
        if window < state.window_tokens:
            yield WindowCorrected(model=request.model, tokens=window, source="truncation")
        return
    if request.purpose != "agent" or reply.usage is None:
        return
    read = reply.usage.cache_read_input_tokens
    if reply.cache_miss is not None or watch.cache_is_broken(state.cached_tokens, read):
        yield CacheBroken(
            expected_tokens=state.cached_tokens,
            read_tokens=read,
            cause=state.edited_by or "service",
            reason=reply.cache_miss,
        )


def _seconds_of(agent: Agent) -> float:
    return 0.0 if agent.deadline is None else agent.deadline.seconds


def _limit_of(agent: Agent) -> Reached | None:
    state = agent.state
    if state.spec.max_turns is not None and state.turn >= state.spec.max_turns:
        return Reached("max_turns", state.spec.max_turns)
    left = agent.seconds_left()
    if left is not None and left <= 0:
        return Reached("max_seconds", _seconds_of(agent))
    call = state.context_tokens + state.output_tokens
    # What it holds for its last turn is reserved already, all the way up.
    return agent.budget.refuses(call, max(handback_tokens(state) - agent.held_tokens, 0))


def handback_tokens(state: State) -> int:
    """Tokens that an agent needs for the one turn in which it hands over what it has."""
    return state.context_tokens + HANDBACK_OUTPUT_TOKENS


async def _note_level(agent: Agent) -> None:
    state = agent.state
    at = lines_of(state)
    level = policy.level(state.context_tokens, at)
    if level != state.level:
        limit = {"normal": at.offload, "offload": at.compact}.get(level, at.exhausted)
        await agent.record(
            LevelChanged(level=level, context_tokens=state.context_tokens, limit_tokens=limit)
        )


async def _take_in_edited_todos(agent: Agent) -> None:
    """A person may edit the to-do file while the run goes on: the model sees it as it is now."""
    text = await agent.desk.read_todos()
    if text is not None and text != agent.state.todos:
        items = parse(text)
        done = sum(item.status == "completed" for item in items)
        await agent.record(TodosWritten(text=text, done=done, total=len(items)))
