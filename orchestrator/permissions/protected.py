"""What says how agents work: definitions, settings and servers. No tool changes them by accident."""

from __future__ import annotations

from functools import lru_cache

from orchestrator.permissions.rules import PathPattern, Rule, path_pattern
from orchestrator.permissions.subjects import WRITERS, Path, Subject
from subagents import FOLDERS
from workspace import PRIVATE, Parts, is_private
from workspace import Rule as PathRule

# Outrider's own folder is closed without exception, in `workspace.Access`. All of these are read by
# somebody: a run in a folder further down reads what lies above it, and other programs read the rest.
PROTECTED = (
    *(f"**/{folder}/**" for folder in FOLDERS if not folder.startswith(".outrider/")),
    "**/.claude/settings*.json",
    "**/.mcp.json",
    "**/.outrider/**",
)
# The same as names in the workspace's root, for a shell, which looks for names.
BY_NAME: tuple[Parts, ...] = (
    *(tuple(folder.split("/")) for folder in FOLDERS if not folder.startswith(".outrider/")),
    (".claude", "settings.json"),
    (".claude", "settings.local.json"),
    (".mcp.json",),
)


def protecting(
    tool: str, subject: Subject, allow: tuple[Rule, ...], more: tuple[Parts, ...] = ()
) -> str | None:
    """The built-in rule that keeps ``tool`` from writing there, unless a rule to allow names the place
    itself: ``write(**)`` does not, ``write(.claude/agents/**)`` does. ``more``: files of this run."""
    if tool not in WRITERS or not isinstance(subject, Path):
        return None
    if is_private(subject.parts):
        return f"protected {PRIVATE}/**"
    text = _covering(subject.parts, more)
    if text is None or any(_speaks_of(r, tool, subject, more) for r in allow):
        return None
    return f"protected {text.removeprefix('**/')}"


def _speaks_of(rule: Rule, tool: str, subject: Path, more: tuple[Parts, ...]) -> bool:
    pattern = rule.pattern
    if not rule.concerns(tool) or not isinstance(pattern, PathPattern):
        return False
    written = pattern.strict.pattern.strip("/")
    named = _covering(pattern.strict.fixed, more) is not None or f"**/{written}" in PROTECTED
    return named and rule.covers(subject)


def _covering(parts: Parts, more: tuple[Parts, ...]) -> str | None:
    # A shell asks for every path of a workspace: most are told apart by their names alone.
    folded = tuple(name.casefold() for name in parts)
    if not _NAMES.isdisjoint(folded):
        found = next((rule.pattern for rule in _RULES if rule.matches(parts)), None)
        if found is not None:
            return found
    if not more:
        return None
    depths = range(1, len(parts) + 1)
    return next((path_pattern(parts[:d]) for d in depths if folded[:d] in _folded(more)), None)


@lru_cache(maxsize=64)
def _folded(paths: tuple[Parts, ...]) -> frozenset[Parts]:
    return frozenset(tuple(name.casefold() for name in parts) for parts in paths)


_RULES = tuple(map(PathRule, PROTECTED))
# One of them is in every path that a built-in rule covers.
_NAMES = frozenset(pattern.removeprefix("**/").split("/")[0] for pattern in PROTECTED)
