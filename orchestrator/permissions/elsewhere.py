"""The rules of a `.claude/settings.json`, as far as they take away. Pure.

What such a file allows counts for nothing: it was written for another program, and may have come with a
folder from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from orchestrator.errors import ConfigError
from orchestrator.permissions.rules import OUTSIDE, is_about_paths, rule

CLAUDE_FILES = (".claude/settings.json", ".claude/settings.local.json")


def restrictions_in(text: str) -> dict[str, tuple[str, ...]]:
    """Its rules to deny and to ask, in a form that can be read.

    Raises ``ValueError`` for a file whose rules cannot be found out: they may be there to protect
    something.
    """
    try:
        settings = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no valid JSON: {error}") from None
    permissions = settings.get("permissions") or {} if isinstance(settings, Mapping) else None
    if not isinstance(permissions, Mapping):
        raise ValueError(  # noqa: TRY004 (a file's text, not a programmer's type)
            "its permissions are no table: write deny and ask as lists of rules"
        )
    return {kind: tuple(_rules(permissions.get(kind), kind)) for kind in ("ask", "deny")}


def _rules(found: object, kind: str) -> Iterator[str]:
    if found is None:
        return
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(f"permissions.{kind} is no list of rules")
    yield from _readable(found)


def _readable(texts: Iterable[str]) -> Iterator[str]:
    """Each rule, or the stricter one that can be kept: of a pattern that cannot, the whole tool."""
    for text in texts:
        name, _, pattern = text.strip().partition("(")
        if is_about_paths(name) and pattern.strip().startswith(OUTSIDE):
            continue  # no tool reaches what lies there, so there is nothing to deny
        try:
            rule(text)
        except ConfigError:
            yield _whole(name, text)
        else:
            yield text


def _whole(name: str, text: str) -> str:
    try:
        return rule(name).text
    except ConfigError:
        raise ValueError(f"the rule {text!r:.60} cannot be read: mend it or take it out") from None
