"""The grammar of permission rules: text that people write, read into values. Pure.

::

    read(src/**)  write(**)          paths, as in .gitignore, from the workspace's root
    read_file(x)  edit_file(x) …     the same for one file tool alone
    bash(git status:*)               commands that begin so; without * exactly that command
    fetch(example.org)  fetch(*.example.org)
    mcp(server)  mcp(server/tool)    tools of MCP servers, also as mcp__server__tool
    task                             a tool's name: all that it does

Claude Code's spellings are read as well: ``Bash(…)``, ``Read(…)``, ``Edit(…)``, ``WebFetch(domain:…)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TypeAlias

from orchestrator.errors import ConfigError
from orchestrator.permissions.commands import spelled
from orchestrator.permissions.shellrules import CommandPattern
from orchestrator.permissions.subjects import READERS, WRITERS, Command, Host, Itself, Path, Subject
from workspace import Parts
from workspace import Rule as PathRule

_RULE = re.compile(r"(?P<name>[A-Za-z_][\w.-]*(?:\*[\w.*-]*)?)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_FORMS = (
    "write read(PATTERN), write(PATTERN), bash(COMMAND:*), fetch(HOST), mcp(SERVER/TOOL) or a tool's "
    "name"
)
_PATH_KINDS = {
    "read": READERS,
    "write": WRITERS,
    "edit": WRITERS,
    **{tool: (tool,) for tool in (*READERS, *WRITERS)},
}
# Names as Claude Code spells them; ours are lower case.
_CLAUDE = {
    **dict.fromkeys(("Read", "NotebookRead"), "read"),
    **dict.fromkeys(("Edit", "Write", "MultiEdit", "NotebookEdit"), "write"),
    **dict.fromkeys(("Task", "Agent"), "task"),
    "Bash": "bash",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "ls",
    "Skill": "skill",
    "TodoWrite": "write_todos",
    "WebFetch": "fetch",
    "WebSearch": "web_search",
}


# How a pattern begins that does not lie in the workspace.
OUTSIDE = ("//", "~", "../")


@dataclass(frozen=True)
class PathPattern:
    """A path and what is below it. Denied in any case of its letters, permitted in the one given."""

    loose: PathRule
    strict: PathRule

    @classmethod
    def of(cls, text: str) -> PathPattern:
        text = text.strip().removeprefix("./")
        if text.startswith(OUTSIDE):
            raise ValueError("it does not lie in the workspace: write the path from its root")
        return cls(PathRule(text, text), PathRule(text, text, exact_case=True))

    def names(self, subject: Subject) -> bool:
        written = self.strict.pattern
        return (
            isinstance(subject, Path)
            and "/" in written.rstrip("/")  # else it holds at any depth
            and written.removeprefix("/") == path_pattern(subject.parts)[1:]
        )

    def covers(self, subject: Subject) -> bool:
        if not isinstance(subject, Path):
            return False
        leads = subject.lists and self.strict.leads_to(subject.parts)
        return leads or self.strict.matches(subject.parts)

    def may_cover(self, subject: Subject) -> bool:
        return isinstance(subject, Path) and self.loose.matches(subject.parts)


@dataclass(frozen=True)
class ShellPattern:
    command: CommandPattern

    def names(self, subject: Subject) -> bool:
        return isinstance(subject, Command) and self.command.names(subject.part)

    def covers(self, subject: Subject) -> bool:
        return isinstance(subject, Command) and self.command.covers(subject.part)

    def may_cover(self, subject: Subject) -> bool:
        return isinstance(subject, Command) and self.command.may_cover(subject.part)


@dataclass(frozen=True)
class HostPattern:
    """A host, or with ``*.`` all hosts below it."""

    host: str

    @classmethod
    def of(cls, text: str) -> HostPattern:
        host = text.strip().removeprefix("domain:").strip().rstrip(".").lower()
        if ":" in host:
            return cls(str(IPv6Address(host.strip("[]"))))
        if not _HOST.fullmatch(host):
            raise ValueError(
                "it is no host: write example.org, or *.example.org for those below it"
            )
        return cls(host)

    def names(self, subject: Subject) -> bool:
        return isinstance(subject, Host) and subject.name == self.host

    def covers(self, subject: Subject) -> bool:
        if not isinstance(subject, Host):
            return False
        if self.host.startswith("*."):
            return subject.name.endswith(self.host[1:])
        return subject.name == self.host

    may_cover = covers


Pattern: TypeAlias = PathPattern | ShellPattern | HostPattern


@dataclass(frozen=True)
class Rule:
    """One rule: whose calls it is about (``tools``, as patterns of names), and which of them."""

    text: str
    tools: tuple[str, ...]
    pattern: Pattern | None = None

    def concerns(self, tool: str) -> bool:
        """Whether the rule is about the tool, with or without a pattern."""
        return any(fnmatchcase(tool, name) for name in self.tools)

    def concerns_server(self, server: str) -> bool:
        """Whether the rule is about the MCP server, or some of its tools."""
        named = (n.removeprefix("mcp__").partition("__") for n in self.tools if n[:5] == "mcp__")
        return any(fnmatchcase(server, name) for name, _, _ in named)

    def restricts(self, tool: str) -> bool:
        """The same for a rule that denies or asks: what may not be read may not be written."""
        return self.concerns(tool) or (self.tools == READERS and tool in WRITERS)

    def takes_away(self, tool: str) -> bool:
        """Whether the rule, if it denies, leaves nothing of the tool."""
        return self.pattern is None and self.concerns(tool)

    def names(self, tool: str, subject: Subject) -> bool:
        """Whether the rule speaks of exactly this, without a wildcard."""
        if self.pattern is None:
            return isinstance(subject, Itself) and self.tools == (tool,)
        return self.pattern.names(subject)

    def covers(self, subject: Subject) -> bool:
        """For certain: what a rule that permits must do."""
        return self.pattern is None or self.pattern.covers(subject)

    def may_cover(self, subject: Subject) -> bool:
        """Possibly: enough for a rule that denies."""
        return self.pattern is None or self.pattern.may_cover(subject)


@lru_cache(maxsize=4096)
def rule(text: str) -> Rule:
    """Read a rule. Raises `ConfigError` that says how rules are written."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"the rule {text!r} cannot be read: {_FORMS}")
    name, pattern = found["name"], found["pattern"]
    kind = _CLAUDE.get(name, name)
    try:
        return _of_kind(text.strip(), kind, pattern)
    except ValueError as error:
        raise ConfigError(f"the rule {text!r} cannot be read: {error}") from None


