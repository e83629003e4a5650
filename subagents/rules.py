"""What a definition's text about permissions takes away. Text that cannot be read takes all away.

Our own form is `permissions: {deny: [read(secret/**), "bash(rm:*)", task]}`. Others' modes and maps are understood
as far as they restrict; what they allow counts for nothing, since nobody has more than his parent.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subagents.block import Entry, Notes
from subagents.definition import JSON
from subagents.fields import spelled
from subagents.grants import BY_COMMA
from subagents.toolnames import READ, WRITE, is_name, meaning

_KINDS = frozenset({"allow", "deny", "ask"})
_READ_ONLY = frozenset({"readonly", "plan"})
# Modes of Claude Code's permissions and of Codex' sandbox that take no tool away here.
_OPEN = frozenset(
    {"default", "acceptedits", "bypasspermissions", "dontask", "auto", "manual", "delegate"}
    | {"workspacewrite", "dangerfullaccess"}
)
# OpenCode: the permission to edit is the permission to change files by any tool.
_EDITS = ("write", "edit")
_RULE = re.compile(r"([^()]+)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Taken:
    """`tools` are taken away as a whole, by names as written; `rules` are about some calls, in our
    own spelling: `read(<pattern>)`, `write(<pattern>)`, `bash(<command>)`, `fetch(<host>)`."""

    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def __add__(self, other: "Taken") -> "Taken":
        return Taken(self.tools + other.tools, self.rules + other.rules)


_EVERYTHING = Taken(("*",))


def read_permissions(entry: Entry, notes: Notes) -> Taken:
    """What one field about permissions takes away.

    What would have to be asked is taken away: nobody is known here who could be asked.
    """
    value = entry.value
    if value is None or value == "":
        return Taken()
    if spelled(entry.key) in ("permission_mode", "sandbox_mode"):
        return _mode(value, entry, notes)
    if isinstance(value, str):
        return _word(value, entry, notes)
    if isinstance(value, Mapping):
        return _map(value, entry, notes)
    return _unreadable(value, entry, notes)


def _unreadable(value: JSON, entry: Entry, notes: Notes) -> Taken:
    """Every tool, and a rule that is none: whoever checks permissions refuses to start the agent."""
    message = f"{value!r:.40} cannot be read, so every tool is denied – write deny: [read(secret/**), bash]"
    notes.add(entry.line, entry.key, message)
    return _EVERYTHING + Taken((), (f"{entry.key}: {value}",))


def _mode(value: JSON, entry: Entry, notes: Notes) -> Taken:
    mode = re.sub(r"[^a-z]", "", value.casefold()) if isinstance(value, str) else ""
    if mode in _OPEN:
        return Taken()
    if mode not in _READ_ONLY:
        message = f"{value!r:.40} is no known mode, read as plan – write plan or leave it out"
        notes.add(entry.line, entry.key, message)
    return Taken(WRITE)


def _word(value: str, entry: Entry, notes: Notes) -> Taken:
    word = value.strip().casefold()
    if word == "allow":
        return Taken()
    if word not in ("deny", "ask"):
        return _unreadable(value, entry, notes)
    return _EVERYTHING


def _map(value: Mapping[str, JSON], entry: Entry, notes: Notes) -> Taken:
    taken = Taken()
    for key, rule in value.items():
        kind = key.strip().casefold()
        if kind in _KINDS:
            taken += Taken() if kind == "allow" else _rules(rule, entry, notes)
        elif spelled(key) in ("mode", "default_mode"):
            taken += _mode(rule, entry, notes)
        elif _restricts(rule):
            taken += Taken(_EDITS if kind == "edit" else (key.strip(),))
    return taken


def _restricts(rule: JSON) -> bool:
    """Of OpenCode's `tool: rule`, also where it holds only for some arguments."""
    if isinstance(rule, Mapping):
        return any(_restricts(part) for part in rule.values())
    return rule is False or (rule != "allow" and rule is not True)


def _rules(value: JSON, entry: Entry, notes: Notes) -> Taken:
    if value is None:
        return Taken()
    items = BY_COMMA.findall(value) if isinstance(value, str) else value
    if not isinstance(items, Sequence):
        return _unreadable(value, entry, notes)
    taken = Taken()
    for item in items:
        taken += (
            _rule(item, entry, notes) if isinstance(item, str) else _unreadable(item, entry, notes)
        )
    return taken


def _rule(text: str, entry: Entry, notes: Notes) -> Taken:
    if not text.strip():
        return Taken()
    found = _RULE.fullmatch(text.strip())
    name = found[1].strip() if found else ""
    if found is None or not is_name(name):
        return _unreadable(text, entry, notes)
    if found[2] is None and name.casefold() not in ("read", "write"):
        return Taken((name,))
    if found[2] is not None and (tool := _pattern_tool(name)):
        pattern = found[2].strip()
        return Taken((), (f"{tool}({pattern})",)) if pattern.strip("*: ") else Taken((name,))
    if (kind := _path_kind(name)) is None:
        if not meaning(name) and "__" not in name:
            return _unreadable(text, entry, notes)
        message = f"{text!r:.60} holds for all of {name} here – write the bare name"
        notes.add(entry.line, entry.key, message, "info")
        return Taken((name,))
    return Taken((), (f"{kind}({_pattern(found[2] or '', text, entry, notes)})",))


def _pattern_tool(name: str) -> str | None:
    """The tool, of those besides the file tools, whose calls a pattern tells apart."""
    if name.casefold() == "mcp":
        return "mcp"
    return next((tool for tool in ("bash", "fetch") if meaning(name) == (tool,)), None)


def _path_kind(name: str) -> str | None:
    tools = set(meaning(name))
    if tools & set(READ):
        return "read"
    return "write" if tools & {"write_file", "edit_file", "delete_file"} else None


def _pattern(written: str, text: str, entry: Entry, notes: Notes) -> str:
    """The pattern as our rules have it: from the workspace, never a negation."""
    pattern = written.strip().removeprefix("./")
    if pattern in ("", ".", "*"):
        return "**"
    if pattern.startswith(("!", "#", "//", "~", "..")) or "\n" in pattern:
        message = (
            f"{text!r:.60} is no pattern below the workspace, so all paths are denied – mend it"
        )
        notes.add(entry.line, entry.key, message)
        return "**"
    return pattern
