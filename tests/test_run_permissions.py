"""Permissions in a run: refusals, questions to a person, what definitions grant, what children may."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Permissions, Report, Request, run
from orchestrator.cli.exits import code_of
from orchestrator.permissions import Answer, AskedFor
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio


def define(root: Path, name: str, *fields: str) -> None:
    folder = root / ".outrider/agents"
    folder.mkdir(parents=True, exist_ok=True)
    head = "\n".join(["---", f"name: {name}", "description: Works.", *fields, "---"])
    (folder / f"{name}.md").write_text(f"{head}\nYou work.\n")


def decided(root: Path, report: Report) -> list[tuple[str, str, str, str]]:
    lines = RunDir(root, report.run_id).log.read_text().splitlines()
    events = [json.loads(line) for line in lines]
    found = [e for e in events if e["event"] == "permission_decided"]
    return [(e["tool"], e["rule"], e["decision"], e["by"]) for e in found]


async def calling(root: Path, *calls: Any, **options: Any) -> Report:
    """The main agent makes the calls in one message and concludes with all results."""

    def script(request: Request) -> Any:
        return "\n---\n".join(results(request)) or list(calls)

    return await run("go", model=ScriptedModel(script), root=root, **options)


ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def bash(command: str) -> str:
    """Run a command."""
    ran.append(command)
    return f"ran {command}"


# ── with nobody to ask ──


async def test_p7_with_nobody_to_ask_the_refusal_names_the_rule_to_add_and_it_is_true(
    tmp_path: Path,
) -> None:
    """P7: at once, in the words of the command line; with the rule added the call runs."""
    asks = Permissions(("bash(ls:*)",), ("bash(rm:*)",))
    wanted = call("bash", command="rm -rf build")
    report = await calling(tmp_path, wanted, tools=[bash], permissions=asks)
    assert report.conclusion == (
        "[denied by ask bash(rm:*)] nobody can be asked here; "
        'to permit it: --allow "bash(rm -rf build)"'
    )
    assert (report.status, ran) == ("finished", [])
    assert decided(tmp_path, report) == [("bash", "ask bash(rm:*)", "deny", "nobody")]
    more = Permissions((*asks.allow, "bash(rm -rf build)"), asks.ask)
    report = await calling(tmp_path, wanted, tools=[bash], permissions=more)
    assert report.conclusion == "ran rm -rf build"
    assert decided(tmp_path, report) == [("bash", "bash(rm -rf build)", "allow", "rule")]


async def test_a_command_that_rules_cannot_read_is_told_so(tmp_path: Path) -> None:
    rules = Permissions(("bash(ls:*)",))
    report = await calling(
        tmp_path,
        call("bash", command="ls $(rm -rf /)"),
        call("bash", command="ls; rm x"),
        tools=[bash],
        permissions=rules,
    )
    first, second = report.conclusion.split("\n---\n")
    assert first.startswith("[denied by ask bash] nobody can be asked here; this command is more")
    assert first.endswith("to permit it: --allow bash")
    assert second.endswith('to permit it: --allow "bash(rm x)"')
    assert ran == []


async def test_a_denied_call_does_not_stop_the_others_and_is_logged(tmp_path: Path) -> None:
    report = await calling(
        tmp_path,
        call("bash", command="rm x"),
        call("bash", command="ls"),
        tools=[bash],
        permissions=Permissions(("bash",), deny=("bash(rm:*)",)),
    )
    first, second = report.conclusion.split("\n---\n")
    assert first.startswith("[denied by bash(rm:*)] this is not permitted here")
    assert second == "ran ls"
    assert sorted(decided(tmp_path, report)) == [
        ("bash", "bash", "allow", "rule"),
        ("bash", "bash(rm:*)", "deny", "rule"),
    ]


@pytest.mark.parametrize("name", ["bash", "fetch"])
async def test_an_optional_tool_is_offered_only_where_a_rule_names_it(
    tmp_path: Path, name: str
) -> None:
    async def tools_with(permissions: Permissions) -> list[str]:
        seen: list[str] = []

        def script(request: Request) -> Any:
            seen.extend(t["name"] for t in request.tools)
            return "done"

        await run("x", model=ScriptedModel(script), root=tmp_path, permissions=permissions)
        return seen

    some = {"bash": "bash(git status:*)", "fetch": "fetch(example.org)"}[name]
    assert name not in await tools_with(Permissions())
    assert name not in await tools_with(Permissions(deny=(some,)))
    assert name in await tools_with(Permissions((some,)))
    assert name in await tools_with(Permissions(ask=(name,)))
    assert name not in await tools_with(Permissions((name,), deny=(name,)))


async def test_an_agent_that_only_meets_denials_hands_back_with_the_rule_as_the_reason(
    tmp_path: Path,
) -> None:
    """It does not go round in circles until a limit; the command line ends with exit code 4."""
    turns = 0

    def script(request: Request) -> Any:
        nonlocal turns
        turns += 1
        if request.purpose == "handback":
            return "what I have"
        return [call("bash", command=f"rm {turns}"), call("bash", command="rm x")]

    rules = Permissions(("bash",), deny=("bash(rm:*)",))
    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[bash], permissions=rules
    )
    assert (report.status, report.reason) == ("partial", "permission:bash(rm:*)")
    assert (report.conclusion, turns, ran) == ("what I have", 6, [])
    assert code_of(report.status, report.reason) == 4


async def test_a_denial_that_is_worked_around_is_no_reason_to_stop(tmp_path: Path) -> None:
    """One call that gets through, and the count begins anew."""
    turn = 0

    def script(request: Request) -> Any:
        nonlocal turn
        turn += 1
        if turn > 12:
            return "done"
        command = "ls" if turn % 4 == 0 else "rm x"
        return [call("bash", command=command)]

    rules = Permissions(("bash",), deny=("bash(rm:*)",))
    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[bash], permissions=rules
    )
    assert (report.status, report.reason, ran) == ("finished", None, ["ls"] * 3)


async def test_an_agent_that_is_denied_and_has_nothing_to_say_ends_for_that_reason(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Any:
        return "" if results(request) else [call("bash", command="rm x")]

    rules = Permissions(("bash",), deny=("bash(rm:*)",))
    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[bash], permissions=rules
    )
    assert (report.status, report.reason) == ("failed", "permission:bash(rm:*)")


async def test_text_of_a_tool_that_looks_like_a_refusal_is_none(tmp_path: Path) -> None:
    async def odd() -> str:
        """Says odd things."""
        return "[denied by everybody] or so"

    def script(request: Request) -> Any:
        return "done" if len(results(request)) > 8 else [call("odd")]

    report = await run("go", model=ScriptedModel(script), root=tmp_path, tools=[odd])
    assert (report.status, report.reason) == ("finished", None)


# ── paths ──


async def test_allowed_patterns_bound_reading_listing_and_searching_by_the_real_path(
    tmp_path: Path,
) -> None:
    """P3, P4: a symlink leads nowhere else; listings and searches show what may be read, no more."""
    for name in ("src/sub/a.txt", "docs/b.txt", "top.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"MARK {name}")
    os.symlink("../docs/b.txt", tmp_path / "src/alias.txt")
    report = await calling(
        tmp_path,
        call("read_file", path="src/sub/a.txt"),
        call("read_file", path="docs/b.txt"),
        call("read_file", path="src/alias.txt"),
        call("ls"),
        call("grep", pattern="MARK"),
        call("glob", pattern="*.txt"),
        call("write_file", path="new.txt", content="x"),
        permissions=Permissions(("read(src/**)",)),
    )
    read, denied, alias, ls, grep, glob, wrote = report.conclusion.split("\n---\n")
    assert "MARK src/sub/a.txt" in read
    assert denied == (
        '[denied by ask read] nobody can be asked here; to permit it: --allow "read(/docs/b.txt)"'
    )
    assert alias == ('[denied by ask read] docs/b.txt; to permit it: --allow "read(/docs/b.txt)"')
    assert ls == "src/"
    assert grep == "src/sub/a.txt"
    assert glob == "src/sub/a.txt"
    assert wrote.startswith("created new.txt")


async def test_an_agent_reads_its_own_stored_results_whatever_the_allow_rules_say(
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()

    async def lots() -> str:
        """Much."""
        return "WHOLE " * 2_000

    def script(request: Request) -> Any:
        done = results(request)
        if not done:
            return [call("lots")]
        if len(done) == 1:
            path = done[0].split()[1]
            return [call("read_file", path=path)]
        return done[1]

    report = await run(
        "go",
        model=ScriptedModel(script),
        root=tmp_path,
        tools=[lots],
        permissions=Permissions(("read(src/**)",), ("read(**)",)),
    )
    assert report.conclusion.count("WHOLE") > 500


# ── what says how agents work ──

FORBIDDEN = [
    ".outrider/config.toml",
    ".outrider/agents/worker.md",
    ".outrider/MEMORY.md",
    ".outrider/runs/x/journal.db",
    ".OUTRIDER/config.toml",
    "sub/.outrider/config.toml",
    ".claude/agents/worker.md",
    ".claude//./agents/new.md",
    ".CLAUDE/AGENTS/new.md",
    "sub/.claude/agents/new.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    "sub/.mcp.json",
    ".github/agents/new.md",
    ".opencode/agent/new.md",
    ".gemini/agents/new.md",
    ".codex/agents/new.toml",
    "team/mine.md",
    "team/brand-new.md",
    "team/below/brand-new.md",
    "servers.json",
    "real/agents/new.md",
    "alias/new.md",
    "link.md",
]


def there(root: Path) -> dict[str, bytes]:
    """Everything in the workspace but what the run itself writes."""
    files = (p for p in root.rglob("*") if p.is_file() and "runs" not in p.parts)
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


@pytest.fixture
def governed(tmp_path: Path) -> Path:
    """A workspace with files that say how agents work, two of them also by another name."""
    head = "---\nname: {}\ndescription: d\n---\nx"
    for name in FORBIDDEN[:-2]:
        if name.startswith("sub/") or "new." in name or name != name.lower():
            continue
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = head.format(Path(name).stem) if name.endswith(".md") else "{}"
        (tmp_path / name).write_text("" if name.endswith(".toml") else text)
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    os.symlink(".claude/agents", tmp_path / "alias")
    # Another program's folder may be a link: what it leads to is one of definitions all the same.
    (tmp_path / "real/agents").mkdir(parents=True)
    os.symlink("real", tmp_path / ".opencode")
    os.symlink("team/mine.md", tmp_path / "link.md")
    return tmp_path


@pytest.mark.parametrize("path", FORBIDDEN)
async def test_no_file_tool_changes_settings_definitions_permissions_or_the_journal(
    governed: Path, path: str
) -> None:
    """Neither by another spelling nor by a symlink, also where writing is allowed everywhere."""
    before = there(governed)
    report = await calling(
        governed,
        call("read_file", path=path),
        call("write_file", path=path, content="allow = ['bash']"),
        call("edit_file", path=path, old_string="x", new_string="y"),
        # To delete a link takes the link alone, not what it leads to.
        call("delete_file", path=path if path != "link.md" else "team/mine.md"),
        agents=[governed / "team"],
        mcp_config=governed / "servers.json",
        permissions=Permissions(("write(**)", "write")),
    )
    changes = report.conclusion.split("\n---\n")[-3:]
    assert there(governed) == before
    assert all(c.startswith("[denied by protected") for c in changes), changes


async def test_the_folder_above_cannot_be_deleted_either(governed: Path) -> None:
    before = there(governed)
    names = (".claude", ".outrider", "team")
    report = await calling(
        governed, *(call("delete_file", path=name) for name in names), agents=[governed / "team"]
    )
    assert there(governed) == before
    assert report.conclusion.count("[denied by protected") == len(names)


async def test_a_rule_that_names_the_place_lets_an_agent_write_definitions(tmp_path: Path) -> None:
    """An agent whose work it is to write agents; never in Outrider's own folder."""
    writes = [
        call("write_file", path=".claude/agents/new.md", content="x"),
        call("write_file", path=".claude/settings.json", content="{}"),
        call("write_file", path=".outrider/agents/new.md", content="x"),
    ]
    rules = Permissions(("write(**)", "write(.claude/agents/**)", "write(.outrider/**)"))
    report = await calling(tmp_path, *writes, permissions=rules)
    first, second, third = report.conclusion.split("\n---\n")
    assert first.startswith("created .claude/agents/new.md")
    assert second.endswith('to permit it: --allow "write(/.claude/settings.json)"')
    assert third.startswith("[denied by protected .outrider/**]")
    assert list(there(tmp_path)) == [".claude/agents/new.md"]


