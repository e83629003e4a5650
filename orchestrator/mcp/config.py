"""Which servers a file or a definition describes. Pure.

The format is the one of ``.mcp.json`` that other tools read too::

    {"mcpServers": {"issues": {"command": "issues-mcp", "args": ["--fast"], "env": {"TOKEN": "${TOKEN}"}},
                    "docs": {"type": "http", "url": "https://docs.example.org/mcp"}}}

``${NAME}`` and ``${NAME:-otherwise}`` take values from the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.mcp.names import server_key

PROJECT_FILE = ".mcp.json"
CALL_SECONDS = 60.0
START_SECONDS = 30.0

Transport = Literal["stdio", "http", "sse"]
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")
# The keys to the model itself. A project's file has no say over them.
_MODEL_KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})


@dataclass(frozen=True)
class ServerConfig:
    """One server. ``key`` is its name in rules and tools; ``source`` the file that describes it.

    ``is_named``: the user named that file, so the server is started without a rule.
    ``call_seconds`` is how long a call may take, ``start_seconds`` how long the start.
    """

    name: str
    source: str
    transport: Transport
    is_named: bool = False
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    # They may hold secrets, which a representation must not show.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS

    @property
    def key(self) -> str:
        return server_key(self.name)

    @property
    def address(self) -> str:
        """What is started, or spoken to, for a message. Arguments and queries may hold secrets."""
        return self.command if self.transport == "stdio" else self.url.partition("?")[0]


@dataclass(frozen=True)
class Found:
    """The servers that were found, and in words what could not be used."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[str, ...] = ()

    def __add__(self, other: Found) -> Found:
        """Both. Of two servers with one key the first is kept."""
        taken = {server.key: server for server in self.servers}
        new = tuple(server for server in other.servers if server.key not in taken)
        twice = tuple(
            f"{server.source}: server {server.name!r:.60}: passed over, {taken[server.key].source} "
            f"describes {taken[server.key].name!r:.60} too"
            for server in other.servers
            if server.key in taken
        )
        return Found((*self.servers, *new), (*self.problems, *other.problems, *twice))


def read_text(
    text: str, source: str, environ: Mapping[str, str], *, is_named: bool = False
) -> Found:
    """The servers of a file's text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return Found(problems=(f"{source}: no valid JSON: {error}",))
    except RecursionError:
        return Found(problems=(f"{source}: no valid JSON: nested too deeply",))
    return read_file_value(value, source, environ, is_named=is_named)


def read_file_value(
    value: object, source: str, environ: Mapping[str, str], *, is_named: bool = False
) -> Found:
    """The servers of a file's JSON."""
    servers = value.get("mcpServers") if isinstance(value, Mapping) else None
    if not isinstance(servers, Mapping):
        wanted = '{"mcpServers": {"<name>": {"command": "…"}}}'
        return Found(problems=(f"{source}: names no servers: write {wanted}",))
    return read_servers(servers, source, environ, is_named=is_named)


def read_servers(
    servers: Mapping[Any, object],
    source: str,
    environ: Mapping[str, str],
    *,
    is_named: bool = False,
) -> Found:
    """The servers of a table of names."""
    found = Found()
    for name, entry in servers.items():
        where = f"{source}: server {str(name)!r:.60}"
        try:
            found += Found((_server(str(name), entry, source, environ, is_named),))
        except _Off:
            continue
        except ValueError as error:
            found += Found(problems=(f"{where}: {error}",))
    return found


class _Off(Exception):
    """The server is switched off where it is described."""


def _server(
    name: str, entry: object, source: str, environ: Mapping[str, str], is_named: bool
) -> ServerConfig:
    if not isinstance(entry, Mapping):
        raise ValueError('write {"command": "…"} or {"type": "http", "url": "…"}')  # noqa: TRY004
    if entry.get("disabled") is True:
        raise _Off
    server_key(name)
    fill = _Filling(environ, may_have_keys=is_named)
    transport = _transport(entry)
    return ServerConfig(
        name=name,
        source=source,
        transport=transport,
        is_named=is_named,
        command=fill.text(entry, "command") if transport == "stdio" else "",
        args=fill.texts(entry, "args"),
        url=_url(fill.text(entry, "url")) if transport != "stdio" else "",
        env=fill.table(entry, "env"),
        headers=fill.table(entry, "headers"),
        call_seconds=_seconds(entry, "timeout", CALL_SECONDS),
        start_seconds=_seconds(entry, "startupTimeout", START_SECONDS),
    )


def _transport(entry: Mapping[Any, object]) -> Transport:
    kind = entry.get("type")
    if kind is None:
        return "http" if "url" in entry and "command" not in entry else "stdio"
    found = _TRANSPORTS.get(kind.casefold()) if isinstance(kind, str) else None
    if found is None:
        raise ValueError(f"type {kind!r:.40} is not known: write stdio, http or sse")
    return found


def _url(text: str) -> str:
    if not re.match(r"https?://[^/\s]", text):
        raise ValueError(f"url {text.partition('?')[0]!r:.80} is no http or https address")
    return text


def _seconds(entry: Mapping[Any, object], key: str, otherwise: float) -> float:
    """A time in the file's milliseconds, as seconds."""
    value = entry.get(key)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError(f"{key} {value!r:.40} is no time in milliseconds")
    return value / 1000


@dataclass(frozen=True)
class _Filling:
    """Reads texts and puts variables in. Raises ``ValueError`` for what is of another kind."""

    environ: Mapping[str, str]
    may_have_keys: bool

    def text(self, entry: Mapping[Any, object], key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{key} is missing: write it as text")
        return self._filled(value)

    def texts(self, entry: Mapping[Any, object], key: str) -> tuple[str, ...]:
        value = entry.get(key, ())
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(f"{key} is no list of texts")  # noqa: TRY004
        return tuple(self._filled(str(item)) for item in value)

    def table(self, entry: Mapping[Any, object], key: str) -> dict[str, str]:
        value = entry.get(key, {})
        if not isinstance(value, Mapping):
            raise ValueError(f"{key} is no table of texts")  # noqa: TRY004
        return {str(name): self._filled(str(item)) for name, item in value.items()}

    def _filled(self, text: str) -> str:
        filled = _VARIABLE.sub(self._value, text)
        if "\0" in filled:
            raise ValueError("holds a NUL character")
        return filled

    def _value(self, match: re.Match[str]) -> str:
        name, otherwise = match["name"], match["otherwise"]
        if name in _MODEL_KEYS and not self.may_have_keys:
            raise ValueError(f"asks for {name}, which a project's file is not given")
        value = self.environ.get(name) or otherwise
        if value is None:
            raise ValueError(f"the variable {name} is not set: set it, or write ${{{name}:-…}}")
        return value
