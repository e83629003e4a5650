"""What an agent does next, decided from its state alone. Pure: `next_step`, and the request for a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.budget import HANDBACK_OUTPUT_TOKENS
from orchestrator.context import compaction, policy
from orchestrator.context.compaction import Cut
from orchestrator.context.history import Entry
from orchestrator.context.policy import Lines
from orchestrator.context.request import laid_out, marked_system, newest_place
from orchestrator.context.room import (
    Compact,
    Full,
    Offload,
    Situation,
    after_overflow,
    make_room,
    plan_cut,
)
from orchestrator.events import ModelFailed, Status
from orchestrator.messages import Block, Message, user
from orchestrator.model import Purpose, Request
from orchestrator.state import STOPPED, State, reminder
from subagents import problem_of

# Replies in a row that may be cut at the output limit before the agent is ended.
MAX_CUT_REPLIES = 3
_INSTRUCTION_TOKENS = 600
# Chinese text has about three bytes a token, source code in long lines about as many.
_LEAST_BYTES_PER_TOKEN = 2.5
_NO_TOOLS: Block = {"type": "none"}

_CONTINUE = "Your reply was cut off at the output limit. Continue exactly where it stopped."
_CUT_CALL = (
    "Your reply was cut off at the output limit before a tool call was complete, so the call was not "
    "run. Go on in smaller steps: write long content in several calls."
)
_REPAIR = (
    "Your last message is your conclusion, and it cannot be used: {problem}. Write the whole "
    "conclusion again, complete in itself; no tool will run."
)
STOPPING = "the run is being stopped"
_HAND_BACK = (
    "no tool will run any more. Hand back what you have now: what you found or did, with exact paths "
    "and values, and what is left to do."
)
_HANDBACK = f"You have reached a limit ({{limit}}) and {_HAND_BACK}"
_STOPPED = f"You are being stopped from outside and {_HAND_BACK}"


@dataclass(frozen=True, slots=True)
class CallModel:
    purpose: Purpose = "agent"


@dataclass(frozen=True, slots=True)
class CallTools:
    """The pending calls without a result, with their index in the reply."""

    uses: tuple[tuple[int, Block], ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the pending calls without running them."""

    uses: tuple[tuple[int, Block], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Say:
    """Add a user message of our own. ``repair``: it asks for the conclusion to be put right."""

    text: str
    repair: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a child in the background has ended: an agent ends only when none is live."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait: the run is paused."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Begin nothing new: the run is being stopped."""


@dataclass(frozen=True, slots=True)
class AwaitChildren:
    """Wait for a child in the background to hand back, for as long as that may take."""


@dataclass(frozen=True, slots=True)
class End:
    status: Status
    reason: str | None
    conclusion: str


Step = (
    CallModel
    | CallTools
    | Refuse
    | Say
    | Wait
    | Offload
    | Compact
    | Hold
    | Halt
    | AwaitChildren
    | End
)


def next_step(state: State) -> Step | None:
    """The next step; ``None`` once the agent has ended."""
    if state.ended is not None:
        return None
    if state.failure is not None:
        return _after_failure(state, state.failure)
    if state.unanswered:
        if state.limit is not None:
            return Refuse(state.unanswered, f"not run: {_why(state.limit)}")
        return CallTools(state.unanswered)
    if state.reply_open and (step := _after_reply(state)) is not None:
        return step
    return _before_call(state)


def _after_failure(state: State, failure: ModelFailed) -> Step:
    if failure.purpose == "handback":
        return End("partial", _limit_reason(state), state.text_so_far)
    return End("failed", f"provider:{failure.kind}", state.last_text)


def _limit_reason(state: State) -> str:
    limit = state.limit or ""
    return limit if limit == STOPPED or limit.startswith("permission:") else f"limit:{limit}"


def _why(limit: str | None) -> str:
    return STOPPING if limit == STOPPED else f"limit {limit}"


def _after_reply(state: State) -> Step | None:
    """After a reply that asked for no tool; ``None`` where the model is simply called again."""
    if state.handed_back:
        # Local servers let a model call tools although none may run: then it has said nothing.
        return End("partial", _limit_reason(state), state.text_so_far)
    match state.stop_reason:
        case "max_tokens" | "model_context_window_exceeded":
            return _after_cut(state)
        case "refusal":
            return End("failed", "refusal", state.last_text)
        case "pause_turn":
            return None
        case _:
            return _after_answer(state)


def _after_answer(state: State) -> Step:
    """The agent has said its last word: a conclusion, once put right if it needs that."""
    if state.background and state.limit is None:
        return Wait()
    text, spec = state.last_text, state.spec
    problem = problem_of(text, spec.returns, is_child=spec.parent_id is not None)
    if problem is not None and not state.repaired and state.limit is None:
        return Say(_REPAIR.format(problem=problem), repair=True)
    if not text and state.denied_turns:
        return End("failed", f"permission:{state.denied_by}", "")
    if not text:
        return End("empty", "no_answer", "")
    if problem is not None and spec.returns is not None:
        return End("failed", "schema", text)
    return End("finished", None, text)


def _after_cut(state: State) -> Step:
    if state.cut_replies > MAX_CUT_REPLIES:
        return End("partial", "limit:output_tokens", state.last_text)
    return Say(_CUT_CALL if state.cut_call else _CONTINUE)


def _before_call(state: State) -> Step:
    now = situation_of(state)
    if state.compact_asked and (cut := plan_cut(now, forced=True)) is not None:
        return Compact("manual", cut)
    room = after_overflow(now, state.overflows) if state.overflowed else make_room(now)
    match room:
        case None:
            return CallModel(_purpose(state))
        case Full():
            settings = state.settings
            exhausted = settings.compaction and not state.overflowed
            reason = "exhausted" if exhausted else "context_length_exceeded"
            return End("failed", reason, state.last_text)
        case _:
            return room


def _purpose(state: State) -> Purpose:
    if state.limit is not None:
        return "handback"
    return "repair" if state.repairing else "agent"


def situation_of(state: State) -> Situation:
    """The agent's context as the policy sees it."""
    return Situation(
        messages=state.messages,
        settings=state.settings,
        at=lines_of(state),
        tokens=state.context_tokens,
        tokens_per_byte=state.estimator.tokens_per_byte,
        can_offload=state.spec.reader is not None and not state.store_failed,
        can_archive=not state.archive_failed,
        idle_compactions=state.idle_compactions,
        has_grown=state.compacted_turn != state.turn,
    )


def lines_of(state: State) -> Lines:
    """The policy's lines for this agent now, in tokens."""
    largest = max(state.turn_weights, default=0)
    return policy.lines(
        state.settings,
        state.window_tokens,
        state.output_tokens,
        round(largest * state.estimator.tokens_per_byte),
    )


def request_for(state: State, purpose: Purpose, *, run_id: str = "") -> Request:
    """The request of the agent's next model call."""
    spec = state.spec
    messages = state.messages
    tail = _tail(state, purpose)
    places = (state.newest_breakpoint, newest_place(messages))
    sent, encoded = laid_out(messages, places, tail)
    return Request(
        model=spec.model,
        messages=sent,
        encoded=encoded,
        encoded_tools=spec.encoded_tools,
        system=marked_system(spec.system),
        tools=spec.tool_schemas,
        tool_choice=None if purpose == "agent" or not spec.tool_schemas else _NO_TOOLS,
        max_tokens=_output_tokens(state.output_tokens, purpose),
        agent_id=spec.agent_id,
        agent_type=spec.agent_type,
        run_id=run_id,
        purpose=purpose,
        extra=_extra(state),
        todos_shown=(reminder(state) or "") if spec.binds_thinking else None,
    )


def _extra(state: State) -> dict[str, Any]:
    asked = {"diagnostics": {"previous_message_id": state.message_id}}
    return {**state.spec.request, **asked} if state.spec.diagnostics else state.spec.request


def _output_tokens(wanted: int, purpose: Purpose) -> int:
    return min(wanted, HANDBACK_OUTPUT_TOKENS) if purpose == "handback" else wanted


def _tail(state: State, purpose: Purpose) -> str | None:
    if state.messages[-1].message["role"] == "assistant":
        return None  # a paused turn is sent back as it is, nothing added
    shown = reminder(state)
    if purpose != "handback":
        return shown
    said = _STOPPED if state.limit == STOPPED else _HANDBACK.format(limit=state.limit)
    return said if shown is None else f"{shown}\n\n{said}"


def summary_request(
    state: State, cut: Cut, *, run_id: str = "", model: str | None = None
) -> Request:
    """A request for the summary of the turns before ``cut``, on the agent's own prefix."""
    kept = len(state.messages) - 1 - cut.dropped
    ask = compaction.instruction(state.settings.summary_tokens, kept)
    places = (state.newest_breakpoint,)
    sent, encoded = laid_out(state.messages, places, ask)
    return _summary(state, model, run_id, sent, encoded, own_prefix=True)


def transcript_request(
    state: State, entries: Sequence[Entry], previous: str, *, run_id: str = "", model: str | None
) -> Request:
    """The same question over a pruned transcript of ``entries``, which fits by construction."""
    room = transcript_room(state)
    text = compaction.fitting_transcript(entries, previous, room)
    if text is None:
        text = compaction.pruned(compaction.transcript(entries, previous), room)
    ask = compaction.instruction(state.settings.summary_tokens, 0)
    message = user(f"<conversation>\n{text}\n</conversation>", ask)
    return _summary(state, model, run_id, [message], None, own_prefix=False)


def transcript_room(state: State) -> int:
    """Bytes of transcript that one summary call takes, at the densest that text is."""
    room = state.window_tokens - 2 * state.settings.summary_tokens - _INSTRUCTION_TOKENS
    return max(1_000, int(room * _LEAST_BYTES_PER_TOKEN))


def _summary(
    state: State,
    model: str | None,
    run_id: str,
    messages: Sequence[Message],
    encoded: Sequence[bytes] | None,
    *,
    own_prefix: bool,
) -> Request:
    spec = state.spec
    tools = spec.tool_schemas if own_prefix else ()
    return Request(
        model=model or spec.model,
        messages=messages,
        encoded=encoded,
        encoded_tools=spec.encoded_tools if own_prefix else None,
        system=marked_system(spec.system) if own_prefix else (),
        tools=tools,
        tool_choice=_NO_TOOLS if tools else None,
        # Room for a little more than was asked for: a cut summary would be refused.
        max_tokens=state.settings.summary_tokens * 2,
        agent_id=spec.agent_id,
        agent_type=spec.agent_type,
        run_id=run_id,
        purpose="summary",
    )
