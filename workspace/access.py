"""Which paths an agent may read and write. Decides by names alone."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Literal

from pathspec import GitIgnoreSpec

from workspace.errors import Denied, Refused
from workspace.paths import Parts, joined

PRIVATE = ".outrider"
"""The folder in the workspace root that belongs to Outrider itself."""


@dataclass(frozen=True)
class Rule:
    """A rule about paths: `pattern` in `.gitignore` syntax, `text` as the user wrote the whole rule.

    `exact_case`: for a rule that permits; one that denies holds in any case.
    Raises `ValueError` for a negated or empty pattern: a rule can only narrow.
    """

    pattern: str
    text: str = ""
    exact_case: bool = False

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
    def fixed(self) -> Parts:
        """The names that the pattern begins with, up to the first wildcard."""
        names = self.pattern.strip().strip("/").split("/")
        return tuple(takewhile(lambda name: not set(name) & set("*?[\\"), names))

    def leads_to(self, folder: Parts) -> bool:
        """Whether something below the folder could be covered, by the names that the pattern begins
        with."""
        names = self.pattern.strip().strip("/").split("/")
        if len(names) == 1 and not self.pattern.strip().startswith("/"):
            return True  # a bare name holds at any depth
        fixed = self.fixed
        shorter = min(len(fixed), len(folder))
        return fixed[:shorter] == folder[:shorter] and (
            len(folder) < len(fixed) or len(fixed) < len(names)
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
        flags = re.DOTALL if self.exact_case else re.IGNORECASE | re.DOTALL
        return [re.compile(regex.pattern, flags) for regex in compiled if regex is not None]


Use = Literal["read", "write", "list"]
"""What is to be done with a path; `list`: a folder is entered whose names are shown as far as each
of them may be read."""


def _nothing() -> Iterable[str]:
    return ()


def _everything(use: Use, parts: Parts) -> None:
    return None


@dataclass(frozen=True)
class Access:
    """What one agent may touch inside the root.

    What may not be read may not be written either. Under `.outrider/` nothing is ever written, and
    only what lies under a prefix of `readable_private()` (paths from the root) is read; it is asked
    each time, since children add theirs while the agent runs. `also(use, parts)` raises `Denied` for
    whatever else forbids the path, and `speaks()` says whether it could forbid any path now, apart from
    writing to what is `guarded`: a shell looks for these by name, without a walk through everything.
    """

    deny_read: tuple[Rule, ...] = ()
    deny_write: tuple[Rule, ...] = ()
    readable_private: Callable[[], Iterable[str]] = field(default=_nothing)
    also: Callable[[Use, Parts], None] = field(default=_everything)
    speaks: Callable[[], bool] = field(default=lambda: True)
    guarded: tuple[Parts, ...] = ()

    @property
    def has_rules(self) -> bool:
        """Whether anything outside `.outrider/` could be forbidden."""
        if self.deny_read or self.deny_write:
            return True
        return self.also is not _everything and self.speaks()

    def check_read(self, parts: Parts) -> None:
        """Raises `Denied` or `Refused` if the path may not be read."""
        self._check_read(parts, "read")

    def check_list(self, parts: Parts) -> None:
        """Raises `Denied` or `Refused` if nothing of what is in the folder may be read."""
        self._check_read(parts, "list")

    def _check_read(self, parts: Parts, use: Use) -> None:
        self._apply(self.deny_read, parts)
        self.also(use, parts)
        if is_private(parts) and not self._is_readable(parts):
            raise Refused(joined(parts), f"{PRIVATE}/ is Outrider's own folder, not for tools")

    def check_write(self, parts: Parts) -> None:
        """Raises `Denied` or `Refused` if the path may not be written or deleted."""
        self._apply((*self.deny_write, *self.deny_read), parts)
        self.also("write", parts)
        if is_private(parts):
            raise Refused(joined(parts), f"nothing under {PRIVATE}/ can be written by a tool")

    def keeps(self, parts: Parts) -> bool:
        """Whether the path may not be written."""
        try:
            self.check_write(parts)
        except Refused:
            return True
        return False

    def hides(self, parts: Parts, *, folder: bool = False) -> bool:
        """Whether listings and searches leave the path out."""
        try:
            self._check_read(parts, "list" if folder else "read")
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
