"""`outrider agents list|show|check|new`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Limits, Permissions, Request, run
from orchestrator.places import user_agent_folders
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, cli, root

__all__ = ["cli", "root"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without anything of the person who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    return tmp_path / "home"


@pytest.fixture
def team(root: Path) -> Path:
    """A project's folder of definitions: one plain, one to be repaired, one that gives nothing."""
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "plain.md").write_text(
        "---\nname: plain\ndescription: Looks at things.\ntools: Read, Grep, Nonsense\n"
        "model: opus\n---\nLook.\n"
    )
    (folder / "repaired.md").write_text(
        "---\nname: repaired\ndescription: Use it: always\n---\nDo.\n"
    )
    (folder / "bad.md").write_text("---\nname: bad\n---\nNo description.\n")
    return folder


def test_list_shows_the_projects_definitions_before_the_built_in_ones(cli: Cli, team: Path) -> None:
    kinds = json.loads(cli("agents", "list", "--json").out)
    assert [kind["name"] for kind in kinds] == [
        *("plain", "repaired"),
        *("explorer", "general", "reviewer", "writer"),
    ]
    assert kinds[0]["tools"] == ["read_file", "grep"]
    assert kinds[0]["unknown_tools"] == ["Nonsense"]
    assert kinds[0]["model"] == "claude-opus-5-5"
    assert kinds[0]["source"] == ".claude/agents/plain.md"
    shown = cli("agents", "list").out
    assert shown.splitlines()[0].split() == [
        *("name", "model", "window", "prompt", "schemas", "tools", "source", "description"),
    ]
    assert "Looks at things." in shown


def test_list_takes_files_of_the_command_line_first(cli: Cli, root: Path) -> None:
    """D1."""
    (root / "mine.md").write_text("---\nname: explorer\ndescription: Mine.\n---\nMine.\n")
    kinds = json.loads(cli("agents", "list", "mine.md", "--json").out)
    assert kinds[0]["description"] == "Mine."
    assert [k["name"] for k in kinds].count("explorer") == 1


def test_the_settings_denials_and_aliases_hold_in_what_is_shown(cli: Cli, root: Path) -> None:
    """S10: the tool list shown is the tool list granted."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('deny = ["grep"]\n[models]\nopus = "my-opus"\n')
    (root / "x.md").write_text("---\nname: x\ndescription: X.\nmodel: Opus\n---\nX.\n")
    kinds = {k["name"]: k for k in json.loads(cli("agents", "list", "x.md", "--json").out)}
    assert kinds["explorer"]["tools"] == ["ls", "read_file", "glob"]
    assert kinds["x"]["model"] == "my-opus"


def test_what_is_shown_is_what_a_run_grants(cli: Cli, root: Path) -> None:
    """S10: against the log of a real run whose children are explorers."""
    assert cli("run", "look", "--model", "rehearsal", "--quiet").code == 0
    lines = map(
        json.loads, cli("log", "latest", "--event", "agent_started", "--json").out.splitlines()
    )
    granted = {line["agent_type"]: line["tools"] for line in lines}
    shown = {k["name"]: k["tools"] for k in json.loads(cli("agents", "list", "--json").out)}
    assert granted["explorer"] == shown["explorer"]
    # The main agent has what a definition that inherits everything gets, and the memory.
    assert granted["main"] == [*shown["general"], "remember", "update_memory", "forget"]


def test_without_the_background_neither_a_run_nor_what_is_shown_has_its_tools(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the option, the environment, and the settings of the workspace."""

    def of_main(*options: str) -> set[str]:
        assert cli("run", "look", "--model", "rehearsal", "--quiet", *options).code == 0
        lines = cli("log", "latest", "--event", "agent_started", "--json").out.splitlines()
        return {*json.loads(lines[0])["tools"]}

    def of_general() -> set[str]:
        return {*shown(cli, "general")["tools"]}

    both = {"check_task", "cancel_task"}
    assert both < of_main()
    assert both < of_general()
    assert not both & of_main("--no-background")
    (root / ".outrider/config.toml").write_text("background = false\n")
    assert not both & of_main()
    assert not both & of_general()
    assert both < of_main("--background")
    monkeypatch.setenv("OUTRIDER_BACKGROUND", "yes")
    assert both < of_general()


def test_show_has_tools_model_prompt_and_problems(cli: Cli, team: Path) -> None:
    """D6."""
    shown = cli("agents", "show", "Repaired").out
    assert "prompt       1 tokens" in shown
    assert "warning      " in shown
    assert shown.endswith("\n\nDo.\n")
    kind = json.loads(cli("agents", "show", "repaired", "--json").out)
    assert kind["prompt"] == "Do."
    assert [p["severity"] for p in kind["problems"]] == ["warning"]


