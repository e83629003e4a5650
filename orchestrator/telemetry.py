"""A run as OpenTelemetry spans and metrics, in the semantic conventions for generative AI: off unless it
is switched on, and without content, as the log is.

One ``invoke_agent`` span for each agent, below the ``execute_tool`` span of the call that started it; one
``execute_tool`` span for each tool call; ``gen_ai.client.token.usage`` for each model call. They are made
from the run's records, so that they say what the journal says. Only OpenTelemetry's API is used: which
SDK and exporter there is, is the surrounding program's affair (`opentelemetry-instrument`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from orchestrator import events as ev
from orchestrator.ledger import Usage
from orchestrator.model import TRACED, Model, ModelFacts, Reply, Request
from orchestrator.redaction import redactor

_SCOPE = "outrider"
# The boundaries that the conventions ask for.
_BUCKETS = [4**power for power in range(14)]
_FAILED = ("failed", "empty", "cancelled")


@dataclass
class _Open:
    """An ``invoke_agent`` span that has not ended, and what its calls have used."""

    span: Span
    started: ev.AgentStarted
    usage: Usage = field(default_factory=Usage)


class Telemetry:
    """The spans and metrics of one run. An observer; call `close` when the run is over.

    ``tracers`` and ``meters``: providers to use instead of the registered ones.
    """

    def __init__(
        self,
        run_id: str,
        *,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._run_id = run_id
        made_by = version("outrider")
        self._tracer = trace.get_tracer(_SCOPE, made_by, tracers)
        self._tokens = metrics.get_meter(_SCOPE, made_by, meters).create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._clean = redactor(os.environ if environ is None else environ)
        self._known: dict[str, ev.AgentStarted] = {}
        self._agents: dict[str, _Open] = {}
        self._tools: dict[tuple[str, str, int | None], Span] = {}
        # Of each agent that was started by a call: that call's span, ended or not.
        self._spawned_by: dict[str, Span] = {}
        self._last_ns = 0

    def recall(self, records: Iterable[ev.Record]) -> None:
        """Know the agents of an earlier part of the run, which had spans of its own."""
        for record in records:
            if isinstance(record.fact, ev.AgentStarted):
                self._known[record.agent_id] = record.fact

    def __call__(self, records: Sequence[ev.Record]) -> None:
        for record in records:
            self._take(record)

    def close(self) -> None:
        """End what is still open: the run was stopped."""
        for span in self._tools.values():
            _fail(span, "cancelled")
            span.end(self._last_ns or None)
        self._tools.clear()
        for agent_id in reversed(list(self._agents)):
            self._end(agent_id, "cancelled", "cancelled", self._last_ns or None)

    def around(self, model: Model) -> Model:
        """The model, called within its agent's span: spans that are made there stand below it."""
        return _Traced(model, self)

    def context_of(self, agent_id: str) -> otel.Context | None:
        """The context of the agent's open span."""
        found = self._agents.get(agent_id)
        return None if found is None else trace.set_span_in_context(found.span)

    # ── one record ──

    def _take(self, record: ev.Record) -> None:
        fact, at = record.fact, int(record.ts * 1e9)
        self._last_ns = at
        match fact:
            case ev.AgentStarted():
                self._known[record.agent_id] = fact
                self._begin(record.agent_id, at)
            case ev.AgentSpawned():
                self._note_spawn(record.agent_id, fact)
            case ev.ToolStarted():
                self._begin_tool(record.agent_id, fact, at)
            case ev.ToolReturned():
                self._end_tool(record.agent_id, fact, at)
            case ev.ModelReplied() | ev.ModelFailed():
                self._count(record.agent_id, fact, at)
            case ev.AgentEnded():
                self._end(record.agent_id, fact.status, fact.reason, at)
            case _:
                pass

    def _begin(self, agent_id: str, at: int) -> _Open | None:
        """The agent's open span, opened if need be: also one that ended goes on, when it is asked."""
        if agent_id in self._agents:
            return self._agents[agent_id]
        if (started := self._known.get(agent_id)) is None:
            return None
        span = self._tracer.start_span(
            f"invoke_agent {self._clean(started.agent_type)}",
            context=self._parent_of(agent_id, started),
            kind=SpanKind.INTERNAL,
            start_time=at,
            attributes=self._cleaned(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.provider.name": _provider(started.model),
                    "gen_ai.agent.id": agent_id,
                    "gen_ai.agent.name": started.agent_type,
                    "gen_ai.conversation.id": self._run_id,
                    "gen_ai.request.model": started.model,
                    "gen_ai.request.max_tokens": started.output_tokens,
                }
            ),
        )
        self._agents[agent_id] = _Open(span, started)
        return self._agents[agent_id]

    def _parent_of(self, agent_id: str, started: ev.AgentStarted) -> otel.Context | None:
        call = self._spawned_by.get(agent_id)
        if call is not None:
            return trace.set_span_in_context(call)
        # The main agent stands below whatever span the surrounding program has open.
        return self.context_of(started.parent_id) if started.parent_id else None

    def _note_spawn(self, agent_id: str, fact: ev.AgentSpawned) -> None:
        for (owner, use, _), span in self._tools.items():
            if (owner, use) == (agent_id, fact.tool_use_id):
                self._spawned_by[fact.child_id] = span

    def _begin_tool(self, agent_id: str, fact: ev.ToolStarted, at: int) -> None:
        self._begin(agent_id, at)
        self._tools[agent_id, fact.tool_use_id, fact.index] = self._tool_span(agent_id, fact, at)

    def _tool_span(self, agent_id: str, fact: ev.ToolStarted | ev.ToolReturned, at: int) -> Span:
        return self._tracer.start_span(
            f"execute_tool {self._clean(fact.tool)}",
            context=self.context_of(agent_id),
            kind=SpanKind.INTERNAL,
            start_time=at,
            attributes=self._cleaned(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": fact.tool,
                    "gen_ai.tool.call.id": fact.tool_use_id,
                    "gen_ai.tool.type": "function",
                    "gen_ai.agent.id": agent_id,
                    "gen_ai.conversation.id": self._run_id,
                }
            ),
        )

    def _end_tool(self, agent_id: str, fact: ev.ToolReturned, at: int) -> None:
        key = agent_id, fact.tool_use_id, fact.index
        span = self._tools.pop(key, None) or self._tools.pop((*key[:2], None), None)
        if span is None:  # it was answered without being run: there is no such tool, or a limit
            span = self._tool_span(agent_id, fact, at)
        span.set_attribute("outrider.tool.result.chars", fact.chars)
        if fact.is_error:
            _fail(span, "tool_error")
        span.end(at)

    def _count(self, agent_id: str, fact: ev.ModelReplied | ev.ModelFailed, at: int) -> None:
        opened = self._begin(agent_id, at)
        usage = fact.usage
        if usage is None or opened is None:
            return  # what was not reported is not reported here either
        opened.usage += usage
        replied = isinstance(fact, ev.ModelReplied)
        described = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(opened.started.model),
            "gen_ai.request.model": opened.started.model,
            **({"gen_ai.response.model": fact.model} if replied else {"error.type": fact.kind}),  # type: ignore[union-attr]
            "gen_ai.agent.name": opened.started.agent_type,
        }
        attributes = self._cleaned(described)
        for kind, tokens in (("input", usage.context_tokens), ("output", usage.output_tokens)):
            self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})

    def _end(self, agent_id: str, status: str, reason: str | None, at: int | None) -> None:
        if (opened := self._agents.pop(agent_id, None)) is None:
            return
        span, usage = opened.span, opened.usage
        # Input is all of it here: the conventions count what caches hold as well.
        span.set_attribute("gen_ai.usage.input_tokens", usage.context_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cache_read_input_tokens)
        span.set_attribute(
            "gen_ai.usage.cache_creation.input_tokens", usage.cache_creation_input_tokens
        )
        span.set_attribute("outrider.agent.status", status)
        if status in _FAILED:
            _fail(span, self._clean(reason or status))
        span.end(at)

    def _cleaned(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Names come from models and definitions: secrets are taken out of them as in the log."""
        return {k: self._clean(v) if isinstance(v, str) else v for k, v in attributes.items()}


class _Traced:
    """A model whose calls are made within their agents' spans."""

    def __init__(self, model: Model, telemetry: Telemetry) -> None:
        self._model = model
        self._telemetry = telemetry

    async def __call__(self, request: Request) -> Reply:
        context = self._telemetry.context_of(request.agent_id)
        token = otel.attach(otel.set_value(TRACED, True, context))
        try:
            return await self._model(request)
        finally:
            otel.detach(token)

    async def describe(self, name: str) -> ModelFacts:
        return await self._model.describe(name)


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _provider(model: str) -> str:
    """The conventions' name of the provider; others than Anthropic cannot be told by a name."""
    return "anthropic" if "claude" in model.lower() else "_OTHER"
