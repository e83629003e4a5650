"""Entries of any dialect → a `Definition`. What a dialect changes is one row of a table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from subagents.block import Entry, Notes
from subagents.definition import JSON, Definition, Rejected
from subagents.fields import KNOWN, meant, spelled, suggestion
from subagents.grants import Tools, check_names, denied_names, read_tools, stricter
from subagents.rules import Taken, read_permissions
from subagents.values import LIMITS, limit, optional

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_RENDERED = frozenset({"name", "description", "tools", "disallowed_tools", "model"})
_LEGAL_NAME = re.compile(r"[^:/\\\x00-\x1f\x7f]{1,100}")
_OPENCODE_MODES = frozenset({"primary", "subagent", "all"})


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    file_names: bool = False  # the file's name is the agent's: none in the file is no mistake
    map_inherits: bool = False  # a map of tools switches single ones, the others stay


CLAUDE = Dialect("claude")
COPILOT = Dialect("copilot", file_names=True)
OPENCODE = Dialect("opencode", file_names=True, map_inherits=True)
CODEX = Dialect("codex")


def dialect_of(path: PurePath, entries: Sequence[Entry] = ()) -> Dialect:
    """By folder and file name; OpenCode's files also by their `mode` without a `name`."""
    if path.suffix == ".toml":
        return CODEX
    if ".github" in path.parts or path.stem.endswith((".agent", ".chatmode")):
        return COPILOT
    values = {meant(entry.key): entry.value for entry in entries}
    modes = isinstance(mode := values.get("mode"), str) and mode in _OPENCODE_MODES
    if ".opencode" in path.parts or (modes and "name" not in values):
        return OPENCODE
    return CLAUDE


def define(entries: Sequence[Entry], body: str, path: PurePath, notes: Notes) -> Definition:
    """The definition that the entries of one file make. Raises `Rejected`."""
    dialect = dialect_of(path, entries)
    fields = _fields(entries, notes)
    _check_rendered(fields)
    description = _description(fields.pop("description", []))
    name = _name(fields.pop("name", []), path, dialect, notes)
    tools, denied = _grants(fields, dialect, notes)
    values: dict[str, Any] = {}
    extra: dict[str, JSON] = {}
    taken = _taken(fields, extra, notes)
    for key, found in fields.items():
        _take(key, _deciding(key, found), values, extra, notes)
    prompt = values.pop("prompt", None) or body
    return Definition(
        name,
        description,
        prompt,
        tools,
        tuple(dict.fromkeys((*denied, *taken.tools))),
        source=notes.path,
        permissions={"deny": list(taken.rules)} if taken.rules else None,
        extra=extra,
        **values,
    )


def _fields(entries: Sequence[Entry], notes: Notes) -> dict[str, list[Entry]]:
    """The entries by our names. A double gets a warning; who takes the field decides what wins."""
    fields: dict[str, list[Entry]] = {}
    for entry in entries:
        key = meant(entry.key)
        if key in fields:
            notes.add(entry.line, entry.key, _double(key))
        fields.setdefault(key, []).append(entry)
        _remark(entry, key, notes)
    return fields


def _deciding(key: str, found: Sequence[Entry]) -> Entry:
    """Of a field that is written twice the last one, unless a limit or a no would get lost by it."""
    if key in LIMITS:
        found = [entry for entry in found if entry.value not in (None, "")] or found
    elif key == "can_spawn":
        found = [entry for entry in found if entry.value is not True] or found
        found = [entry for entry in found if entry.value is False] or found
    return found[-1]


def _double(key: str) -> str:
    if key == "permissions":
        return "is written twice, both hold – keep one"
    kept = "what both grant is kept" if key.endswith("tools") else "the last one is kept"
    return f"is written twice, {kept} – keep one"


def _remark(entry: Entry, key: str, notes: Notes) -> None:
    if key == "allowed_tools":
        notes.add(entry.line, entry.key, "is read as tools – rename it to tools")
    elif spelled(entry.key) not in KNOWN and key in KNOWN:
        notes.add(entry.line, entry.key, f"is read as {key} – rename it")
    elif key not in KNOWN:
        near = suggestion(key)
        fix = f"did you mean {near}?" if near else "nothing reads it"
        notes.add(entry.line, entry.key, f"unknown field, kept – {fix}", "info")


