"""Which tools an agent gets out of those that there are, and within which patterns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.memories import Scope, granting
from orchestrator.permissions import can_bind
from subagents import DELEGATING, Definition, resolve
from workspace import MEMORY_TOOLS


@dataclass(frozen=True, slots=True)
class Granted:
    """``bounds``: the patterns within which some of the ``tools`` are; ``unknown``: entries of the
    definition that name nothing."""

    tools: tuple[str, ...]
    bounds: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()

    def as_texts(self) -> list[str]:
        """Each tool as a definition would name it, such as ``bash(git:*)``."""
        return [
            tool if pattern is None else f"{tool}({pattern})"
            for tool in self.tools
            for pattern in self.bounds.get(tool, (None,))
        ]


def granted_to(
    definition: Definition, have: Iterable[str], scope: Scope, *, may_spawn: bool
) -> Granted:
    """What an agent of this kind gets of the tools ``have``. ``scope``: the memory that it has;
    ``may_spawn``: whether another level of subagents may follow."""
    resolved = resolve(granting(definition, scope), have)
    # A grant with a pattern is narrower than the tool; one that cannot be read grants nothing.
    bounds = {tool: p for tool, p in resolved.patterns.items() if can_bind(tool, p)}
    withheld = resolved.patterns.keys() - bounds.keys()
    if scope == "none":
        withheld |= {*MEMORY_TOOLS}
    if definition.todos is False:
        withheld.add("write_todos")
    if definition.can_spawn is False or not may_spawn:
        withheld |= {*DELEGATING}
    tools = tuple(tool for tool in resolved.tools if tool not in withheld)
    return Granted(tools, {t: p for t, p in bounds.items() if t in tools}, resolved.unknown)
