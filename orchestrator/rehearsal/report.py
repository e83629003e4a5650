"""The texts with which the rehearsal ends: a subagent's conclusion, the merged report, a summary."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.rehearsal.conversation import Conversation
from orchestrator.rehearsal.extract import shortened
from orchestrator.rehearsal.findings import (
    GAPS,
    LARGEST,
    MARKED,
    NAMES,
    PURPOSE,
    fitting,
    marked_lines,
    merged,
    named_lines,
    purpose_lines,
    render,
    section,
    sized,
    sized_lines,
)
from orchestrator.rehearsal.outcomes import Outcome, note, outcomes_of
from orchestrator.rehearsal.scope import Scope
from orchestrator.rehearsal.survey import gather, note_gaps
from orchestrator.rehearsal.tree import tree_of

DISCLOSURE = "This is a rehearsal: no language model wrote it; tools found what it says."
# Others add lines behind a summary: they are none of its findings.
END = "**End of findings:** what follows is not the rehearsal's."
STOPPED = "It was stopped at a limit: this is what there was until then."
SAID = (
    "That was said to it since. No language model is here to follow it: a rehearsal surveys the same "
    "files, whatever it is told."
)
# With a subagent's head line, eight conclusions side by side stay within their common limit or
# little above it: what is over is read from the file where the conclusion goes on.
_CONCLUSION_BYTES = 5_200
_BYTES_PER_TOKEN = 3
_MOST_REPORT_BYTES = 24_000
_MOST_LARGEST = 10


def conclusion(conversation: Conversation, scope: Scope, max_tokens: int, stopped: bool) -> str:
    """What a survey found."""
    found = gather(conversation, scope)
    found.covered = list(scope.confirmed(found.lines).paths) or ["./"]
    note_gaps(found, scope, conversation)
    room = min(_CONCLUSION_BYTES, max_tokens * _BYTES_PER_TOKEN)
    return "\n\n".join([*_opening(conversation, stopped), render(found, room)])


def report(conversation: Conversation, max_tokens: int, stopped: bool) -> str:
    """The merged report of all areas, in Markdown."""
    outcomes = outcomes_of(conversation)
    tree = tree_of(conversation)
    if not outcomes and not stopped and tree is not None and not tree.files:
        empty = "The workspace is empty: there are no files to survey (hidden, ignored and denied ones apart)."
        return "\n\n".join([*_opening(conversation, stopped), empty])
    room = min(_MOST_REPORT_BYTES, max_tokens * _BYTES_PER_TOKEN)
    whole = merged(outcome.findings for outcome in outcomes if outcome.findings)
    each = room // 2 // max(len(outcomes), 1)
    parts = [
        *_opening(conversation, stopped),
        f"Task: {shortened(conversation.task)}",
        *(_area(outcome, each) for outcome in outcomes),
        f"## Totals\n\nAreas: {len(outcomes)}. {sized(whole)}.",
        *_listing(LARGEST, sized_lines(whole)[:_MOST_LARGEST], room // 8),
        *_listing(MARKED, marked_lines(whole), room // 3),
        *_listing(GAPS, _gaps(outcomes, tree is not None and tree.whole), room // 6),
    ]
    return "\n\n".join(parts)


def summary(conversation: Conversation, max_tokens: int) -> str:
    """What was found so far, in lines that later turns read again."""
    # Half of what may be written is what was asked for (`steps.summary_request`).
    room = max_tokens * _BYTES_PER_TOKEN // 2
    outcomes = outcomes_of(conversation)
    found = gather(conversation, Scope(()))
    if outcomes:
        each = room // len(outcomes)
        text = "\n\n".join(note(outcome, each) for outcome in outcomes)
    elif found.lines or found.marked:
        text = render(found, room)
    else:
        return "Nothing was found so far."
    return f"{text}\n\n{END}"


def _opening(conversation: Conversation, stopped: bool) -> list[str]:
    opening = [DISCLOSURE, STOPPED] if stopped else [DISCLOSURE]
    if conversation.said:
        opening += ["\n".join(f"> {shortened(text)}" for text in conversation.said), SAID]
    return opening


def _area(outcome: Outcome, room: int) -> str:
    """An area's section; what belongs to all areas together is listed below them."""
    head = [f"## {outcome.area}", f"Status: {outcome.status}"]
    found = outcome.findings
    if found is None:
        return "\n\n".join([*head, *fitting(outcome.text.splitlines() or ["nothing"], room)])
    body = [sized(found)]
    body += section(PURPOSE, fitting(purpose_lines(found), room // 2))
    body += section(NAMES, fitting(named_lines(found), room // 2))
    return "\n\n".join([*head, "\n".join(body)])


def _listing(title: str, items: list[str], room: int) -> list[str]:
    lines = [f"- {item}" for item in fitting(items, room)] or ["None found."]
    return [f"## {title}", "\n".join(lines)]


def _gaps(outcomes: Sequence[Outcome], is_tree_whole: bool) -> list[str]:
    gaps = [f"{o.area}: {o.status}" for o in outcomes if not o.is_finished]
    gaps += [f"{o.area}: {gap}" for o in outcomes if o.findings for gap in o.findings.gaps]
    if not is_tree_whole:
        gaps.append("the listing of the workspace was read in part: files may be missing")
    return [
        *gaps,
        "hidden files, caches of compiled and fetched code, what .gitignore names and what a rule denies",
    ]
