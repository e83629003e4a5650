"""Everything that can happen to an agent, as frozen facts.

An event is written to the journal before anything acts on it; the state is a fold over an agent's
events (`orchestrator.state.apply`), and logs, progress and reports are readings of the same
records. Field names are the log's (documented in ``docs/log.md``); fields named in a class's
``content`` hold people's and models' text and are left out of logs by default.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.ledger import Usage
from orchestrator.messages import Block, encode
from orchestrator.model import Purpose

SCHEMA = 1

Status = Literal["finished", "partial", "failed", "empty", "cancelled"]
OffloadReason = Literal["birth", "line", "sum", "tail", "input", "overflow"]
Trigger = Literal["line", "manual", "overflow"]


class Fact(BaseModel):
    """Something that happened. Never changed afterwards."""

    # defer_build: schemas are built at first use, which keeps `outrider --help` quick.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True, extra="ignore")
    content: ClassVar[frozenset[str]] = frozenset()


class RunStarted(Fact):
    content: ClassVar[frozenset[str]] = frozenset({"task", "options"})
    event: Literal["run_started"] = "run_started"
    task: str
    task_chars: int
    model: str
    version: str
    root: str
    options: dict[str, Any] = {}


class RunResumed(Fact):
    """Another process goes on with the run. ``options``: what it may use from now on."""

    content: ClassVar[frozenset[str]] = frozenset({"options"})
    event: Literal["run_resumed"] = "run_resumed"
    version: str = ""
    options: dict[str, Any] = {}


class AgentStarted(Fact):
    """Everything that an agent begins with: its state needs nothing else."""

    content: ClassVar[frozenset[str]] = frozenset(
        {"brief", "system", "tool_schemas", "policy", "reader", "request", "returns"}
    )
    event: Literal["agent_started"] = "agent_started"
    agent_id: str
    parent_id: str | None = None
    agent_type: str = "main"
    definition: str
    model: str
    window_tokens: int
    output_tokens: int
    tools: list[str] = []
    # The tool with which the agent reads offloaded content back; without one nothing is offloaded.
    reader: str | None = None
    brief: str
    system: list[Block] = []
    tool_schemas: list[Block] = []
    policy: dict[str, Any] = {}
    max_turns: int | None = None
    binds_thinking: bool = False
    # Whether the service is asked why a prefix could not be reused.
    diagnostics: bool = False
    # What else every request of the agent carries.
    request: dict[str, Any] = {}
    # The JSON Schema that the conclusion must fit; ``None``: any text will do.
    returns: dict[str, Any] | None = None
    # What other agents of the run have learnt of this model or its family; ``None``: nothing yet.
    tokens_per_byte: float | None = None
    depth: int = 0
    # Tells whether the definition has changed when the run is resumed.
    digest: str | None = None

    @cached_property
    def encoded_tools(self) -> bytes:
        """The JSON of the tools, made once: every request of the agent begins with it."""
        return encode(self.tool_schemas)

    @cached_property
    def encoded_system(self) -> bytes:
        """The same of the system blocks, without breakpoints."""
        return encode(self.system)


class AgentResumed(Fact):
    """The agent goes on where its records end: after a crash, or past the limit or failure that ended
    it. ``interrupted``: calls whose end nobody saw. What is not ``None`` holds from now on."""

    content: ClassVar[frozenset[str]] = frozenset({"policy"})
    event: Literal["agent_resumed"] = "agent_resumed"
    interrupted: int = 0
    max_turns: int | None = None
    window_tokens: int | None = None
    policy: dict[str, Any] | None = None


class RunForked(Fact):
    """The run begins as a copy of another's main agent at the end of turn ``at_turn``. ``happened``:
    what had happened to that since it began, as JSON; ``readable``: paths of its files, which this run's may
    name."""

    content: ClassVar[frozenset[str]] = frozenset({"happened"})
    event: Literal["run_forked"] = "run_forked"
    from_run: str
    at_turn: int
    happened: list[dict[str, Any]]
    readable: list[str] = []

    def events(self) -> list[Event]:
        return [EVENT.validate_python(fact) for fact in self.happened]


class ModelReplied(Fact):
    content: ClassVar[frozenset[str]] = frozenset({"blocks", "todos_shown"})
    event: Literal["model_replied"] = "model_replied"
    purpose: Purpose = "agent"
    model: str
    blocks: list[Block]
    stop_reason: str | None
    usage: Usage | None
    request_id: str | None = None
    message_id: str | None = None
    estimate_tokens: int = 0
    context_tokens: int = 0
    # The server cut the prompt without a word: what it reports is not what it was sent.
    truncated: bool = False
    latency_ms: int = 0
    # Of the request's bytes (`Request.digest`): what was sent can be proven afterwards.
    request_hash: str | None = None
    # Where the plan becomes history: as the request showed it, for it may have changed since; empty
    # where it showed none, ``None`` where it was not recorded.
    todos_shown: str | None = None

    @property
    def runs_calls(self) -> bool:
        """Calls run only on stop reason tool_use: a call that was cut off can look whole."""
        return self.stop_reason == "tool_use" and self.purpose == "agent"


class ModelFailed(Fact):
    """A call failed. ``retry_in_ms`` is ``None`` when it is not tried again."""

    content: ClassVar[frozenset[str]] = frozenset({"message"})
    event: Literal["model_failed"] = "model_failed"
    purpose: Purpose = "agent"
    model: str
    kind: str
    status: int | None = None
    message: str
    usage: Usage | None = None
    request_id: str | None = None
    retry_in_ms: int | None = None
    request_hash: str | None = None


class MessageAdded(Fact):
    """A user message that did not come from a tool: a follow-up, or our own nudge. ``repair``: it asks
    for a conclusion to be put right, which is done once."""

    content: ClassVar[frozenset[str]] = frozenset({"text"})
    event: Literal["message_added"] = "message_added"
    text: str
    origin: Literal["user", "outrider", "child"]
    repair: bool = False
    # The background child whose conclusion this is: with it, it is delivered, once.
    child_id: str | None = None
    # The parent's call that asks: made again after a crash, it finds its question.
    asked_by: str | None = None


class ToolStarted(Fact):
    """A call is about to run. Of one that may have effects, this is on disk before it runs; the others
    stand beside the reply that asks for them."""

    event: Literal["tool_started"] = "tool_started"
    tool: str
    tool_use_id: str
    # Which of its reply's calls it is; ``None``: written before calls were numbered.
    index: int | None = None


class ToolReturned(Fact):
    """``result`` is what enters the history: the tool's output, or the placeholder for it."""

    content: ClassVar[frozenset[str]] = frozenset({"result", "seen"})
    event: Literal["tool_returned"] = "tool_returned"
    tool: str
    tool_use_id: str
    index: int
    ms: int = 0
    chars: int = 0
    is_error: bool = False
    result: str | list[Block]
    # Files whose content the agent knows since this call, with a digest of it.
    seen: dict[str, str] = {}


