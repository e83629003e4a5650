"""Every fault of the stand-in, met by every kind of call, so and so often: what becomes of the run.

``python -m tests.fault_matrix`` writes ``docs/faults.md``; `tests/test_fault_matrix.py` checks it.
Runs are made several at a time, and nothing waits between tries.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from orchestrator import Context, Report, calls, run
from orchestrator.claude import ClaudeModel
from orchestrator.events import Compacted, ModelFailed
from orchestrator.journal import read_records
from orchestrator.retry import wait_before_retry
from orchestrator.rundir import RunDir
from orchestrator.testing.standin import Fault, call, say, serve
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.faults import Kind

FILE = Path(__file__).parent.parent / "docs/faults.md"
KINDS: tuple[Kind, ...] = get_args(Kind)
CALLERS: Mapping[str, Mapping[str, Any]] = {
    "main": {"agent": "main", "purpose": "agent"},
    "child": {"agent": "[!m]*"},
    "summary": {"purpose": "summary"},
}
TIMES: Mapping[str, int | None] = {"once": 1, "three times": 3, "always": None}
_AT_ONCE = 16
_READS = 14
# Long for an answer of the stand-in, and what a stream that stands still costs here.
_SILENCE_SECONDS = 2.0
_SECONDS: Mapping[str, float] = {"slow": 0.001}


@dataclass(frozen=True)
class Case:
    kind: Kind
    caller: str
    times: str

    @property
    def fault(self) -> Fault:
        return Fault(
            self.kind,
            **CALLERS[self.caller],
            times=TIMES[self.times],
            seconds=_SECONDS.get(self.kind),
        )


CASES = [Case(*each) for each in product(KINDS, CALLERS, TIMES)]


def _delegates(body: Mapping[str, Any]) -> Answer:
    """The main agent asks a child, which looks once."""
    got = sum(
        block.get("type") == "tool_result"
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, Mapping)
    )
    if got:
        return say("done")
    is_main = any(tool["name"] == "task" for tool in body.get("tools", ()))
    first = body["messages"][0]["content"]
    asked = first if isinstance(first, str) else str(first[0].get("text"))
    return Answer([call("task", prompt="look") if is_main and asked != "look" else call("ls")])


class _Haiku(ClaudeModel):
    name = "claude-haiku-4-5"


class _Reads:
    """Reads until a compaction is due, and concludes some turns later."""

    def __init__(self) -> None:
        self._turns = 0

    def __call__(self, body: Mapping[str, Any]) -> Answer:
        self._turns += 1
        return (
            Answer([call("read_file", path="long.txt")]) if self._turns <= _READS else say("done")
        )


async def outcome(case: Case, root: Path) -> str:
    """What becomes of one run that meets the fault."""
    (root / "long.txt").write_text("a line of some words, not too short\n" * 125)
    brain = _Reads() if case.caller == "summary" else _delegates
    context = Context(window=24_000, offload_at=None) if case.caller == "summary" else Context()
    async with serve(brain, faults=[case.fault]) as server:
        silence = _SILENCE_SECONDS if case.kind == "stall" else 120.0
        model = _Haiku("test", server.base_url, read_timeout=silence)
        try:
            report = await run("do it", model=model, root=root, context=context, memory=False)
        finally:
            await model.aclose()
    return _told(case, report, root)


def _told(case: Case, report: Report, root: Path) -> str:
    facts = [r.fact for r in read_records(RunDir(root, report.run_id).journal)]
    failed = [fact for fact in facts if isinstance(fact, ModelFailed)]
    kinds = sorted({fact.kind for fact in failed})
    said = [report.status if report.reason is None else f"{report.status} (`{report.reason}`)"]
    if case.caller == "child":
        child = report.agents[-1]
        how = child.status if child.reason is None else f"{child.status} (`{child.reason}`)"
        said.append(f"child {how}")
    if case.caller == "summary":
        compacted = [fact for fact in facts if isinstance(fact, Compacted)]
        assert compacted, "a compaction was due"
        said.append("summary by rules" if compacted[0].fallback else "summary by the model")
    if failed:
        again = sum(fact.retry_in_ms is not None for fact in failed)
        said.append(f"{', '.join(kinds)}; tried again {again} ×")
    return " · ".join(said)


async def outcomes() -> dict[Case, str]:
    """All cases, several at a time."""
    found: dict[Case, str] = {}
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(case: Case) -> None:
        async with places:
            with tempfile.TemporaryDirectory() as folder:
                found[case] = await outcome(case, Path(folder))

    decide = wait_before_retry

    def at_once(*args: Any, **more: Any) -> float | None:
        return None if decide(*args, **more) is None else 0.0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calls, "wait_before_retry", at_once)
        async with anyio.create_task_group() as group:
            # Those that take long by themselves begin first.
            for case in sorted(CASES, key=lambda case: case.kind != "stall"):
                group.start_soon(one, case)
    return found


_HEAD = """# Faults of a service, and what becomes of a run

Each fault of the [stand-in](stand-in.md), met by a call of the main agent, by one of its child, and by the call that writes a summary, once,
three times in a row, and always. Made by `python -m tests.fault_matrix`, and checked by a test.

"""


def document(found: Mapping[Case, str]) -> str:
    """The tables, one for each kind of call."""
    parts = [_HEAD.rstrip("\n")]
    for caller in CALLERS:
        parts.append(f"\n## A call of: {caller}\n")
        parts.append(f"| fault | {' | '.join(TIMES)} |\n|---|{'---|' * len(TIMES)}")
        for kind in KINDS:
            cells = " | ".join(found[Case(kind, caller, times)] for times in TIMES)
            parts.append(f"| `{kind}` | {cells} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(asyncio.run(outcomes())))