# ── a person ──


def answering(*answers: Answer) -> tuple[Callable[[AskedFor], Any], list[AskedFor]]:
    asked: list[AskedFor] = []
    left = list(answers)

    async def ask(question: AskedFor) -> Answer:
        asked.append(question)
        return left.pop(0)

    return ask, asked


async def test_a_person_answers_once_always_or_no(tmp_path: Path) -> None:
    """Always holds for the rest of the run, for what the question named and no more."""
    calls = iter(["rm a", "rm a", "rm a", "rm b", "rm b"])

    def script(request: Request) -> Any:
        command = next(calls, None)
        return [call("bash", command=command)] if command else "\n---\n".join(results(request))

    ask, asked = answering("once", "always", "no", "once")
    rules = Permissions(ask=("bash(rm:*)",))
    report = await run(
        "go", model=ScriptedModel(script), root=tmp_path, tools=[bash], permissions=rules, ask=ask
    )
    assert [a.input["command"] for a in asked] == ["rm a", "rm a", "rm b", "rm b"]
    assert (asked[0].rule, asked[0].permit) == ("ask bash(rm:*)", ("bash(rm a)",))
    assert (asked[0].agent_type, asked[0].tool) == ("main", "bash")
    assert ran == ["rm a", "rm a", "rm a", "rm b"]
    assert "[denied by ask bash(rm:*)] a person said no; do not try it again" in report.conclusion
    said = [(decision, by) for _, _, decision, by in decided(tmp_path, report)]
    assert said == [("allow", "person")] * 3 + [("deny", "person"), ("allow", "person")]