def is_about_paths(name: str) -> bool:
    """Whether rules of this name, in any spelling, speak of paths."""
    return _CLAUDE.get(name, name) in _PATH_KINDS


def _of_kind(text: str, kind: str, pattern: str | None) -> Rule:
    if kind.startswith("mcp__") or kind == "mcp":
        return _of_server(text, kind, pattern)
    if "*" in kind:
        raise ValueError(_FORMS)
    if kind in _PATH_KINDS:
        tools = _PATH_KINDS[kind]
        return Rule(text, tools, None if pattern is None else PathPattern.of(pattern))
    if pattern is None:
        return Rule(text, (kind,))
    if kind not in _READERS_OF_PATTERNS:
        near = get_close_matches(kind, [*_PATH_KINDS, *_READERS_OF_PATTERNS, "mcp"], 1, 0.7)
        raise ValueError(
            f"did you mean {near[0]}(…)?"
            if near
            else f"{kind} takes no pattern: write its bare name"
        )
    return Rule(text, (kind,), _READERS_OF_PATTERNS[kind](pattern))


def _shell(text: str) -> Pattern | None:
    command = CommandPattern(text)
    return None if command.is_everything else ShellPattern(command)


def _host(text: str) -> Pattern | None:
    return None if text.strip() == "*" else HostPattern.of(text)


_READERS_OF_PATTERNS: dict[str, Callable[[str], Pattern | None]] = {"bash": _shell, "fetch": _host}


def _of_server(text: str, kind: str, pattern: str | None) -> Rule:
    if kind != "mcp":
        if pattern is not None:
            raise ValueError("it takes no pattern: write mcp(server/tool)")
        server, _, tool = kind.removeprefix("mcp__").partition("__")
    else:
        server, _, tool = ("*" if pattern is None else pattern.strip()).partition("/")
    if not re.fullmatch(r"[\w.*-]+", server) or not re.fullmatch(r"[\w.*/-]*", tool):
        raise ValueError("write mcp(server) or mcp(server/tool)")
    return Rule(text, (f"mcp__{_plain(server)}__{_plain(tool) or '*'}",))


def _plain(name: str) -> str:
    # As the names of servers' tools are made fit for the API.
    return re.sub(r"[^A-Za-z0-9_*-]", "_", name)


# ── the rule that names exactly one call ──


def path_pattern(parts: Parts) -> str:
    """The pattern that means this path: from the root, and no character a wildcard."""
    if not parts:
        return "/**"
    return "/" + re.sub(r"([\\*?\[\]! #])", r"\\\1", "/".join(parts))


def naming(tool: str, subject: Subject) -> str | None:
    """The text of the narrowest rule that permits this; ``None`` where there is none but the tool's
    name."""
    match subject:
        case Path(parts):
            kind = "read" if tool in READERS else "write"
            return f"{kind}({path_pattern(parts)})"
        case Command(part):
            words = spelled(part)
            return None if words is None else f"bash({words})"
        case Host(name):
            return f"fetch({name})"
        case _:
            return tool
