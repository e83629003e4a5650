"""The servers of one run: which may be started, and the tools that they bring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

from anyio.abc import TaskGroup

from orchestrator.errors import ConfigError
from orchestrator.mcp.config import ServerConfig
from orchestrator.mcp.names import rule_for
from orchestrator.mcp.server import Happening, Server
from orchestrator.tools import Tool

MayStart = Callable[[ServerConfig], bool]


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
        may_start: MayStart,
        tell: Callable[[Happening], Awaitable[None]],
    ) -> None:
        self._group = group
        self._root = root
        self._folder = folder
        self._may_start = may_start
        self._tell = tell
        self._servers: dict[str, Server] = {}
        self._skipped: set[str] = set()

    async def start(self, configs: Iterable[ServerConfig]) -> None:
        """Start those that may be started and are not there yet, side by side; back when each has
        listed its tools or failed."""
        for config in configs:
            if config.key in self._servers or config.key in self._skipped:
                continue
            if not self._may_start(config):
                self._skipped.add(config.key)
                await self._tell(_skipped(config))
                continue
            server = Server(config, self._root, self._folder / f"{config.key}.log", self._tell)
            self._servers[config.key] = server
            self._group.start_soon(server.own)
        for server in self._servers.values():
            await server.settled.wait()

    def tools(self, keys: Iterable[str]) -> dict[str, Tool]:
        """The tools that these servers offer now, by name."""
        offered = (self._servers[key].tools for key in keys if key in self._servers)
        return {tool.name: tool for tools in offered for tool in tools}


def _skipped(config: ServerConfig) -> Happening:
    text = f'{config.source} describes it; to start it: --allow "{rule_for(config.key)}"'
    return Happening(config.key, "skipped", config.address, text=text)
