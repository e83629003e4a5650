"""Going on with a run: nothing that finished is done again, and what has changed is said."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import (
    ConfigError,
    Context,
    Limits,
    ModelError,
    Permissions,
    Request,
    fork,
    resume,
    run,
    tool,
)
from orchestrator.errors import JournalError, RunInUse
from orchestrator.events import AgentResumed, Record, from_json
from orchestrator.journal import SCHEMA_VERSION, Entry, open_journal, read_records
from orchestrator.journal.rows import INSERT, SELECT, row_of
from orchestrator.messages import text_of
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio

Script = Callable[[Request], Any]


def records_of(root: Path) -> list[Record]:
    return list(read_records(RunDir(root, "r").journal))


def names_of(root: Path, agent_id: str | None = None) -> list[str]:
    return [r.fact.event for r in records_of(root) if agent_id is None or r.agent_id == agent_id]


@dataclass
class Stop:
    """Stops the run after a certain event, as a signal would."""

    event: str
    number: int = 1
    agent_type: str | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    types: dict[str, str] = field(default_factory=dict)

    def __call__(self, records: Sequence[Record]) -> None:
        for record in records:
            fact = record.fact
            if fact.event == "agent_started":
                self.types[record.agent_id] = fact.agent_type
            mine = self.agent_type in (None, self.types.get(record.agent_id))
            if fact.event == self.event and mine:
                self.number -= 1
                if self.number == 0:
                    self.scope.cancel()


async def stopped(root: Path, script: Script, stop: Stop, **options: Any) -> None:
    with stop.scope:
        await run(
            "go", model=ScriptedModel(script), root=root, run_id="r", observers=[stop], **options
        )
    assert stop.scope.cancel_called, "the run was not stopped in the middle"


async def test_a_run_that_was_stopped_goes_on_and_makes_no_finished_call_again(
    tmp_path: Path,
) -> None:
    done: list[str] = []

    def note(what: str) -> str:
        """Note."""
        done.append(what)
        return what

    def script(request: Request) -> Any:
        got = results(request)
        return [call("note", what=str(len(got)))] if len(got) < 3 else f"noted {', '.join(got)}"

    await stopped(tmp_path, script, Stop("tool_returned", 2), tools=[note])
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, tools=[note])
    assert (report.status, report.conclusion) == ("finished", "noted 0, 1, 2")
    assert done == ["0", "1", "2"]
    assert report.agents[0].requests == 4, "the requests of both processes are counted"
    assert names_of(tmp_path).count("run_resumed") == 1


async def test_a_call_that_was_under_way_comes_back_as_interrupted_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    begun: list[str] = []

    async def charge() -> str:
        """Charge."""
        begun.append("charge")
        await anyio.sleep_forever()
        return "never"

    def script(request: Request) -> Any:
        got = results(request)
        return got[-1] if got else [call("charge")]

    await stopped(tmp_path, script, Stop("tool_started"), tools=[charge])
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, tools=[charge])
    assert "interrupted" in report.conclusion
    assert "may have happened or not" in report.conclusion
    assert len(begun) <= 1
    (resumed,) = [r.fact for r in records_of(tmp_path) if isinstance(r.fact, AgentResumed)]
    assert resumed.interrupted == 1


async def test_a_call_that_only_reads_is_made_again(tmp_path: Path) -> None:
    stop = Stop("never")
    begun: list[str] = []

    @tool(after_crash="repeat")
    async def look() -> str:
        """Look."""
        begun.append("look")
        if len(begun) == 1:
            stop.scope.cancel()
            await anyio.sleep_forever()
        return "seen"

    def script(request: Request) -> Any:
        got = results(request)
        return got[-1] if got else [call("look")]

    await stopped(tmp_path, script, stop, tools=[look])
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, tools=[look])
    assert (report.conclusion, len(begun)) == ("seen", 2)


async def test_a_tool_may_demand_that_its_agent_fails(tmp_path: Path) -> None:
    @tool(after_crash="fail")
    async def launch() -> str:
        """Launch."""
        await anyio.sleep_forever()
        return "never"

    def script(request: Request) -> Any:
        return results(request)[-1] if results(request) else [call("launch")]

    await stopped(tmp_path, script, Stop("tool_started"), tools=[launch])
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, tools=[launch])
    assert (report.status, report.reason) == ("failed", "tool:launch")


async def test_a_child_that_was_at_work_goes_on_and_one_that_had_finished_is_not_run_again(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "main":
            both = [call("task", prompt="first"), call("task", prompt="second")]
            return "; ".join(r.split("\n")[1] for r in got) if got else both
        brief = text_of(request.messages[0]["content"])
        asked.append(brief)
        if brief == "first" or len(got) == 2:
            return f"{brief} is done"
        return [call("ls")]

    stop = Stop("tool_returned", 1, agent_type="general")
    await stopped(tmp_path, script, stop)
    before = list(asked)
    report = await resume("r", model=ScriptedModel(script), root=tmp_path)
    assert report.conclusion == "first is done; second is done"
    assert asked.count("first") == 1
    assert asked.count("second") == 3, f"each of its turns once; before the stop: {before}"
    assert names_of(tmp_path).count("agent_spawned") == 2
    assert names_of(tmp_path).count("agent_started") == 3


@pytest.mark.parametrize("ends_before", [True, False])
async def test_a_child_in_the_background_is_delivered_exactly_once_across_a_resume(
    tmp_path: Path, ends_before: bool
) -> None:
    """Whether it had ended but was not delivered yet, or was still at work."""

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            return "the answer is 42" if got else [call("ls")]
        if not got:
            return [
                call("task", prompt="work", background=True, todo="one"),
            ]
        heard = "\n".join(text_of(m["content"]) for m in request.messages)
        return f"heard {heard.count('the answer is 42')} time" if "is 42" in heard else "waiting"

    stop = Stop("agent_ended" if ends_before else "tool_returned", 1, agent_type="general")

    def with_plan(request: Request) -> Any:
        if request.agent_type == "main" and not results(request):
            plan = [{"content": "the work", "status": "pending", "id": "one"}]
            return [call("write_todos", todos=plan)]
        if request.agent_type == "main" and len(results(request)) == 1:
            return [call("task", prompt="work", background=True, todo="one")]
        return script(request)

    await stopped(tmp_path, with_plan, stop)
    report = await resume("r", model=ScriptedModel(with_plan), root=tmp_path)
    assert report.conclusion == "heard 1 time"
    delivered = [r for r in records_of(tmp_path) if getattr(r.fact, "child_id", None)]
    assert [r.fact.event for r in delivered] == ["agent_spawned", "message_added"]
    todos = RunDir(tmp_path, "r").todos.read_text()
    assert "[x] the work" in todos, "the plan item followed the child across the resume"


async def test_a_question_to_a_child_is_put_once_across_a_resume(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            said = text_of(request.messages[-1]["content"])
            if "which" in said or len(got) == 1:
                return "the second one" if got else [call("ls")]
            return "there are two"
        if not got:
            return [call("task", prompt="count")]
        if len(got) == 1:
            return [call("ask_task", agent_id=got[0].split(" ")[1], question="which is newer?")]
        return got[-1].split("\n")[1]

    await stopped(tmp_path, script, Stop("tool_returned", 1, agent_type="general"))
    report = await resume("r", model=ScriptedModel(script), root=tmp_path)
    assert report.conclusion == "the second one"
    questions = [r for r in records_of(tmp_path) if getattr(r.fact, "asked_by", None)]
    assert len(questions) == 1


async def test_a_limit_that_ended_the_run_can_be_raised(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        got = results(request)
        if request.tool_choice is not None:
            return "so far"
        return [call("ls")] if len(got) < 5 else "all five"

    model = ScriptedModel(script)
    first = await run("go", model=model, root=tmp_path, run_id="r", limits=Limits(max_turns=3))
    assert (first.status, first.reason) == ("partial", "limit:max_turns")
    with pytest.raises(ConfigError, match="max_turns 3: raise it, for example --max-turns 6"):
        await resume("r", model=model, root=tmp_path)
    report = await resume("r", model=model, root=tmp_path, limits=Limits(max_turns=20))
    assert (report.status, report.conclusion) == ("finished", "all five")
    assert RunDir(tmp_path, "r").result.read_text() == "so far\n", "what was concluded is kept"
    assert (tmp_path / (report.conclusion_path or "")).read_text() == "all five\n"


async def test_tokens_spent_before_count_towards_the_limit_after(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        return "so far" if request.tool_choice is not None else [call("ls")]

    model = ScriptedModel(script)
    limits = Limits(max_tokens=30_000)
    first = await run("go", model=model, root=tmp_path, run_id="r", limits=limits)
    assert first.reason == "limit:max_tokens"
    more = await resume("r", model=model, root=tmp_path, limits=Limits(max_tokens=40_000))
    assert more.reason == "limit:max_tokens"
    assert first.usage.total_tokens < more.usage.total_tokens <= 40_000


async def test_a_finished_run_goes_on_only_with_something_to_do(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        said = [text_of(m["content"]) for m in request.messages if m["role"] == "user"]
        return f"heard {len(said)}: {said[-1]}"

    model = ScriptedModel(script)
    await run("go", model=model, root=tmp_path, run_id="r")
    with pytest.raises(ConfigError, match="has finished; say what else there is to do"):
        await resume("r", model=model, root=tmp_path)
    report = await resume("r", "and the tests?", model=model, root=tmp_path)
    assert report.conclusion == "heard 2: and the tests?"


async def test_a_failed_run_tries_again_where_it_failed(tmp_path: Path) -> None:
    down = True

    def script(request: Request) -> Any:
        if results(request) and down:
            raise ModelError("the account is out of credit", status=402)
        return "done" if results(request) else [call("ls")]

    model = ScriptedModel(script)
    first = await run("go", model=model, root=tmp_path, run_id="r")
    assert first.status == "failed"
    down = False
    report = await resume("r", model=model, root=tmp_path)
    assert (report.status, report.conclusion) == ("finished", "done")
    assert names_of(tmp_path).count("tool_returned") == 1


async def test_one_agent_can_be_resumed_alone(tmp_path: Path) -> None:
    """Its parent is not run; when the run goes on, it finds the child's new conclusion."""
    mains: list[int] = []

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "main":
            mains.append(len(got))
            return got[0].split("\n")[1] if got else [call("task", prompt="work")]
        return "worked" if got else [call("ls")]

    await stopped(tmp_path, script, Stop("tool_returned", 1, agent_type="general"))
    child = next(r.agent_id for r in records_of(tmp_path) if r.agent_id != "main")
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, agent=child[:9])
    assert (report.status, report.conclusion) == ("finished", "worked")
    assert mains == [0]
    whole = await resume("r", model=ScriptedModel(script), root=tmp_path)
    assert whole.conclusion == "worked"
    assert names_of(tmp_path, child).count("model_replied") == 2


