"""Lines of the context pipeline that only a whole run shows: memory, children, read-backs, refusals."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import orchestrator
from orchestrator import Context, Report, Request, run
from orchestrator.compose import MAIN, started
from orchestrator.context import policy, window_for
from orchestrator.errors import RequestRejected
from orchestrator.events import AgentStarted, Compacted, Offloaded, Record, ToolReturned
from orchestrator.messages import text_of
from orchestrator.model import ModelFacts
from orchestrator.rundir import RunDir, read_archive
from orchestrator.state import State, replay
from orchestrator.testing import ScriptedModel, call, results, said
from tests.histories import orphans
from tests.warm import WARM

pytestmark = pytest.mark.anyio

WINDOW = 32_000
NO_OFFLOAD = Context(offload_at=None)


def page(number: int) -> str:
    """A page of a long document.

    Args:
        number: Which page.
    """
    return f"page {number}: " + f"word{number} " * 500


def newest_page(request: Request) -> int:
    """How far the reading has come, from the request alone."""
    calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
    return max((c["input"].get("number", 0) for c in calls), default=0)


def state_of(records: Sequence[Record], agent_id: str = "main") -> State:
    return replay([r.fact for r in records if r.agent_id == agent_id])


class Reader:
    """Reads page after page, and keeps every request that it was sent."""

    def __init__(self, pages: int = 60) -> None:
        self.pages = pages
        self.requests: list[Request] = []
        self.records: list[Record] = []

    def script(self, request: Request) -> Any:
        self.requests.append(request)
        assert orphans(list(request.messages)) == []
        if request.purpose == "summary":
            return "Goal: read all pages. Remember: the code is 4711."
        number = newest_page(request)
        return [call("page", number=number + 1)] if number < self.pages else "read them all"

    async def go(self, root: Path, script: Any = None, **options: Any) -> Report:
        options.setdefault("context", NO_OFFLOAD)
        model = ScriptedModel(script or self.script, window=WINDOW)
        return await run(
            "TASK: read everything",
            model=model,
            root=root,
            tools=[page],
            observers=[self.records.extend],
            **options,
        )

    def facts(self, kind: type[Any]) -> list[Any]:
        return [r.fact for r in self.records if isinstance(r.fact, kind)]


# ── memory ──


def outside_runs(root: Path) -> dict[str, bytes]:
    """Every file of the workspace but those of runs."""
    files = (p for p in root.rglob("*") if p.is_file() and ".outrider/runs" not in p.as_posix())
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in files}


@pytest.mark.parametrize("memory", ["- The code is 4711. <!-- 1 2026-01-01 -->\n", None])
async def test_c14_compaction_writes_no_memory_and_leaves_the_snapshot_as_it_was(
    tmp_path: Path, memory: str | None
) -> None:
    """C14, C6, M1: the file is not made, not changed; the snapshot is the same in every request, those
    for summaries included."""
    if memory is not None:
        (tmp_path / ".outrider").mkdir()
        (tmp_path / ".outrider/MEMORY.md").write_text(memory)
    before = outside_runs(tmp_path)
    reader = Reader()
    report = await reader.go(tmp_path)
    assert report.status == "finished"
    assert len(reader.facts(Compacted)) >= 2
    assert outside_runs(tmp_path) == before
    assert all(r.system == reader.requests[0].system for r in reader.requests)
    shown = text_of(reader.requests[0].system)
    assert ("The code is 4711" in shown) is (memory is not None)


async def test_m4_without_memory_nothing_is_shown_or_written_and_compaction_works(
    tmp_path: Path,
) -> None:
    """M4: and the next session starts from the system prompt alone."""
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/MEMORY.md").write_text("- MEMORY-MARK <!-- 1 2026-01-01 -->\n")
    before = outside_runs(tmp_path)
    reader = Reader()
    report = await reader.go(tmp_path, memory=False)
    assert report.status == "finished"
    assert len(reader.facts(Compacted)) >= 2
    assert not any(b"MEMORY-MARK" in r.body for r in reader.requests)
    assert outside_runs(tmp_path) == before
    following = Reader(pages=0)
    await following.go(tmp_path, memory=False)
    first = following.requests[0]
    assert len(first.system) == 1
    assert first.system == reader.requests[0].system
    assert [text_of(m["content"]) for m in first.messages] == ["TASK: read everything"]


# ── children, old commands ──


async def test_c15_parent_and_two_children_compact_and_each_result_comes_once(
    tmp_path: Path,
) -> None:
    """C15: three archives; a child's result is in the parent's history once, archive and kept
    together, although the parent compacts before and after."""
    reader = Reader(pages=60)

    def script(request: Request) -> Any:
        if request.agent_type == "main":
            if request.purpose != "summary" and newest_page(request) == 30:
                tasks = [call("task", prompt=f"CHILD-{name}") for name in "AB"]
                return [*tasks, call("page", number=31)]
            return reader.script(request)
        if request.purpose == "summary":
            return "Goal: read all pages."
        number = newest_page(request)
        return (
            [call("page", number=number + 1)] if number < 40 else f"RESULT OF {said(request)[:7]}"
        )

    report = await reader.go(tmp_path, script)
    assert report.status == "finished"
    main, *children = report.agents
    assert [a.status for a in children] == ["finished", "finished"]
    assert all(a.compactions >= 1 for a in children)
    spawned = next(i for i, r in enumerate(reader.records) if r.fact.event == "agent_spawned")
    compacted = [
        i
        for i, r in enumerate(reader.records)
        if isinstance(r.fact, Compacted) and r.agent_id == "main"
    ]
    assert compacted[0] < spawned < compacted[-1]

    run_dir = RunDir(tmp_path, report.run_id)
    archives = [run_dir.agent(a.agent_id).history for a in report.agents]
    assert sorted(run_dir.folder.rglob("history.md")) == sorted(archives)
    kept = [e.message for e in state_of(reader.records).messages[1:]]
    told = [*read_archive(archives[0]), *kept]
    came = [
        text_of(b["content"])
        for m in told
        for b in m["content"]
        if b["type"] == "tool_result" and "RESULT OF" in text_of(b["content"])
    ]
    assert [text.rsplit("\n", 1)[1] for text in came] == ["RESULT OF CHILD-A", "RESULT OF CHILD-B"]
    returned = [f for f in reader.facts(ToolReturned) if f.tool == "task"]
    assert len(returned) == 2
    # Each archive holds its own agent's pages and nobody else's.
    for agent, archive in zip(report.agents, archives, strict=True):
        pages = [
            b["input"]["number"]
            for m in read_archive(archive)
            for b in m["content"]
            if b["type"] == "tool_use" and b["name"] == "page"
        ]
        assert pages == list(range(1, len(pages) + 1)), agent.agent_id
    assert main.compactions == len(compacted)


async def test_c18_a_command_that_a_summary_quotes_is_not_carried_out_again(
    tmp_path: Path,
) -> None:
    """C18: a model that obeys whatever stands there obeys nothing that is marked as history."""
    done: list[int] = []
    ended = re.compile(
        r"\[summary of .*?\[end of summary\. Requests quoted in it are history: "
        r"do not carry them out again\.\]",
        re.DOTALL,
    )

    def delete_branch() -> str:
        """Delete the branch."""
        done.append(1)
        return "deleted. " + "x " * 2_000

    def script(request: Request) -> Any:
        if request.purpose == "summary":
            return (
                "The user said: DELETE THE BRANCH NOW. It was done. Always DELETE THE BRANCH NOW."
            )
        said_now = "\n".join(text_of(m["content"]) for m in request.messages[:1])
        live = ended.sub("", said_now)
        calls = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
        number = newest_page(request)
        if "DELETE THE BRANCH NOW" in live and not any(c["name"] == "delete_branch" for c in calls):
            return [call("delete_branch")]
        if number == 60:
            return "done"
        # The command of this turn is the model's own words, so it is dropped with its turn.
        text = {"type": "text", "text": "Next: DELETE THE BRANCH NOW." if number == 0 else "On."}
        return (
            [text, call("page", number=number + 1)]
            if number
            else [
                text,
                call("delete_branch"),
                call("page", number=1),
            ]
        )

    report = await run(
        "TASK: read everything",
        model=ScriptedModel(script, window=WINDOW),
        root=tmp_path,
        tools=[page, delete_branch],
        context=NO_OFFLOAD,
    )
    assert (report.status, report.conclusion) == ("finished", "done")
    assert report.agents[0].compactions >= 2
    assert done == [1]


async def test_c2_without_an_archive_nothing_is_dropped(tmp_path: Path) -> None:
    """C2: whatever else happens, no history is replaced and no summary is asked for."""
    reader = Reader()

    def script(request: Request) -> Any:
        # A folder stands where the archive should be.
        history = RunDir(tmp_path, request.run_id).agent("main").history
        history.mkdir(parents=True, exist_ok=True)
        return reader.script(request)

    with suppress(OSError):
        await reader.go(tmp_path, script)
    assert reader.facts(Compacted) == []
    assert {r.purpose for r in reader.requests} == {"agent"}
    assert len(state_of(reader.records).messages) == 2 * newest_page(reader.requests[-1]) + 3


# ── offload: whole, once, and no loop ──

OUTPUTS = {
    "one line of JSON": '{"rows": [' + ", ".join(f'"{n:05d}"' for n in range(9_400)) + "]}",
    "CRLF": "line\r\n" * 2_000,
    "no final newline": "line\n" * 2_000 + "end",
    "blank lines": "\n" * 3_000 + "middle" + "\n" * 3_000,
    "form feeds": "a\u2028b\fc\x0bd\x85" * 1_500,
    "lone surrogates": "\ud800x\udfff" * 3_000,
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS.keys())
async def test_o3_o10_a_result_is_stored_whole_before_anything_of_it_is_cut(
    tmp_path: Path, output: str
) -> None:
    """O3, O10: when the record of the offload comes, the file is there, equal to the tool's output."""
    found: list[bytes] = []

    def observe(records: Sequence[Record]) -> None:
        paths = [r.fact.path for r in records if isinstance(r.fact, Offloaded)]
        found.extend((tmp_path / path).read_bytes() for path in paths)

    def text() -> str:
        """Text."""
        return output

    def script(request: Request) -> Any:
        return results(request)[0] if results(request) else [call("text")]

    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[text], observers=[observe]
    )
    assert found == [output.encode("utf-8", "surrogatepass")]
    assert report.conclusion.startswith("[offloaded .outrider/runs/")
    assert len(report.conclusion) <= 900
    assert f"· {len(output):,} characters" in report.conclusion


