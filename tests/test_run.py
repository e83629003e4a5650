"""Whole runs with a scripted model, under asyncio and trio."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import sniffio

from orchestrator import ConfigError, Context, Limits, Permissions, Reply, Report, Request, run
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results, said
from tests.histories import orphans

pytestmark = pytest.mark.anyio
Script = Callable[[Request], Any]


def log_of(root: Path, report: Report) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / report.log).read_text().splitlines()]


def is_main(request: Request) -> bool:
    return request.agent_type == "main"


async def go(script: Script, root: Path, task: str = "do it", **options: Any) -> Report:
    return await run(task, model=ScriptedModel(script), root=root, **options)


async def test_a_run_answers_and_leaves_result_journal_and_log(
    tmp_path: Path, anyio_backend: str
) -> None:
    assert sniffio.current_async_library() == anyio_backend
    report = await go(lambda request: f"You said: {said(request)}", tmp_path, "hello")
    assert (report.status, report.reason) == ("finished", None)
    assert report.conclusion == "You said: hello"
    assert report.conclusion_path is not None
    assert (tmp_path / report.conclusion_path).read_text() == "You said: hello\n"
    assert [e["event"] for e in log_of(tmp_path, report)] == [
        "run_started",
        "agent_started",
        "model_replied",
        "agent_ended",
        "run_ended",
    ]
    assert (tmp_path / ".outrider/runs/.gitignore").read_text() == "*\n"


async def test_calls_run_side_by_side_and_results_keep_the_order_of_the_calls(
    tmp_path: Path,
) -> None:
    second_began = anyio.Event()

    async def first() -> str:
        """First."""
        await second_began.wait()  # ends only if the second runs at the same time
        return "one"

    async def second() -> str:
        """Second."""
        second_began.set()
        return "two"

    def script(request: Request) -> Any:
        return " ".join(results(request)) or [call("first"), call("second")]

    report = await go(script, tmp_path, tools=[first, second])
    assert report.conclusion == "one two"


async def test_a_raising_tool_an_unknown_tool_and_bad_arguments_are_error_results(
    tmp_path: Path,
) -> None:
    """S9: nothing that a tool does ends the run."""

    def breaks() -> str:
        """Break."""
        raise RuntimeError("boom")

    def script(request: Request) -> Any:
        if not results(request):
            return [
                call("breaks"),
                call("nothing"),
                call("ls", colour="red"),
                call("ls", path="no"),
            ]
        return "\n".join(results(request))

    report = await go(script, tmp_path, tools=[breaks])
    lines = report.conclusion.split("\n")
    assert lines[0] == "[error] RuntimeError: boom"
    assert lines[1].startswith("[error] no tool 'nothing'. Tools: ls, read_file")
    assert lines[2].startswith("[error] ls: colour: unknown argument")
    assert lines[3].startswith("[error] ")
    assert "no" in lines[3]
    assert report.status == "finished"


async def test_o1_a_result_at_the_limit_stays_and_one_character_more_is_stored(
    tmp_path: Path,
) -> None:
    """O1, O2, O3: the limit is exact, the placeholder's own call reads it back, bytes are equal."""

    def text(size: int) -> str:
        """Text."""
        return ("0123456789\r\n" * size)[:size]

    def script(request: Request) -> Any:
        got = results(request)
        if not got:
            return [call("text", size=100), call("text", size=101)]
        if len(got) == 2:
            arguments = got[1].rsplit("read_file(", 1)[1].rstrip(")")
            return [call("read_file", path=arguments.split('"')[1])]
        return "\n---\n".join(got)

    report = await go(script, tmp_path, tools=[text], context=Context(offload_at=100))
    inline, placeholder, read_back = report.conclusion.split("\n---\n")
    assert inline == text(100)
    path = placeholder.split("[offloaded ")[1].split(" ")[0]
    assert placeholder.startswith(f"[offloaded {path} · 101 characters, 9 lines · preview, not the")
    assert len(placeholder) <= 900
    assert (tmp_path / path).read_bytes() == text(101).encode()
    assert text(101) in read_back
    offloaded = [e for e in log_of(tmp_path, report) if e["event"] == "offloaded"]
    assert [(e["reason"], e["chars"], e["path"]) for e in offloaded] == [("birth", 101, path)]
    assert report.agents[0].offloaded == 1


