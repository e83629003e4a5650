"""What an audit finds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from orchestrator.events import SCHEMA
from orchestrator.ledger import Usage

# Problems of one check that are listed; all are counted.
_LISTED = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it must be: where, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class Check:
    """One thing that was looked at. ``said``: in words, with figures; ``notes``: what a reader should
    know that is no fault."""

    name: str
    said: str = ""
    checked: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def wrong(self, where: str, what: str) -> None:
        self.problems.append(Problem(where, what))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ok": self.ok,
            "checked": self.checked,
            "said": self.said,
            "problems": len(self.problems),
            "listed": [{"where": p.where, "what": p.what} for p in self.problems[:_LISTED]],
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class Unreported:
    """A call of which the provider reported no tokens."""

    agent_id: str
    turn: int
    seq: int
    event: str
    kind: str | None
    request_id: str | None

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass
class Audit:
    """The checks in the order in which they were made: each stands on those before it.

    ``whole`` and ``lost``: numbers of the journal's records, as first and last of each row of them.
    """

    run_id: str
    status: str
    checks: list[Check] = field(default_factory=list)
    usage: Usage = Usage()
    agents: int = 0
    calls: int = 0
    unreported: list[Unreported] = field(default_factory=list)
    whole: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def first(self) -> Problem | None:
        """The first broken place."""
        for check in self.checks:
            for problem in check.problems:
                return Problem(f"{check.name}: {problem.where}", problem.what)
        return None

    def as_json(self) -> dict[str, Any]:
        first = self.first
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "status": self.status,
            "ok": self.ok,
            "first": None if first is None else {"where": first.where, "what": first.what},
            "checks": [check.as_json() for check in self.checks],
            "usage": self.usage.as_json(),
            "total_tokens": self.usage.total_tokens,
            "agents": self.agents,
            "calls": self.calls,
            "unreported": [call.as_json() for call in self.unreported],
            "records": {
                "whole": [list(each) for each in self.whole],
                "lost": [{"first": f, "last": n, "why": why} for f, n, why in self.lost],
            },
        }