async def test_one_question_at_a_time_while_other_agents_go_on(tmp_path: Path) -> None:
    """Two children wait for a person, a third works to its end meanwhile."""
    open_questions, most = 0, 0
    third_done = anyio.Event()

    async def ask(question: AskedFor) -> Answer:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        await third_done.wait()
        open_questions -= 1
        return "once"

    def script(request: Request) -> Any:
        done = results(request)
        if request.agent_type == "main":
            briefs = ("rm a", "rm b", "ls")
            return "\n".join(done) or [call("task", prompt=brief) for brief in briefs]
        brief = request.messages[0]["content"][0]["text"]
        if not done:
            return [call("bash", command=brief)]
        if brief == "ls":
            third_done.set()
        return done[0]

    rules = Permissions(("bash",), ask=("bash(rm:*)",))
    with anyio.fail_after(30):
        report = await run(
            "go",
            model=ScriptedModel(script),
            root=tmp_path,
            tools=[bash],
            permissions=rules,
            ask=ask,
        )
    assert most == 1
    assert sorted(ran) == ["ls", "rm a", "rm b"]
    assert report.status == "finished"


async def test_an_answer_for_good_also_settles_the_same_question_that_waits(tmp_path: Path) -> None:
    ask, asked = answering("always")
    report = await calling(
        tmp_path,
        *[call("bash", command="rm a") for _ in range(5)],
        tools=[bash],
        permissions=Permissions(ask=("bash",)),
        ask=ask,
    )
    assert (len(asked), ran, report.status) == (1, ["rm a"] * 5, "finished")