def test_show_of_an_unknown_name_gives_the_nearest(cli: Cli) -> None:
    ran = cli("agents", "show", "explorr")
    assert ran.code == 2
    assert ran.err.endswith("did you mean explorer?\n")


def test_check_is_exit_code_2_on_errors_and_says_where(cli: Cli, team: Path) -> None:
    """D6, D5: every message reads path:line: key: what – fix."""
    ran = cli("agents", "check")
    assert ran.code == 2
    (error,) = [line for line in ran.out.splitlines() if line.startswith("error: ")]
    path, line, key, _ = error.removeprefix("error: ").split(":", 3)
    assert path == ".claude/agents/bad.md"  # from the root
    assert line.isdecimal()
    assert key.strip() == "description"
    assert ran.out.splitlines()[-1].startswith("6 definitions; 1 error, ")


def test_check_of_single_files_and_strict(cli: Cli, team: Path) -> None:
    """D6: strict turns repairs into errors."""
    repaired = str(team / "repaired.md")
    assert cli("agents", "check", repaired).code == 0
    assert cli("agents", "check", repaired, "--strict").code == 2
    assert cli("agents", "check", "/nope.md").code == 2


def test_check_as_json(cli: Cli, team: Path) -> None:
    found = json.loads(cli("agents", "check", str(team), "--json").out)
    assert found["ok"] is False
    assert [d["name"] for d in found["definitions"]] == ["plain", "repaired"]
    assert {"path", "line", "key", "severity", "message"} == set(found["problems"][0])


def write(path: Path, *fields: str, prompt: str = "Work.") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = f"name: {path.stem}"
    path.write_text("\n".join(["---", name, "description: B.", *fields, "---", prompt, ""]))


def shown(cli: Cli, name: str) -> dict[str, Any]:
    kind: dict[str, Any] = json.loads(cli("agents", "show", name, "--json").out)
    return kind


def test_a_users_own_definitions_come_after_the_projects(cli: Cli, root: Path) -> None:
    """D1: project > user (ours, then Claude Code's) > built-in."""
    ours, claudes = user_agent_folders()
    write(root / ".claude/agents/a.md")
    for name in ("a", "b", "explorer"):
        write(ours / f"{name}.md", "model: opus")
    write(claudes / "b.md")
    write(claudes / "c.md")
    sources = {k["name"]: k["source"] for k in json.loads(cli("agents", "list", "--json").out)}
    assert sources["a"] == ".claude/agents/a.md"
    assert (sources["b"], sources["explorer"]) == (str(ours / "b.md"), str(ours / "explorer.md"))
    assert sources["c"] == str(claudes / "c.md")
    hidden = [line for line in cli("agents", "check").out.splitlines() if "is hidden by" in line]
    assert len(hidden) == 3
    assert cli("doctor").out.count("definitions, 3 problems") == 1
    said = cli("run", "look", "--model", "rehearsal").err
    assert f"{ours / 'a.md'}:1: name: 'a' of {ours / 'a.md'} is hidden by" in said


def test_the_window_is_that_of_the_model_behind_the_alias(cli: Cli, root: Path) -> None:
    """D6, E4, S12: also of a model of the settings, at most the one that is set, and a guess is one."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('[models]\nsmall = "claude-3-haiku-20240307"\n')
    write(root / ".outrider/agents/a.md", "model: small")
    write(root / ".outrider/agents/b.md", "model: who-knows-this")
    write(root / ".outrider/agents/c.md", "model: [nobodys, small]")
    assert (shown(cli, "a")["window_tokens"], shown(cli, "a")["window_known"]) == (200_000, True)
    assert (shown(cli, "b")["window_tokens"], shown(cli, "b")["window_known"]) == (32_000, False)
    assert "window       32,000 tokens (a guess" in cli("agents", "show", "b").out
    assert shown(cli, "c")["model"] == "claude-3-haiku-20240307"


def test_the_rehearsal_overrides_the_models_that_definitions_name(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S11."""
    write(root / ".outrider/agents/a.md", "model: opus")
    monkeypatch.setenv("OUTRIDER_MODEL", "rehearsal")
    assert shown(cli, "a")["model"] == "rehearsal"


