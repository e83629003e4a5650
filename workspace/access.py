"""Which paths an agent may read and write. Decides by names alone."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pathspec import GitIgnoreSpec

from workspace.errors import Denied, Refused
from workspace.paths import Parts, joined

PRIVATE = ".outrider"
"""The folder in the workspace root that belongs to Outrider itself."""


@dataclass(frozen=True)
class Rule:
    """A deny rule: `pattern` in `.gitignore` syntax, `text` as the user wrote the whole rule.

    Raises `ValueError` for a negated or empty pattern: a rule can only narrow.
    """

    pattern: str
    text: str = ""

    def __post_init__(self) -> None:
        if not self.pattern.strip() or self.pattern.lstrip().startswith(("!", "#")):
            raise ValueError(f"not a deny pattern: {self.pattern!r}")
        _ = self._expressions

    def __str__(self) -> str:
        return self.text or self.pattern

    def matches(self, parts: Parts) -> bool:
        """Whether the rule covers the path, or a folder that the path is in."""
        path = "/".join(parts)
        # With the final slash, so that `secret/` also covers the folder's own name.
        return any(
            expression.match(name)
            for expression in self._expressions
            for name in (path, path + "/")
        )

    @cached_property
    def _expressions(self) -> list[re.Pattern[str]]:
        patterns = [self.pattern]
        if self.pattern.rstrip().endswith("/**"):
            # In git, `secret/**` leaves `secret` itself alone; a denied folder is hidden too.
            folder = self.pattern.rstrip().removesuffix("/**")
            patterns.append(folder if folder.startswith(("/", "**/")) else f"/{folder or '*'}")
        compiled = (p.regex for p in GitIgnoreSpec.from_lines(patterns).patterns)
        # Case must not pass a rule (nor a line break in a name, hence DOTALL).
        flags = re.IGNORECASE | re.DOTALL
        return [re.compile(regex.pattern, flags) for regex in compiled if regex is not None]


def _nothing() -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Access:
    """What one agent may touch inside the root.

    What may not be read may not be written either. Under `.outrider/` nothing is ever written, and
    only what lies under a prefix of `readable_private()` (paths from the root) is read; it is asked
    each time, since children add theirs while the agent runs.
    """

    deny_read: tuple[Rule, ...] = ()
    deny_write: tuple[Rule, ...] = ()
    readable_private: Callable[[], Iterable[str]] = field(default=_nothing)

    def check_read(self, parts: Parts) -> None:
        """Raises `Denied` or `Refused` if the path may not be read."""
        self._apply(self.deny_read, parts)
        if is_private(parts) and not self._is_readable(parts):
            raise Refused(joined(parts), f"{PRIVATE}/ is Outrider's own folder, not for tools")

    def check_write(self, parts: Parts) -> None:
        """Raises `Denied` or `Refused` if the path may not be written or deleted."""
        self._apply((*self.deny_write, *self.deny_read), parts)
        if is_private(parts):
            raise Refused(joined(parts), f"nothing under {PRIVATE}/ can be written by a tool")

    def hides(self, parts: Parts) -> bool:
        """Whether listings and searches leave the path out."""
        try:
            self.check_read(parts)
        except Refused:
            return True
        return False

    def _apply(self, rules: Iterable[Rule], parts: Parts) -> None:
        for rule in rules:
            if rule.matches(parts):
                raise Denied(joined(parts), str(rule))

    def _is_readable(self, parts: Parts) -> bool:
        prefixes = (tuple(prefix.strip("/").split("/")) for prefix in self.readable_private())
        return any(parts[: len(prefix)] == prefix for prefix in prefixes)


def is_private(parts: Parts) -> bool:
    """Whether the path is `.outrider` or below it, however it is spelt."""
    return bool(parts) and parts[0].casefold() == PRIVATE
