"""An agent's state, as a fold over its events. Pure: `apply` is all that changes it.

Resume, replay, fork and every report read the same events, so what is true of a live agent is true
of a replayed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal

from orchestrator import events as ev
from orchestrator.context import history, offload
from orchestrator.context.compaction import pinned, render
from orchestrator.context.estimate import Estimator
from orchestrator.context.history import THINKING, Entry
from orchestrator.context.overflow import is_input_plus_output_overflow, shares_in, window_in
from orchestrator.context.policy import GAIN_SHARE, Context, Level, reserve_within
from orchestrator.context.request import Place, newest_place
from orchestrator.ledger import Ledger, Usage
from orchestrator.messages import Block, encode, text_of, tool_result, tool_uses, user
from orchestrator.messages import assistant as assistant_message

# The name in an `offload_failed` event for the archive of a compaction.
ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class State:
    """What is true of an agent now.

    ``messages`` is the conversation as it is sent: the first request (with the summary, if any) and
    the history. ``pending`` are the calls of the newest reply, ``results`` their answers by index.
    """

    started: ev.AgentStarted | None = None
    settings: Context = Context()
    messages: tuple[Entry, ...] = ()
    fixed_weight: int = 0
    start_chain: bytes = b""
    weight: int = 0
    summary: str = ""
    facts: tuple[str, ...] = ()
    # Facts beyond those beside the summary: in a file that is named there.
    more_facts: tuple[str, ...] = ()
    # A follow-up of the user's stays word for word, however long ago it was.
    newest_request: str = ""
    compacted_messages: int = 0

    pending: tuple[Block, ...] = ()
    results: dict[int, Block] = field(default_factory=dict)
    stop_reason: str | None = None
    turn: int = 0
    tool_calls: int = 0
    turn_weights: tuple[int, ...] = ()
    # Whether the newest reply asked for no tool and nothing has followed it yet.
    reply_open: bool = False
    repairing: bool = False
    repaired: bool = False
    cut_replies: int = 0
    cut_text: str = ""
    cut_call: bool = False

    todos: str = ""
    shown_todos: str = ""
    newest_breakpoint: Place | None = None
    ledger: Ledger = Ledger()
    estimator: Estimator = Estimator()
    # Children in the background whose conclusion was not delivered yet.
    background: frozenset[str] = frozenset()
    level: Level = "normal"
    window_tokens: int = 0

    limit: str | None = None
    handed_back: bool = False
    failure: ev.ModelFailed | None = None
    overflowed: bool = False
    # Less output than usual is asked for, since input and output together were refused as too large.
    output_limit: int | None = None
    overflows: int = 0
    idle_compactions: int = 0
    # What the newest request left in the service's cache, and what has edited the history since.
    cached_tokens: int = 0
    edited_by: Literal["offload", "compaction"] | None = None
    # Whether any reply held thinking: services leave old thinking out of a prompt by themselves.
    has_thought: bool = False
    offloaded: int = 0
    # Whether results could not be stored lately: then nothing is tried again before a compaction.
    store_failed: bool = False
    archive_failed: bool = False
    compact_asked: bool = False
    # The turn of the last compaction, and how many blocks of the first message are its own: request,
    # summary. What follows them there was said before the first reply.
    compacted_turn: int | None = None
    head_blocks: int = 1
    compactions: int = 0
    ended: ev.AgentEnded | None = None

    @property
    def spec(self) -> ev.AgentStarted:
        """What the agent began with. Only an agent that has started has one."""
        assert self.started is not None, "the agent has not started"
        return self.started

    @property
    def request_weight(self) -> int:
        """Weight in bytes of the next request, the to-dos at its tail included."""
        tail = reminder(self) if self.todos else None
        return self.fixed_weight + self.weight + len((tail or "").encode(errors="replace"))

    @property
    def context_tokens(self) -> int:
        """Estimated tokens of the next request."""
        return self.estimator.tokens(self.request_weight)

    @property
    def output_tokens(self) -> int:
        """Output tokens to ask for: less than at the start where the window proved smaller."""
        limit = self.spec.output_tokens if self.output_limit is None else self.output_limit
        return min(self.spec.output_tokens, limit, reserve_within(self.window_tokens))

    @property
    def unanswered(self) -> tuple[tuple[int, Block], ...]:
        """Pending calls without a result, with their index."""
        return tuple((i, use) for i, use in enumerate(self.pending) if i not in self.results)

    @property
    def text_so_far(self) -> str:
        """The newest words of the agent, for an end at which it says nothing."""
        if self.last_text:
            return self.last_text
        said = (e.message for e in reversed(self.messages) if e.message["role"] == "assistant")
        return next((t for m in said if (t := text_of(m["content"]).strip())), "")

    @property
    def last_text(self) -> str:
        """The text of the newest reply, after those that it continues past an output limit."""
        newest = self.messages[-1].message
        said = text_of(newest["content"]) if newest["role"] == "assistant" else ""
        return (self.cut_text if self.cut_replies else self.cut_text + said).strip()


def replay(events: Iterable[ev.Event]) -> State:
    """The state after ``events``, the journal's records of one agent."""
    return reduce(apply, events, State())