async def test_an_open_question_ends_with_the_run_and_with_its_time(tmp_path: Path) -> None:
    """It never hangs: neither when the run is cancelled nor when a limit of time is reached."""
    asking = anyio.Event()
    ended: list[str] = []

    async def ask(question: AskedFor) -> Answer:
        asking.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("asking")
        raise AssertionError

    options: dict[str, Any] = {
        "tools": [bash],
        "permissions": Permissions(ask=("bash",)),
        "ask": ask,
    }
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: calling(tmp_path, call("bash", command="x"), **options))
        await asking.wait()
        group.cancel_scope.cancel()
    assert ended == ["asking"]
    with anyio.fail_after(30):
        limits = Limits(max_seconds=0.3)
        report = await calling(tmp_path, call("bash", command="x"), limits=limits, **options)
    assert (report.status, report.reason) == ("partial", "limit:max_seconds")
    assert (ended, ran) == (["asking", "asking"], [])


async def test_a_question_that_fails_is_a_denial_and_not_the_end_of_the_run(tmp_path: Path) -> None:
    async def ask(question: AskedFor) -> Answer:
        raise OSError("the terminal is gone")

    report = await calling(
        tmp_path,
        call("bash", command="x"),
        tools=[bash],
        permissions=Permissions(ask=("bash",)),
        ask=ask,
    )
    assert report.conclusion.startswith("[denied by ask bash] nobody can be asked here")
    assert (report.status, ran) == ("finished", [])


