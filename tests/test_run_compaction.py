"""Compaction in whole runs: archive first, then one summary, the tail whole, nothing orphaned."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Reply, Report, Request, run
from orchestrator.context.overflow import is_context_overflow, window_in
from orchestrator.errors import ContextOverflow, ServerFailed
from orchestrator.ledger import Usage
from orchestrator.messages import text_of
from orchestrator.rundir import RunDir, read_archive
from orchestrator.testing import ScriptedModel, call
from tests.histories import orphans

pytestmark = pytest.mark.anyio

WINDOW = 32_000
PAGES = 60


def page(number: int) -> str:
    """A page of a long document.

    Args:
        number: Which page.
    """
    return f"page {number}: " + f"word{number} " * 500


Summarise = Callable[[Request], Any]


def good_summary(request: Request) -> str:
    return "Goal: read all pages. Facts: the code is 4711."


class LongHaul:
    """Reads page after page, and keeps every request that it was sent.

    How far it is can be told from the request alone: by the newest page in it, or by the summary.
    """

    def __init__(self, summarise: Summarise = good_summary, pages: int = PAGES) -> None:
        self.summarise = summarise
        self.pages = pages
        self.requests: list[Request] = []
        self.model = ScriptedModel(self.script, window=WINDOW)

    @property
    def summaries(self) -> list[Request]:
        return [r for r in self.requests if r.purpose == "summary"]

    def script(self, request: Request) -> Any:
        self.requests.append(request)
        assert len(request.body) // 4 + request.max_tokens <= WINDOW
        assert orphans(list(request.messages)) == []
        if request.purpose == "summary":
            return self.summarise(request)
        calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        number = max((c["input"]["number"] for c in calls), default=0)
        return [call("page", number=number + 1)] if number < self.pages else "read them all"

    async def go(self, root: Path, **context: Any) -> Report:
        """Offload is off unless asked for: it would make compactions rare."""
        context.setdefault("offload_at", None)
        return await run(
            "TASK: read everything",
            model=self.model,
            root=root,
            tools=[page],
            context=Context(**context),
            run_id="long",
        )


def log_of(root: Path, report: Report, event: str) -> list[dict[str, Any]]:
    lines = (root / report.log).read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == event]


async def test_c1_below_the_line_there_is_no_summary_and_no_archive(tmp_path: Path) -> None:
    """C1"""
    haul = LongHaul(pages=4)
    report = await haul.go(tmp_path)
    assert (report.status, haul.summaries) == ("finished", [])
    assert not RunDir(tmp_path, "long").agent("main").history.exists()


async def test_c2_c3_c7_a_long_run_archives_every_dropped_message_once_and_keeps_the_task(
    tmp_path: Path,
) -> None:
    """C2, C3, C7: archive + kept tail are the whole history; the first request stays verbatim."""
    haul = LongHaul()
    report = await haul.go(tmp_path)
    assert report.status == "finished"
    compacted = log_of(tmp_path, report, "compacted")
    assert len(compacted) >= 2
    archive = RunDir(tmp_path, "long").agent("main").history
    archived = list(read_archive(archive))
    assert len(archived) == sum(e["messages"] for e in compacted)
    last = haul.requests[-1].messages
    asked = [
        b["input"]["number"] for m in archived for b in m["content"] if b["type"] == "tool_use"
    ]
    asked += [b["input"]["number"] for m in last for b in m["content"] if b["type"] == "tool_use"]
    assert asked == list(range(1, PAGES + 1))
    assert text_of(last[0]["content"][:1]) == "TASK: read everything"
    summary = text_of(last[0]["content"][1:])
    assert "the code is 4711" in summary
    assert ".outrider/runs/long/agents/main/history.md" in summary
    assert "do not carry them out again" in summary
    assert all(e["archive"].endswith("main/history.md") for e in compacted)
    # The summary call is cheap: it is the agent's own prefix with one question at its end.
    first = haul.summaries[0]
    before = next(r for r in reversed(haul.requests[: haul.requests.index(first)]))
    assert first.system == before.system
    assert first.tools == before.tools
    assert first.tool_choice == {"type": "none"}
    assert report.agents[0].compactions == len(compacted)


async def test_c8_the_summary_takes_in_the_one_before_it(tmp_path: Path) -> None:
    """C8: previous summary + newly dropped messages in one call."""
    haul = LongHaul()
    await haul.go(tmp_path)
    assert "the code is 4711" in haul.summaries[1].body.decode()


async def test_summary_calls_are_in_the_ledger_and_no_turns(tmp_path: Path) -> None:
    """L2: summed over all requests, summary calls included."""
    haul = LongHaul()
    report = await haul.go(tmp_path)
    row = report.agents[0]
    assert row.requests == len(haul.requests)
    assert row.turns == len(haul.requests) - len(haul.summaries)
    replied = log_of(tmp_path, report, "model_replied")
    assert sum(e["usage"]["input_tokens"] for e in replied) == row.usage.input_tokens
    assert {e["purpose"] for e in replied} == {"agent", "summary"}


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "Error: the service is busy",
        "I'm sorry, I cannot help with that",
        Reply([{"type": "text", "text": "cut"}], "max_tokens", Usage(10, 10)),
    ],
    ids=["empty", "error-shaped", "refusing", "cut"],
)
async def test_c10_an_unusable_summary_gives_way_to_a_mechanical_one(
    tmp_path: Path, bad: Any
) -> None:
    """C10: history is never replaced by an error text, and the run goes on."""
    haul = LongHaul(lambda request: bad)
    report = await haul.go(tmp_path)
    assert report.status == "finished"
    compacted = log_of(tmp_path, report, "compacted")
    assert compacted
    assert all(e["fallback"] and e["calls"] == 2 for e in compacted)
    summary = text_of(haul.requests[-1].messages[0]["content"][1:])
    assert "called page({'number': " in summary
    assert "sorry" not in summary


async def test_c10_a_summariser_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    """C10"""

    def fails(request: Request) -> Any:
        error = ServerFailed("broken")
        error.retryable = False  # type: ignore[misc]
        raise error

    report = await LongHaul(fails).go(tmp_path)
    assert report.status == "finished"
    assert all(e["fallback"] for e in log_of(tmp_path, report, "compacted"))


async def test_summaries_by_rules_call_no_model(tmp_path: Path) -> None:
    haul = LongHaul()
    report = await haul.go(tmp_path, summary_model="rules")
    assert (report.status, haul.summaries) == ("finished", [])
    assert report.agents[0].compactions > 0


async def test_a_cheaper_model_may_write_the_summaries(tmp_path: Path) -> None:
    haul = LongHaul()
    await haul.go(tmp_path, summary_model="claude-haiku-5-5")
    assert {r.model for r in haul.summaries} == {"claude-haiku-5-5"}
    assert all(len(r.messages) == 1 and not r.tools for r in haul.summaries)


async def test_c9_a_summary_too_large_for_one_call_is_divided_and_bounded(tmp_path: Path) -> None:
    """C9: halves, at most six calls, rejected ones counted; the parts are joined without a call."""
    haul = LongHaul(pages=40)
    plain, window = haul.script, 9_000

    def small(request: Request) -> Any:
        if request.purpose == "summary" and len(request.body) // 4 > window:
            haul.requests.append(request)
            raise ContextOverflow("prompt is too long")
        if request.purpose == "summary":
            haul.requests.append(request)
            return f"PART {len(haul.summaries)}"
        return plain(request)

    haul.model = ScriptedModel(small, window=WINDOW)
    report = await haul.go(tmp_path)
    assert report.status == "finished"
    compacted = log_of(tmp_path, report, "compacted")
    assert all(2 <= e["calls"] <= 6 for e in compacted)
    assert sum(e["calls"] for e in compacted) == len(haul.summaries)
    assert "PART" in text_of(haul.requests[-1].messages[0]["content"])


async def test_c7_facts_and_the_task_are_verbatim_after_five_compactions(tmp_path: Path) -> None:
    """C7: with a summariser that keeps nothing."""
    haul = LongHaul(lambda request: "Some pages were read.", pages=150)
    report = await run(
        "TASK: read everything. Never skip order_4711x at src/a.py:12.",
        model=haul.model,
        root=tmp_path,
        tools=[page],
        context=Context(offload_at=None),
    )
    assert report.agents[0].compactions >= 5
    last = text_of(haul.requests[-1].messages[0]["content"])
    assert last.startswith("TASK: read everything. Never skip order_4711x at src/a.py:12.")


async def test_c19_without_compaction_the_run_ends_at_the_window_and_says_why(
    tmp_path: Path,
) -> None:
    """C19"""
    report = await LongHaul().go(tmp_path, compaction=False)
    assert (report.status, report.reason) == ("failed", "context_length_exceeded")


async def test_e6_an_overflow_named_by_the_service_is_answered_by_a_smaller_request_once(
    tmp_path: Path,
) -> None:
    """E6: the window is corrected from the error's number, history is compacted, the run goes on."""
    small = 14_000
    haul = LongHaul(pages=30)
    plain = haul.script

    def strict(request: Request) -> Any:
        tokens = len(request.body) // 4
        if tokens > small:
            haul.requests.append(request)
            raise ContextOverflow(f"prompt is too long: {tokens} tokens > {small} maximum")
        return plain(request)

    haul.model = ScriptedModel(strict, window=WINDOW)
    report = await haul.go(tmp_path)
    assert report.status == "finished"
    assert [e["tokens"] for e in log_of(tmp_path, report, "window_corrected")] == [small]
    assert log_of(tmp_path, report, "compacted")[0]["trigger"] == "overflow"
    assert len(log_of(tmp_path, report, "model_failed")) == 1