async def test_an_unknown_agent_or_run_is_named_with_those_there_are(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "done")
    await run("go", model=model, root=tmp_path, run_id="r")
    with pytest.raises(ConfigError, match="no agent 'reviewer' in this run; there are: main"):
        await resume("r", "more", model=model, root=tmp_path, agent="reviewer")
    with pytest.raises(ConfigError, match="no run 'other' here; there are: r"):
        await resume("other", "more", model=model, root=tmp_path)


async def test_a_changed_definition_or_a_missing_tool_needs_consent(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    file = folder / "reader.md"
    file.write_text("---\nname: reader\ndescription: Reads\n---\nRead.\n")

    def look() -> str:
        """Look."""
        return "seen"

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "main":
            task = call("task", prompt="work", subagent_type="reader")
            return got[0].split("\n")[1] if got else [task]
        return "worked" if got else [call("look")]

    await stopped(tmp_path, script, Stop("tool_returned", 1, agent_type="reader"), tools=[look])
    file.write_text("---\nname: reader\ndescription: Reads\n---\nRead twice.\n")
    model, before = ScriptedModel(script), names_of(tmp_path)
    with pytest.raises(ConfigError) as said:
        await resume("r", model=model, root=tmp_path, tools=[])
    assert "the definition of reader-" in str(said.value)
    assert "main lacks look" in str(said.value)
    assert "--accept-changes" in str(said.value)
    assert names_of(tmp_path) == before, "nothing was recorded"
    report = await resume("r", model=model, root=tmp_path, tools=[], accept_changes=True)
    assert report.conclusion == "worked"


async def test_a_definition_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "reader.md").write_text("---\nname: reader\ndescription: Reads\n---\nRead.\n")

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "main":
            return got[0] if got else [call("task", prompt="work", subagent_type="reader")]
        return "worked" if got else [call("ls")]

    await stopped(tmp_path, script, Stop("tool_returned", 1, agent_type="reader"))
    (folder / "reader.md").unlink()
    with pytest.raises(ConfigError, match=r"The definition of reader-.* is gone"):
        await resume("r", model=ScriptedModel(script), root=tmp_path)


