"""What came back from the subagents, as the main agent's calls and summaries tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.rehearsal import formats
from orchestrator.rehearsal.conversation import READ, Call, Conversation, Wish
from orchestrator.rehearsal.extract import shortened
from orchestrator.rehearsal.findings import Findings, parse, render
from orchestrator.rehearsal.reading import pages_by_path

TASK = "task"
_MOST_PAGES = 3
_AREA = re.compile(r"\*\*Area:\*\* (.*) · (.*)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One subagent's end. ``status`` says how it ended and what ran it, ``findings`` is ``None``
    for a conclusion that is no survey's."""

    area: str
    status: str
    findings: Findings | None
    text: str

    @property
    def is_finished(self) -> bool:
        return self.status.startswith("finished")


def outcomes_of(conversation: Conversation) -> list[Outcome]:
    """All outcomes, in the order of the calls; each area once."""
    known: dict[str, Outcome] = {}
    for aside in (conversation.task, *conversation.asides):
        known |= {outcome.area: outcome for outcome in _noted(aside)}
    pages = pages_by_path(conversation.calls)
    for call in conversation.calls:
        if call.tool == TASK:
            outcome = _outcome(call, pages)
            known[outcome.area] = outcome
    return list(known.values())


def read_on(conversation: Conversation) -> Iterator[Wish]:
    """The calls that fetch the rest of conclusions that were cut, page by page."""
    pages = pages_by_path(conversation.calls)
    reads = [call for call in conversation.calls if call.tool == READ]
    for call in conversation.calls:
        report = formats.child_report(call.answer) if call.tool == TASK else None
        if report is None or report.continues is None:
            continue
        path = report.continues
        mine = [formats.page(read.answer) for read in reads if read.argument("path") == path]
        if not mine:
            yield Wish(READ, {"path": path})
        elif mine[-1] and mine[-1].goes_on and len(mine) < _MOST_PAGES:
            yield Wish(READ, {"path": path, "offset": max(pages[path]) + 1})


def note(outcome: Outcome, room: int) -> str:
    """The outcome as lines of a summary, from which `outcomes_of` has it again."""
    head = f"**Area:** {outcome.area} · {outcome.status}"
    body = shortened(outcome.text)
    if outcome.findings:
        body = render(outcome.findings, room - len(head))
    return f"{head}\n{body}"


def _noted(aside: str) -> Iterator[Outcome]:
    # The pattern has two groups: area, status and body alternate behind what comes before them.
    parts = _AREA.split(aside)[1:]
    for area, status, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Outcome(area, status, parse(body), body.strip())


def _outcome(call: Call, pages: dict[str, dict[int, str]]) -> Outcome:
    area = call.argument("description") or shortened(call.argument("prompt"))
    report = None if call.failed else formats.child_report(call.answer)
    if report is None:
        return Outcome(area, "failed", None, shortened(call.answer))
    lines = pages.get(report.continues or "", {})
    text = "\n".join(lines[number] for number in sorted(lines)) if lines else report.text
    found = parse(text)
    if found and report.continues and not lines:
        found.add_gap("the conclusion was cut, and its rest was not read")
    because = f" ({shortened(report.reason)})" if report.reason else ""
    return Outcome(area, f"{report.status}{because}, by {report.agent_type}", found, text)
