"""Which tools of servers an agent gets: what its definition grants, and every one above it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.mcp.config import Found, read_servers
from subagents import Definition, resolve


def own_servers(definition: Definition, environ: Mapping[str, str]) -> Found:
    """The servers that a definition describes itself. Naming the definition names no server: they
    need a rule like those of a project."""
    described = {name: entry for name, entry in (definition.mcp_servers or {}).items() if entry}
    return read_servers(described, definition.source, environ)


def reach(
    line: Iterable[tuple[Definition, Iterable[str]]],
    shared: Iterable[str],
) -> tuple[str, ...]:
    """The names of the servers' tools that an agent has which begins now.

    ``line``: its definition after those of the agents above it, each with the tools of the servers
    that it describes; ``shared``: those that servers of the run offer now. An agent above may have
    begun with another list: what it would be granted of today's counts.
    """
    names = tuple(shared)
    for definition, own in line:
        granted = resolve(definition, (*names, *own))
        names = tuple(name for name in granted.tools if name not in granted.patterns)
    return names
