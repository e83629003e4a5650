"""Codex writes its agents as TOML."""

import re
from collections.abc import Mapping

from subagents.block import Entry
from subagents.definition import JSON, Rejected

_AN_AGENTS = frozenset({"name", "description", "developer_instructions"})
_LINE = re.compile(r"at line (\d+)")


def entries(text: str) -> list[Entry]:
    """The entries of a Codex agent file. Raises `Rejected`; for other TOML that is information."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _LINE.search(str(error))
        # Without a line the error is "at end of document".
        line = int(found[1]) if found else text.rstrip().count("\n") + 1
        raise Rejected(line, "file", f"is not TOML ({error}) – correct it") from None
    if not _AN_AGENTS & table.keys():
        raise Rejected(1, "file", "has no field of an agent – not a definition", "info")
    return [
        Entry(key, _line_of(key, text), _json(value), str(value)) for key, value in table.items()
    ]


def _line_of(key: str, text: str) -> int:
    found = re.search(rf"^\s*[\[\"']*{re.escape(key)}[\"'\s.\]=]", text, re.MULTILINE)
    return text.count("\n", 0, found.start() + 1) + 1 if found else 1


def _json(value: object) -> JSON:
    if isinstance(value, Mapping):
        return {str(key): _json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_json(part) for part in value]
    # TOML's own dates and times become text
    return value if isinstance(value, bool | int | float | str) else str(value)
