"""Permission rules: what tools may touch, as text that people write. Pure.

A rule is ``read(<pattern>)`` or ``write(<pattern>)`` with a pattern in ``.gitignore`` syntax, or the
bare name of a tool, which takes that tool away. What may not be read may not be written either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.errors import ConfigError
from workspace import Access, Rule

_RULE = re.compile(r"(?P<kind>[A-Za-z0-9_-]+)(?:\((?P<pattern>.*)\))?")
_PATH_KINDS = ("read", "write")
_UNREADABLE = "permissions cannot be read: write deny: [read(<pattern>), <tool>]"


@dataclass(frozen=True)
class Permissions:
    """What a run's tools may not do. Children never have more than their parents.

    Raises `ConfigError` for a rule that cannot be read: one that is silently ignored protects nothing.
    """

    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self._parsed

    @cached_property
    def _parsed(self) -> list[tuple[str, str | None, str]]:
        return [_parse(rule) for rule in self.deny]

    def narrowed(self, given: object) -> Permissions:
        """These and what a definition forbids besides. Nothing that it allows counts: a child never
        has more than its parent. Raises ``ValueError`` for what cannot be read."""
        if given is None:
            return self
        if not isinstance(given, Mapping):
            raise ValueError(_UNREADABLE)  # noqa: TRY004 (a file's text, not a programmer's type)
        more: list[str] = []
        # With nobody to ask, asking is a denial.
        for kind in ("deny", "ask"):
            rules = given.get(kind, ())
            rules = [rules] if isinstance(rules, str) else rules
            if not isinstance(rules, Sequence) or not all(isinstance(r, str) for r in rules):
                raise ValueError(_UNREADABLE)
            more += rules
        try:
            return Permissions(deny=(*self.deny, *more))
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def denies_tool(self, name: str) -> bool:
        """Whether the tool as a whole is denied."""
        return any(kind == name and pattern is None for kind, pattern, _ in self._parsed)

    def access(self, readable_private: Callable[[], Iterable[str]]) -> Access:
        """The rules about paths, for the workspace's tools."""
        return Access(
            deny_read=self._rules("read"),
            deny_write=self._rules("write"),
            readable_private=readable_private,
        )

    def _rules(self, wanted: str) -> tuple[Rule, ...]:
        return tuple(
            Rule(pattern or "**", text) for kind, pattern, text in self._parsed if kind == wanted
        )


def _parse(text: str) -> tuple[str, str | None, str]:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"cannot read the rule {text!r}: write read(<pattern>), write(<pattern>) or a tool's name"
        )
    kind, pattern = found["kind"], found["pattern"]
    if pattern is not None and kind not in _PATH_KINDS:
        raise ConfigError(
            f"the rule {text!r} gives {kind} a pattern: patterns go with read(…) and write(…)"
        )
    if pattern is not None:
        try:
            Rule(pattern, text)
        except ValueError as error:
            raise ConfigError(f"cannot read the rule {text!r}: {error}") from None
    return kind, pattern, text
