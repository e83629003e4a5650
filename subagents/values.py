"""The optional fields of a definition, each with its type."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from subagents.block import Entry, Notes
from subagents.contract import schema_of
from subagents.definition import JSON, Rejected

# field → (whole numbers only, the most that is allowed)
LIMITS: dict[str, tuple[bool, float]] = {
    "max_turns": (True, 1e6),
    "max_tokens": (True, 1e12),
    "max_seconds": (False, 1e9),
    "max_cost": (False, 1e9),
    "conclusion_tokens": (True, 1e6),
    "offload_at": (True, 1e9),
    "compact_at": (False, 1),
}
_YES = frozenset({"true", "yes", "on"})
_NO = frozenset({"false", "no", "off", "none"})
# The memory of the project, or of the agent's own type; Claude Code's `user` and `local` are such.
_MEMORY = frozenset({"project", "agent", "user", "local"})
# As the Messages API has it, and what others call the least.
_EFFORT = frozenset({"low", "medium", "high", "xhigh", "max"})
_LEAST_EFFORT = frozenset({"none", "minimal"})


def limit(key: str, entry: Entry) -> int | float | None:
    """A limit above zero, `None` if blank. Raises `Rejected`: a limit that cannot be read must
    not turn into no limit."""
    whole, most = LIMITS[key]
    value = entry.value
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if isinstance(value, bool) or not 0 < number <= most or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise Rejected(
            entry.line, entry.key, f"{value!r:.40} is not {kind} above 0, at most {most:g} – fix it"
        )
    return int(number) if whole else number


Value = bool | str | tuple[str, ...] | Mapping[str, JSON] | None


def optional(key: str, entry: Entry, notes: Notes) -> Value:
    """The value of a typed field, `None` if the field is unknown or its value cannot be used."""
    if (field := _FIELDS.get(key)) is None:
        return None
    read = field.read(entry, notes)
    if read is None and entry.value is not None:
        message = f"{entry.value!r:.40} cannot be used, kept aside – write {field.forms}"
        notes.add(entry.line, entry.key, message)
    return read


def _switch(value: JSON) -> bool | None:
    if isinstance(value, str):
        word = value.strip().casefold()
        return True if word in _YES else False if word in _NO else None
    return value if isinstance(value, bool) else None


def _yes_or_no(entry: Entry, notes: Notes) -> Value:
    return _switch(entry.value)


def _memory(entry: Entry, notes: Notes) -> Value:
    value = entry.value
    if isinstance(value, str) and value.strip().casefold() in _MEMORY:
        return value.strip().casefold()
    return _switch(value)


def _effort(entry: Entry, notes: Notes) -> Value:
    word = entry.value.strip().casefold() if isinstance(entry.value, str) else ""
    return "low" if word in _LEAST_EFFORT else word if word in _EFFORT else None


def _can_spawn(entry: Entry, notes: Notes) -> Value:
    """Text that is neither yes nor no is names. What cannot be read is no: it is a permission."""
    value = entry.value
    if value in ("*", "all"):
        return True
    if (switch := _switch(value)) is not None:
        return switch
    if isinstance(value, str) and value.strip():
        names = [part.strip().strip("\"'") for part in value.strip("[] ").split(",")]
    elif isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        names = [str(item).strip() for item in value]
    else:
        said = "is blank" if value in (None, "") else f"{value!r:.40} is no list of names"
        notes.add(entry.line, entry.key, f"{said}, read as false – write true, false or names")
        return False
    return tuple(name for name in dict.fromkeys(names) if name) or False


def _returns(entry: Entry, notes: Notes) -> Value:
    """A schema or fields with their types. A list of names asks for a text each.

    What is asked for must not turn into nothing: neither is a schema dropped that is none."""
    value = entry.value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Rejected(entry.line, entry.key, _no_schema(f"is no JSON ({error})")) from None
    if isinstance(value, list):
        value = _listed(value)
    if not isinstance(value, Mapping) or not value:
        return None
    try:
        schema_of(value)
    except ValueError as error:
        # It is kept: whoever starts the agent refuses it, and says why.
        notes.add(entry.line, entry.key, _no_schema(str(error)), "error")
    return value


def _listed(items: Sequence[JSON]) -> Mapping[str, JSON] | None:
    """`[verdict, {places: [string]}]` → fields."""
    fields: dict[str, JSON] = {}
    for item in items:
        if isinstance(item, str):
            fields[item.strip()] = "string"
        elif isinstance(item, Mapping):
            fields.update(item)
        else:
            return None
    return fields


def _no_schema(why: str) -> str:
    why = " ".join(why.removeprefix("returns").lstrip(": ").partition(" – ")[0].split())
    return f"{why[:200]} – write {_FIELDS['returns'].forms}"


def _mcp_servers(entry: Entry, notes: Notes) -> Value:
    """Names, or servers with their descriptions. What cannot be read is none: it is a grant."""
    value = entry.value
    if isinstance(value, str):
        value = [part.strip().strip("\"'") for part in value.strip("[] ").split(",")]
    if isinstance(value, Mapping):
        value = [value]
    servers: dict[str, Mapping[str, JSON] | None] = {}
    for item in value if isinstance(value, Sequence) else ():
        if isinstance(item, str) and item.strip():
            servers[item.strip()] = None
        elif isinstance(item, Mapping):
            for name, what in item.items():
                servers[str(name)] = what if isinstance(what, Mapping) else None
    if not servers and value not in (None, [], [""], [{}]):
        message = f"{entry.value!r:.40} names no servers, read as none – write names, or name: {{command: …}}"
        notes.add(entry.line, entry.key, message)
    return servers


class _Field(NamedTuple):
    read: Callable[[Entry, Notes], Value]
    forms: str


_FIELDS: dict[str, _Field] = {
    "can_spawn": _Field(_can_spawn, "true, false or names"),
    "memory": _Field(_memory, "project, agent or none"),
    "instructions": _Field(_yes_or_no, "true or false"),
    "todos": _Field(_yes_or_no, "true or false"),
    "effort": _Field(_effort, "low, medium, high, xhigh or max"),
    "mcp_servers": _Field(_mcp_servers, "names of servers, or name: {command: …}"),
    "returns": _Field(_returns, "a JSON Schema, or fields with types: {verdict: string}"),
}
