"""A fallback model takes over in an outage, never silently and never for another reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import ConfigError, Limits, Report, Request, resume, run
from orchestrator.errors import (
    ContextOverflow,
    ModelError,
    NotPermitted,
    OutOfCredit,
    Overloaded,
    RateLimited,
    RequestRejected,
    RequestTooLarge,
    ServerFailed,
    StreamCut,
    Unauthenticated,
    UnknownModel,
)
from orchestrator.journal import read_records
from orchestrator.model import ModelFacts, Reply
from orchestrator.prices import Rates
from orchestrator.progress.board import Board
from orchestrator.progress.plain import notable
from orchestrator.rundir import RunDir
from orchestrator.state import replay
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.standin import Fault, say
from orchestrator.testing.standin import call as calls
from orchestrator.testing.standin.answers import Answer
from tests.test_cli_process import root
from tests.test_cli_run import results as results_in
from tests.test_cli_run import served

__all__ = ["root"]
# So long a pause is asked for that no try follows the first.
WEEKS = 1e7


def log_of(root: Path, report: Report, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (root / report.log).read_text().splitlines())
    return [line for line in lines if line["event"] == event]


@pytest.mark.anyio
@pytest.mark.parametrize("error", [Overloaded, RateLimited, ServerFailed, StreamCut])
async def test_in_an_outage_the_agent_goes_on_with_the_fallback_model(
    tmp_path: Path, error: type[ModelError]
) -> None:
    asked = list[tuple[str, int]]()

    def script(request: Request) -> Any:
        asked.append((request.model, len(results(request))))
        if request.model == "claude-opus-4-6" and results(request):
            raise error("away", retry_after=WEEKS)
        return [call("ls")] if not results(request) else "done"

    model = ScriptedModel(script, name="claude-opus-4-6")
    report = await run("x", model=model, root=tmp_path, fallback_model="haiku")
    assert (report.status, report.conclusion) == ("finished", "done")
    assert asked == [
        ("claude-opus-4-6", 0),
        ("claude-opus-4-6", 1),
        ("claude-haiku-5-5", 1),
    ], "what was done is kept"
    [line] = log_of(tmp_path, report, "model_switched")
    assert (line["from"], line["to"]) == ("claude-opus-4-6", "claude-haiku-5-5")
    assert line["why"] == error.kind
    [row] = report.agents
    assert row.model == "claude-haiku-5-5"
    records = list(read_records(RunDir(tmp_path, report.run_id).journal))
    told = [notable(Board(), record) for record in records]
    assert f"main goes on with claude-haiku-5-5: claude-opus-4-6 failed ({error.kind})" in told


@pytest.mark.anyio
@pytest.mark.parametrize(
    "error",
    [
        ContextOverflow,
        RequestRejected,
        RequestTooLarge,
        Unauthenticated,
        NotPermitted,
        OutOfCredit,
        UnknownModel,
    ],
)
async def test_what_is_wrong_with_the_request_or_the_account_switches_nothing(
    tmp_path: Path, error: type[ModelError]
) -> None:
    models = set[str]()

    def script(request: Request) -> Any:
        models.add(request.model)
        raise error("no")

    report = await run("x", model=ScriptedModel(script), root=tmp_path, fallback_model="haiku")
    assert report.status == "failed"
    assert models == {"scripted"}
    assert log_of(tmp_path, report, "model_switched") == []


@pytest.mark.anyio
async def test_a_refusal_switches_nothing(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return Reply([{"type": "text", "text": "I will not"}], stop_reason="refusal")

    report = await run("x", model=ScriptedModel(script), root=tmp_path, fallback_model="haiku")
    assert (report.status, report.reason) == ("failed", "refusal")
    assert log_of(tmp_path, report, "model_switched") == []


@pytest.mark.anyio
async def test_each_agent_switches_by_itself_children_too(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if request.agent_type != "main":
            if request.model == "scripted":
                raise Overloaded("away", retry_after=WEEKS)
            return f"found by {request.model}"
        return results(request)[0] if results(request) else [call("task", prompt="look")]

    report = await run("x", model=ScriptedModel(script), root=tmp_path, fallback_model="haiku")
    assert report.status == "finished"
    assert "found by claude-haiku-5-5" in report.conclusion
    [line] = log_of(tmp_path, report, "model_switched")
    assert line["agent_id"] != "main"
    assert [row.model for row in report.agents] == ["scripted", "claude-haiku-5-5"]


@pytest.mark.anyio
async def test_when_the_fallback_is_away_too_the_run_ends_as_failed(tmp_path: Path) -> None:
    asked = list[str]()

    def script(request: Request) -> Any:
        asked.append(request.model)
        raise Overloaded("away", retry_after=WEEKS)

    report = await run("x", model=ScriptedModel(script), root=tmp_path, fallback_model="haiku")
    assert (report.status, report.reason) == ("failed", "provider:overloaded")
    assert asked == ["scripted", "claude-haiku-5-5"]


class TwoWindows(ScriptedModel):
    async def describe(self, name: str) -> ModelFacts:
        return ModelFacts(window=200_000 if name == self.name else 8_000)


@pytest.mark.anyio
async def test_a_fallback_with_a_smaller_window_has_its_own_lines(tmp_path: Path) -> None:
    """What the first model held with ease is made to fit before the second is called."""
    sizes = list[tuple[str, int]]()
    for number in range(12):
        (tmp_path / f"f{number}").write_text(f"{number}{'a line of some words' * 2}\n" * 100)

    def script(request: Request) -> Any:
        if request.purpose != "summary":
            sizes.append((request.model, len(request.body)))
        if request.model == "big" and len(results(request)) == 12:
            raise Overloaded("away", retry_after=WEEKS)
        if request.model == "big":
            return [call("read_file", path=f"f{len(results(request))}")]
        return "a summary of it all" if request.purpose == "summary" else "done"

    model = TwoWindows(script, name="big")
    report = await run("x", model=model, root=tmp_path, fallback_model="small")
    assert (report.status, report.conclusion) == ("finished", "done")
    assert [name for name, _ in sizes][-2:] == ["big", "small"]
    assert sizes[-2][1] > 40_000
    assert sizes[-1][1] < 32_000
    assert report.agents[0].window_tokens == 8_000


@pytest.mark.anyio
async def test_thinking_of_the_first_model_leaves_the_history_whole(tmp_path: Path) -> None:
    """C16, C16a: no request to the second holds any block that another model has signed."""
    sent = list[Request]()

    def script(request: Request) -> Any:
        sent.append(request)
        if request.model == "claude-opus-5-5" and len(results(request)) == 2:
            raise Overloaded("away", retry_after=WEEKS)
        if len(results(request)) == 4:
            return "done"
        thought = {"type": "thinking", "thinking": "hm", "signature": request.model}
        return [thought, call("ls")]

    model = ScriptedModel(script, name="claude-opus-5-5")
    report = await run("x", model=model, root=tmp_path, fallback_model="haiku")
    assert report.status == "finished"
    for request in sent:
        blocks = [b for m in request.messages for b in m["content"]]
        signed = {b["signature"] for b in blocks if b["type"] == "thinking"}
        assert signed <= {request.model}
    assert any(r.model == "claude-haiku-5-5" and b"signature" in r.body for r in sent)
    journal = RunDir(tmp_path, report.run_id).journal
    facts = [r.fact for r in read_records(journal) if r.agent_id == "main"]
    assert replay(facts).spec.model == "claude-haiku-5-5"


@pytest.mark.anyio
async def test_each_call_costs_what_its_own_model_costs(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if request.model == "dear" and results(request):
            raise Overloaded("away", retry_after=WEEKS)
        return [call("ls")] if not results(request) else "done"

    rates = {"dear": Rates(input=1000, output=1000), "cheap": Rates(input=1, output=1)}
    model = ScriptedModel(script, name="dear")
    report = await run("x", model=model, root=tmp_path, fallback_model="cheap", prices=rates)
    replied = log_of(tmp_path, report, "model_replied")
    assert [line["model"] for line in replied] == ["dear", "cheap"]
    first, second = (line["usage"]["input_tokens"] for line in replied)
    assert report.cost_usd is not None
    assert first * 1000 / 1e6 < report.cost_usd < (first * 1001 + second * 2) / 1e6 + 0.1


@pytest.mark.anyio
async def test_with_a_cost_limit_the_fallbacks_price_must_be_known(tmp_path: Path) -> None:
    rates = {"scripted": Rates(input=1, output=1)}
    with pytest.raises(ConfigError, match="no price is known for nobody-knows"):
        await run(
            "x",
            model=ScriptedModel(lambda _: "done"),
            root=tmp_path,
            prices=rates,
            limits=Limits(max_cost=1.0),
            fallback_model="nobody-knows",
        )


@pytest.mark.anyio
async def test_a_run_is_resumed_with_the_fallback_that_it_had_or_gets(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if request.model == "scripted":
            raise Overloaded("away", retry_after=WEEKS)
        return f"done by {request.model}"

    model = ScriptedModel(script)
    first = await run("x", model=model, root=tmp_path)
    assert first.reason == "provider:overloaded"
    report = await resume("latest", root=tmp_path, model=model, fallback_model="haiku")
    assert report.conclusion == "done by claude-haiku-5-5"
    again = await resume("latest", "once more", root=tmp_path, model=model)
    assert again.conclusion == "done by claude-haiku-5-5"


@pytest.mark.asyncio
async def test_the_command_line_switches_over_http_and_says_so(root: Path) -> None:
    """The strict stand-in checks every request; its thinking is signed for one model."""

    def brain(body: Any) -> Answer:
        if results_in(body):
            return say(f"done by {body['model']}")
        return Answer([{"type": "thinking", "thinking": "hm"}, calls("ls")])

    away = Fault("overloaded", model="claude-sonnet-5-5", nth=2, times=None, retry_after=int(WEEKS))
    ran = await served(
        brain, root, "--model", "claude-sonnet-5-5", "--fallback-model", "haiku", faults=[away]
    )
    assert (ran.code, ran.out) == (0, "done by claude-haiku-5-5\n"), ran.err
    assert "main goes on with claude-haiku-5-5: claude-sonnet-5-5 failed (overloaded)" in ran.err
