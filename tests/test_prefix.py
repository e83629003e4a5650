"""The fixed prefix, which is part of every request, stays small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Permissions, Request, run
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.asyncio


def tokens(value: Any) -> float:
    """UTF-8 bytes of the JSON / 4."""
    return len(json.dumps(value, ensure_ascii=False).encode()) / 4


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


async def test_with_everything_on_it_is_at_most_2000_tokens(tmp_path: Path) -> None:
    """Shell, web, memory, skills, background, and a listing too long for its room; listings apart."""
    for path, text in (
        (".claude/skills/x/SKILL.md", "---\nname: x\ndescription: For x.\n---\nx"),
        (".claude/agents/y.md", f"---\nname: y\ndescription: {'Words. ' * 2_000}\n---\ny"),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    allowed = Permissions(allow=("bash", "fetch"))
    seen = await first_requests(tmp_path, "explorer", permissions=allowed, sandbox=False)
    names = [t["name"] for t in seen["main"].tools]
    assert {"bash", "fetch", "remember", "skill", "ask_task", "describe_subagent"} <= {*names}
    assert prefix(seen["main"], listing=False) <= 2_000


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
