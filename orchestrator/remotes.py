"""The MCP servers of one run: started when an agent needs them, told of in the journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from anyio.abc import TaskGroup

from orchestrator.agent import Agent
from orchestrator.errors import JournalError
from orchestrator.events import McpServer
from orchestrator.mcp import PROJECT_FILE, Found, Happening, Servers, own_servers, reach
from orchestrator.permissions import Permissions
from orchestrator.tools import Tool
from subagents import Definition


class Remotes:
    """The servers of a run and what they offer. ``lead``: the agent under which they are recorded."""

    def __init__(
        self,
        group: TaskGroup,
        root: Path,
        folder: Path,
        shared: Found,
        permissions: Permissions,
        lead: Callable[[], Agent | None],
    ) -> None:
        self._shared = shared
        self._lead = lead
        self._servers = Servers(group, root, folder, permissions, self.tell)
        # Definitions whose own servers have been looked at.
        self._met: set[str] = set()
        # What happened to servers before there was an agent to record it.
        self._untold: list[McpServer] = []

    async def open(self, main: Definition) -> None:
        """Start those of the run, and those of its main agent."""
        for problem in self._shared.problems:
            await self.tell(Happening(PROJECT_FILE, "failed", "", text=problem))
        await self.start(main)

    async def start(self, definition: Definition) -> None:
        """Those of the run, and those that a definition brings along; each once."""
        own = own_servers(definition, os.environ)
        if definition.name not in self._met:
            self._met.add(definition.name)
            for problem in own.problems:
                await self.tell(Happening(definition.name, "failed", "", text=problem))
        await self._servers.start((*self._shared.servers, *own.servers))

    def tools(self, agent: Agent) -> dict[str, Tool]:
        """The tools of servers that the agent has if it begins now, by name."""
        servers, permissions = self._servers, agent.permissions
        shared = [server.key for server in self._shared.servers]
        own = [
            [server.key for server in own_servers(definition, os.environ).servers]
            for definition in agent.line
        ]
        tools = servers.tools((*shared, *(key for keys in own for key in keys)))
        line = zip(agent.line, map(servers.tools, own), strict=True)
        names = reach(line, servers.tools(shared))
        return {name: tools[name] for name in names if servers.may_offer(name, permissions)}

    async def tell(self, happening: Happening) -> None:
        self._untold.append(McpServer(**asdict(happening)))
        if (lead := self._lead()) is None or lead.state.started is None:
            return
        # A journal that cannot be written ends the run by whoever needs it; a server's owner does not.
        with suppress(JournalError):
            await lead.record(*self.take_untold())

    def take_untold(self) -> list[McpServer]:
        """What happened and is not recorded yet."""
        told, self._untold = self._untold, []
        return told