def apply(state: State, event: ev.Event) -> State:
    """The state after ``event``. Events that change nothing for the agent return it as it is."""
    match event:
        case ev.AgentStarted():
            return _start(event)
        case ev.ModelReplied():
            return _reply(state, event)
        case ev.ModelFailed():
            return _fail(state, event)
        case ev.ToolReturned():
            return _answer(state, event)
        case ev.MessageAdded():
            return _hear(state, event)
        case ev.Offloaded():
            return _offload(state, event)
        case ev.Compacted():
            return _compact(state, event)
        case _:
            return _note(state, event)


def _note(state: State, event: ev.Event) -> State:  # noqa: C901 (one arm for each kind of event)
    match event:
        case ev.TodosWritten(text=text):
            return replace(state, todos=text)
        case ev.AgentSpawned(child_id=child_id, background=True):
            return replace(state, background=state.background | {child_id})
        case ev.BudgetReached(name=name):
            return replace(state, limit=name, failure=None)
        case ev.Steered(command="compact"):
            return replace(state, compact_asked=True)
        case ev.OffloadFailed(tool=tool):
            archive = tool == ARCHIVE
            return replace(
                state,
                store_failed=state.store_failed or not archive,
                archive_failed=state.archive_failed or archive,
            )
        case ev.LevelChanged(level=level):
            return replace(state, level=level)
        case ev.WindowCorrected(tokens=tokens):
            return replace(state, window_tokens=tokens)
        case ev.AgentEnded():
            return replace(state, ended=event)
        case _:
            return state


def _hear(state: State, event: ev.MessageAdded) -> State:
    by_user = event.origin == "user"
    return replace(
        _append(state, user(event.text)),
        reply_open=False,
        newest_request=event.text if by_user else state.newest_request,
        repairing=event.repair,
        # A new request of the user's has a conclusion of its own, to be put right once.
        repaired=state.repaired and not by_user,
        background=state.background - {event.child_id},
        # A question after the end: the agent goes on from what it knows.
        ended=None if by_user else state.ended,
        failure=None if by_user else state.failure,
    )


def _start(event: ev.AgentStarted) -> State:
    fixed = [encode(event.system), encode(event.tool_schemas)]
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


def _append(state: State, message: Any) -> State:
    before = state.messages[-1].weight if state.messages else 0
    count = len(state.messages)
    messages = history.append(state.messages, state.start_chain, message, state.turn)
    grown = messages[-1].weight - (before if len(messages) == count else 0)
    return replace(state, messages=messages, weight=state.weight + grown)


_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