class Offloaded(Fact):
    """Content moved to a file. At birth it never was in the history, so nothing is edited; else
    ``entry``, ``block`` and ``key`` say what ``placeholder`` stands for now, and ``batch_end`` that
    it is the last of those that moved together."""

    content: ClassVar[frozenset[str]] = frozenset(
        {"placeholder", "entry", "block", "key", "batch_end", "facts", "more_facts"}
    )
    event: Literal["offloaded"] = "offloaded"
    tool: str
    tool_use_id: str
    chars: int
    path: str
    reason: OffloadReason
    # Of the file's bytes, hexadecimal; ``None`` in journals from before it was recorded.
    sha256: str | None = None
    placeholder: str = ""
    entry: int | None = None
    block: int | None = None
    key: str | None = None
    batch_end: bool = True
    # At the end of a batch: all facts to keep word for word from now on, and more for the file.
    facts: list[str] = []
    more_facts: list[str] = []


class OffloadFailed(Fact):
    content: ClassVar[frozenset[str]] = frozenset({"message"})
    event: Literal["offload_failed"] = "offload_failed"
    tool: str
    tool_use_id: str
    chars: int
    message: str


class Compacted(Fact):
    """The oldest ``messages`` of the history gave way to ``summary``; ``archive`` holds them."""

    content: ClassVar[frozenset[str]] = frozenset({"summary", "facts", "more_facts"})
    event: Literal["compacted"] = "compacted"
    trigger: Trigger
    before_tokens: int
    after_tokens: int
    messages: int
    calls: int
    fallback: bool
    archive: str
    summary: str
    # Kept word for word beside the summary; those that did not fit any more, and the file that holds
    # all that did not fit so far (``None``: there are none, or it could not be written).
    facts: list[str] = []
    more_facts: list[str] = []
    facts_left_out: int = 0
    facts_path: str | None = None


class LevelChanged(Fact):
    event: Literal["level_changed"] = "level_changed"
    level: Literal["normal", "offload", "compact", "exhausted"]
    context_tokens: int
    limit_tokens: int


class Steered(Fact):
    """Somebody outside asked for something: ``compact``, before the next call, at any level;
    ``cancel``: begin nothing new and hand back what there is; ``budget``: the limit ``name`` is ``value``
    from now on."""

    event: Literal["steered"] = "steered"
    command: Literal["compact", "cancel", "pause", "continue", "budget", "say", "approve", "deny"]
    name: str | None = None
    value: float | None = None