async def test_two_processes_on_one_run_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "done")
    await run("go", model=model, root=tmp_path, run_id="r")
    async with open_journal(RunDir(tmp_path, "r").journal):
        with pytest.raises(RunInUse, match=r"is in use by this process \(\d+\)"):
            await resume("r", "more", model=model, root=tmp_path)


async def test_what_was_read_before_may_be_edited_after(tmp_path: Path) -> None:
    """And what changed in between is a conflict: what the agent knows of files is in its records."""
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("one\n")

    def script(request: Request) -> Any:
        got = results(request)
        if not got:
            return [call("read_file", path="a.txt"), call("read_file", path="b.txt")]
        if len(got) == 2:
            edit = {"old_string": "one", "new_string": "two"}
            return [call("edit_file", path=p, **edit) for p in ("a.txt", "b.txt")]
        return "\n".join(got[2:])

    await stopped(tmp_path, script, Stop("tool_returned", 2))
    (tmp_path / "b.txt").write_text("one and more\n")
    report = await resume("r", model=ScriptedModel(script), root=tmp_path)
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert (tmp_path / "b.txt").read_text() == "one and more\n"
    assert "changed" in report.conclusion


async def test_settings_hold_on_unless_they_are_given_anew(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    seen: list[list[str]] = []

    def script(request: Request) -> Any:
        got = results(request)
        seen.append(got)
        return [call("read_file", path="secret.txt")] if len(got) < 2 else "done"

    deny = Permissions(deny=("read(secret.txt)",))
    await stopped(tmp_path, script, Stop("tool_returned", 1), permissions=deny)
    await resume("r", model=ScriptedModel(script), root=tmp_path, context=Context(offload_at=700))
    assert all("[denied by" in text for text in seen[-1])
    resumed = [r.fact for r in records_of(tmp_path) if isinstance(r.fact, AgentResumed)]
    assert [f.policy["offload_at"] for f in resumed if f.policy] == [700]


async def test_a_model_that_is_no_name_must_be_handed_over_again(tmp_path: Path) -> None:
    await run("go", model=ScriptedModel(lambda request: "done"), root=tmp_path, run_id="r")
    with pytest.raises(ConfigError, match="hand it over again"):
        await resume("r", "more", root=tmp_path)


async def test_a_run_goes_on_by_what_its_journal_says_of_its_model(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nTODO: look\n")
    await run("Survey this folder", model="rehearsal", root=tmp_path, run_id="r")
    report = await resume("r", "Survey it again", root=tmp_path)
    assert report.status == "finished"
    assert report.agents[0].model == "rehearsal"


async def test_a_reader_of_the_log_sees_every_event_once_after_a_crash(tmp_path: Path) -> None:
    """Lines that the crash kept from the log are written when the run goes on."""
    model = ScriptedModel(lambda request: "done")
    await run("go", model=model, root=tmp_path, run_id="r")
    log = RunDir(tmp_path, "r").log
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-3]) + lines[-3][:20])
    await resume("r", "more", model=model, root=tmp_path)
    written = [json.loads(line)["seq"] for line in log.read_text().splitlines()]
    assert written == [r.seq for r in records_of(tmp_path)]


