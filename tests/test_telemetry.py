"""OpenTelemetry: spans and metrics that say what the journal says, nested, without content, off by default."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.trace import SpanKind, StatusCode

from orchestrator import Limits, Report, Request, run
from orchestrator.errors import Overloaded
from orchestrator.events import AgentStarted, Record, ToolStarted
from orchestrator.telemetry import Telemetry
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.standin import Answer, Fault, say, serve
from orchestrator.testing.standin import call as called
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]

SECRET = "sk-live-0123456789abcdefghij"


class Collected:
    """What was exported: the providers are registered once in a process, as a program does."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        trace.set_tracer_provider(self.tracers)
        metrics.set_meter_provider(MeterProvider([self.reader]))

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def points(self) -> list[tuple[dict[str, Any], Any]]:
        """The points of the token metric since the beginning of the process."""
        data = self.reader.get_metrics_data()
        found = [
            (dict(point.attributes or {}), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if (metric.name, metric.unit) == ("gen_ai.client.token.usage", "{token}")
            for point in metric.data.data_points
        ]
        return found


@pytest.fixture(scope="module")
def registered() -> Collected:
    return Collected()


@pytest.fixture
def collected(registered: Collected) -> Iterator[Collected]:
    registered.exporter.clear()
    yield registered
    registered.exporter.clear()


def parent(span: ReadableSpan, spans: list[ReadableSpan]) -> ReadableSpan | None:
    if span.parent is None:
        return None
    return next(s for s in spans if s.context and s.context.span_id == span.parent.span_id)


def script(request: Request) -> Any:
    if request.agent_type == "main":
        if len(results(request)) == 0:
            return [call("task", prompt=f"look, key {SECRET}", subagent_type="explorer")]
        if len(results(request)) == 1:
            return [call("read_file", path="none.txt"), call("nosuch")]
        return "canary: all is well, and that is a whole conclusion."
    return "canary seen by the child, a whole conclusion." if results(request) else [call("ls")]


async def go(root: Path, fn: Any = script, **options: Any) -> Report:
    options.setdefault("telemetry", True)
    return await run("canary task", model=ScriptedModel(fn), root=root, **options)


@pytest.mark.anyio
async def test_agents_and_tools_are_spans_nested_as_they_ran(
    tmp_path: Path, collected: Collected
) -> None:
    """One invoke_agent span an agent, below the execute_tool span of the call that started it."""
    report = await go(tmp_path)
    spans = collected.spans
    (main,) = collected.named("invoke_agent main")
    (child,) = collected.named("invoke_agent explorer")
    (task,) = collected.named("execute_tool task")
    (ls,) = collected.named("execute_tool ls")
    assert [parent(span, spans) for span in (main, task, child, ls)] == [None, main, task, child]
    assert {span.kind for span in spans} == {SpanKind.INTERNAL}
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    for span in spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time
    assert dict(child.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.agent.id": report.agents[1].agent_id,
        "gen_ai.agent.name": "explorer",
        "gen_ai.conversation.id": report.run_id,
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 8_000,
        "gen_ai.usage.input_tokens": report.agents[1].usage.context_tokens,
        "gen_ai.usage.output_tokens": report.agents[1].usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "outrider.agent.status": "finished",
    }
    assert dict(ls.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ls",
        "gen_ai.tool.call.id": "call_1_0",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.id": report.agents[1].agent_id,
        "gen_ai.conversation.id": report.run_id,
        "outrider.tool.result.chars": ls.attributes["outrider.tool.result.chars"],  # type: ignore[index]
    }
    (failed,) = collected.named("execute_tool read_file")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "tool_error"


@pytest.mark.anyio
async def test_spans_hold_no_content_and_no_secrets(tmp_path: Path, collected: Collected) -> None:
    """Prompts, results and conclusions are not there; names that models make up are cleaned."""

    def odd(request: Request) -> Any:
        return [call(SECRET, x="canary")] if not results(request) else "canary said, all is done."

    await go(tmp_path)
    await go(tmp_path, odd)
    said = json.dumps([[span.name, dict(span.attributes or {}), str(span.status.description)] for span in collected.spans])  # fmt: skip
    assert "canary" not in said
    assert SECRET not in said
    assert "execute_tool [redacted]" in said


@pytest.mark.anyio
async def test_the_metric_adds_up_to_the_ledger(tmp_path: Path, collected: Collected) -> None:
    """Input, all of it, and output; a call of which nothing was reported is no point."""
    tries = iter(range(9))

    def failing_once(request: Request) -> Any:
        if next(tries) == 0:
            raise Overloaded("no room", retry_after=0.01)
        return script(request)

    before = _sums(collected)
    report = await go(tmp_path, failing_once)
    after = _sums(collected)
    assert after["input"] - before["input"] == report.usage.context_tokens
    assert after["output"] - before["output"] == report.usage.output_tokens
    calls = sum(agent.requests - agent.unreported for agent in report.agents)
    assert after["count"] - before["count"] == 2 * calls
    attributes, point = collected.points()[0]
    assert attributes.keys() == {
        *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"),
        *("gen_ai.response.model", "gen_ai.agent.name", "gen_ai.token.type"),
    }
    assert attributes["gen_ai.operation.name"] == "chat"
    assert list(point.explicit_bounds)[:4] == [1, 4, 16, 64]
    assert list(point.explicit_bounds)[-1] == 67_108_864


def _sums(collected: Collected) -> dict[str, int]:
    sums = {"input": 0, "output": 0, "count": 0}
    for attributes, point in collected.points():
        sums[attributes["gen_ai.token.type"]] += point.sum
        sums["count"] += point.count
    return sums


@pytest.mark.anyio
async def test_it_is_off_unless_it_is_switched_on(tmp_path: Path, collected: Collected) -> None:
    """Also where a program has registered its providers."""
    await go(tmp_path, telemetry=False)
    assert collected.spans == []


@pytest.mark.anyio
async def test_the_main_agent_stands_below_the_span_of_the_program_around_it(
    tmp_path: Path, collected: Collected
) -> None:
    with trace.get_tracer("app").start_as_current_span("app"):
        await go(tmp_path)
    (app,) = collected.named("app")
    (main,) = collected.named("invoke_agent main")
    assert parent(main, collected.spans) == app


@pytest.mark.anyio
async def test_spans_of_a_users_own_around_its_model_stand_below_the_agent(
    tmp_path: Path, collected: Collected
) -> None:
    """The call is made within the agent's context, in its own task."""

    async def traced(request: Request) -> Any:
        with trace.get_tracer("app").start_as_current_span(f"call of {request.agent_type}"):
            await anyio.lowlevel.checkpoint()
            return script(request)

    await go(tmp_path, traced)
    for kind in ("main", "explorer"):
        (agent,) = collected.named(f"invoke_agent {kind}")
        calls = collected.named(f"call of {kind}")
        assert len(calls) >= 2
        assert {span.parent.span_id for span in calls if span.parent} == {agent.context.span_id}


@pytest.mark.anyio
async def test_a_stopped_run_leaves_no_span_open(tmp_path: Path, collected: Collected) -> None:
    async def slow() -> str:
        """Stop the run."""
        scope.cancel()
        await anyio.sleep_forever()
        return "never"

    with anyio.CancelScope() as scope:
        await go(tmp_path, lambda request: [call("slow")], tools=[slow])
    (main,) = collected.named("invoke_agent main")
    assert main.status.status_code is StatusCode.ERROR
    assert (main.attributes or {})["error.type"] == "cancelled"
    assert len(collected.named("execute_tool slow")) == 1


@pytest.mark.anyio
async def test_an_agent_that_is_asked_again_has_a_second_span(
    tmp_path: Path, collected: Collected
) -> None:
    def asking(request: Request) -> Any:
        if request.agent_type != "main":
            return "It is there, as you asked."
        if not results(request):
            return [call("task", prompt="look", subagent_type="explorer")]
        if len(results(request)) == 1:
            child = results(request)[0].split(" ")[1]
            return [call("ask_task", agent_id=child, question="Where?")]
        return "Both answers are here."

    report = await go(tmp_path, asking)
    first, second = collected.named("invoke_agent explorer")
    tokens = [(span.attributes or {})["gen_ai.usage.input_tokens"] for span in (first, second)]
    assert sum(int(str(each)) for each in tokens) == report.agents[1].usage.context_tokens


@pytest.mark.anyio
async def test_a_limit_is_no_error_and_a_failure_is(tmp_path: Path, collected: Collected) -> None:
    await go(tmp_path, lambda request: [call("ls")], limits=Limits(max_turns=2))
    (partial,) = collected.named("invoke_agent main")
    assert partial.status.status_code is StatusCode.UNSET
    assert (partial.attributes or {})["outrider.agent.status"] == "partial"
    collected.exporter.clear()
    await go(tmp_path, lambda request: "")
    (empty,) = collected.named("invoke_agent main")
    assert (empty.status.status_code, (empty.attributes or {})["error.type"]) == (
        *(StatusCode.ERROR, "no_answer"),
    )


def test_an_agent_of_an_earlier_part_of_the_run_gets_a_span_of_its_own(
    collected: Collected,
) -> None:
    """A resumed run: its agents began in another process."""
    started = AgentStarted(agent_id="main", definition="d", model="claude-x", window_tokens=9,
                           output_tokens=9, brief="x")  # fmt: skip
    telemetry = Telemetry("r", environ={})
    telemetry.recall([Record(seq=1, ts=1.0, agent_id="main", turn=0, fact=started)])
    fact = ToolStarted(tool="ls", tool_use_id="t", index=0)
    telemetry([Record(seq=2, ts=2.0, agent_id="main", turn=1, fact=fact)])
    telemetry.close()
    (main,) = collected.named("invoke_agent main")
    (ls,) = collected.named("execute_tool ls")
    assert parent(ls, collected.spans) == main
    assert (main.attributes or {})["gen_ai.provider.name"] == "anthropic"


@pytest.mark.asyncio
async def test_the_sdks_own_spans_stand_below_the_agents(
    tmp_path: Path, collected: Collected
) -> None:
    """Over HTTP, failed calls included; without telemetry the SDK makes none."""

    def brain(body: Any) -> Answer:
        done = "tool_result" in json.dumps(body["messages"])
        return say("All is done, this is the end.") if done else Answer([called("ls")])

    for on in (True, False):
        collected.exporter.clear()
        async with serve(brain, faults=[Fault("overloaded", retry_after=0.01)]) as server:
            report = await run("x", model="claude-opus-5", base_url=server.base_url, root=tmp_path, telemetry=on)  # fmt: skip
            refused = [row.error for row in server.ledger.rejected]
        assert (report.status, refused) == ("finished", [])
        calls = collected.named("anthropic.messages.create")
        if on:
            (main,) = collected.named("invoke_agent main")
            assert len(calls) == report.agents[0].requests == 3
            assert {parent(span, collected.spans) for span in calls} == {main}
            assert {span.kind for span in calls} == {SpanKind.CLIENT}
            assert {(s.attributes or {})["gen_ai.request.model"] for s in calls} == {
                "claude-opus-5"
            }
            assert sum(s.status.status_code is StatusCode.ERROR for s in calls) == 1
    assert calls == []


def test_the_command_line_switches_it_on_by_a_setting(
    cli: Cli, root: Path, collected: Collected
) -> None:
    options = ("run", "Survey this", "--model", "rehearsal", "--quiet")
    assert cli(*options).code == 0
    assert collected.spans == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_TELEMETRY", "true")
        assert cli(*options).code == 0
    assert len(collected.named("invoke_agent main")) == 1


@pytest.mark.anyio
async def test_every_name_is_one_of_the_current_conventions(
    tmp_path: Path, collected: Collected
) -> None:
    """Names, operations and kinds of tokens, as OpenTelemetry's own package of them has them; none that
    was replaced by another."""
    source = inspect.getsource(conventions)
    told = dict(
        re.findall(
            r'^GEN_AI_\w+: Final = "([\w.]+)"\n"""\n(.*?)"""', source, re.MULTILINE | re.DOTALL
        )
    )
    current = {name for name, words in told.items() if "Replaced by" not in words}
    assert "gen_ai.system" in told.keys() - current
    await go(tmp_path)
    points = [attributes for attributes, _ in collected.points()]
    described = [dict(span.attributes or {}) for span in collected.spans] + points
    used = {name for attributes in described for name in attributes if name.startswith("gen_ai.")}
    assert len(used) >= 14
    assert used - current == set()
    operations = {attributes["gen_ai.operation.name"] for attributes in described}
    assert operations == {"invoke_agent", "execute_tool", "chat"}
    assert operations <= {each.value for each in conventions.GenAiOperationNameValues}
    kinds = {attributes["gen_ai.token.type"] for attributes in points}
    assert kinds == {"input", "output"}
    assert kinds <= {each.value for each in conventions.GenAiTokenTypeValues}