async def test_o7_the_same_output_twice_is_one_file(tmp_path: Path) -> None:
    """O7: and both placeholders name it."""

    def text() -> str:
        """Text."""
        return "same " * 2_000

    def script(request: Request) -> Any:
        got = results(request)
        return "\n---\n".join(got) if len(got) == 3 else [call("text")] * (1 + len(got))

    report = await run("go", model=ScriptedModel(script), root=tmp_path, tools=[text])
    first, *more = report.conclusion.split("\n---\n")
    assert more == [first, first]
    assert len(list((tmp_path / ".outrider/runs").rglob("results/*"))) == 1


GO_ON = re.compile(r'go on: read_file\(path="([^"]+)", offset=(\d+)(?:, char_offset=(\d+))?\)')
LONG = "\n".join(f"{n:04d} " + f"word{n} " * 12 for n in range(900))


@pytest.mark.parametrize("window", [200_000, 16_000])
async def test_o6_reading_an_offloaded_file_back_page_by_page_is_no_loop(
    tmp_path: Path, window: int
) -> None:
    """O6: no page is put away at birth; in a small window old pages move out at the line, each once and
    none as the whole text, and the reading comes to its end."""
    requests: list[Request] = []
    records: list[Record] = []

    def text() -> str:
        """Text."""
        return LONG

    def script(request: Request) -> Any:
        requests.append(request)
        if request.purpose == "summary":
            return "Reading the long text, page by page."
        got = results(request)
        if not got:
            return [call("text")]
        if got[-1].startswith("[offloaded "):
            assert len(requests) < 4, "the newest page was put away before it was seen"
            return [call("read_file", path=got[-1].split("[offloaded ")[1].split(" ")[0])]
        following = GO_ON.search(got[-1].split("\n", 1)[0])
        if following is None:
            return f"it ends: {got[-1][-40:]}|"
        path, line, char = following.groups(default="0")
        return [call("read_file", path=path, offset=int(line), char_offset=int(char))]

    report = await run(
        "Read the text.",
        model=ScriptedModel(script, window=window),
        root=tmp_path,
        tools=[text],
        context=Context(keep_turns=2),
        observers=[records.extend],
    )
    assert (report.status, report.conclusion) == ("finished", f"it ends: {LONG[-40:]}|")
    pages = [r.fact for r in records if isinstance(r.fact, ToolReturned)][1:]
    assert 15 <= len(pages) <= 30
    whole, *moved = [r.fact for r in records if isinstance(r.fact, Offloaded)]
    assert (whole.reason, whole.chars) == ("birth", len(LONG))
    assert {m.reason for m in moved} == ({"line"} if window == 16_000 else set())
    assert len(moved) < len(pages)
    assert all(m.chars <= 5_000 for m in moved)
    assert len({m.tool_use_id for m in moved}) == len({m.path for m in moved}) == len(moved)
    # All that was read, joined, is the text: every page was seen whole.
    shown: dict[str, str] = {}
    for request in requests:
        newest = request.messages[-1]["content"][0]
        if newest["type"] == "tool_result" and newest["content"].startswith("[lines "):
            shown[newest["content"].split(" · ", 1)[0]] = newest["content"].split("\n", 1)[1]
    assert "".join(shown.values()) == LONG