class ModelSwitched(Fact):
    """The agent goes on with another model, because its own did not answer any more. ``why``: the kind
    of error. Thinking is bound to the model that thought: it leaves the history, whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="ignore",
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
    )
    event: Literal["model_switched"] = "model_switched"
    from_model: str = Field(alias="from")
    to: str
    why: str
    window_tokens: int
    output_tokens: int
    binds_thinking: bool = False
    diagnostics: bool = False


class CacheBroken(Fact):
    """A request read less from the cache than the one before had put there. ``cause``: our own edit
    of the history, or ``service``: it had expired there, or was evicted."""

    event: Literal["cache_broken"] = "cache_broken"
    expected_tokens: int
    read_tokens: int
    cause: Literal["offload", "compaction", "service"]
    # The service's own word for it, where it gives one: ``messages_changed``, ``tools_changed`` …
    reason: str | None = None


class AgentSilent(Fact):
    """Nothing was heard of the agent for a while: it is stuck, or its model or tool is slow."""

    event: Literal["agent_silent"] = "agent_silent"
    seconds: float


class WindowCorrected(Fact):
    event: Literal["window_corrected"] = "window_corrected"
    model: str
    tokens: int
    source: Literal["server", "error", "table", "truncation"]


class TodosWritten(Fact):
    """``text`` is the whole to-do file."""

    content: ClassVar[frozenset[str]] = frozenset({"text"})
    event: Literal["todos_written"] = "todos_written"
    text: str
    done: int
    total: int


class MemoryWritten(Fact):
    """An entry of the memory file ``path`` was added, changed or deleted; ``text`` is the entry's."""

    content: ClassVar[frozenset[str]] = frozenset({"text"})
    event: Literal["memory_written"] = "memory_written"
    action: Literal["add", "update", "forget"]
    entry: str
    path: str
    text: str


class McpServer(Fact):
    """Something happened to an MCP server: it was ``skipped`` for want of a rule, ``started`` with so
    many ``tools``, ``failed`` to start, ``changed`` its list, was ``lost`` and ``restarted``, or
    ``given_up`` after too many restarts. ``address``: the program, or the address that is spoken to."""

    content: ClassVar[frozenset[str]] = frozenset({"text"})
    event: Literal["mcp_server"] = "mcp_server"
    server: str
    status: Literal["skipped", "started", "failed", "changed", "lost", "restarted", "given_up"]
    tools: int = 0
    address: str = ""
    text: str = ""


class AgentSpawned(Fact):
    event: Literal["agent_spawned"] = "agent_spawned"
    child_id: str
    child_type: str
    background: bool = False
    tool_use_id: str
    # The plan item that follows its outcome.
    todo: str | None = None


class BudgetReached(Fact):
    event: Literal["budget_reached"] = "budget_reached"
    name: str
    limit: float


class PermissionDecided(Fact):
    """``hint``: how a person would permit what was denied. ``kept``: where that lies now which a
    command had made and was taken away."""

    content: ClassVar[frozenset[str]] = frozenset({"hint"})
    event: Literal["permission_decided"] = "permission_decided"
    tool: str
    rule: str
    decision: Literal["allow", "deny"]
    by: str
    hint: str = ""
    kept: str | None = None


class AgentEnded(Fact):
    content: ClassVar[frozenset[str]] = frozenset({"conclusion"})
    event: Literal["agent_ended"] = "agent_ended"
    status: Status
    reason: str | None = None
    turns: int
    tool_calls: int
    usage: Usage
    conclusion: str = ""
    conclusion_tokens: int = 0
    returned_tokens: int = 0
    path: str | None = None
    # Files of the workspace that the conclusion names.
    artifacts: list[str] = []


class RunEnded(Fact):
    event: Literal["run_ended"] = "run_ended"
    status: Status
    reason: str | None = None
    usage: Usage
    cost_usd: float | None = None


Event = Annotated[
    RunStarted
    | RunResumed
    | AgentStarted
    | AgentResumed
    | RunForked
    | ModelReplied
    | ModelFailed
    | MessageAdded
    | ToolStarted
    | ToolReturned
    | Offloaded
    | OffloadFailed
    | Compacted
    | LevelChanged
    | AgentSilent
    | Steered
    | ModelSwitched
    | CacheBroken
    | WindowCorrected
    | TodosWritten
    | MemoryWritten
    | AgentSpawned
    | McpServer
    | BudgetReached
    | PermissionDecided
    | AgentEnded
    | RunEnded,
    Field(discriminator="event"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))


class Record(BaseModel):
    """An event with its place: which agent, in which turn, when.

    ``seq`` is the journal's own numbering, unique in the run and without gaps; ``ts`` is seconds
    since the epoch.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)
    seq: int
    ts: float
    agent_id: str
    turn: int
    fact: Event


_REPLACEMENT = "\ufffd".encode()


def to_json(fact: Fact) -> bytes:
    """One event as JSON. Lone surrogates, which models do produce, survive as escapes."""
    try:
        data = fact.model_dump_json().encode()
    except ValueError:
        return encode(fact.model_dump())
    # In an object's keys pydantic replaces a lone surrogate by U+FFFD without a word.
    return encode(fact.model_dump()) if _REPLACEMENT in data else data


def from_json(data: bytes) -> Event:
    """The event of `to_json`. Raises `pydantic.ValidationError`."""
    try:
        return EVENT.validate_json(data)
    except ValidationError:
        return EVENT.validate_python(json.loads(data))
