"""The servers of one run: which may be started, and the tools that they bring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

from anyio.abc import TaskGroup

from orchestrator.errors import ConfigError
from orchestrator.mcp.config import ServerConfig
from orchestrator.mcp.names import PREFIX, rule_for
from orchestrator.mcp.server import Happening, Server
from orchestrator.permissions import Permissions
from orchestrator.tools import Tool


def may_start(server: ServerConfig, permissions: Permissions) -> bool:
    """Whether a server is started: the user named its file, or allows the server by name."""
    if _is_denied(server, permissions):
        return False
    return server.is_named or permissions.allows_server(server.key)


def check_extra(configs: Iterable[ServerConfig]) -> None:
    """Raises `ConfigError` where there are servers to start and the SDK is missing."""
    names = ", ".join(config.name for config in configs)
    if names and find_spec("mcp") is None:
        raise ConfigError(
            f"MCP servers ({names}) need a package that is not installed: pip install 'outrider[mcp]'"
        )


class Servers:
    """The servers of a run. They live in its task group ``group`` and end with it.

    ``folder`` is where what they write to stderr is kept, a file each. ``tell`` is awaited with what
    happens to them.
    """

    def __init__(
        self,
        group: TaskGroup,
        root: Path,
        folder: Path,
        permissions: Permissions,
        tell: Callable[[Happening], Awaitable[None]],
    ) -> None:
        self._group = group
        self._root = root
        self._folder = folder
        self._permissions = permissions
        self._tell = tell
        self._servers: dict[str, Server] = {}
        self._skipped: set[str] = set()

    async def start(self, configs: Iterable[ServerConfig]) -> None:
        """Start those that may be started and are not there yet, side by side; back when each has
        listed its tools or failed."""
        configs = list(configs)
        for config in configs:
            if config.key in self._servers or config.key in self._skipped:
                continue
            if not may_start(config, self._permissions):
                self._skipped.add(config.key)
                if not _is_denied(config, self._permissions):
                    await self._tell(_skipped(config))
                continue
            server = Server(config, self._root, self._folder / f"{config.key}.log", self._tell)
            self._servers[config.key] = server
            self._group.start_soon(server.own)
        for config in configs:
            if config.key in self._servers:
                await self._servers[config.key].settled.wait()

    def may_offer(self, tool: str, permissions: Permissions) -> bool:
        """Whether an agent with ``permissions`` may have the tool: no rule denies it, and the user named
        the file that describes its server, or a rule names the tool."""
        server = self._servers[tool.removeprefix(PREFIX).partition("__")[0]]
        if permissions.denies_tool(tool) or permissions.denies_tool(server.plain_name(tool)):
            return False
        return server.config.is_named or permissions.mentions(tool)

    def tools(self, keys: Iterable[str]) -> dict[str, Tool]:
        """The tools that these servers offer now, by name."""
        offered = (self._servers[key].tools for key in keys if key in self._servers)
        return {tool.name: tool for tools in offered for tool in tools}


def _is_denied(server: ServerConfig, permissions: Permissions) -> bool:
    return permissions.denies_tool(f"{PREFIX}{server.key}__*")


def _skipped(config: ServerConfig) -> Happening:
    text = f'{config.source} describes it; to start it: --allow "{rule_for(config.key)}"'
    return Happening(config.key, "skipped", config.address, text=text)