async def test_e6_a_request_that_stays_too_large_ends_the_run_with_its_reason(
    tmp_path: Path,
) -> None:
    def always(request: Request) -> Any:
        raise ContextOverflow("prompt is too long")

    report = await run("x", model=ScriptedModel(always), root=tmp_path)
    assert (report.status, report.reason) == ("failed", "context_length_exceeded")
    assert report.message is not None
    assert "choose a larger --window" in report.message


async def test_e7_stop_reason_context_window_exceeded_is_noticed(tmp_path: Path) -> None:
    """E7: the partial reply stays, history is compacted, the model goes on."""
    haul = LongHaul(pages=12)
    plain = haul.script
    told: list[int] = []

    def script(request: Request) -> Any:
        if len(haul.requests) == 10 and not told:
            told.append(1)
            return Reply([{"type": "text", "text": "half"}], "model_context_window_exceeded")
        return plain(request)

    haul.model = ScriptedModel(script, window=WINDOW)
    report = await haul.go(tmp_path)
    assert report.status == "finished"
    assert log_of(tmp_path, report, "compacted")[0]["trigger"] == "overflow"


async def test_s12_a_child_compacts_for_itself(tmp_path: Path) -> None:
    """S12, C15: a child has the same pipeline; its archive is its own."""
    haul = LongHaul()
    child = haul.script

    def script(request: Request) -> Any:
        if request.agent_type != "main":
            return child(request)
        has_result = any(b["type"] == "tool_result" for b in request.messages[-1]["content"])
        return "end" if has_result else [call("task", prompt="read everything")]

    model = ScriptedModel(script, window=WINDOW)
    report = await run(
        "go", model=model, root=tmp_path, tools=[page], context=Context(offload_at=None)
    )
    main, reader = report.agents
    assert (main.compactions, reader.status) == (0, "finished")
    assert reader.compactions > 0
    archives = list((tmp_path / ".outrider/runs").rglob("history.md"))
    assert [a.parent.name for a in archives] == [reader.agent_id]


