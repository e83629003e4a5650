"""What a definition sets for its agents: time, effort, memory, permissions, limits, who it may spawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import ConfigError, Limits, ModelFacts, Permissions, Report, Request, run
from orchestrator.errors import UnknownModel
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio


def define(root: Path, name: str, *fields: str, prompt: str = "You work.") -> None:
    folder = root / ".outrider/agents"
    folder.mkdir(parents=True, exist_ok=True)
    head = "\n".join(["---", f"name: {name}", "description: Works.", *fields, "---"])
    (folder / f"{name}.md").write_text(f"{head}\n{prompt}\n")


async def spawn(root: Path, child: Any, *fields: str, **options: Any) -> Report:
    """Main starts one ``worker`` and ends with its result."""
    define(root, "worker", *fields)

    async def script(request: Request) -> Any:
        if request.agent_type == "main":
            if results(request):
                return results(request)[0]
            return [call("task", prompt="work", subagent_type="worker")]
        made = child(request)
        return await made if hasattr(made, "__await__") else made

    return await run("go", model=ScriptedModel(script), root=root, **options)


async def test_s7_max_seconds_ends_a_child_and_not_its_parent(tmp_path: Path) -> None:
    """S7, S13: timed out alone; it hands back what it has."""

    async def child(request: Request) -> Any:
        if request.purpose == "handback":
            return "half"
        await anyio.sleep_forever()

    report = await spawn(tmp_path, child, "max_seconds: 0.2")
    row = report.agents[1]
    assert (report.status, row.status, row.reason) == ("finished", "partial", "limit:max_seconds")
    assert "half" in report.conclusion


async def test_s7_max_tokens_and_max_turns_are_the_childs_own(tmp_path: Path) -> None:
    """S7"""

    def child(request: Request) -> Any:
        return "what I have" if request.purpose == "handback" else [call("ls")]

    report = await spawn(tmp_path, child, "max_tokens: 40000")
    assert report.agents[1].reason == "limit:max_tokens"
    assert report.agents[1].usage.total_tokens <= 40_000
    define(tmp_path, "worker", "max_turns: 3")
    report = await spawn(tmp_path, child, "max_turns: 3", limits=Limits(max_turns=50))
    assert (report.agents[1].reason, report.agents[1].turns) == ("limit:max_turns", 4)


async def test_effort_goes_into_every_request_of_the_child_only(tmp_path: Path) -> None:
    seen: list[Request] = []

    def child(request: Request) -> Any:
        seen.append(request)
        return "done"

    await spawn(tmp_path, child, "effort: high")
    assert json.loads(seen[0].body)["output_config"] == {"effort": "high"}


async def test_memory_is_shown_to_a_child_that_asks_for_it(tmp_path: Path) -> None:
    """S1 otherwise: its own prompt and its brief only."""
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/MEMORY.md").write_text("- MEMORY-MARK <!-- 1 2026-01-01 -->\n")
    seen: list[bool] = []

    def child(request: Request) -> Any:
        seen.append(b"MEMORY-MARK" in request.body)
        return "done"

    await spawn(tmp_path, child)
    await spawn(tmp_path, child, "memory: project")
    await spawn(tmp_path, child, "memory: none")
    await spawn(tmp_path, child, "memory: project", memory=False)
    assert seen == [False, True, False, False]


async def test_p6_a_definition_narrows_what_its_agents_may_touch_and_never_widens_it(
    tmp_path: Path,
) -> None:
    """P6"""
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "plan.txt").write_text("PLAN")

    def child(request: Request) -> Any:
        names = [t["name"] for t in request.tools]
        if not results(request):
            return [call("read_file", path="secret.txt"), call("read_file", path="plan.txt")]
        return f"{names}\n" + "\n".join(results(request))

    report = await spawn(
        tmp_path,
        child,
        "permissions:",
        "  allow: ['read(secret.txt)', write_file]",
        "  deny: ['read(plan.txt)', delete_file]",
        permissions=Permissions(deny=("read(secret.txt)", "write_file")),
    )
    assert "[denied by read(secret.txt)]" in report.conclusion
    assert "[denied by read(plan.txt)]" in report.conclusion
    assert "SECRET" not in report.conclusion
    assert "write_file" not in report.conclusion
    assert "delete_file" not in report.conclusion


@pytest.mark.parametrize(
    "text",
    ["permissions: everything", "permissions:\n  deny: 7", "permissions:\n  deny: ['rm(x)']"],
)
async def test_p6_permissions_that_cannot_be_read_start_nothing(tmp_path: Path, text: str) -> None:
    """P6: the stricter side."""

    def child(request: Request) -> Any:
        raise AssertionError("it must not run")

    report = await spawn(tmp_path, child, text)
    assert report.conclusion.startswith("[error] ")
    assert len(report.agents) == 1


async def test_can_spawn_says_whom_and_todos_says_whether_there_is_a_plan(tmp_path: Path) -> None:
    define(tmp_path, "helper")

    def child(request: Request) -> Any:
        names = {t["name"] for t in request.tools}
        if "task" not in names:
            return f"no task, todos: {'write_todos' in names}"
        if not results(request):
            kinds = ("helper", "explorer")
            return [call("task", prompt="x", subagent_type=kind) for kind in kinds]
        return "\n---\n".join(results(request))

    report = await spawn(tmp_path, child, "can_spawn: false", "todos: false")
    assert "no task, todos: False" in report.conclusion
    report = await spawn(tmp_path, child, "can_spawn: [helper]")
    assert "helper-" in report.conclusion
    assert "No subagent_type 'explorer'; there are: helper." in report.conclusion


async def test_a_main_definition_that_cannot_be_used_is_told_before_anything_is_recorded(
    tmp_path: Path,
) -> None:
    define(tmp_path, "worker", "returns:", "  a: nonsense")
    with pytest.raises(ConfigError, match="returns"):
        await run("x", model=ScriptedModel(lambda r: "x"), root=tmp_path, agent="worker")
    assert not (tmp_path / ".outrider/runs").exists()


@pytest.mark.parametrize(
    ("field", "used"),
    [
        ("model: sonnet", "claude-sonnet-5-5"),
        ("model: inherit", "scripted"),
        ("model: quick", "my-small-model"),
        ("model: some-model-of-mine", "some-model-of-mine"),
    ],
)
async def test_s11_the_model_that_a_definition_names_is_used(
    tmp_path: Path, field: str, used: str
) -> None:
    """S11: through the aliases; never a silent switch."""
    seen: list[str] = []

    def child(request: Request) -> Any:
        seen.append(request.model)
        return "done"

    report = await spawn(tmp_path, child, field, model_aliases={"quick": "my-small-model"})
    assert seen == [used]
    assert report.agents[1].model == used


async def test_s11_a_model_that_there_is_not_fails_the_child_and_says_so(tmp_path: Path) -> None:
    """S11"""

    def child(request: Request) -> Any:
        raise UnknownModel("there is no model no-such-model")

    report = await spawn(tmp_path, child, "model: no-such-model")
    row = report.agents[1]
    assert (row.status, row.reason, row.model) == ("failed", "provider:not_found", "no-such-model")
    assert "reason: provider:not_found" in report.conclusion


async def test_s11_the_rehearsal_answers_for_every_model(tmp_path: Path) -> None:
    """S11: `--model rehearsal` overrides all."""
    define(tmp_path, "surveyor", "model: opus", "tools: ls, glob, grep, read_file")
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").write_text(f"# {name}\n")
    report = await run("Survey this folder", model="rehearsal", root=tmp_path)
    assert {a.model for a in report.agents} == {"rehearsal"}


async def test_s12_a_child_has_the_window_of_its_own_model(tmp_path: Path) -> None:
    """S12: its own policy, with its own model's window."""

    class Sized(ScriptedModel):
        async def describe(self, name: str) -> ModelFacts:
            return ModelFacts(window=40_000 if name == "small" else 150_000)

    define(tmp_path, "worker", "model: small")

    def script(request: Request) -> Any:
        if request.agent_type == "main" and not results(request):
            return [call("task", prompt="x", subagent_type="worker")]
        return "done"

    report = await run("go", model=Sized(script), root=tmp_path)
    assert [a.window_tokens for a in report.agents] == [150_000, 40_000]
