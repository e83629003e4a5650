"""The fixed prefix, which is part of every request, stays small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Limits, Permissions, Request, resume, run
from orchestrator.context.estimate import Estimator
from orchestrator.messages import encode
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.asyncio


def tokens(value: Any) -> float:
    """The larger of UTF-8 bytes of the JSON / 4 and of what Outrider itself expects before a first report."""
    return max(
        Estimator().tokens(len(encode(value))),
        len(json.dumps(value, ensure_ascii=False).encode()) / 4,
    )


async def first_requests(root: Path, kind: str, **options: Any) -> dict[str, Request]:
    seen: dict[str, Request] = {}

    def script(request: Request) -> Any:
        seen.setdefault(request.agent_type, request)
        if request.agent_type == "main" and not results(request):
            return [call("task", prompt="x", subagent_type=kind)]
        return "done"

    await run("x", model=ScriptedModel(script), root=root, **options)
    return seen


def prefix(request: Request, *, listing: bool = True) -> float:
    system = [{k: v for k, v in block.items() if k != "cache_control"} for block in request.system]
    if not listing:
        text = system[0]["text"]
        begin = text.index("Kinds of subagents")
        system[0]["text"] = text[:begin] + text[text.index("Workspace:", begin) :]
    return tokens(system) + tokens(list(request.tools))


async def test_the_main_agents_prefix_is_at_most_1500_tokens(tmp_path: Path) -> None:
    """With all tools; the listing of subagents apart."""
    seen = await first_requests(tmp_path, "explorer")
    assert prefix(seen["main"], listing=False) <= 1_500


FIXED = ("ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep")
PLAN_AND_CHILDREN = ("write_todos", "task", "ask_task")
EVERYTHING = {
    *(*FIXED, *PLAN_AND_CHILDREN, "bash", "fetch", "check_task", "cancel_task"),
    *("remember", "update_memory", "forget", "skill", "describe_subagent"),
}


@pytest.mark.parametrize("network", [True, False], ids=["network", "no network"])
@pytest.mark.parametrize("sandbox", [True, False], ids=["sandbox", "no sandbox"])
async def test_with_everything_on_it_is_at_most_2000_tokens(
    tmp_path: Path, sandbox: bool, network: bool
) -> None:
    """Shell, web, memory, skills, background, and a listing too long for its room; listings apart."""
    for path, text in (
        (".claude/skills/x/SKILL.md", "---\nname: x\ndescription: For x.\n---\nx"),
        (".claude/agents/y.md", f"---\nname: y\ndescription: {'Words. ' * 2_000}\n---\ny"),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    allowed = Permissions(allow=("bash", "fetch"))
    seen = await first_requests(
        tmp_path,
        "explorer",
        permissions=allowed,
        sandbox=sandbox,
        network=network,
        memory=True,
        background=True,
    )
    main = seen["main"]
    assert names(main) == EVERYTHING
    assert "background" in arguments(main, "bash")
    assert "background" in arguments(main, "task")
    assert prefix(main, listing=False) <= 2_000


NOTHING_ON: dict[str, Any] = {"memory": False, "background": False}


def names(request: Request) -> set[str]:
    return {t["name"] for t in request.tools}


def arguments(request: Request, tool: str) -> set[str]:
    schema = next(t["input_schema"] for t in request.tools if t["name"] == tool)
    return {*schema["properties"]}


async def test_with_nothing_on_it_is_at_most_1250_tokens(tmp_path: Path) -> None:
    """Files, plan and subagents: no word of memory, background, shell or web."""
    main = (await first_requests(tmp_path, "explorer", **NOTHING_ON))["main"]
    assert names(main) == {*FIXED, *PLAN_AND_CHILDREN}
    assert "background" not in json.dumps([main.system, main.tools])
    assert prefix(main, listing=False) <= 1_250


@pytest.mark.parametrize(
    ("switch", "brings"),
    [
        ({"memory": True}, {"remember", "update_memory", "forget"}),
        ({"background": True}, {"check_task", "cancel_task"}),
        ({"permissions": Permissions(allow=("fetch",))}, {"fetch"}),
        ({"permissions": Permissions(ask=("bash(make:*)",))}, {"bash"}),
    ],
    ids=["memory", "background", "fetch", "shell"],
)
async def test_each_of_these_tools_is_there_only_when_the_run_enables_it(
    tmp_path: Path, switch: dict[str, Any], brings: set[str]
) -> None:
    off = (await first_requests(tmp_path, "general", **NOTHING_ON))["main"]
    on = await first_requests(tmp_path, "general", sandbox=False, **{**NOTHING_ON, **switch})
    assert names(on["main"]) - names(off) == brings
    assert names(off) - names(on["main"]) == set()
    assert not [tool for tool in brings if tool in json.dumps([off.system, off.tools])]
    # Subagents of a kind that inherits have them too, memory apart, which is each kind's own.
    assert names(on["general"]) - names(off) == (set() if "remember" in brings else brings)
    is_background = "check_task" in brings
    assert ("background" in arguments(on["main"], "task")) == is_background
    if "bash" in brings:
        assert "background" not in arguments(on["main"], "bash")


async def test_what_is_off_says_how_it_is_enabled(tmp_path: Path) -> None:
    """A model that was trained on such tools calls them all the same."""
    calls = [
        call("task", prompt="x", background=True),
        call("task", prompt="x", background=False),
        call("check_task", agent_id="x"),
        call("cancel_task", agent_id="x"),
        call("remember", text="x"),
        call("bash", command="make", background=True),
        call("fetch", url="https://example.org/"),
        call("nothing_at_all"),
    ]
    answers: list[str] = []

    def script(request: Request) -> Any:
        if request.agent_type == "main" and not results(request):
            return calls
        answers.extend(results(request))
        return "done"

    allowed = Permissions(allow=("bash",))
    model = ScriptedModel(script)
    await run("x", model=model, root=tmp_path, permissions=allowed, sandbox=False, **NOTHING_ON)
    begun, waited, check, cancel, remember, bash, fetch, nothing = answers
    assert (
        begun
        == bash
        == (
            "[error] nothing runs in the background in this run: leave background out (the user can "
            "enable it: --background)"
        )
    )
    assert waited.startswith("[general general-")
    for answer, name, how in (
        (check, "check_task", "--background"),
        (cancel, "cancel_task", "--background"),
        (remember, "remember", "--memory"),
        (fetch, "fetch", "--allow fetch"),
    ):
        off = f"[error] no tool '{name}': it is off in this run (the user can enable it: {how}). Tools"
        assert answer.startswith(off)
    assert nothing.startswith("[error] no tool 'nothing_at_all'. Tools: ls, ")


async def test_a_run_that_is_resumed_has_what_it_had(tmp_path: Path) -> None:
    """A switch is kept with the run."""
    seen: list[Request] = []

    def script(request: Request) -> Any:
        seen.append(request)
        return [call("ls")] if len(seen) == 1 else "done"

    model, first = ScriptedModel(script), Limits(max_turns=1)
    report = await run("x", model=model, root=tmp_path, limits=first, **NOTHING_ON)
    await resume(report.run_id, model=model, root=tmp_path, limits={"max_turns": 5})
    assert [r.tools for r in seen] == [seen[0].tools] * len(seen)
    assert len(seen) >= 3
    assert "check_task" not in names(seen[0])


async def test_what_is_denied_is_not_said_to_be_a_matter_of_a_switch(tmp_path: Path) -> None:
    answers: list[str] = []

    def script(request: Request) -> Any:
        if not results(request):
            return [call("bash", command="ls"), call("check_task", agent_id="x")]
        answers.extend(results(request))
        return "done"

    denied = Permissions(deny=("bash", "check_task"))
    await run("x", model=ScriptedModel(script), root=tmp_path, permissions=denied, **NOTHING_ON)
    assert [a.partition(". Tools")[0] for a in answers] == [
        "[error] no tool 'bash'",
        "[error] no tool 'check_task'",
    ]


@pytest.mark.parametrize("kind", ["explorer", "reviewer"])
async def test_a_read_only_subagents_prefix_is_at_most_700_tokens(
    tmp_path: Path, kind: str
) -> None:
    seen = await first_requests(tmp_path, kind)
    assert [t["name"] for t in seen[kind].tools] == ["ls", "read_file", "glob", "grep"]
    assert prefix(seen[kind]) <= 700


async def test_t4_the_plan_costs_at_most_250_tokens(tmp_path: Path) -> None:
    """T4: schema and instructions together."""
    seen = await first_requests(tmp_path, "explorer")
    schema = next(t for t in seen["main"].tools if t["name"] == "write_todos")
    lines = seen["main"].system[0]["text"].splitlines()
    instructions = [line for line in lines if "write_todos" in line]
    assert tokens(schema) + tokens(instructions) <= 250