async def test_o8_at_the_line_older_results_move_out_in_one_batch_and_newest_turns_stay(
    tmp_path: Path,
) -> None:
    """O8, O7: the cached prefix breaks once for many results; each can be read back whole."""
    haul = LongHaul()
    report = await haul.go(tmp_path, offload_at=5_000)
    assert report.status == "finished"
    moved = log_of(tmp_path, report, "offloaded")
    assert {e["reason"] for e in moved} == {"line"}
    for event in moved:
        text = (tmp_path / event["path"]).read_text()
        assert text.startswith("page ")
        assert len(text) == event["chars"]
    assert len({e["path"] for e in moved}) == len(moved)
    # A batch is recorded at one moment: fewer breaks of the prefix than results moved.
    batches = len({e["turn"] for e in moved})
    assert len(moved) >= 4 * batches
    newest = [b for m in haul.requests[-1].messages[-16:] for b in m["content"]]
    kept = [b["content"] for b in newest if b["type"] == "tool_result"]
    assert kept
    assert not any(text.startswith("[offloaded") for text in kept)


async def test_o11_large_inputs_leave_old_history_too(tmp_path: Path) -> None:
    """O11: what was written to a file is not carried along for ever, and can be read back."""
    body = "line of a long file\n" * 240

    def script(request: Request) -> Any:
        assert len(request.body) // 4 + request.max_tokens <= WINDOW
        calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        if len(calls) == 16:
            assert calls[0]["input"]["path"] == "f0.txt"
            return calls[0]["input"]["content"]
        return [call("write_file", path=f"f{len(calls)}.txt", content=body)]

    report = await run("go", model=ScriptedModel(script, window=WINDOW), root=tmp_path)
    assert report.conclusion.startswith("[offloaded .outrider/runs/")
    path = report.conclusion.split(" ")[1]
    assert (tmp_path / path).read_text() == body
    assert {e["reason"] for e in log_of(tmp_path, report, "offloaded")} == {"input"}
    # O7: the same content is stored once.
    assert len(list((tmp_path / path).parent.iterdir())) == 1


