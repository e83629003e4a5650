"""Whole runs over real HTTP against the strict stand-in: no request refused, no token unaccounted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from orchestrator import Context, Limits, Report, Request, run
from orchestrator.context.history import THINKING
from orchestrator.events import Record, to_json
from orchestrator.journal import read_records
from orchestrator.rehearsal import reply_to
from orchestrator.rundir import RunDir
from orchestrator.testing.standin import Answer, Brain, Fault, Server, Settings, call, say, serve
from orchestrator.testing.standin.brains import (
    LongHaul,
    Tree,
    keep_nothing,
    reported,
    thoughtful,
)
from orchestrator.testing.standin.ledger import FIGURES
from orchestrator.testing.standin.material import lookup
from tests.warm import WARM

pytestmark = pytest.mark.asyncio

MODEL = "claude-opus-5"  # caches from 512 tokens on, does not bind thinking
# These think whether asked to or not; the one binds its thinking to the exact prefix.
THINKS, THINKS_BOUND = "claude-fable-5", "claude-fable-5-2"
WHOLE = ["thinking", "redacted_thinking"]  # what `thoughtful` thinks in one turn


async def outrider(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a process of its own, in ``root``."""

    def start() -> subprocess.CompletedProcess[str]:
        command = [*WARM, *arguments]
        return subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=240, check=False
        )

    return await anyio.to_thread.run_sync(start)


async def at(server: Server, root: Path, task: str, **options: Any) -> Report:
    options.setdefault("model", MODEL)
    return await run(task, base_url=server.base_url, root=root, tools=[lookup], **options)


def billed(server: Server) -> dict[str, dict[str, int]]:
    """What the stand-in told each agent, in the ledger's own figures."""
    groups = server.ledger.by_agent()
    return {agent: {f: row[f] for f in (*FIGURES, "requests")} for agent, row in groups.items()}


