"""What was decided about a call, and the words in which a refusal says it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["allow", "ask", "deny"]
_PLAIN = frozenset('$`\\"!')
_MOST_RULES = 5  # that a refusal names


@dataclass(frozen=True, slots=True)
class Decision:
    """``rule``: what decided, as a refusal names it; ``None`` where no rule spoke. ``permit``: the
    allow rules with which the call would pass; empty where none would."""

    verdict: Verdict
    rule: str | None = None
    permit: tuple[str, ...] = ()

    @property
    def how_to_permit(self) -> str:
        """What a person would add; empty where no rule helps."""
        if not self.permit:
            return ""
        options = " ".join(f"--allow {_argument(rule)}" for rule in self.permit[:_MOST_RULES])
        more = len(self.permit) - _MOST_RULES
        return f"to permit it: {options}" + (f" and {more} more" if more > 0 else "")


def _argument(rule: str) -> str:
    """A rule as one writes it on a command line."""
    if shlex.quote(rule) == rule:
        return rule
    return shlex.quote(rule) if set(rule) & _PLAIN else f'"{rule}"'
