"""The `bash` tool in whole runs with a scripted model, under asyncio and trio."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Permissions, Reins, Report, Request, resume, run
from orchestrator.testing import ScriptedModel, call, results
from subagents import FOLDERS
from tests.shells import _known_processes, needs_sandbox, processes

__all__ = ["_known_processes"]
pytestmark = [pytest.mark.anyio, needs_sandbox]


BASH = Permissions(allow=("bash",))


async def go(script: Callable[[Request], Any], root: Path, **options: Any) -> Report:
    given: dict[str, Any] = {"permissions": BASH, **options}
    return await run("do it", model=ScriptedModel(script), root=root, **given)


async def told(root: Path, *calls: dict[str, Any], **options: Any) -> list[str]:
    """What a main agent is told that makes these calls of bash, one after the other."""
    heard: list[str] = []

    def script(request: Request) -> Any:
        heard[:] = results(request)
        return [call("bash", **calls[len(heard)])] if len(heard) < len(calls) else "done"

    report = await go(script, root, **options)
    assert report.status == "finished"
    return heard


def events(root: Path, name: str) -> list[dict[str, Any]]:
    (log,) = root.glob(".outrider/runs/*/log.jsonl")
    return [e for e in map(json.loads, log.read_text().splitlines()) if e["event"] == name]


def stored(root: Path, pattern: str) -> list[str]:
    return [path.read_text() for path in sorted(root.glob(pattern))]


# ── what the model sees ──


async def test_the_shell_is_in_the_prefix_only_when_a_run_enables_it(tmp_path: Path) -> None:
    """And then costs at most 200 tokens."""
    seen: list[Request] = []

    def script(request: Request) -> str:
        seen.append(request)
        return "done"

    await run("x", model=ScriptedModel(script), root=tmp_path)
    await go(script, tmp_path)
    without, with_it = ({t["name"]: t for t in request.tools} for request in seen)
    assert "bash" not in without
    assert set(with_it) - set(without) == {"bash"}
    assert len(json.dumps(with_it["bash"], ensure_ascii=False).encode()) / 4 <= 200
    assert set(with_it["bash"]["input_schema"]["properties"]) == {
        *("command", "timeout", "background"),
    }


async def test_a_result_is_the_output_and_how_the_command_ended(tmp_path: Path) -> None:
    heard = await told(
        tmp_path,
        {"command": "echo hello; echo again >&2"},
        {"command": "printf 'no newline'; exit 3"},
        {"command": "true"},
    )
    assert heard == [
        "hello\nagain\n[exit code 0]",
        "no newline\n[exit code 3]",
        "[exit code 0 · no output]",
    ]
    assert stored(tmp_path, ".outrider/runs/*/agents/*/results/*") == []


async def test_a_large_output_is_offloaded_as_any_other_and_can_be_read_back(
    tmp_path: Path,
) -> None:
    """O1, O2, O3, O10: one character over the limit is stored; the call in the placeholder works."""
    whole = "".join(f"{i}\n" for i in range(1, 20_001))

    def script(request: Request) -> Any:
        got = results(request)
        if not got:
            return [call("bash", command="seq 1 20000")]
        if len(got) == 1:
            path = got[0].split(" ")[1]
            return [
                call("read_file", path=path, offset=19_999),
                call("bash", command=f"wc -l {path}"),
            ]
        return "\n====\n".join(got)

    report = await go(script, tmp_path)
    stub, page, counted = report.conclusion.split("\n====\n")
    assert stub.startswith("[offloaded .outrider/runs/")
    assert f"{len(whole):,} characters, 20,000 lines" in stub
    assert stub.endswith("[exit code 0]")
    assert len(stub) <= 900 + len("\n[exit code 0]")
    assert "19999\n20000\n" in page
    assert counted.startswith("20000 ")
    (event,) = events(tmp_path, "offloaded")
    assert (event["tool"], event["reason"], event["chars"]) == ("bash", "birth", len(whole))
    assert stored(tmp_path, event["path"]) == [whole]


async def test_a_result_exactly_at_the_limit_stays(tmp_path: Path) -> None:
    ending = len("\n[exit code 0]")
    at, over = 5_000 - ending, 5_001 - ending
    heard = await told(
        tmp_path,
        {"command": f"head -c {at} /dev/zero | tr '\\0' x"},
        {"command": f"head -c {over} /dev/zero | tr '\\0' x"},
    )
    assert len(heard[0]) == 5_000
    assert heard[1].startswith("[offloaded ")


async def test_a_refusal_of_the_sandbox_comes_with_the_way_out(tmp_path: Path) -> None:
    heard = await told(
        tmp_path,
        {"command": "getent hosts example.org || { echo Could not resolve host; exit 6; }"},
        {"command": "touch .outrider/config.toml"},
    )
    assert "--network" in heard[0].splitlines()[-1]
    assert "without .outrider/" in heard[1].splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"command": "true", "timeout": 601}, "from 1 to 600"),
        ({"command": "true", "timeout": 0}, "from 1 to 600"),
        ({"command": ""}, "empty"),
        ({"command": "wait %7"}, "no job %7"),
        ({"command": "true", "cwd": "/"}, "cwd: unknown argument"),
    ],
)
async def test_what_cannot_be_run_is_an_error_result(
    tmp_path: Path, arguments: dict[str, Any], why: str
) -> None:
    (heard,) = await told(tmp_path, arguments)
    assert heard.startswith("[error] ")
    assert why in heard


async def test_a_command_is_ended_by_its_time_out_and_says_so(tmp_path: Path) -> None:
    (heard,) = await told(tmp_path, {"command": "echo begun; sleep 300", "timeout": 1})
    assert heard.startswith("begun\n[ended by its time-out")
    assert processes() == 0


async def test_a_command_ends_with_the_agents_time_and_what_it_printed_is_kept(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Any:
        if not results(request):
            return [call("bash", command="echo begun; sleep 300")]
        return f"handed back: {results(request)[0]}"

    report = await go(script, tmp_path, limits=Limits(max_seconds=2))
    assert (report.status, report.reason) == ("partial", "limit:max_seconds")
    assert "begun" in report.conclusion
    assert processes() == 0


async def test_without_bubblewrap_the_shell_is_refused_unless_it_is_allowed_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    (refused,) = await told(tmp_path, {"command": "echo ran"})
    assert refused.startswith("[error] ")
    assert "install bubblewrap" in refused
    assert "--no-sandbox" in refused
    (allowed,) = await told(tmp_path, {"command": "echo ran"}, sandbox=False)
    assert allowed == "ran\n[exit code 0]"


async def test_rules_about_paths_and_commands_hold_in_the_shell(tmp_path: Path) -> None:
    """Words about jobs need no rule of their own: the job was allowed."""
    (tmp_path / ".env").write_text("KEY=secret")
    rules = Permissions(allow=("bash(cat:*)", "bash(sleep:*)"), deny=("read(.env)",))
    heard = await told(
        tmp_path,
        {"command": "cat .env"},
        {"command": "cat /etc/hostname; id"},
        {"command": "sleep 300", "background": True},
        {"command": "kill %1"},
        permissions=rules,
    )
    assert "secret" not in heard[0]
    assert heard[0].endswith("[exit code 1 · what a read(…) rule denies cannot be opened here]")
    assert heard[1].startswith("[denied by ")
    assert heard[3].startswith("[%1 ended by kill")


async def test_where_rules_allow_some_paths_the_shell_sees_no_others(tmp_path: Path) -> None:
    for name in ("src/main.py", "other/notes.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    rules = Permissions(allow=("bash", "read(src/**)", "write(src/new/**)"))
    (heard,) = await told(
        tmp_path,
        {"command": "cat src/main.py; echo; cat other/notes.md; ls other; touch src/x; echo end"},
        permissions=rules,
    )
    assert heard.startswith("src/main.py\n")
    assert "other/notes.md: Permission denied" in heard
    assert "other': Permission denied" in heard
    assert not (tmp_path / "src/x").exists()


# ── jobs ──


async def test_jobs_are_listed_waited_for_and_ended_by_the_shells_own_words(
    tmp_path: Path,
) -> None:
    heard = await told(
        tmp_path,
        {"command": "jobs"},
        {"command": "until [ -e go ]; do sleep 0.05; done; echo over; exit 4", "background": True},
        {"command": "echo on; sleep 300", "background": True},
        {"command": "jobs"},
        {"command": "wait %1", "timeout": 1},
        {"command": "touch go"},
        {"command": "wait %1"},
        {"command": "wait %1"},
        {"command": "kill %2"},
        {"command": "jobs"},
    )
    assert heard[0] == "[no command is in the background]"
    assert heard[1].startswith("[%1 started · output so far: .outrider/runs/")
    assert "[%1 running for" in heard[3]
    assert "[%2 running for" in heard[3]
    assert heard[4].startswith("[%1 running for")
    assert heard[6] == heard[7] == "over\n[exit code 4]"
    assert heard[8].startswith("[%2 ended by kill")
    assert "[%1 exit code 4" in heard[9]
    assert processes() == 0


async def test_what_a_job_has_printed_so_far_can_be_read_and_stays(tmp_path: Path) -> None:
    async def script(request: Request) -> Any:
        got = results(request)
        if not got:
            return [call("bash", command="echo so far; sleep 300", background=True)]
        path = got[0].split("output so far: ")[1].split(" ")[0]
        file = tmp_path / path
        with anyio.fail_after(30):
            while not file.read_text():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return [call("read_file", path=path)] if len(got) == 1 else got[1]

    report = await go(script, tmp_path)
    assert report.conclusion.endswith("]\nso far")
    assert processes() == 0


def child_of_bash(root: Path, text: str = "tools: Bash, Read") -> None:
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "worker.md").write_text(
        f"---\nname: worker\ndescription: Works.\n{text}\n---\nWork.\n"
    )
    (folder / "reader.md").write_text(
        "---\nname: reader\ndescription: Reads.\ntools: Read\n---\nRead.\n"
    )


async def test_children_have_the_shell_by_their_grants_and_never_beyond_the_parent(
    tmp_path: Path,
) -> None:
    child_of_bash(tmp_path)
    offered: dict[str, bool] = {}

    def script(request: Request) -> Any:
        offered[request.agent_type] = any(t["name"] == "bash" for t in request.tools)
        if request.agent_type == "main" and not results(request):
            return [call("task", prompt="x", subagent_type=kind) for kind in ("worker", "reader")]
        return "done"

    await go(script, tmp_path)
    assert offered == {"main": True, "worker": True, "reader": False}
    offered.clear()
    await run("x", model=ScriptedModel(script), root=tmp_path)
    assert offered == {"main": False, "worker": False, "reader": False}


async def test_a_childs_jobs_end_with_it_and_its_results_are_its_parents_to_read(
    tmp_path: Path,
) -> None:
    """L8: by the shell too; and a sibling's are not."""
    child_of_bash(tmp_path)
    left: list[int] = []

    def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "worker":
            if not got:
                return [call("bash", command="sleep 300", background=True)]
            if len(got) == 1:
                return [call("bash", command="seq 1 5000; ls .outrider/runs/*/agents")]
            return got[1]
        if not got:
            return [call("task", prompt=str(n), subagent_type="worker") for n in range(2)]
        if len(got) == 2:
            left.append(processes())
            return [call("bash", command="head -qn 1 .outrider/runs/*/agents/*/results/*-bash.txt")]
        return got[2]

    report = await go(script, tmp_path)
    assert left == [0]
    assert report.conclusion == "1\n1\n[exit code 0]"
    found = stored(tmp_path, ".outrider/runs/*/agents/*/results/*-bash.txt")
    texts = [text for text in found if text.startswith("1\n")]
    assert len(texts) == 2
    # Each child saw one folder there: its own.
    assert all(len(text.split("5000\n")[1].split()) == 1 for text in texts)


