"""The result of a run, as the library returns it and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.events import SCHEMA, Status
from orchestrator.ledger import Usage
from orchestrator.readings import AgentRow, RunSummary
from orchestrator.rundir import RunDir
from orchestrator.state import State


@dataclass(frozen=True)
class Report:
    """How a run went. ``reason`` is ``None`` when it finished.

    ``usage`` is the sum over ``agents``, every request included as far as the provider reported it;
    ``cost_usd`` is ``None`` where a price is not known. Paths are relative to the workspace.
    """

    run_id: str
    status: Status
    reason: str | None
    conclusion: str
    conclusion_path: str | None
    artifacts: tuple[str, ...]
    usage: Usage
    cost_usd: float | None
    seconds: float
    log: str
    resume: str
    agents: tuple[AgentRow, ...]
    # Why the run could not go on, in words: a failed call, a full context.
    message: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The documented form (``schema`` 1)."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "conclusion": self.conclusion,
            "conclusion_path": self.conclusion_path,
            "artifacts": list(self.artifacts),
            "usage": self.usage.as_json(),
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
            "log": self.log,
            "resume": self.resume,
            "agents": [agent.as_json() for agent in self.agents],
        }


_FULL = ("exhausted", "context_length_exceeded")


def _why_full(main: State | None) -> str | None:
    """What a person can do about a context that was full and could not be made smaller."""
    if main is None or main.ended is None or main.ended.reason not in _FULL:
        return None
    return (
        f"the next request has about {main.context_tokens:,} tokens and asks for "
        f"{main.output_tokens:,} more, the window has {main.window_tokens:,}: choose a larger "
        "--window, or a model that has one"
    )


def report_of(summary: RunSummary, run_dir: RunDir, main: State | None = None) -> Report:
    """The report of a run. Without the end of its main agent the run was stopped from outside."""
    ended = main.ended if main is not None else None
    failure = main.failure if main is not None else None
    return Report(
        run_id=run_dir.run_id,
        status="cancelled" if ended is None else ended.status,
        reason="cancelled" if ended is None else ended.reason,
        conclusion="" if ended is None else ended.conclusion,
        conclusion_path=None if ended is None else ended.path,
        artifacts=() if ended is None else tuple(ended.artifacts),
        usage=summary.usage,
        cost_usd=summary.cost_usd,
        seconds=summary.seconds,
        log=run_dir.shown(run_dir.log),
        resume=f"outrider resume {run_dir.run_id}",
        agents=summary.agents,
        message=failure.message if failure is not None else _why_full(main),
    )
