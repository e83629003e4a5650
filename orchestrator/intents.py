"""Which tool calls are noted before they run, and what becomes of them after a crash. Pure.

A call that may have effects has its `ToolStarted` on disk before it runs, in a commit of its own. One
that can be made twice without harm is noted with the reply that asks for it, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.events import ModelReplied, ToolStarted
from orchestrator.messages import tool_uses
from orchestrator.tools import Tool


def begun_with(reply: ModelReplied, tools: Mapping[str, Tool]) -> list[ToolStarted]:
    """What is recorded together with ``reply`` about the calls in it."""
    if not reply.runs_calls:
        return []
    return [
        ToolStarted(tool=use["name"], tool_use_id=use["id"], index=index)
        for index, use in enumerate(tool_uses(reply.blocks))
        if (called := tools.get(use["name"])) is not None and not has_effects(called)
    ]


def has_effects(tool: Tool) -> bool:
    """Whether a call must not simply be made again."""
    return tool.after_crash != "repeat"


def interrupted(tool: Tool) -> str:
    """What the model is told of a call whose end nobody saw."""
    return (
        f"[error] interrupted: the run stopped while this {tool.name} call was under way. It may have "
        "happened or not; nothing was repeated. Look how things stand before you call it again."
    )
