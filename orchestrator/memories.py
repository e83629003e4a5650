"""Which memory an agent has, what its prompt shows of it, and the tools that write to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from orchestrator.agent import Agent
from orchestrator.events import MemoryWritten
from orchestrator.redaction import redactor
from orchestrator.tools import Tool, tool_of
from subagents import Definition
from workspace import MEMORY_TOOLS, Memory, MemoryEntry, MemoryTools, WorkspaceError

Scope = Literal["project", "agent", "none"]

_SECRET = (
    "the text looks as if it held a secret (a key, a token, a password), which memory files do not "
    "keep. Say where it is to be found instead. Nothing was changed"
)


def scope_of(definition: Definition, *, is_main: bool) -> Scope:
    """The memory that an agent of this definition has; left open, the main agent has the project's
    and others have none."""
    wanted = definition.memory
    if wanted is None:
        return "project" if is_main else "none"
    if wanted in (False, "none"):
        return "none"
    return "project" if wanted in (True, "project") else "agent"


def granting(definition: Definition, scope: Scope) -> Definition:
    """The definition with the memory's tools beside those that it lists, where it asks for a memory
    itself: one that could not be written to would be none."""
    if scope == "none" or definition.memory is None or definition.tools is None:
        return definition
    return replace(definition, tools=(*definition.tools, *MEMORY_TOOLS))


def refuser(environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """A function that says why a text must not be kept, if so: memory files are read by whoever
    reads the project. ``environ``: as in `redactor`."""
    redact = redactor(environ)
    return lambda text: None if redact(text) == text else _SECRET


class Memories:
    """The memory files of one run. What prompts show of a file is read once: it is the same for the
    whole session, whoever starts later."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._shown: dict[str, str] = {}
        self._refuse = refuser(os.environ)

    def snapshot(self, scope: Scope, agent_type: str) -> str:
        """What the prompt of such an agent shows. Blocking."""
        if scope == "none":
            return ""
        memory = self._of(scope, agent_type)
        if memory.path not in self._shown:
            self._shown[memory.path] = memory.snapshot()
        return self._shown[memory.path]

    def tools(self, agent: Agent, scope: Scope, agent_type: str) -> list[Tool]:
        """The tools of such an agent."""
        if scope == "none":
            return []
        memory = self._of(scope, agent_type)

        async def written(action: Literal["add", "update", "forget"], entry: MemoryEntry) -> None:
            await agent.record(
                MemoryWritten(action=action, entry=entry.id, path=memory.path, text=entry.text)
            )

        made = MemoryTools(memory, self._refuse, written)
        # Made again after a crash, a change finds that it is there, or says that it is not.
        return [
            tool_of(f, bounded=True, expected=(WorkspaceError,), after_crash="repeat")
            for f in made.functions()
        ]

    def _of(self, scope: Scope, agent_type: str) -> Memory:
        return Memory(self._root, agent_type if scope == "agent" else None)