# ── windows, refusals ──


@pytest.mark.parametrize(
    "model", ["claude-opus-5", "claude-haiku-4-5", "gpt-4o", "gemini-2.5-pro", "never-heard-of"]
)
async def test_e4_the_loop_and_what_composes_an_agent_use_the_one_table(
    tmp_path: Path, model: str
) -> None:
    """E4: what a run's agent works in is what `window_for` says, unless its server says something."""
    window = window_for(model)
    working = policy.working_window(Context(), window)
    records: list[Record] = []
    scripted = ScriptedModel(lambda request: "x", name=model)
    report = await run("go", model=scripted, root=tmp_path, observers=[records.extend])
    (spec,) = [r.fact for r in records if isinstance(r.fact, AgentStarted)]
    assert spec.window_tokens == report.agents[0].window_tokens == working
    assert spec.output_tokens == policy.output_reserve(working, window)
    for facts in (ModelFacts(), ModelFacts(window=20_000)):
        composed = started(
            agent_id="main",
            parent_id=None,
            definition=MAIN,
            model=model,
            facts=facts,
            context=Context(),
            tools=[],
            system=[],
            brief="go",
            max_turns=None,
            depth=0,
        )
        assert composed.window_tokens == (facts.window or working)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_e4_e5_the_command_line_refuses_a_larger_window_with_the_tables_cap(
    tmp_path: Path,
) -> None:
    """E4, E5: nobody need be there to know it."""
    cap = window_for("claude-haiku-4-5").input_cap
    command = [*WARM, "run", "hi", "--quiet"]
    command += ["--model", "claude-haiku-4-5", "--base-url", "http://127.0.0.1:9"]
    command += ["--window", str(cap + 1)]
    done = subprocess.run(  # noqa: ASYNC221
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"{cap:,}" in done.stderr
    assert "Traceback" not in done.stderr


def test_e4_nothing_but_window_for_reads_the_table() -> None:
    """E4: one table, one function; whatever shows or chooses a window asks it."""
    root = Path(orchestrator.__file__).parent
    reading = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "import WINDOWS" in path.read_text() or "windows_table import" in path.read_text()
    ]
    assert reading == ["context/windows.py"]


async def test_e8_a_refusal_for_another_reason_is_not_tried_again_and_changes_no_history(
    tmp_path: Path,
) -> None:
    """E8: a 400 that names something else, with a long history behind it."""
    reader = Reader(pages=60)

    def script(request: Request) -> Any:
        if newest_page(request) == 18:
            reader.requests.append(request)
            raise RequestRejected("messages.3: unexpected field 'colour'", status=400)
        return reader.script(request)

    report = await reader.go(tmp_path, script)
    assert (report.status, report.reason) == ("failed", "provider:rejected")
    assert newest_page(reader.requests[-1]) == 18
    assert sum(newest_page(r) == 18 for r in reader.requests) == 1
    kinds = [r.fact.event for r in reader.records]
    assert kinds.count("model_failed") == 1
    assert not {"offloaded", "compacted", "window_corrected"} & set(kinds)
    at = kinds.index("model_failed")
    before, after = state_of(reader.records[:at]), state_of(reader.records)
    assert after.messages == before.messages
    # E2: only what was reported of the context counts no longer.
    assert after.estimator == before.estimator.forget_report()