def accounted(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """The same from the agents of a result in JSON."""
    made: dict[str, dict[str, int]] = {}
    for row in rows:
        flat = {**row["usage"], **row["usage"]["cache_creation"], "requests": row["requests"]}
        made[row["agent_id"]] = {f: flat[f] for f in (*FIGURES, "requests")}
    return made


def check(server: Server, report: Report) -> None:
    """Nothing refused; agent by agent, what is accounted is what was billed."""
    assert [row.error for row in server.ledger.rejected] == []
    assert accounted(a.as_json() for a in report.agents) == billed(server)


# ── the rehearsal's behaviour, over HTTP ──


def rehearsing(body: Mapping[str, Any]) -> Answer:
    """The rehearsal as the server's brain: it decides from the request alone, so it can be moved."""
    tools = body.get("tools", [])
    main = any(tool["name"] == "task" for tool in tools)
    request = Request(
        model=body["model"],
        messages=body["messages"],
        system=body.get("system", []),
        tools=tools,
        max_tokens=body["max_tokens"],
        tool_choice=body.get("tool_choice"),
        agent_type="main" if main else "explorer",
    )
    return Answer(reply_to(request).content)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source that nobody here wrote: three packages of the standard library, side by side."""
    root = tmp_path_factory.mktemp("packages")
    library = Path(sysconfig.get_path("stdlib"))
    for name in ("asyncio", "email", "unittest"):
        shutil.copytree(library / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


SURVEY = "Survey this code: what each part is for, how large it is, and what is left to do."


async def test_the_rehearsal_surveys_source_that_nobody_here_wrote(packages: Path) -> None:
    """Four subagents or more, their conclusions merged, every to-do done, exit code 0."""
    done = await outrider(
        packages, "run", SURVEY, "--model", "rehearsal", "--output-format", "json"
    )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    result = json.loads(done.stdout)
    children = [a for a in result["agents"] if a["parent_id"] == "main"]
    assert len(children) >= 4
    assert {a["status"] for a in children} == {"finished"}
    assert sum(a["offloaded"] for a in children) > 0
    todos = RunDir(packages, result["run_id"]).todos.read_text().splitlines()
    assert len(todos) >= 4
    assert all(line.startswith("- [x] ") for line in todos)
    for name in ("asyncio", "email", "unittest"):
        assert name in result["conclusion"]


async def test_the_same_behaviour_over_http_gets_no_request_refused(packages: Path) -> None:
    async with serve(rehearsing) as server:
        report = await at(server, packages, SURVEY)
    assert report.status == "finished"
    assert len(report.agents) >= 5
    check(server, report)


async def test_planting_a_todo_changes_the_report_by_that_line(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma", "delta"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(f'"""The {name} part."""\n\nVALUE = 1\n')
    options = ("run", SURVEY, "--model", "rehearsal")
    before = await outrider(tmp_path, *options)
    with (tmp_path / "gamma/module.py").open("a") as file:
        file.write("# TODO: the planted line\n")
    after = await outrider(tmp_path, *options)
    assert (before.returncode, after.returncode) == (0, 0)
    assert "planted" not in before.stdout
    assert "gamma/module.py:4" in after.stdout


async def test_the_main_context_holds_no_text_that_children_read(tmp_path: Path) -> None:
    """A marker in every file appears in no main request unless a conclusion holds it."""
    for name in ("alpha", "beta", "gamma", "delta"):
        (tmp_path / name).mkdir()
        text = f"# The {name} part\n\n" + "Words. MARKER-READ-BY-CHILDREN. " * 40
        (tmp_path / name / "README.md").write_text(text)
    bodies: list[tuple[str, str]] = []

    def watching(body: Mapping[str, Any]) -> Answer:
        main = any(tool["name"] == "task" for tool in body["tools"])
        bodies.append(("main" if main else "child", json.dumps(body)))
        return rehearsing(body)

    async with serve(watching) as server:
        report = await at(server, tmp_path, SURVEY)
    children = [body for who, body in bodies if who == "child"]
    assert any("MARKER-READ-BY-CHILDREN" in body for body in children)
    conclusions = [
        (tmp_path / a.conclusion_path).read_text() for a in report.agents[1:] if a.conclusion_path
    ]
    assert not any("MARKER-READ-BY-CHILDREN" in text for text in conclusions)
    assert not any("MARKER" in body for who, body in bodies if who == "main")
    assert all(body.count("<todos>") <= 1 for _, body in bodies)
    check(server, report)


# ── fan-out, long haul, thinking ──


LOOKUP = ("--tools", "orchestrator.testing.standin.material:lookup")


@pytest.mark.parametrize(
    "brain",
    [Tree(children=(50,), parallel=10), LongHaul(calls=100, kilobytes=32)],
    ids=["fan-out 50 × 10", "long haul 100 × 32 KB"],
)
async def test_big_jobs_by_command_bring_every_fact_home(
    tmp_path: Path, brain: Tree | LongHaul
) -> None:
    """0 refused, all facts; the server's ledger equals `outrider tokens`, agent by agent."""
    async with serve(brain) as server:
        where = ("--base-url", server.base_url, "--model", MODEL)
        done = await outrider(tmp_path, "run", brain.task, *where, *LOOKUP)
        tokens = await outrider(tmp_path, "tokens", "latest", "--json")
    assert done.returncode == 0, done.stderr
    assert len(reported(done.stdout)) == len(brain.facts())
    assert [row.error for row in server.ledger.rejected] == []
    assert accounted(json.loads(tokens.stdout)["rows"]) == billed(server)


async def test_deep_trees_come_home_too(tmp_path: Path) -> None:
    brain = Tree(children=(3, 4), parallel=4)
    async with serve(brain) as server:
        report = await at(server, tmp_path, brain.task)
    assert len(reported(report.conclusion)) == 12
    check(server, report)


async def test_s3_odd_children_end_with_their_true_status(tmp_path: Path) -> None:
    """S3, S4: endless, refusing, empty, overlong and cut ones among good ones."""
    brain = Tree(
        children=(10,),
        odd={1: "endless", 3: "refuses", 5: "empty", 7: "long", 8: "cut"},
    )
    async with serve(brain) as server:
        report = await at(server, tmp_path, brain.task, limits=Limits(max_turns=12))
    statuses = sorted(a.status or "" for a in report.agents[1:])
    assert report.status == "finished"
    assert statuses.count("empty") == 1
    assert statuses.count("failed") == 1
    assert statuses.count("partial") >= 1
    check(server, report)


async def hauled(brain: LongHaul, root: Path, **options: Any) -> Report:
    """A long haul with a summariser that keeps nothing: every fact is told, nothing was refused."""
    async with serve(brain, summarizer=keep_nothing) as server:
        report = await at(server, root, brain.task, **options)
    assert len(reported(report.conclusion)) == len(brain.facts())
    check(server, report)
    return report


def billed_input(report: Report) -> float:
    """Input by price, in tokens: uncached + 1.25 × cache write + 0.1 × cache read."""
    used = report.usage
    written, read = used.cache_creation_input_tokens, used.cache_read_input_tokens
    return used.input_tokens + 1.25 * written + 0.1 * read


@pytest.mark.parametrize(("calls", "kilobytes", "most"), [(100, 32, 280_000), (30, 120, 48_000)])
async def test_a_long_haul_that_does_as_placeholders_say_stays_small_and_cheap(
    tmp_path: Path, calls: int, kilobytes: int, most: int
) -> None:
    """Far more material than a 200k window, facts of the first records asked for at the end.

    The model does what the placeholders tell it: it searches the files that they name. So little is
    ever in its context that no summary is asked for.
    """
    brain = LongHaul(calls=calls, kilobytes=kilobytes)
    report = await hauled(brain, tmp_path)
    assert report.agents[0].peak_context_tokens <= 45_000
    assert billed_input(report) <= most


@pytest.mark.parametrize("window", [16_000, 32_000])
async def test_facts_survive_compactions_whose_summary_keeps_nothing(
    tmp_path: Path, window: int
) -> None:
    """The placeholders are gone with their turns; the files stand by name beside the summary."""
    context = Context(window=window)
    report = await hauled(LongHaul(), tmp_path, context=context)
    assert report.agents[0].compactions >= 1


@pytest.mark.parametrize(("calls", "kilobytes", "pages"), [(100, 32, 30), (30, 120, 90)])
async def test_a_long_haul_that_reads_page_by_page_keeps_its_facts_and_pays_for_its_pages(
    tmp_path: Path, calls: int, kilobytes: int, pages: int
) -> None:
    """It leaves aside what placeholders say of searching: each page costs at least its writing."""
    brain = LongHaul(calls=calls, kilobytes=kilobytes, search=False)
    report = await hauled(brain, tmp_path)
    assert report.agents[0].tool_calls == calls + pages
    assert 1.25 * pages * 1_200 <= billed_input(report) <= 280_000 + 1_500 * (pages - 30)


def planning(brain: LongHaul) -> Brain:
    """The same brain, with a to-do list that changes in every turn."""

    def plan(body: Mapping[str, Any]) -> Answer:
        answer = brain(body)
        calls = [b for b in answer.content if b["type"] == "tool_use"]
        if not calls:
            return answer
        todo = {"id": "1", "content": f"at {calls[0]['input']}", "status": "in_progress"}
        return Answer([*answer.content, call("write_todos", todos=[todo])])

    return plan


def watched(brain: Brain, seen: list[list[list[str]]]) -> Brain:
    """The same brain; of each request, the kinds of thinking in each assistant message are noted."""

    def watch(body: Mapping[str, Any]) -> Any:
        said = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
        seen.append([[b["type"] for b in blocks if b["type"] in THINKING] for blocks in said])
        return brain(body)

    return watch


async def haul_thinking(
    root: Path, model: str
) -> tuple[list[list[list[str]]], list[dict[str, Any]]]:
    """A long haul on a model that thinks in every turn, through offload batches and compactions, with
    nothing refused: the thinking in each of its requests, and its log."""
    brain = LongHaul(calls=90, kilobytes=4)
    seen: list[list[list[str]]] = []
    thinking = watched(thoughtful(planning(brain), redacted=True), seen)
    async with serve(thinking) as server:
        report = await at(server, root, brain.task, model=model, context=Context(window=32_000))
    assert len(reported(report.conclusion)) == len(brain.facts())
    check(server, report)
    log = [json.loads(line) for line in (root / report.log).read_text().splitlines()]
    kinds = [(e["event"], e.get("reason")) for e in log]
    assert kinds.count(("offloaded", "line")) > 0
    assert report.agents[0].compactions >= 2
    return seen, log


async def test_c16a_where_thinking_is_bound_it_leaves_whole_with_the_prefix_it_stood_on(
    tmp_path: Path,
) -> None:
    """C16, C16a: every reply thinks, to-dos change, and lines are crossed inside the one tool loop.

    The server compares each block's prefix and refuses a block that stands behind another.
    """
    seen, log = await haul_thinking(tmp_path, THINKS_BOUND)
    messages = [kinds for request in seen for kinds in request]
    assert all(kinds in ([], WHOLE) for kinds in messages)
    assert messages.count(WHOLE) > 100
    # Behind the place of an edit nothing thinks any more, the newest message of the open loop
    # included; what is said from then on is sent back with its thinking.
    edits = sum(e["event"] == "compacted" for e in log)
    assert sum(request[-1] == [] for request in seen if request) >= edits
    without = [[i for i, kinds in enumerate(request) if not kinds] for request in seen]
    assert all(gone == list(range(gone[0], gone[-1] + 1)) for gone in without if gone)
    assert any(gone and gone[-1] < len(r) - 1 for gone, r in zip(without, seen, strict=True))


async def test_c16_where_thinking_is_not_bound_all_of_it_stays_through_every_edit(
    tmp_path: Path,
) -> None:
    """C16: the whole run is one open tool loop; no message in it ever loses its thinking."""
    seen, _ = await haul_thinking(tmp_path, THINKS)
    assert all(kinds == WHOLE for request in seen for kinds in request)


@pytest.mark.parametrize("parallel", [1, 10, 30])
async def test_the_conversation_is_read_from_the_cache_beyond_the_fixed_prefix(
    tmp_path: Path, parallel: int
) -> None:
    """At 1, 10 and 30 parallel calls a turn: the breakpoint of the request before is still one."""

    def brain(body: Mapping[str, Any]) -> Answer:
        turns = sum(m["role"] == "assistant" for m in body["messages"])
        if turns == 6:
            return say("done")
        keys = [f"turn-{turns}-{n}/2" for n in range(parallel)]
        return Answer([call("lookup", key=key) for key in keys])

    async with serve(brain) as server:
        report = await at(server, tmp_path, "Look things up.")
    rows = [row for row in server.ledger.rows if row.endpoint == "messages"]
    assert len(rows) == 7
    fixed = rows[0].cache_creation_input_tokens
    for before, after in pairwise(rows[1:]):
        # All that the request before sent up to its newest breakpoint is read, not written again.
        sent = before.cache_read_input_tokens + before.cache_creation_input_tokens
        assert after.cache_read_input_tokens == sent > fixed
    check(server, report)


async def test_the_cache_holds_when_a_second_user_text_arrives_in_one_step(tmp_path: Path) -> None:
    """A text behind results that were sent already: the breakpoint before it is still read."""

    def brain(body: Mapping[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        turns = sum(m["role"] == "assistant" for m in body["messages"])
        if turns == 4 and "was not run" not in text:
            # Cut in the middle of the call: no block is left, and a nudge joins the results.
            return Answer([call("write_file", path="x", content="words " * 60_000)])
        if turns == 7:
            return say("done")
        return Answer([call("lookup", key=f"turn-{turns}-{n}/2") for n in range(10)])

    async with serve(brain) as server:
        report = await at(server, tmp_path, "Look things up.")
    rows = [row for row in server.ledger.rows if row.endpoint == "messages"]
    assert any(row.stop_reason == "max_tokens" for row in rows)
    for before, after in pairwise(rows[1:]):
        sent = before.cache_read_input_tokens + before.cache_creation_input_tokens
        assert after.cache_read_input_tokens == sent
    check(server, report)


# ── a service that fails ──

FAULTS: dict[str, list[Fault]] = {
    "rate limited": [Fault("rate_limit", retry_after=0.01), Fault("rate_limit", nth=2)],
    "overloaded": [Fault("overloaded", times=2)],
    "broken": [Fault("server_error"), Fault("html", nth=2)],
    "reset": [Fault("reset"), Fault("reset_after_headers", nth=2)],
    "cut": [Fault("cut"), Fault("silent_eof", nth=2), Fault("error_event", nth=3)],
    "garbage": [Fault("garbage"), Fault("garbage_bytes", nth=2)],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
async def test_e9_failed_and_cut_calls_are_retried_and_accounted(
    tmp_path: Path, faults: list[Fault]
) -> None:
    """E9, L2: in main and in children; what a cut stream had reported is in the account."""
    brain = Tree(children=(3,), calls=2, kilobytes=1)
    tasks = [*faults, *(Fault(f.kind, agent="general-*", nth=f.nth) for f in faults)]
    async with serve(brain, faults=tasks) as server:
        report = await at(server, tmp_path, brain.task)
    assert report.status == "finished"
    assert len(reported(report.conclusion)) == 3
    assert any(row.fault for row in server.ledger.rows)
    check(server, report)


async def test_e8_a_refused_request_is_not_retried_and_says_why(tmp_path: Path) -> None:
    """E8"""
    fault = Fault("status", status=400, message="metadata: unknown field", times=None)
    async with serve(lambda body: say("x"), faults=[fault]) as server:
        report = await at(server, tmp_path, "x")
    assert (report.status, report.reason) == ("failed", "provider:rejected")
    assert report.message is not None
    assert "metadata: unknown field" in report.message
    assert len([r for r in server.ledger.rows if r.endpoint == "messages"]) == 1


async def test_older_servers_without_cache_figures_or_count_tokens_serve_as_well(
    tmp_path: Path,
) -> None:
    brain = Tree(children=(2,), calls=1, kilobytes=1)
    old = Settings(
        cache=False, count_tokens=False, model_list=False, late_stops=True, bare_calls=True
    )
    async with serve(brain, settings=old) as server:
        report = await at(server, tmp_path, brain.task, model="a-local-model")
    assert len(reported(report.conclusion)) == 2
    check(server, report)


@pytest.mark.parametrize("overflow", ["newer", "older"])
async def test_e6_e7_a_small_window_is_met_and_lived_with(tmp_path: Path, overflow: Any) -> None:
    """E6, E7: the server's window is smaller than what it said; its own words correct it."""
    brain = LongHaul(calls=40, kilobytes=4)
    small = Settings(window=14_000, overflow=overflow, model_list=False)
    async with serve(brain, settings=small) as server:
        context = Context(window=32_000)
        report = await at(server, tmp_path, brain.task, model="a-local-model", context=context)
    assert report.status == "finished"
    assert len(reported(report.conclusion)) == len(brain.facts())
    assert report.agents[0].window_tokens == 14_000
    refused = server.ledger.rejected
    assert 1 <= len(refused) <= 3
    assert accounted(a.as_json() for a in report.agents) == billed(server)


# ── the command line ──


async def test_tokens_equals_what_the_server_billed_agent_by_agent_also_after_retries(
    tmp_path: Path,
) -> None:
    brain = Tree(children=(4,), calls=2, kilobytes=2)
    faults = [Fault("cut"), Fault("overloaded", nth=3), Fault("silent_eof", agent="general-*")]
    async with serve(brain, faults=faults) as server:
        done = await outrider(
            tmp_path,
            *("run", brain.task, "--base-url", server.base_url, "--model", MODEL),
            *LOOKUP,
        )
        assert done.returncode == 0, done.stderr
        assert len(reported(done.stdout)) == 4
        tokens = await outrider(tmp_path, "tokens", "latest", "--json")
        assert accounted(json.loads(tokens.stdout)["rows"]) == billed(server)
        assert [row.error for row in server.ledger.rejected] == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("status", status=401, times=None), "key"),
        (Fault("status", status=404, times=None), "claude-opus-5"),
        (Fault("spend_cap"), "limit"),
    ],
    ids=["wrong key", "unknown model", "spend cap"],
)
async def test_h3_what_cannot_work_is_one_clear_sentence(
    tmp_path: Path, fault: Fault, said: str
) -> None:
    """H3: exit code 1, no traceback, the sentence names what to do."""
    async with serve(lambda body: say("x"), faults=[fault]) as server:
        done = await outrider(
            tmp_path, "run", "x", "--base-url", server.base_url, "--model", MODEL, "--quiet"
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("outrider: ")]) == 1


