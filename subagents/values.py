"""The optional fields of a definition, each with its type."""

from subagents.block import Entry, Notes
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


def optional(key: str, entry: Entry, notes: Notes) -> JSON | tuple[str, ...]:
    """The value of a typed field, `None` if the field is unknown or its value cannot be used."""
    if key not in _KINDS:
        return None
    value = entry.value
    if isinstance(value, _KINDS[key]):
        return tuple(map(str, value)) if isinstance(value, list) else value
    if value is not None:
        notes.add(entry.line, entry.key, f"{value!r:.40} cannot be used, kept aside – see the docs")
    return None


_KINDS: dict[str, tuple[type, ...]] = {
    "can_spawn": (bool, list),
    "memory": (bool, str),
    "todos": (bool,),
    "effort": (str,),
    "returns": (dict,),
}