async def test_a_cancelled_childs_commands_end_with_it(tmp_path: Path) -> None:
    child_of_bash(tmp_path)

    async def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "worker":
            if got:
                return [call("bash", command="touch up; setsid sleep 300")]
            return [call("bash", command="sleep 300", background=True)]
        if not got:
            return [call("task", prompt="x", subagent_type="worker", background=True)]
        if len(got) == 1:
            with anyio.fail_after(60):
                while not (tmp_path / "up").exists():  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            assert processes() > 0
            return [call("cancel_task", agent_id=got[0].split(" ")[1])]
        return f"left: {processes()}"

    report = await go(script, tmp_path)
    assert report.conclusion == "left: 0"


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    def script(request: Request) -> Any:
        if results(request):
            return [call("bash", command="touch up; setsid sleep 300 & sleep 300")]
        return [call("bash", command="sleep 300", background=True)]

    async with anyio.create_task_group() as group:
        group.start_soon(go, script, tmp_path)
        with anyio.fail_after(60):
            while not (tmp_path / "up").exists():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert processes() > 0
        group.cancel_scope.cancel()
    assert processes() == 0


async def test_a_command_that_was_under_way_is_not_run_again_by_a_resumed_run(
    tmp_path: Path,
) -> None:
    """The agent is told that it may have had effects."""

    def script(request: Request) -> Any:
        got = results(request)
        if got:
            return got[0]
        return [call("bash", command="echo x >> started; sleep 300")]

    async with anyio.create_task_group() as group:
        group.start_soon(go, script, tmp_path)
        with anyio.fail_after(60):
            while not (tmp_path / "started").exists():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    report = await resume("latest", root=tmp_path, model=ScriptedModel(script))
    assert report.status == "finished"
    assert "interrupted" in report.conclusion
    assert stored(tmp_path, "started") == ["x\n"]


