"""What is true of an agent now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from orchestrator import events as ev
from orchestrator.context import history
from orchestrator.context.estimate import Estimator
from orchestrator.context.history import Entry
from orchestrator.context.placeholders import ReadBack
from orchestrator.context.policy import Context, Level, reserve_within
from orchestrator.context.request import Place
from orchestrator.evolving import evolve
from orchestrator.ledger import Ledger
from orchestrator.messages import Block, Message, text_of

__all__ = ["State", "append", "evolve", "reminder"]


@dataclass(frozen=True)
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
    # Those of them that were about to run, by index: after a crash they may have happened.
    begun: frozenset[int] = frozenset()
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

    # Files whose content the agent knows, with a digest of it.
    seen: Mapping[str, str] = field(default_factory=dict)
    # Files of the run that this one was forked from.
    readable: tuple[str, ...] = ()
    # The parent's call whose question this agent answers, or answered last.
    asked_by: str | None = None

    todos: str = ""
    shown_todos: str = ""
    newest_breakpoint: Place | None = None
    message_id: str | None = None
    ledger: Ledger = Ledger()
    estimator: Estimator = Estimator()
    # Children in the background whose conclusion was not delivered yet.
    background: frozenset[str] = frozenset()
    level: Level = "normal"
    window_tokens: int = 0

    # Turns in a row whose calls were all denied, and the rule of the last one.
    denied_turns: int = 0
    denied_by: str = ""

    # A limit that was reached, or `permission:<rule>` where denials leave no way on.
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
    def read_back(self) -> ReadBack | None:
        """How the agent gets at what moved to a file; ``None``: it cannot, and nothing moves."""
        spec = self.spec
        if spec.reader is None:
            return None
        # Every shell has one of the same name.
        searches = spec.reader == "bash" or "grep" in spec.tools
        return ReadBack(spec.reader, "grep" if searches else None)

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


def reminder(state: State) -> str | None:
    """The to-do file as it is now, for the tail of the next request; ``None`` where there is none.

    On a model that binds thinking it becomes history, so there it is shown only when it changed.
    """
    text = f"<todos>\n{state.todos.strip()}\n</todos>"
    if not state.todos.strip() or (state.spec.binds_thinking and text == state.shown_todos):
        return None
    return text


def append(state: State, message: Message) -> State:
    """The state with a message more; a user message behind a user message joins it."""
    before = state.messages[-1].weight if state.messages else 0
    count = len(state.messages)
    messages = history.append(state.messages, state.start_chain, message, state.turn)
    grown = messages[-1].weight - (before if len(messages) == count else 0)
    return evolve(state, messages=messages, weight=state.weight + grown)
