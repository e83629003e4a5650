"""How servers and their tools are called: in rules, in definitions and to models. Pure.

A tool is ``mcp__<server>__<tool>``. Characters that the Messages API does not allow in a name become
``_``, as in permission rules; where that leaves two tools with one name, or one too long, a digest tells
them apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

PREFIX = "mcp__"
# Of the Messages API: letters, digits, `_` and `-`.
MOST_CHARS = 64
MOST_SERVER_CHARS = 32
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 6


def server_key(name: str) -> str:
    """The server's name as it stands in rules and in its tools' names.

    Raises ``ValueError`` for a name that would be taken for another, or for part of a tool's.
    """
    key = plain(name)
    # Without `__`, and without `_` at its ends, it is clear where the tool's name begins.
    if "__" in key or not key.strip("_") or key.strip("_") != key:
        raise ValueError("its name cannot be used: write letters and digits, with single - or _")
    if len(key) > MOST_SERVER_CHARS:
        raise ValueError(f"its name is too long: {MOST_SERVER_CHARS} characters at most")
    return key


def plain(name: str) -> str:
    """A name in the characters that the Messages API allows."""
    return _ILLEGAL.sub("_", name)


def tool_names(key: str, tools: Sequence[str]) -> dict[str, str]:
    """What models call each of the ``tools`` of the server ``key``; no two are called the same."""
    begin = f"{PREFIX}{key}__"
    room = MOST_CHARS - len(begin)
    names: dict[str, str] = {}
    taken: set[str] = set()
    # Those that can stay as they are come first, wherever the server lists them.
    for tool in sorted(dict.fromkeys(tools), key=lambda tool: plain(tool) != tool):
        name = plain(tool)
        if not name or len(name) > room or name in taken:
            name = f"{name[: room - _DIGEST_CHARS - 1]}-{_digest(tool)}"
        taken.add(name)
        names[tool] = begin + name
    return names


def rule_for(key: str) -> str:
    """The permission rule that names a server."""
    return f"mcp({key})"


def _digest(name: str) -> str:
    data = name.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=_DIGEST_CHARS // 2).hexdigest()