@pytest.mark.asyncio
async def test_sizes_are_those_of_a_real_request(cli: Cli, root: Path) -> None:
    """D6: prompt size and schema cost in tokens: a quarter of the bytes that are sent."""
    write(root / ".outrider/agents/a.md", "tools: Read, Write, Task", prompt="Wörk. " * 50)
    seen: dict[str, Request] = {}

    def script(request: Request) -> Any:
        seen.setdefault(request.agent_type, request)
        if request.agent_type == "main" and not results(request):
            return [call("task", prompt="x", subagent_type="a")]
        return "done"

    await run("x", model=ScriptedModel(script), root=root)
    kind = shown(cli, "a")
    sent = seen["a"].tools
    assert [tool["name"] for tool in sent] == kind["tools"]
    sizes = [len(json.dumps(tool, ensure_ascii=False).encode()) for tool in sent]
    assert kind["schema_tokens"] == sum(-(-size // 4) for size in sizes)
    assert kind["prompt_tokens"] == -(-len(("Wörk. " * 50).strip().encode()) // 4)


def test_tools_of_ones_own_are_named_but_not_measured(cli: Cli, root: Path) -> None:
    """Looking at a project runs none of its code."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('tools = ["no_such_module:count"]\n')
    kind = shown(cli, "general")
    assert kind["tools"][-1] == "count"
    assert kind["unmeasured_tools"] == ["count"]
    assert "tokens, without count" in cli("agents", "show", "general").out


def test_limits_are_those_that_hold(cli: Cli, root: Path) -> None:
    """S7: the less of what the run and the definition say; context settings are the definition's."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text("max_turns = 50\nmax_cost = 3\n")
    write(
        root / ".outrider/agents/a.md",
        *("max_turns: 80", "max_cost: 0.5", "max_seconds: 60", "offload_at: 9000"),
        *("compact_at: 0.5", "can_spawn: [explorer]", "effort: high"),
        "permissions: {deny: [read(secret/**)]}",
        "returns: {verdict: [good, bad]}",
    )
    kind = shown(cli, "a")
    assert kind["limits"] == {
        "max_turns": 50,
        "max_tokens": None,
        "max_seconds": 60,
        "max_cost": 0.5,
        "conclusion_tokens": 2_000,
        "offload_at": 9_000,
        "compact_at": 0.5,
    }
    assert (kind["can_spawn"], kind["effort"]) == (["explorer"], "high")
    assert kind["denied"] == ["read(secret/**)"]
    assert kind["returns"]["properties"] == {"verdict": {"enum": ["good", "bad"]}}
    page = cli("agents", "show", "a").out
    assert (
        "limits       max_turns 50, max_seconds 60, max_cost 0.5, conclusion_tokens 2,000" in page
    )
    for line in ("spawns       explorer", "denied       read(secret/**)", 'returns      {"type"'):
        assert line in page
    assert shown(cli, "explorer")["can_spawn"] is False


@pytest.mark.parametrize(
    ("settings", "field"), [("depth = 1", "todos: true"), ("", "can_spawn: false")]
)
def test_where_it_may_start_none_the_tools_for_it_are_not_shown(
    cli: Cli, root: Path, settings: str, field: str
) -> None:
    """S10."""
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text(settings)
    write(root / ".outrider/agents/a.md", field)
    kind = shown(cli, "a")
    assert not {"task", "check_task", "cancel_task", "ask_task"} & set(kind["tools"])
    assert kind["can_spawn"] is False


def test_a_schema_that_cannot_be_used_is_an_error_with_its_line(cli: Cli, root: Path) -> None:
    """S6, D6."""
    write(root / ".outrider/agents/a.md", "returns: {verdict: thing}")
    ran = cli("agents", "check")
    assert ran.code == 2
    assert ran.out.startswith(
        "error: .outrider/agents/a.md:4: returns: is no usable JSON Schema: Unknown type – write "
    )


def test_strict_holds_for_list_and_show_too(cli: Cli, team: Path) -> None:
    """D6."""
    assert cli("agents", "list").code == 0
    assert cli("agents", "list", "--strict").code == 2
    assert cli("agents", "show", "repaired").code == 0
    assert cli("agents", "show", "repaired", "--strict").code == 2
    assert cli("agents", "show", "plain", "--strict").code == 0


def test_paths_are_shown_from_the_root_wherever_one_stands(
    cli: Cli, team: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5."""
    monkeypatch.chdir(root.parent)
    out = cli("agents", "check", "ws/.claude/agents", "--root", "ws").out
    assert "error: .claude/agents/bad.md:1: description: " in out
    monkeypatch.chdir(root / "alpha")
    sources = [k["source"] for k in json.loads(cli("agents", "list", "--root", "..", "--json").out)]
    assert sources[0] == ".claude/agents/plain.md"
    assert sources[-1] == "built-in:writer"


# ── new ──


def test_new_writes_a_file_that_loads_without_a_problem(cli: Cli, root: Path) -> None:
    """And that is in force at once."""
    ran = cli("agents", "new", "log-reader")
    assert (ran.code, ran.out) == (0, ".outrider/agents/log-reader.md\n")
    assert ran.err.startswith("outrider: edit it, then: outrider agents check; ")
    assert cli("agents", "check", ".outrider/agents", "--strict").out.endswith("no problems\n")
    assert shown(cli, "log-reader")["tools"] == ["ls", "read_file", "glob", "grep"]


def test_new_without_a_name_takes_one(cli: Cli, root: Path) -> None:
    made = json.loads(cli("agents", "new", "--json").out)
    assert made == {"schema": 1, "path": ".outrider/agents/my-agent.md", "name": "my-agent"}


def test_new_takes_a_path_and_another_root(cli: Cli, root: Path) -> None:
    assert cli("agents", "new", "team/deep/a").out == "team/deep/a.md\n"
    assert cli("agents", "new", "b.agent.md").out == "b.agent.md\n"
    assert cli("agents", "check", "team", "b.agent.md").out.endswith("2 definitions; no problems\n")
    assert cli("agents", "new", "c", "--root", "alpha").out == "alpha/.outrider/agents/c.md\n"


def test_new_overwrites_nothing(cli: Cli, root: Path) -> None:
    cli("agents", "new", "a")
    (root / ".outrider/agents/a.md").write_text("mine")
    ran = cli("agents", "new", "a")
    assert ran.code == 2
    assert "is there already" in ran.err
    assert (root / ".outrider/agents/a.md").read_text() == "mine"


@pytest.mark.parametrize(
    "given", ["", ".", "..", "a/", "x/..", "a:b", "team/a.toml", "README", "\n"]
)
def test_new_refuses_what_makes_no_definition(cli: Cli, root: Path, given: str) -> None:
    before = sorted(root.rglob("*"))
    ran = cli("agents", "new", given)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert sorted(root.rglob("*")) == before


def test_new_says_which_definition_it_hides(cli: Cli, root: Path) -> None:
    """D1."""
    ran = cli("agents", "new", "explorer")
    assert ran.code == 0
    assert "is hidden by .outrider/agents/explorer.md" in ran.err


def test_what_definitions_say_cannot_steer_the_terminal(cli: Cli, root: Path) -> None:
    (root / "evil.md").write_text(
        '---\nname: evil\ndescription: "x\\e[2Jy"\n---\nPrompt \x1b]0;title\x07here.\n'
    )
    for command in (["list", "evil.md"], ["show", "evil", "evil.md"], ["check", "evil.md"]):
        assert not set("\x1b\x07") & set(cli("agents", *command).out)


@pytest.mark.asyncio
async def test_where_descriptions_are_shortened_their_full_text_is_a_tool(
    cli: Cli, root: Path
) -> None:
    """S14, S10: and only there; it is shown as it is granted."""
    assert "describe_subagent" not in shown(cli, "general")["tools"]
    for number in range(40):
        file = root / f".outrider/agents/kind-{number}.md"
        write(file, "model: [unknown, opus]")
        file.write_text(file.read_text().replace("B.", "Looks after one thing. " * 30))
    answers: list[str] = []

    def script(request: Request) -> Any:
        if not results(request):
            return [call("describe_subagent", name="Kind-7")]
        answers.append(results(request)[0])
        return "done"

    await run("x", model=ScriptedModel(script), root=root)
    assert answers[0].startswith("kind-7\nLooks after one thing.")
    assert "model: claude-opus-5-5" in answers[0]
    assert "describe_subagent" in shown(cli, "general")["tools"]


@pytest.mark.asyncio
async def test_the_full_text_names_each_tool_as_far_as_it_is_granted(root: Path) -> None:
    """S10: with its pattern, without what no pattern of it can be read, what its fields take away, and
    what so deep in the tree nobody has."""
    write(
        root / ".outrider/agents/builder.md",
        "tools: Bash(git:*), Bash(make:*), Read(src/**), Write(~/x), write_todos, task\ntodos: no",
    )
    write(root / ".outrider/agents/long.md", "can_spawn: no")
    file = root / ".outrider/agents/long.md"
    file.write_text(file.read_text().replace("B.", "Looks after one thing. " * 400))
    answers: list[str] = []

    def script(request: Request) -> Any:
        if not results(request):
            return [call("describe_subagent", name=name) for name in ("builder", "long")]
        answers.extend(results(request))
        return "done"

    await run(
        "x",
        model=ScriptedModel(script),
        root=root,
        permissions=Permissions(allow=("bash",)),
        sandbox=False,
        limits=Limits(depth=1),
    )
    told, other = answers
    assert "tools: read_file(src/**), bash(git:*), bash(make:*)" in told.splitlines()
    assert "ls, read_file, " in other
    assert "task" not in other.partition("tools: ")[2]


def test_a_grant_with_a_pattern_is_shown_with_it(cli: Cli, root: Path) -> None:
    """S10: what is shown is what is granted, a pattern that cannot be read being nothing."""
    write(root / ".outrider/agents/a.md", "tools: Read(src/**), Grep, Write(~/x)")
    kind = shown(cli, "a")
    assert (kind["tools"], kind["bounds"]) == (
        ["read_file", "grep"],
        {"read_file": ["src/**"]},
    )
    assert "tools        read_file(src/**), grep\n" in cli("agents", "show", "a").out