async def test_h3_nobody_there_is_told_within_seconds(tmp_path: Path) -> None:
    done = await outrider(
        tmp_path, "run", "x", "--base-url", "http://127.0.0.1:9", "--model", "m", "--quiet"
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "127.0.0.1:9" in done.stderr


async def test_the_journal_of_a_run_over_http_replays_to_what_was_live(tmp_path: Path) -> None:
    """L6: replay equals the live state: the records, read back, are the records that were written."""
    seen: list[Record] = []
    brain = Tree(children=(2,), calls=1, kilobytes=1)
    async with serve(brain) as server:
        report = await at(server, tmp_path, brain.task, observers=[seen.extend])
    stored = list(read_records(RunDir(tmp_path, report.run_id).journal))
    assert [to_json(r.fact) for r in stored] == [to_json(r.fact) for r in seen]
    assert [(r.seq, r.agent_id, r.turn) for r in stored] == [
        (r.seq, r.agent_id, r.turn) for r in seen
    ]


async def test_p7_a_run_that_only_meets_denials_ends_with_exit_code_4_and_names_the_rule(
    tmp_path: Path,
) -> None:
    """P7: over HTTP, without a terminal; the same run with the rule that was named goes through."""

    def insisting(body: Any) -> Answer:
        said = json.dumps(body["messages"])
        if body.get("tool_choice") == {"type": "none"} or "created notes.md" in said:
            return say("what there is")
        return Answer([call("write_file", path="notes.md", content="x")])

    async with serve(insisting) as server:
        where = ("--base-url", server.base_url, "--model", MODEL, "--output-format", "json")
        options: tuple[str, ...] = ("--allow", "write(docs/**)")
        denied = await outrider(tmp_path, "run", "go", *where, *options)
        report = json.loads(denied.stdout)
        assert (denied.returncode, report["status"]) == (4, "partial"), denied.stderr
        assert report["reason"] == "permission:ask write"
        assert 'to permit it: --allow "write(/notes.md)"' in denied.stderr
        (log,) = (tmp_path / ".outrider/runs").glob("*/log.jsonl")
        assert log.read_text().count('"permission_decided"') == 5
        history = await outrider(tmp_path, "log", "latest", "--event", "permission_decided")
        assert "ask write" in history.stdout
        options = (*options, *("--allow", "write(/notes.md)"))
        allowed = await outrider(tmp_path, "run", "go", *where, *options)
        assert (allowed.returncode, json.loads(allowed.stdout)["status"]) == (0, "finished")
        assert (tmp_path / "notes.md").read_text() == "x"