async def test_edits_of_the_plan_by_a_person_while_the_run_stood_still_are_kept(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def script(request: Request) -> Any:
        got = results(request)
        seen.append(text_of(request.messages[-1]["content"]))
        if not got:
            return [call("write_todos", todos=[{"content": "look", "status": "pending"}])]
        return [call("ls")] if len(got) == 1 else "done"

    await stopped(tmp_path, script, Stop("tool_returned", 2))
    todos = RunDir(tmp_path, "r").todos
    todos.write_text(todos.read_text() + "- [ ] and read <!-- mine -->\n")
    await resume("r", model=ScriptedModel(script), root=tmp_path)
    assert "and read" in seen[-1]


def test_killed_after_any_event_and_resumed_the_end_is_the_same(tmp_path: Path) -> None:
    """Three levels, children in the background, offload, effects counted outside of the process; a
    sample of the moments (all of them: ``python -m tests.crash_loop``)."""
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash_loop", "--every", "3"],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "all the same end" in done.stdout


# What events of the first version did not say yet.
_NEWER = {
    "run_started": ("options",),
    "agent_started": ("digest",),
    "tool_started": ("index",),
    "tool_returned": ("seen",),
    "agent_spawned": ("todo",),
    "message_added": ("asked_by",),
    "model_replied": ("request_hash",),
}


def made_older(journal: Path) -> None:
    """Rewrite the journal as the first version of its format had it."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        rows = connection.execute(SELECT, (0, None, None)).fetchall()
        connection.execute("DELETE FROM records")
        for seq, ts, agent_id, turn, event, packed, body, _ in rows:
            fact = json.loads(zlib.decompress(body) if packed else body)
            for name in _NEWER.get(event, ()):
                fact.pop(name, None)
            data = json.dumps(fact).encode()
            entry = Entry(agent_id, turn, from_json(data))
            connection.execute(INSERT, row_of(seq, ts, entry, data))


async def test_a_journal_of_the_first_version_is_read_and_resumed(tmp_path: Path) -> None:
    """The format's number stays as long as older journals can be read: what they do not say is what
    held then. The library must be told the rest again."""

    def charge() -> str:
        """Charge."""
        return "charged"

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type != "main":
            return "looked" if got else [call("ls")]
        steps = [[call("charge")], [call("task", prompt="look")]]
        return steps[len(got)] if len(got) < len(steps) else "; ".join(got)

    stop = Stop("tool_returned", 1, agent_type="general")
    await stopped(tmp_path, script, stop, tools=[charge])
    journal = RunDir(tmp_path, "r").journal
    made_older(journal)
    with closing(sqlite3.connect(journal)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    report = await resume("r", model=ScriptedModel(script), root=tmp_path, tools=[charge])
    assert report.status == "finished"
    assert report.conclusion.startswith("charged; [general ")
    assert "looked" in report.conclusion


async def test_a_journal_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    await run("go", model=ScriptedModel(lambda request: "done"), root=tmp_path, run_id="r")
    with closing(sqlite3.connect(RunDir(tmp_path, "r").journal)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(JournalError, match="use a newer Outrider"):
        await resume("r", "more", model=ScriptedModel(lambda request: "done"), root=tmp_path)


@pytest.mark.parametrize(
    "go", [lambda **given: resume("r", **given), lambda **g: fork("r", 1, **g)]
)
async def test_a_misspelt_argument_is_no_argument(tmp_path: Path, go: Any) -> None:
    with pytest.raises(TypeError, match="modle"):
        await go(root=tmp_path, modle="rehearsal")