async def test_o5_parallel_results_that_are_each_under_the_limit_are_bounded_in_sum(
    tmp_path: Path,
) -> None:
    """O5: the next request still fits."""

    def script(request: Request) -> Any:
        assert len(request.body) // 4 + request.max_tokens <= WINDOW
        if len(request.messages) == 1:
            return [call("page", number=n) for n in range(40)]
        return "seen"

    model = ScriptedModel(script, window=WINDOW)
    report = await run("go", model=model, root=tmp_path, tools=[page])
    assert report.status == "finished"
    moved = log_of(tmp_path, report, "offloaded")
    assert {e["reason"] for e in moved} == {"sum"}
    assert len(moved) < 40


async def test_o7_a_store_that_cannot_be_written_leaves_the_content_inline(tmp_path: Path) -> None:
    """O7: nothing is lost, the log says so, and the run goes on."""

    def text() -> str:
        """Text."""
        return "x" * 9_000

    def script(request: Request) -> Any:
        own = RunDir(tmp_path, request.run_id).agent("main")
        own.folder.mkdir(exist_ok=True)
        own.results.touch()  # a file where the folder should be
        return request.messages[-1]["content"][0].get("content") or [call("text")]

    report = await run("go", model=ScriptedModel(script), root=tmp_path, tools=[text])
    assert report.conclusion == "x" * 9_000
    failed = log_of(tmp_path, report, "offload_failed")
    assert [(e["tool"], e["chars"]) for e in failed] == [("text", 9_000)]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("prompt is too long: 209353 tokens > 200000 maximum", 200_000),
        ("request (643 tokens) exceeds the available context size (512 tokens), try it", 512),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", 200_000),
        ("This model's maximum context length is 4,097 tokens, you requested 5,000", 4_097),
        ("上下文长度超过模型限制（131072 tokens）", 131_072),
        ("输入内容过长", None),
    ],
)
def test_e6_overflow_is_recognised_by_its_words_in_two_languages(
    text: str, window: int | None
) -> None:
    """E4, E6: and a number in it corrects the window."""
    assert is_context_overflow(text)
    assert window_in(text) == window


@pytest.mark.parametrize(
    "text",
    [
        "rate limit: this request would exceed 20,000 input tokens per minute",
        "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens",
        "Throttled: too many tokens, try again later",
        "您的账户已欠费，输入超过配额",
        "image exceeds the dimension limit",
        "invalid_request_error: tools.0.name is too long",
        "the server had an error",
    ],
)
def test_e6_other_limits_are_not_taken_for_overflow(text: str) -> None:
    """E6, E8: the exclusion list, and silence about what is unknown."""
    assert not is_context_overflow(text)