async def test_o4_two_agents_with_equal_call_ids_keep_their_results_apart(tmp_path: Path) -> None:
    """O4: two agents with call id call_1."""

    def text(word: str) -> str:
        """Text."""
        return word * 2_000

    def use(name: str, **arguments: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": "call_1", "name": name, "input": arguments}

    def script(request: Request) -> Any:
        if is_main(request):
            if not results(request):
                return [call("task", prompt="aaaa"), call("task", prompt="bbbb")]
            return "done"
        return "ok" if results(request) else [use("text", word=said(request)[:4])]

    await go(script, tmp_path, tools=[text])
    files = sorted((tmp_path / ".outrider/runs").rglob("results/*.txt"))
    assert sorted(f.read_text() for f in files) == ["aaaa" * 2_000, "bbbb" * 2_000]


async def test_never_offloading_is_a_setting(tmp_path: Path) -> None:
    def text() -> str:
        """Text."""
        return "x" * 20_000

    def script(request: Request) -> Any:
        return str(len(results(request)[0])) if results(request) else [call("text")]

    report = await go(script, tmp_path, tools=[text], context=Context(offload_at=None))
    assert report.conclusion == "20000"


# ── subagents ──


def briefs(script: Script, *prompts: str, **more: Any) -> Script:
    """Main starts one child for each prompt and ends with their results; children follow script."""

    def played(request: Request) -> Any:
        if not is_main(request):
            return script(request)
        if not results(request):
            return [call("task", prompt=prompt, **more) for prompt in prompts]
        return "\n---\n".join(results(request))

    return played


async def test_s1_a_childs_first_request_holds_its_own_prompt_and_its_brief_only(
    tmp_path: Path,
) -> None:
    """S1: no parent message, no sibling's state, no memory, no plan."""
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/MEMORY.md").write_text("- MEMORY-MARK <!-- 1 2026-01-01 -->\n")
    seen: list[bytes] = []

    def child(request: Request) -> Any:
        seen.append(request.body)
        return "done"

    def script(request: Request) -> Any:
        if is_main(request) and not results(request):
            todo = {"content": "TODO-MARK", "status": "pending"}
            return [call("write_todos", todos=[todo]), call("read_file", path="PARENT-MARK")]
        if is_main(request) and len(results(request)) == 2:
            return [call("task", prompt="BRIEF-ONE"), call("task", prompt="BRIEF-TWO")]
        return "end" if is_main(request) else child(request)

    await go(script, tmp_path, "TASK-MARK")
    assert len(seen) == 2
    one, two = sorted(seen, key=lambda body: b"BRIEF-TWO" in body)
    assert (b"BRIEF-ONE" in one, b"BRIEF-TWO" in two) == (True, True)
    for body, other in ((one, b"BRIEF-TWO"), (two, b"BRIEF-ONE")):
        for mark in (b"MEMORY-MARK", b"TODO-MARK", b"PARENT-MARK", b"TASK-MARK", other):
            assert mark not in body
        assert b"one piece of work for another agent" in body


async def test_s2_the_parent_gets_one_result_per_spawn_with_status_calls_and_tokens(
    tmp_path: Path,
) -> None:
    """S2: status, conclusion, tool-call count, tokens; the first line is fixed."""

    def child(request: Request) -> Any:
        return "the answer" if results(request) else [call("ls"), call("glob", pattern="*.py")]

    report = await go(briefs(child, "look"), tmp_path)
    row = report.agents[1]
    head, text = report.conclusion.split("\n", 1)
    tokens = row.usage.total_tokens
    assert head == f"[general {row.agent_id} · finished · 2 tool calls · {tokens} tokens]"
    assert text == "the answer"


async def test_s3_s4_a_failing_an_empty_and_a_runaway_child_do_not_touch_their_siblings(
    tmp_path: Path,
) -> None:
    """S3, S4: each status tells the truth; an empty answer and a limit are never a success."""

    def child(request: Request) -> Any:
        match said(request).split("\n")[0]:
            case "breaks":
                raise ZeroDivisionError("inside")
            case "empty":
                return ""
            case "runaway":
                return "as far as I got" if request.purpose == "handback" else [call("ls")]
            case "refuses":
                return Reply([{"type": "text", "text": "no"}], "refusal")
        return "fine"

    prompts = ["fine", "breaks", "empty", "runaway", "refuses"]
    report = await go(briefs(child, *prompts), tmp_path, limits=Limits(max_turns=5))
    statuses = [part.split(" · ")[1] for part in report.conclusion.split("\n---\n")]
    assert statuses == ["finished", "failed", "empty", "partial", "failed"]
    assert {a.reason for a in report.agents[1:]} == {
        None,
        "crashed",
        "no_answer",
        "limit:max_turns",
        "refusal",
    }
    parts = report.conclusion.split("\n---\n")
    assert "ZeroDivisionError: inside" in parts[1]
    assert "as far as I got" in parts[3]
    assert report.status == "finished"


async def test_s5_a_long_conclusion_is_whole_on_disk_and_bounded_for_the_parent(
    tmp_path: Path,
) -> None:
    """S5: head and handle to the parent, who reads the rest without running the child again."""
    long = "\n".join(f"line {number}" for number in range(4_000))
    runs = []

    def script(request: Request) -> Any:
        if not is_main(request):
            runs.append(1)
            return long
        got = results(request)
        if not got:
            return [call("task", prompt="write much")]
        if len(got) == 1:
            path = got[0].rsplit("[continues in ", 1)[1].rstrip("]")
            return [call("read_file", path=path, offset=3_999)]
        return "\n---\n".join(got)

    report = await go(script, tmp_path)
    head, rest = report.conclusion.split("\n---\n")
    assert len(head) < 8_100
    path = head.rsplit("[continues in ", 1)[1].rstrip("]")
    assert (tmp_path / path).read_text() == long + "\n"
    assert "line 3999" in rest
    assert len(runs) == 1
    assert report.agents[1].returned_tokens <= 2_000 < report.agents[1].conclusion_tokens


async def test_s5_parallel_conclusions_are_limited_in_sum(tmp_path: Path) -> None:
    """S5: ten long conclusions at once stay within the sum limit."""
    script = briefs(lambda request: "word " * 3_000, *(f"part {n}" for n in range(10)))
    report = await go(script, tmp_path)
    assert len(report.conclusion) < 4 * 11_000


async def test_s9_an_unknown_type_names_the_valid_ones_and_a_type_may_be_left_out(
    tmp_path: Path,
) -> None:
    """S9"""

    def script(request: Request) -> Any:
        if not is_main(request):
            return f"I am {request.agent_type}"
        if not results(request):
            return [call("task", prompt="a", subagent_type="wizard"), call("task", prompt="b")]
        return "\n---\n".join(results(request))

    report = await go(script, tmp_path)
    unknown, left_out = report.conclusion.split("\n---\n")
    assert unknown.startswith("[error] ")
    assert "explorer, general, reviewer, writer" in unknown
    assert left_out.endswith("I am general")


async def test_the_main_context_holds_no_text_that_a_child_read(tmp_path: Path) -> None:
    """Isolation: a marker in files that children read appears in no main request."""
    (tmp_path / "a.txt").write_text("MARKER-IN-FILE\n" * 50)
    mains: list[bytes] = []

    def script(request: Request) -> Any:
        if is_main(request):
            mains.append(request.body)
            return "end" if results(request) else [call("task", prompt="read a.txt")]
        return "it has 50 lines" if results(request) else [call("read_file", path="a.txt")]

    await go(script, tmp_path)
    assert len(mains) == 2
    assert not any(b"MARKER-IN-FILE" in body for body in mains)


async def test_l8_an_agent_reads_its_own_and_its_childrens_results_and_nothing_else(
    tmp_path: Path,
) -> None:
    """L8: no tool writes under .outrider/; siblings' results stay closed."""
    paths: dict[str, str] = {}

    def text(word: str) -> str:
        """Text."""
        return word * 2_000

    def main(request: Request, got: list[str]) -> Any:
        match len(got):
            case 0:
                return [call("task", prompt="first")]
            case 1:
                return [call("task", prompt="second"), call("read_file", path=paths["first"])]
            case 3:
                writes = call("write_file", path=".outrider/x", content="")
                log = call("read_file", path=f".outrider/runs/{request.run_id}/log.jsonl")
                return [writes, log, call("ls", path=".outrider/runs")]
        return "\n---\n".join(got[1:])

    def script(request: Request) -> Any:
        got = results(request)
        if is_main(request):
            return main(request, got)
        if not got:
            return [call("text", word=said(request))]
        if len(got) == 1:
            paths[said(request)] = got[0].split("[offloaded ")[1].split(" ")[0]
            return [call("read_file", path=paths[who]) for who in sorted(paths)]
        return "\n".join(part[:300] for part in got[1:])

    report = await go(script, tmp_path, tools=[text])
    second, of_child, *private = report.conclusion.split("\n---\n")
    assert "firstfirst" in of_child
    assert "secondsecond" in second
    assert "firstfirst" not in second
    assert "[error]" in second
    assert all(part.startswith(("[error]", "[denied by protected ")) for part in private)


async def test_depth_and_spawn_limits_hold(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if "task" not in [t["name"] for t in request.tools]:
            return "bottom"
        if not results(request):
            return [call("task", prompt="deeper"), call("task", prompt="deeper")]
        return "\n".join(results(request))

    report = await go(script, tmp_path, limits=Limits(depth=1, max_agents=1))
    assert len(report.agents) == 2
    assert "bottom" in report.conclusion
    assert "[error] Limit max_agents: this run may start 1 subagents" in report.conclusion


async def test_definitions_of_the_project_are_used_with_their_tools_only(tmp_path: Path) -> None:
    """S10: the tool list shown is the tool list granted."""
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "counter.md").write_text(
        "---\nname: counter\ndescription: Counts files.\ntools: Glob, LS\n---\nCOUNTER PROMPT\n"
    )
    (folder / "odd.md").write_text(
        "---\nname: odd\ndescription: Odd.\ntools: Teleport, Fly\n---\nODD\n"
    )
    seen: list[Request] = []

    def script(request: Request) -> Any:
        if is_main(request):
            if not results(request):
                assert b"Counts files." in request.body
                kinds = ("counter", "odd")
                return [call("task", prompt="count", subagent_type=kind) for kind in kinds]
            return "\n---\n".join(results(request))
        seen.append(request)
        return "\n".join(results(request)) or [call("glob", pattern="*"), call("grep", pattern="x")]

    report = await go(script, tmp_path)
    counter, odd = report.conclusion.split("\n---\n")
    assert [t["name"] for t in seen[0].tools] == ["ls", "glob"]
    assert b"COUNTER PROMPT" in seen[0].body
    assert "[error] no tool 'grep'. Tools: ls, glob." in counter
    assert odd.startswith("[error] odd names tools that do not exist here (Teleport, Fly)")


async def test_permissions_hide_and_refuse_for_the_whole_tree(tmp_path: Path) -> None:
    """P4, P6: a denied path is refused with its rule, in children too, and is not listed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("KEY")
    (tmp_path / "open.txt").write_text("open")

    def child(request: Request) -> Any:
        if not results(request):
            return [call("read_file", path="secret//key.txt"), call("ls")]
        return "\n---\n".join(results(request))

    deny = Permissions(deny=("read(secret/**)", "delete_file"))
    report = await go(briefs(child, "look"), tmp_path, permissions=deny)
    assert "[denied by read(secret/**)]" in report.conclusion
    assert "open.txt" in report.conclusion
    assert "secret/\n" not in report.conclusion
    log = log_of(tmp_path, report)
    decided = [e for e in log if e["event"] == "permission_decided"]
    assert [(e["tool"], e["rule"], e["decision"]) for e in decided] == [
        ("read_file", "read(secret/**)", "deny")
    ]
    started = [e for e in log if e["event"] == "agent_started"]
    assert all("delete_file" not in e["tools"] for e in started)


# ── to-dos ──


async def test_t1_the_plan_is_a_file_shown_at_the_tail_and_never_history(tmp_path: Path) -> None:
    """T1: readable while the run goes on; at most one copy in any request, at its very end."""
    requests: list[Request] = []

    def script(request: Request) -> Any:
        requests.append(request)
        turn = len(results(request))
        if turn == 0:
            todos = [{"content": f"STEP-{n}", "status": "pending"} for n in (1, 2)]
            return [call("write_todos", todos=todos)]
        if turn == 1:
            file = RunDir(tmp_path, request.run_id).todos
            assert file.read_text() == "- [ ] STEP-1 <!-- 1 -->\n- [ ] STEP-2 <!-- 2 -->\n"
            return [call("write_todos", todos=[{"id": "1", "status": "completed"}])]
        return [call("ls")] if turn == 2 else "end"

    await go(script, tmp_path)
    tails = [request.messages[-1]["content"][-1]["text"] for request in requests[1:]]
    assert tails[0] == "<todos>\n- [ ] STEP-1 <!-- 1 -->\n- [ ] STEP-2 <!-- 2 -->\n</todos>"
    assert "- [x] STEP-1" in tails[1]
    for request in requests:
        assert request.body.count(b"<todos>") <= 1
        for message in request.messages[:-1]:
            assert "<todos>" not in json.dumps(message)


async def test_t1_on_a_model_that_binds_thinking_the_plan_is_appended_only_when_it_changed(
    tmp_path: Path,
) -> None:
    """T1: at most one copy per change, and what was sent stays where it was."""
    requests: list[Request] = []

    def script(request: Request) -> Any:
        requests.append(request)
        turn = len(results(request))
        if turn == 0:
            return [call("write_todos", todos=[{"content": "STEP", "status": "pending"}])]
        return [call("ls")] if turn < 3 else "end"

    model = ScriptedModel(script, name="claude-opus-5-5")
    await run("go", model=model, root=tmp_path)
    assert [r.body.count(b"<todos>") for r in requests] == [0, 1, 1, 1]
    assert "<todos>" in requests[1].messages[-1]["content"][-1]["text"]
    assert "<todos>" in json.dumps(requests[3].messages[2])


async def test_c13_a_plan_that_a_person_edits_is_shown_as_it_is_now(tmp_path: Path) -> None:
    """T1, C13: the file is the plan."""
    tails: list[str] = []

    def script(request: Request) -> Any:
        turn = len(results(request))
        if turn == 0:
            return [call("write_todos", todos=[{"content": "mine", "status": "pending"}])]
        tails.append(request.messages[-1]["content"][-1]["text"])
        if turn == 1:
            file = RunDir(tmp_path, request.run_id).todos
            file.write_text(file.read_text() + "- [ ] yours\n")
            return [call("ls")]
        if turn == 2:
            return [call("write_todos", todos=[{"content": "mine", "status": "completed"}])]
        return "end"

    await go(script, tmp_path)
    assert "yours" in tails[1]
    assert "- [x] mine" in tails[2]
    assert "yours" in tails[2]


async def test_t2_parallel_writes_each_get_a_result_and_lose_nothing(tmp_path: Path) -> None:
    """T2: and an invalid status changes nothing."""

    def script(request: Request) -> Any:
        if not results(request):
            good = [
                call("write_todos", todos=[{"content": f"item {n}", "status": "pending"}])
                for n in range(6)
            ]
            return [*good, call("write_todos", todos=[{"content": "bad", "status": "maybe"}])]
        assert len(results(request)) == 7
        assert results(request)[6].startswith("[error]")
        return request.messages[-1]["content"][-1]["text"]

    report = await go(script, tmp_path)
    assert sorted(report.conclusion.split("\n")[1:-1]) == sorted(
        f"- [ ] item {n} <!-- {report.conclusion.split(f'item {n} <!-- ')[1][0]} -->"
        for n in range(6)
    )
    assert "bad" not in report.conclusion


async def test_t3_an_item_follows_the_subagent_that_it_is_bound_to(tmp_path: Path) -> None:
    """T3: in progress while it runs, completed when it finished, open again when it failed; and a
    child's own plan is its own."""
    during: list[str] = []

    def script(request: Request) -> Any:
        if not is_main(request):
            file = RunDir(tmp_path, request.run_id).todos
            during.append(file.read_text())
            if said(request) == "good" and not results(request):
                return [call("write_todos", todos=[{"content": "CHILD", "status": "pending"}])]
            return "done" if said(request) == "good" else ""
        turn = len(results(request))
        if turn == 0:
            todos = [{"content": word, "status": "pending"} for word in ("good", "bad", "none")]
            return [call("write_todos", todos=todos)]
        if turn == 1:
            return [
                call("task", prompt="good", todo="1"),
                call("task", prompt="bad", todo="2"),
                call("task", prompt="never", todo="9"),
            ]
        return request.messages[-1]["content"][-1]["text"] + results(request)[3]

    report = await go(script, tmp_path)
    assert any("- [~] good" in text for text in during)
    assert "- [x] good <!-- 1 -->\n- [ ] bad <!-- 2 -->\n- [ ] none <!-- 3 -->" in report.conclusion
    assert "[error]" in report.conclusion
    assert "CHILD" not in report.conclusion
    assert len(report.agents) == 3


# ── limits and stop reasons ──


async def test_s7_at_a_token_limit_one_tool_free_turn_hands_back_what_there_is(
    tmp_path: Path,
) -> None:
    """S7: pending calls are answered, tools stay in the request, the limit is not passed."""
    last: list[Request] = []

    def script(request: Request) -> Any:
        if request.purpose == "handback":
            last.append(request)
            return "this is what I have"
        return [call("ls")]

    report = await go(script, tmp_path, limits=Limits(max_tokens=60_000))
    assert (report.status, report.reason) == ("partial", "limit:max_tokens")
    assert report.conclusion == "this is what I have"
    assert report.usage.total_tokens <= 60_000
    assert last[0].tool_choice == {"type": "none"}
    assert last[0].tools
    assert orphans(list(last[0].messages)) == []


async def test_a_model_that_calls_a_tool_at_the_limit_hands_back_what_it_said_last(
    tmp_path: Path,
) -> None:
    """Local servers ignore that no tool may be called."""

    def script(request: Request) -> Any:
        return (
            [{"type": "text", "text": "so far: 3 of 5"}, call("ls")]
            if len(request.messages) < 5
            else [call("ls")]
        )

    report = await go(script, tmp_path, limits=Limits(max_turns=4))
    assert (report.status, report.conclusion) == ("partial", "so far: 3 of 5")


async def test_a_time_limit_stops_a_stuck_model_and_still_hands_back(tmp_path: Path) -> None:
    async def script(request: Request) -> str:
        if request.purpose == "handback":
            return "late but here"
        await anyio.sleep_forever()
        raise AssertionError

    report = await go(script, tmp_path, limits=Limits(max_seconds=0.2))
    assert (report.status, report.reason) == ("partial", "limit:max_seconds")
    assert report.conclusion == "late but here"


async def test_a_time_limit_stops_a_stuck_tool(tmp_path: Path) -> None:
    async def stuck() -> str:
        """Wait."""
        await anyio.sleep_forever()
        raise AssertionError

    def script(request: Request) -> Any:
        return results(request)[0] if request.purpose == "handback" else [call("stuck")]

    report = await go(script, tmp_path, tools=[stuck], limits=Limits(max_seconds=0.2))
    assert report.status == "partial"
    assert "the time is over" in report.conclusion


async def test_concurrency_bounds_model_calls_and_nesting_cannot_deadlock(tmp_path: Path) -> None:
    """S8: a parent that waits holds no place."""
    now = most = 0

    async def script(request: Request) -> Any:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1
        if "task" in [t["name"] for t in request.tools] and not results(request):
            return [call("task", prompt=f"part {n}") for n in range(3)]
        return "ok"

    report = await go(script, tmp_path, limits=Limits(concurrency=2, depth=2))
    assert report.status == "finished"
    assert len(report.agents) == 13
    assert most == 2


def reply(text: str, stop: str, *more: dict[str, Any]) -> Reply:
    blocks = [{"type": "text", "text": text}] if text else []
    return Reply([*blocks, *more], stop)


async def test_e9_a_call_that_was_cut_at_the_output_limit_is_not_run(tmp_path: Path) -> None:
    """E9: tools run only on stop reason tool_use; the model is told and goes on."""
    cut = {"type": "tool_use", "id": "c", "name": "write_file", "input": {}}
    requests: list[Request] = []

    def script(request: Request) -> Any:
        requests.append(request)
        match len(requests):
            case 1:
                return reply("", "max_tokens", cut)
            case 2:
                return reply("writing", "max_tokens", cut)
        return "done in steps"

    report = await go(script, tmp_path)
    assert report.status == "finished"
    assert report.agents[0].tool_calls == 0
    assert "was not run" in json.dumps(requests[1].messages[-1])
    assert orphans(list(requests[2].messages)) == []
    assert [m["role"] for m in requests[2].messages] == ["user", "assistant", "user"]


async def test_a_text_that_was_cut_is_continued_and_the_conclusion_is_whole(tmp_path: Path) -> None:
    replies = iter([reply("one ", "max_tokens"), reply("two ", "max_tokens"), "three"])
    report = await go(lambda request: next(replies), tmp_path)
    assert (report.status, report.conclusion) == ("finished", "one two three")


async def test_a_model_that_never_stops_talking_ends_partial(tmp_path: Path) -> None:
    report = await go(lambda request: reply("x", "max_tokens"), tmp_path)
    assert (report.status, report.reason) == ("partial", "limit:output_tokens")
    assert report.conclusion == "xxxx"


async def test_pause_turn_sends_the_reply_back_as_it_is(tmp_path: Path) -> None:
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    requests: list[Request] = []

    def script(request: Request) -> Any:
        requests.append(request)
        return reply("searching", "pause_turn", server) if len(requests) == 1 else "found"

    report = await go(script, tmp_path)
    assert report.conclusion == "found"
    assert [m["role"] for m in requests[1].messages] == ["user", "assistant"]
    sent = [
        {k: v for k, v in b.items() if k != "cache_control"}
        for b in requests[1].messages[1]["content"]
    ]
    assert sent == [{"type": "text", "text": "searching"}, server]


async def test_unknown_and_signed_blocks_go_back_unchanged(tmp_path: Path) -> None:
    odd = {"type": "new_block", "data": {"deep": [1, None]}}
    thinking = {"type": "thinking", "thinking": "", "signature": "sig"}
    use = call("ls") | {"id": "t1"}
    requests: list[Request] = []

    def script(request: Request) -> Any:
        requests.append(request)
        return [thinking, odd, use] if len(requests) == 1 else "end"

    await go(script, tmp_path)
    assert requests[1].messages[1]["content"] == [thinking, odd, use]


def _twice() -> str:
    """Twice."""
    return ""


async def test_a_configuration_error_is_raised_before_anything_is_written(tmp_path: Path) -> None:
    """H3: one clear sentence."""
    model = ScriptedModel(lambda request: "x")
    with pytest.raises(ConfigError, match="no such folder"):
        await run("x", model=model, root=tmp_path / "none")
    with pytest.raises(ConfigError, match="task is empty"):
        await run("  ", model=model, root=tmp_path)
    with pytest.raises(ConfigError, match="no definition is called 'wizard'"):
        await run("x", model=model, root=tmp_path, agent="wizard")
    with pytest.raises(ConfigError, match="two tools are named"):
        await run("x", model=model, root=tmp_path, tools=[_twice, _twice])
    with pytest.raises(ConfigError, match="no price is known"):
        await run("x", model=model, root=tmp_path, limits=Limits(max_cost=1))
    assert not (tmp_path / ".outrider").exists()


async def test_without_key_url_or_model_the_three_ways_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3"""
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    with pytest.raises(ConfigError, match=r"ANTHROPIC_API_KEY.*--base-url.*--model rehearsal"):
        await run("x", root=tmp_path)


async def test_a_run_that_is_cancelled_says_so_in_its_journal(tmp_path: Path) -> None:
    async def script(request: Request) -> str:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.CancelScope() as scope:
        await go(script, tmp_path, run_id="stopped")
    assert scope.cancelled_caught
    facts = [r.fact for r in read_records(RunDir(tmp_path, "stopped").journal)]
    assert facts[-1].event == "run_ended"
    assert facts[-1].status == "cancelled"


async def test_l1_l2_the_log_adds_up_to_the_ledger_and_carries_no_content(tmp_path: Path) -> None:
    """L1, L2: one line per event with its place; tree totals are the sum of the calls' usage."""

    def child(request: Request) -> Any:
        return "CONTENT-CHILD" if results(request) else [call("ls")]

    report = await go(briefs(child, "CONTENT-BRIEF", "CONTENT-OTHER"), tmp_path, "CONTENT-TASK")
    log = log_of(tmp_path, report)
    assert [line["seq"] for line in log] == list(range(1, len(log) + 1))
    fields = ["schema", "ts", "seq", "event", "run_id", "agent_id", "parent_id", "agent_type"]
    assert all(list(line)[:8] == fields for line in log)
    assert "CONTENT" not in (tmp_path / report.log).read_text()
    for agent in report.agents:
        calls = [
            e for e in log if e["event"] == "model_replied" and e["agent_id"] == agent.agent_id
        ]
        assert agent.usage.input_tokens == sum(e["usage"]["input_tokens"] for e in calls)
        assert agent.usage.output_tokens == sum(e["usage"]["output_tokens"] for e in calls)
        assert agent.requests == len(calls)
    assert report.usage.total_tokens == sum(a.usage.total_tokens for a in report.agents)
    assert log[-1]["usage"] == report.usage.as_json()


async def test_log_content_is_an_option(tmp_path: Path) -> None:
    report = await go(lambda request: "CONTENT", tmp_path, "TASK", log_content=True)
    assert "CONTENT" in (tmp_path / report.log).read_text()


async def test_memory_and_project_instructions_are_shown_to_main_and_can_be_switched_off(
    tmp_path: Path,
) -> None:
    """M4: off, nothing is injected."""
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/MEMORY.md").write_text("- likes tabs <!-- 1 2026-01-01 -->\n")
    (tmp_path / "AGENTS.md").write_text("Use British spelling.\n")
    seen: list[Request] = []

    def script(request: Request) -> str:
        seen.append(request)
        return "x"

    await go(script, tmp_path)
    await go(script, tmp_path, memory=False)
    assert b"likes tabs" in seen[0].body
    assert b"British spelling" in seen[0].body
    assert len(seen[0].system) == 2
    assert b"likes tabs" not in seen[1].body
    assert len(seen[1].system) == 1