def _reply(state: State, event: ev.ModelReplied) -> State:
    state = replace(state, ledger=state.ledger.with_call(event.usage))
    if event.purpose == "summary":
        return state
    overflowed = event.stop_reason == "model_context_window_exceeded"
    state = _with_shown_todos(state)
    usage = event.usage or Usage()
    state = replace(
        state,
        cached_tokens=usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        edited_by=None,
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
    # Calls run only on stop reason tool_use: a call that was cut off can look whole.
    runs = event.stop_reason == "tool_use" and event.purpose == "agent"
    if uses and not runs:
        blocks = [b for b in blocks if b.get("type") != "tool_use"]
    weight = state.weight
    if blocks:
        state = _append(state, assistant_message(*blocks))
    cut = event.stop_reason in _CUT
    before = state.cut_text if state.cut_replies else ""
    return replace(
        state,
        pending=uses if runs else (),
        results={},
        reply_open=not (uses and runs),
        has_thought=state.has_thought or any(b.get("type") in THINKING for b in blocks),
        tool_calls=state.tool_calls + (len(uses) if runs else 0),
        cut_replies=state.cut_replies + 1 if cut else 0,
        cut_text=before + text_of(blocks) if cut else before,
        cut_call=cut and bool(uses),
        turn_weights=(*state.turn_weights[-4:], state.weight - weight),
    )


def reminder(state: State) -> str | None:
    """The to-do file as it is now, for the tail of the next request; ``None`` where there is none.

    On a model that binds thinking it becomes history, so there it is shown only when it changed.
    """
    text = f"<todos>\n{state.todos.strip()}\n</todos>"
    if not state.todos.strip() or (state.spec.binds_thinking and text == state.shown_todos):
        return None
    return text


def _with_shown_todos(state: State) -> State:
    """On a model that binds thinking, what was sent at the tail is part of the prefix from now on."""
    text = reminder(state)
    if text is None or not state.spec.binds_thinking:
        return state
    if state.messages[-1].message["role"] == "assistant":
        return state  # a paused turn went back as it was, without a tail
    index = len(state.messages[-1].message["content"])
    state = replace(_append(state, user(text)), shown_todos=text)
    last = replace(state.messages[-1], reminder=index)
    return replace(state, messages=(*state.messages[:-1], last))


def _fail(state: State, event: ev.ModelFailed) -> State:
    state = replace(state, ledger=state.ledger.with_call(event.usage))
    if event.purpose == "summary" or event.retry_in_ms is not None:
        return state
    if event.kind == "overflow":
        # "input + max_tokens": less output is asked for first.
        limit = None if state.overflows else _lower_output(state, event.message)
        return replace(
            state,
            overflowed=limit is None,
            output_limit=limit,
            overflows=state.overflows + 1,
        )
    return replace(state, failure=event)


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


def _answer(state: State, event: ev.ToolReturned) -> State:
    block = tool_result(event.tool_use_id, event.result, is_error=event.is_error)
    results = {**state.results, event.index: block}
    if len(results) < len(state.pending):
        return replace(state, results=results)
    # Results go back in the order of the calls, whatever order they came in.
    answered = [results[i] for i in range(len(state.pending))]
    state = replace(state, pending=(), results={})
    state = _append(state, {"role": "user", "content": answered})
    *earlier, newest = state.turn_weights
    return replace(state, turn_weights=(*earlier, newest + state.messages[-1].weight))


def _offload(state: State, event: ev.Offloaded) -> State:
    state = replace(state, offloaded=state.offloaded + 1)
    if event.entry is None or event.block is None:
        return state
    old = state.messages[event.entry]
    block = offload.moved(old.message["content"][event.block], event.key, event.placeholder)
    edited = history.with_block(old, event.block, block)
    messages = (*state.messages[: event.entry], edited, *state.messages[event.entry + 1 :])
    # Chains are made anew once for a batch; it is journalled as one, so its end never lacks.
    if not event.batch_end:
        return replace(state, messages=messages)
    state = replace(
        state,
        facts=tuple(event.facts) or state.facts,
        more_facts=(*state.more_facts, *event.more_facts),
    )
    return _edited(state, messages, "offload")


def _compact(state: State, event: ev.Compacted) -> State:
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
    state = replace(
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
    return replace(
        state,
        messages=stacked,
        weight=sum(e.weight for e in stacked),
        newest_breakpoint=None,
        shown_todos="",
        estimator=state.estimator.forget_report(),
        overflowed=False,
        edited_by=by,
    )