async def test_a_person_who_lets_a_path_pass_lets_pass_what_the_call_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("A")
    ask, asked = answering("once", "no")
    report = await calling(
        tmp_path,
        call("read_file", path="docs/a.txt"),
        call("write_file", path="docs/b.txt", content="B"),
        permissions=Permissions(ask=("read(docs/**)",)),
        ask=ask,
    )
    assert len(asked) == 2
    named = {q.input["path"]: q.permit for q in asked}
    # What may not be read without a question may not be written without one.
    assert named["docs/b.txt"] == ("write(/docs/b.txt)",)
    assert report.conclusion.count("a person said no") == 1
    assert ("\nA" in report.conclusion) is not (tmp_path / "docs/b.txt").exists()


# ── children ──


async def spawning(root: Path, *calls: Any, fields: tuple[str, ...], **options: Any) -> Report:
    define(root, "worker", *fields)

    def script(request: Request) -> Any:
        done = results(request)
        if request.agent_type == "main":
            return done[0] if done else [call("task", prompt="work", subagent_type="worker")]
        return (
            "\n---\n".join([str([t["name"] for t in request.tools]), *done])
            if done
            else list(calls)
        )

    return await run("go", model=ScriptedModel(script), root=root, **options)


async def test_a_grant_with_a_pattern_grants_the_tool_within_the_pattern(tmp_path: Path) -> None:
    """`tools: Bash(git:*), Read(src/**)` in Claude Code's own spelling."""
    for name in ("src/a.txt", "docs/b.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("TEXT")
    report = await spawning(
        tmp_path,
        call("bash", command="git log"),
        call("bash", command="rm x"),
        call("bash", command="git log; rm x"),
        call("read_file", path="src/a.txt"),
        call("read_file", path="docs/b.txt"),
        fields=("tools: Bash(git:*), Read(src/**)",),
        tools=[bash],
        permissions=Permissions(("bash",)),
    )
    tools, git, rm, both, src, docs = report.conclusion.split("\n---\n")
    assert tools.endswith("['read_file', 'bash']")
    assert git == "ran git log"
    assert rm.startswith("[denied by tools bash(git:*)]")
    assert both.startswith("[denied by tools bash(git:*)]")
    assert src.endswith("TEXT")
    assert docs.startswith("[denied by tools read_file(src/**)]")
    assert ran == ["git log"]


async def test_p6_a_grant_never_reaches_beyond_the_parent(tmp_path: Path) -> None:
    """P6: what the run does not have no definition gives, and what the run asks for stays asked."""
    fields = ("tools: Bash, Read",)
    wanted = call("bash", command="rm x")
    report = await spawning(tmp_path, wanted, fields=fields)
    assert "no tool 'bash'" in report.conclusion
    rules = Permissions(("bash(git:*)",))
    report = await spawning(tmp_path, wanted, fields=fields, tools=[bash], permissions=rules)
    assert "[denied by ask bash]" in report.conclusion
    assert ran == []


@pytest.mark.parametrize("grant", ["Bash(a; b)", "Read(~/x)", "Task(explorer)"])
async def test_p6_a_grant_whose_pattern_cannot_be_read_grants_nothing(
    tmp_path: Path, grant: str
) -> None:
    """P6: the stricter side."""
    report = await spawning(
        tmp_path,
        call("ls"),
        fields=(f"tools: LS, {grant}",),
        tools=[bash],
        permissions=Permissions(("bash",)),
    )
    assert "['ls']" in report.conclusion
