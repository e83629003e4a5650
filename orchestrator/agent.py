"""A live agent: its state and the seams through which it acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio

from orchestrator.budget import Budget
from orchestrator.events import Fact, MessageAdded, ModelFailed, ModelReplied, Record
from orchestrator.gate import Gates
from orchestrator.journal import Journal
from orchestrator.ledger import Usage
from orchestrator.messages import Message
from orchestrator.model import Fallback, Model
from orchestrator.permissions import Asking, Permissions
from orchestrator.reins import Reins
from orchestrator.skills import SkillTool
from orchestrator.state import State, apply
from orchestrator.tools import Tool
from subagents import Conclusion, Definition, TaskTool
from workspace import ResultStore, Shell

Observe = Callable[[Sequence[Record]], None]


@dataclass(frozen=True)
class Seams:
    """What all agents of a run act through. ``root``: the workspace.

    ``slots``: held during one model call, so that an agent that waits for its children holds none.
    ``gates``: passed before a slot is taken; there all agents slow down together.
    ``price``: USD of a call, if known.
    ``asking``: who is asked about calls that need it. ``reins``: by which it is stopped from outside.
    ``fallback``: the model that takes over where an agent's own does not answer any more.
    """

    run_id: str
    model: Model
    journal: Journal
    observe: Observe
    slots: AbstractAsyncContextManager[object] = field(default_factory=nullcontext)
    gates: Gates = field(default_factory=Gates)
    price: Callable[[str, Usage], float | None] = lambda model, usage: None
    asking: Asking = field(default_factory=Asking)
    reins: Reins = field(default_factory=Reins)
    fallback: Fallback | None = None
    root: Path = Path()


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an agent's time is over, on the monotonic clock; ``seconds`` after its beginning."""

    at: float
    seconds: float

    @classmethod
    def within(cls, seconds: float | None, outer: Deadline | None) -> Deadline | None:
        """``seconds`` from now, and never later than ``outer``."""
        if seconds is None:
            return outer
        own = cls(time.monotonic() + seconds, seconds)
        return own if outer is None or own.at < outer.at else outer


class Desk(Protocol):
    """Where an agent's own files are kept. ``is_followup``: it answers a question after its end.
    ``is_revived``: it was at work in an earlier process too."""

    is_followup: bool
    is_revived: bool

    async def archive(self, messages: Sequence[Message], heading: str) -> str:
        """Append messages to the archive; returns its path in the workspace. Raises ``OSError``."""
        ...

    async def conclude(self, text: str) -> str:
        """Write the whole conclusion; returns its path in the workspace. Raises ``OSError``."""
        ...

    def has_file(self, path: str) -> bool:
        """Whether a file of the workspace is there; ``path`` is relative to its root."""
        ...

    async def read_todos(self) -> str | None:
        """The to-do file's text if a person changed it since we last wrote it, else ``None``."""
        ...

    async def write_todos(self, text: str) -> None: ...

    async def settle_todos(self, recorded: Sequence[str]) -> None:
        """After a crash: the newest of the ``recorded`` texts goes to the file, unless a person has
        changed that meanwhile."""
        ...


class FileMemory(Protocol):
    """Which contents of files an agent knows, as digests by path."""

    def take_news(self) -> dict[str, str]:
        """What became known since the last call."""
        ...

    def recall(self, known: Mapping[str, str]) -> None:
        """Know this again."""
        ...


@dataclass
class Agent:
    """One agent at work."""

    agent_id: str
    seams: Seams
    store: ResultStore
    desk: Desk
    budget: Budget
    tools: Mapping[str, Tool] = field(default_factory=dict)
    # Tools that this run does not enable, each with what would.
    off: Mapping[str, str] = field(default_factory=dict)
    # Reserved for the turn in which it hands over what it has.
    held_tokens: int = 0
    children: list[str] = field(default_factory=list)
    conclusion_tokens: int = 2_000
    deadline: Deadline | None = None
    permissions: Permissions = field(default_factory=Permissions)
    # Its `task` tool, which knows how to tell it of children.
    spawner: TaskTool | None = None
    # What its file tools remember of the files that it has read; kept in its records.
    files: FileMemory | None = None
    # Which skills its rules let it read, and by which rules that was looked up.
    skills: tuple[Permissions, SkillTool | None] | None = None
    # Where it has one; what it left running there ends with the agent.
    shell: Shell | None = None
    state: State = field(default_factory=State)
    conclusion: Conclusion | None = None
    # Its definition, after those of the agents above it.
    line: tuple[Definition, ...] = ()
    # What was said from outside, as it comes: conclusions of children in the background, a person's
    # words. `arrived` is set while there is some.
    inbox: list[MessageAdded] = field(default_factory=list)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    last_heard: float = field(default_factory=time.monotonic)
    # How many things it waits for that may rightly take long: children, the gate.
    waiting: int = 0

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else self.deadline.at - time.monotonic()

    async def record(self, *facts: Fact, on_disk: bool = False) -> None:
        """Journal ``facts``; when this returns they are safe from a crash and part of the state, and
        with ``on_disk`` safe from a loss of power."""
        turn, rows = self.state.turn, []
        for fact in facts:
            if _opens_turn(fact) and turn == self.state.turn:
                turn += 1
            rows.append((self.agent_id, turn, fact))
        await self.seams.journal.append(rows, self._recorded, on_disk=on_disk)

    def hold(self, tokens: int) -> None:
        """Reserve ``tokens`` for the agent's last turn, from all that stand above it, until `let_go`."""
        if not self.held_tokens:
            self.held_tokens = tokens
            self.budget.reserve(tokens)

    def let_go(self) -> None:
        """The agent has ended: what it held back is there for others."""
        self.budget.release(self.held_tokens)
        self.held_tokens = 0

    def deliver(self, message: MessageAdded) -> None:
        """Hand over what was said from outside; it enters the history at the next safe moment."""
        self.inbox.append(message)
        self.arrived.set()

    async def take_in(self) -> None:
        """Record what was delivered, where a user message may stand: not before open results."""
        if not self.inbox or self.state.unanswered or self.state.ended is not None:
            return
        arrived, self.inbox = self.inbox, []
        self.arrived = anyio.Event()
        await self.record(*arrived)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """While the agent waits for something that may rightly take long, silence means nothing."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.last_heard = time.monotonic()

    def _recorded(self, records: Sequence[Record]) -> None:
        # Called by the journal, so in its order, whatever order the tasks wake in.
        self.last_heard = time.monotonic()
        for record in records:
            self.state = apply(self.state, record.fact)
        self.seams.observe(records)


def _opens_turn(fact: Fact) -> bool:
    """A call, and what is recorded with it, belongs to the turn that it opens."""
    return isinstance(fact, ModelReplied | ModelFailed) and fact.purpose != "summary"


@dataclass(frozen=True)
class Call:
    """A tool call that is running, for tools that need to know whose it is. ``passed``: the rules
    that a person let it pass."""

    turn: int
    index: int
    tool_use_id: str
    tool: str = ""
    passed: frozenset[str] = frozenset()
