"""The seam to language models: one callable. A request goes in, a whole reply comes out, or a
`ModelError` is raised. Streaming, transport and translation are the implementation's own affair;
retries are ours (`orchestrator.retry`), in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, Protocol, runtime_checkable

from orchestrator.ledger import Usage
from orchestrator.messages import Block, Message, encode

# The key in OpenTelemetry's context under which a call is said to be traced (`orchestrator.telemetry`).
TRACED = "outrider.traced"

# Why a call is made. `handback` is the last, tool-free turn at a limit.
Purpose = Literal["agent", "summary", "repair", "handback"]


@dataclass(frozen=True)
class Request:
    """What a model is sent, and for whom.

    ``system``, ``tools`` and ``messages`` are Messages API JSON, cache breakpoints included.
    ``encoded`` holds each message's bytes and ``encoded_tools`` those of the tools, made once when they
    were new, so that a body is joined rather than serialised again; they are derived where a caller
    leaves them out.
    """

    model: str
    messages: Sequence[Message]
    system: Sequence[Block] = ()
    tools: Sequence[Block] = ()
    max_tokens: int = 8_000
    tool_choice: Block | None = None
    agent_id: str = "main"
    agent_type: str = "main"
    run_id: str = ""
    purpose: Purpose = "agent"
    extra: dict[str, Any] = field(default_factory=dict)
    # How long an answer may take, in seconds. Who keeps to it can say what a late answer had cost.
    seconds: float | None = None
    encoded: Sequence[bytes] | None = None
    encoded_tools: bytes | None = None
    # Where the plan becomes history: as this request shows it, empty where it shows none.
    todos_shown: str | None = None

    @cached_property
    def body(self) -> bytes:
        """The request's JSON for ``POST /v1/messages`` (without ``stream``)."""
        parts = [encode({"model": self.model, "max_tokens": self.max_tokens})[1:-1]]
        if self.tools:
            parts.append(b'"tools":' + (self.encoded_tools or encode(list(self.tools))))
        rest: dict[str, Any] = {}
        if self.tool_choice is not None:
            rest["tool_choice"] = self.tool_choice
        if self.system:
            rest["system"] = list(self.system)
        if rest := rest | self.extra:
            parts.append(encode(rest)[1:-1])
        messages = self.encoded
        if messages is None:
            messages = [encode(message) for message in self.messages]
        parts.append(b'"messages":[' + b",".join(messages) + b"]")
        return b"{" + b",".join(parts) + b"}"

    @property
    def digest(self) -> str:
        """Hash of the body: BLAKE2b, 16 bytes, hexadecimal."""
        return blake2b(self.body, digest_size=16).hexdigest()


@dataclass(frozen=True)
class Reply:
    """A whole reply. ``content`` is kept and sent back exactly as it came.

    ``usage`` is ``None`` where the service reported nothing: unknown is not zero.
    """

    content: list[Block]
    stop_reason: str | None = "end_turn"
    usage: Usage | None = None
    model: str = ""
    request_id: str | None = None
    # The reply's own id, and why the service could not reuse the prefix of the one before, if it says.
    message_id: str | None = None
    cache_miss: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a server says of a model: tokens of window and output; ``None`` where it is silent.

    ``diagnostics``: whether it says, when asked, why a prefix could not be reused.
    """

    window: int | None = None
    output_cap: int | None = None
    diagnostics: bool = False


@dataclass(frozen=True, slots=True)
class Fallback:
    """The model with which agents go on when theirs does not answer any more."""

    name: str
    facts: ModelFacts = ModelFacts()


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests. Called from many tasks at once."""

    async def __call__(self, request: Request) -> Reply:
        """Answer ``request``. Raises `ModelError`."""
        ...

    async def describe(self, name: str) -> ModelFacts:
        """What the server says of model ``name``. Raises `ModelError`."""
        ...