def _check_rendered(fields: Mapping[str, list[Entry]]) -> None:
    for key in fields:
        for entry in fields[key] if key in _RENDERED or _TEMPLATE.match(key) else ():
            if _TEMPLATE.search(f"{entry.key} {entry.raw}"):
                message = "holds a template that was not rendered – fill it in"
                raise Rejected(entry.line, entry.key, message)


def _description(found: Sequence[Entry]) -> str:
    if not found:
        raise Rejected(1, "description", "is missing – add when to use this agent")
    entry = found[-1]
    text = entry.value if isinstance(entry.value, str) else entry.raw
    if entry.value is None or not text.strip():
        raise Rejected(entry.line, "description", "is empty – write when to use this agent")
    return text.replace("\\n", "\n").strip()


def _name(found: Sequence[Entry], path: PurePath, dialect: Dialect, notes: Notes) -> str:
    stem = path.name.partition(".")[0] or path.stem
    fallback = re.sub(r"[:/\\\x00-\x1f\x7f]", "-", stem)[:100] or "agent"
    if not found:
        if not dialect.file_names:
            notes.add(1, "name", f"is missing, the file name is used – add name: {fallback}")
        return fallback
    entry = found[-1]
    text = entry.value if isinstance(entry.value, str) else _plain(entry)
    if _LEGAL_NAME.fullmatch(text.strip()):
        if not isinstance(entry.value, str):
            notes.add(entry.line, "name", f"{text} is no text to YAML – put it in quotes")
        return text.strip()
    what = "is blank" if not text.strip() else f"{text!r:.60} is no legal name"
    notes.add(entry.line, "name", f"{what}, the file name is used – write name: {fallback}")
    return fallback


def _plain(entry: Entry) -> str:
    """The text of a number or of a yes or no, as it was written; nothing for what has parts."""
    return entry.raw if isinstance(entry.value, int | float) else ""


def _grants(
    fields: dict[str, list[Entry]], dialect: Dialect, notes: Notes
) -> tuple[Tools, tuple[str, ...]]:
    """(granted, denied). Of several fields about tools, what all of them grant."""
    tools: Tools = None
    denied: list[str] = []
    for entry in [*fields.pop("tools", []), *fields.pop("allowed_tools", [])]:
        on, off = read_tools(entry, notes, inherits_rest=dialect.map_inherits)
        check_names(on or (), entry, notes)
        tools = stricter(tools, on)
        denied += off or ()
    for entry in fields.pop("disallowed_tools", []):
        names = denied_names(entry, notes)
        check_names(names, entry, notes)
        denied += names
    return tools, tuple(denied)


def _taken(fields: dict[str, list[Entry]], extra: dict[str, JSON], notes: Notes) -> Taken:
    """What all fields about permissions take away. Other forms than our own are also kept aside."""
    taken = Taken()
    for entry in [*fields.pop("permissions", []), *fields.pop("sandbox_mode", [])]:
        takes = read_permissions(entry, notes)
        check_names(takes.tools, entry, notes)
        taken += takes
        if not isinstance(entry.value, Mapping) or not entry.value.keys() <= {"deny", "ask"}:
            extra[entry.key] = entry.value
    return taken


def _take(
    key: str, entry: Entry, values: dict[str, Any], extra: dict[str, JSON], notes: Notes
) -> None:
    if key == "model":
        values["model"] = _model(entry, notes)
    elif key in ("prompt", "developer_instructions"):
        values["prompt"] = entry.value.strip() if isinstance(entry.value, str) else None
    elif key == "timeout_mins":
        minutes = limit("max_seconds", entry)
        values["max_seconds"] = minutes and minutes * 60
    elif key in LIMITS:
        values[key] = limit(key, entry)
    elif (value := optional(key, entry, notes)) is not None:
        values[key] = value
    else:
        extra[entry.key] = entry.value


def _model(entry: Entry, notes: Notes) -> str | tuple[str, ...] | None:
    """A name, or several in order of preference (Copilot)."""
    value = entry.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        names = [item.strip() for item in value if isinstance(item, str) and item.strip()]
        if len(names) < len(value):
            notes.add(entry.line, entry.key, "holds what is no name, passed over – remove it")
        return tuple(names) or None
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, Mapping):
        notes.add(entry.line, entry.key, "is no name, the parent's model is used – write one")
        return None
    if not isinstance(value, str):
        notes.add(entry.line, "model", f"{entry.raw[:40]} is no text to YAML – put it in quotes")
        return entry.raw
    return value.strip()
