"""What of a server's list of tools is taken over: bounded, and each tool on its own merits. Pure.

A description is somebody else's text in front of every agent that has the tool: it is cut, and it says
whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.mcp import schemas
from orchestrator.mcp.names import tool_names

MOST_DESCRIPTION_CHARS = 1_000
# Of one server. Everything listed is part of every request of every agent that has it.
MOST_TOOLS = 100
MOST_LISTED_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool as a server offers it; ``tool`` is the server's own name for it."""

    name: str
    tool: str
    description: str
    input_schema: dict[str, Any]
    only_reads: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's tools by the names that models use, and in words what was left out."""

    tools: Mapping[str, Offered]
    left_out: tuple[str, ...] = ()


def read_listing(key: str, entries: Iterable[object]) -> Listing:
    """The usable tools among a server's ``entries``, JSON as it came."""
    entries = list(entries)
    names = tool_names(key, [name for entry in entries if (name := _name_of(entry))])
    tools: dict[str, Offered] = {}
    left_out: list[str] = []
    room = MOST_LISTED_CHARS
    for entry in entries:
        shown = " ".join(_name_of(entry).split())[:80] or "(no name)"
        try:
            offered = _offered(key, entry, names)
            size = len(offered.description) + len(json.dumps(offered.input_schema))
            _check_room(offered, tools, room - size)
        except ValueError as error:
            left_out.append(f"{shown}: {error}")
        else:
            tools[offered.name] = offered
            room -= size
    return Listing(tools, tuple(left_out))


def _check_room(offered: Offered, tools: Mapping[str, Offered], room: int) -> None:
    if offered.name in tools:
        raise ValueError("the server lists it twice")
    if len(tools) >= MOST_TOOLS:
        raise ValueError(f"more than {MOST_TOOLS} tools of one server are not offered")
    if room < 0:
        raise ValueError(
            f"descriptions and schemas of one server may have {MOST_LISTED_CHARS:,} characters"
        )


def _name_of(entry: object) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else ""


def _offered(key: str, entry: object, names: Mapping[str, str]) -> Offered:
    name = _name_of(entry)
    if not isinstance(entry, Mapping) or not name:
        raise ValueError("it has no name")
    schema = entry.get("inputSchema")
    if (problem := schemas.problem_of(schema)) is not None:
        raise ValueError(problem)
    annotations = entry.get("annotations")
    return Offered(
        name=names[name],
        tool=name,
        description=_description(key, entry.get("description") or entry.get("title")),
        input_schema=dict(schema) if isinstance(schema, Mapping) else {},
        only_reads=isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True,
    )


def _description(key: str, text: object) -> str:
    said = text.strip() if isinstance(text, str) else ""
    said = said.encode("utf-8", "replace").decode()
    if len(said) > MOST_DESCRIPTION_CHARS:
        said = f"{said[:MOST_DESCRIPTION_CHARS].rstrip()}…"
    return f"[MCP server {key}] {said or '(it says nothing of this tool)'}"
