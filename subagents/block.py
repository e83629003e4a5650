"""What the readers of definition files hand to each other."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from subagents.definition import JSON, Problem, Severity
from subagents.fields import KNOWN, spelled

_KEY = re.compile(r"""["']?([A-Za-z][\w-]*)["']?[ \t]*:(?=\s|$)""")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the block as it was read. `raw` is its text, for what YAML types away."""

    key: str
    line: int
    value: JSON
    raw: str


@dataclass(slots=True)
class Notes:
    """The problems of one file, in the order in which they were found."""

    path: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: int, key: str, message: str, severity: Severity = "warning") -> None:
        self.problems.append(Problem(self.path, line, key, severity, message))


@dataclass(frozen=True, slots=True)
class Block:
    """The text between the fences, and what follows them."""

    lines: tuple[str, ...]
    first_line: int
    body: str
    end_line: int


def known_key(line: str, among: Collection[str] = KNOWN) -> str | None:
    """The known field that a line starts with at column 0, in its one spelling."""
    match = _KEY.match(line)
    name = spelled(match[1]) if match else ""
    return name if name in among else None