async def test_a_command_cannot_steer_its_own_run(tmp_path: Path) -> None:
    """The socket by which questions are answered and limits raised is not there; without the sandbox
    it is, since a command may then do what its user may."""
    look = {"command": "find . -type s; echo looked"}
    (heard,) = await told(tmp_path, look, reins=Reins(socket=True))
    assert heard == "looked\n[exit code 0]"
    (heard,) = await told(tmp_path, look, reins=Reins(socket=True), sandbox=False)
    assert heard.endswith("/steer.sock\nlooked\n[exit code 0]")


# ── what says how agents work ──

TAMPERING = (
    "echo evil >> .claude/agents/worker.md",
    "echo evil > .claude/agents/new.md",
    "rm -rf .claude/agents .mcp.json",
    "mv .claude gone",
    "mv .claude/agents gone",
    "echo '{}' > .claude/settings.json",
    "ln -sf /dev/null .mcp.json",
    "echo evil > .mcp.json",
    "echo evil > team/mine.md",
    "mv team gone",
    "sed -i s/d/e/ team/mine.md",
    "echo 'allow = []' > .outrider/config.toml",
    "echo evil > .outrider/agents/new.md",
)


def govern(root: Path) -> dict[str, bytes]:
    """Files that say how agents work; and everything that is in the workspace now."""
    head = "---\nname: {}\ndescription: d\n---\nx"
    for name in (".claude/agents/worker.md", "team/mine.md", ".outrider/agents/own.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(head.format(Path(name).stem))
    for name in (".claude/settings.json", ".mcp.json", ".outrider/config.toml"):
        (root / name).write_text("")
    return everything(root)


def everything(root: Path) -> dict[str, bytes]:
    files = (p for p in root.rglob("*") if p.is_file() and "runs" not in p.parts)
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


@pytest.mark.parametrize("rules", [BASH, Permissions(("bash",), deny=("read(secret/**)",))])
async def test_no_command_changes_settings_definitions_or_servers(
    tmp_path: Path, rules: Permissions
) -> None:
    """Nor moves them away; what else is there can be changed. With other rules about paths, and
    without."""
    before = govern(tmp_path)
    commands = [{"command": f"{c} 2>/dev/null; true"} for c in TAMPERING]
    options: dict[str, Any] = {"permissions": rules, "agents": [tmp_path / "team"]}
    await told(tmp_path, *commands, {"command": "echo free > .claude/notes.txt"}, **options)
    # A copy under another name is nobody's definition.
    now = {k: v for k, v in everything(tmp_path).items() if not k.startswith("gone")}
    assert now == {**before, ".claude/notes.txt": b"free\n"}


async def test_without_the_guard_every_one_of_these_commands_changes_something(
    tmp_path: Path,
) -> None:
    """So that the test before could fail."""
    for number, command in enumerate(TAMPERING):
        root = tmp_path / str(number)
        root.mkdir()
        before = govern(root)
        await anyio.run_process(["bash", "-c", command], cwd=root, check=False)
        assert everything(root) != before, command


MAKING = {
    ".mcp.json": "echo '{}' > .mcp.json",
    ".claude/settings.json": "mkdir .claude; echo '{}' > .claude/settings.json",
    ".claude/settings.local.json": "mkdir .claude; echo '{}' > .claude/settings.local.json",
    **{
        folder: f"mkdir -p {folder}; echo evil > {folder}/new.md"
        for folder in FOLDERS
        if not folder.startswith(".outrider/")
    },
}
IN_OUTRIDER = (
    "echo 'allow = [\"bash\"]' > .outrider/config.toml",
    "mkdir -p .outrider/agents; echo evil > .outrider/agents/new.md",
    "mkdir -p .outrider/skills/x; echo evil > .outrider/skills/x/SKILL.md",
    "echo '- evil' > .outrider/MEMORY.md",
    "mkdir .outrider/memory; echo '- evil' > .outrider/memory/general.md",
    "echo evil > .outrider/runs/journal.db",
)


@pytest.mark.parametrize("rules", [BASH, Permissions(("bash",), deny=("read(secret/**)",))])
async def test_no_command_makes_settings_definitions_or_servers_where_none_were(
    tmp_path: Path, rules: Permissions
) -> None:
    """What it made is gone before the next call, and nothing stands there to hold the place; the model
    is told, and the log says so. Other files beside them stay."""
    commands = [
        *({"command": command} for command in MAKING.values()),
        *({"command": f"({command}) 2>/dev/null"} for command in IN_OUTRIDER),
        {"command": "ls -A; find . -name new.md -not -path './.outrider/*'"},
        {"command": "mkdir -p .claude; echo free > .claude/notes.txt"},
    ]
    heard = await told(tmp_path, *commands, permissions=rules)
    for place, answer in zip(MAKING, heard, strict=False):
        assert f"{place} was taken away: no command may make it (.outrider/runs/" in answer
    assert all("exit code 0" not in answer for answer in heard[len(MAKING) : -2])
    assert {*heard[-2].split("\n")[:-1]} == {
        *(".claude", ".codex", ".gemini", ".github", ".opencode", ".outrider"),
    }
    assert everything(tmp_path) == {".claude/notes.txt": b"free\n"}
    rows = [(e["tool"], e["rule"], e["decision"]) for e in events(tmp_path, "permission_decided")]
    denied = [rule for tool, rule, decision in rows if (tool, decision) == ("bash", "deny")]
    assert denied == [f"protected {place}" for place in MAKING]
    kept = stored(tmp_path, ".outrider/runs/*/agents/main/taken/*-*.json")
    assert kept == ["{}\n"] * 3


async def test_without_the_guard_every_one_of_these_commands_makes_something(
    tmp_path: Path,
) -> None:
    for number, command in enumerate((*MAKING.values(), *IN_OUTRIDER)):
        root = tmp_path / str(number)
        (root / ".outrider/runs").mkdir(parents=True)
        await anyio.run_process(["bash", "-c", command], cwd=root)
        found = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
        assert found, command


async def test_what_a_job_made_is_said_with_its_end_and_logged_once(tmp_path: Path) -> None:
    heard = await told(
        tmp_path,
        {"command": "echo '{}' > .mcp.json", "background": True},
        {"command": "wait %1"},
        {"command": "wait %1"},
    )
    assert heard[1] == heard[2]
    assert ".mcp.json was taken away" in heard[1]
    denied = [e for e in events(tmp_path, "permission_decided") if e["decision"] == "deny"]
    assert [e["rule"] for e in denied] == ["protected .mcp.json"]


def taken(root: Path) -> list[tuple[str, str]]:
    """What the log says was taken away: by which rule, and what lies there now."""
    denied = [e for e in events(root, "permission_decided") if e["decision"] == "deny"]
    return sorted((e["rule"], (root / e["kept"]).read_text()) for e in denied)


MAKES = "echo '{}' > .mcp.json; mkdir up; setsid sleep 300 & sleep 300"
MADE = [("protected .mcp.json", "{}\n")]


async def come(path: Path) -> None:
    with anyio.fail_after(60):
        while not path.exists():  # noqa: ASYNC110, ASYNC240
            await anyio.sleep(0.02)


async def test_what_a_job_made_that_is_killed_is_said_and_logged(tmp_path: Path) -> None:
    async def script(request: Request) -> Any:
        match results(request):
            case []:
                return [call("bash", command=MAKES, background=True)]
            case [_]:
                await come(tmp_path / "up")
                return [call("bash", command="kill %1")]
            case [_, killed]:
                return killed

    report = await go(script, tmp_path)
    assert report.conclusion.startswith("[%1 ended by kill · .mcp.json was taken away: ")
    assert taken(tmp_path) == MADE


@pytest.mark.parametrize("background", [True, False])
async def test_what_a_command_of_a_cancelled_run_made_is_logged(
    tmp_path: Path, background: bool
) -> None:
    """Nobody gets a result that could say so."""

    def script(request: Request) -> Any:
        done = results(request)
        return [call("ask_me")] if done else [call("bash", command=MAKES, background=background)]

    async def ask_me() -> str:
        """Wait."""
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as group:
        group.start_soon(partial(go, script, tmp_path, tools=[ask_me]))
        await come(tmp_path / "up")
        group.cancel_scope.cancel()
    assert not (tmp_path / ".mcp.json").exists()
    assert taken(tmp_path) == MADE


async def test_what_a_command_of_a_cancelled_child_made_is_logged_as_the_childs(
    tmp_path: Path,
) -> None:
    child_of_bash(tmp_path)

    async def script(request: Request) -> Any:
        got = results(request)
        if request.agent_type == "worker":
            return [call("bash", command=MAKES)]
        if not got:
            return [call("task", prompt="x", subagent_type="worker", background=True)]
        if len(got) == 1:
            await come(tmp_path / "up")
            return [call("cancel_task", agent_id=got[0].split(" ")[1])]
        return "done"

    await go(script, tmp_path)
    assert taken(tmp_path) == MADE
    (event,) = [e for e in events(tmp_path, "permission_decided") if e["decision"] == "deny"]
    assert event["agent_type"] == "worker"


async def test_a_rule_that_names_the_place_lets_a_command_write_there(tmp_path: Path) -> None:
    rules = Permissions(("bash", "write(**)", "write(.claude/agents/**)"))
    commands = [
        {"command": "mkdir -p .claude/agents; echo mine > .claude/agents/mine.md"},
        {"command": "echo more >> .claude/agents/mine.md; echo '{}' > .mcp.json"},
    ]
    await told(tmp_path, *commands, permissions=rules)
    assert everything(tmp_path) == {".claude/agents/mine.md": b"mine\nmore\n"}
