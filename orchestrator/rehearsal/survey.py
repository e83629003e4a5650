"""Surveying an area with the file tools: what to call next, and what the answers say."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from orchestrator.rehearsal import extract, formats
from orchestrator.rehearsal.conversation import READ, Call, Conversation, Wish
from orchestrator.rehearsal.findings import Findings, absorb, count_of, parse
from orchestrator.rehearsal.reading import Answer, answers, pages_by_path, read_back
from orchestrator.rehearsal.scope import Scope

# The last turn in which a survey still calls tools.
LAST_TURN = 5
_EVERY_LINE = "^"
_SEARCHES = {
    _EVERY_LINE: "files and their sizes",
    extract.MARKED: "TODO/FIXME lines",
    extract.NAME: "public names",
    extract.DOCUMENTED: "docstrings",
    extract.HEADING: "headings",
}
# Files that introduce a folder, by their names without extension, in many languages.
_INTRODUCING = ("readme", "index", "main", "__init__", "mod", "lib")
_MOST_READ = 5
_MOST_FOLDERS = 6


def next_calls(conversation: Conversation, scope: Scope) -> list[Wish]:
    """The calls of this turn; none when everything that the tools can tell is known.

    Each turn has its stage. A stage without calls gives way to the next one, never to an earlier:
    what an old turn found may be gone from the history.
    """
    if conversation.turn > LAST_TURN:
        return []
    found = gather(conversation, scope)
    moved = list(read_back(conversation.calls))
    for stage in _STAGES[conversation.turn - 1 :]:
        calls = conversation.fresh([*moved, *stage(found, scope.confirmed(found.lines))])
        if calls:
            return calls
    return conversation.fresh(moved)


def _look(found: Findings, scope: Scope) -> Iterator[Wish]:
    folders = [path for path in scope.paths if path.endswith("/")] or ["."]
    for folder in folders[:_MOST_FOLDERS]:
        yield Wish("ls", {"path": folder.rstrip("/")})
    yield Wish("glob", {"pattern": scope.pattern() or "*", "path": scope.base})
    if not scope.exact:
        yield Wish("glob", {"pattern": "*", "path": "."})


def _search(found: Findings, scope: Scope) -> Iterator[Wish]:
    everything = scope.pattern()
    yield _grep(_EVERY_LINE, scope, everything, "count")
    for pattern in (extract.MARKED, extract.NAME, extract.DOCUMENTED):
        yield _grep(pattern, scope, everything, "content")
    if (prose := scope.pattern(extract.PROSE)) != "":
        yield _grep(extract.HEADING, scope, prose, "content")


def _grep(pattern: str, scope: Scope, glob: str | None, output: str) -> Wish:
    # The pattern last: where an excerpt is cut, the short arguments are still there.
    where = {"path": scope.base, "output": output}
    return Wish("grep", where | ({} if glob is None else {"glob": glob}) | {"pattern": pattern})


def _read(found: Findings, scope: Scope) -> Iterator[Wish]:
    """The first page of the files that tell most: those that introduce, and the largest."""
    largest = [path for path, _ in found.largest()]
    known = largest if found.is_counted else _uncounted(found, scope)
    introducing = sorted(filter(_is_introducing, known), key=_rank)
    for path in list(dict.fromkeys([*introducing[: _MOST_READ - 2], *known]))[:_MOST_READ]:
        # What an earlier turn read may be gone from the history, but a summary names it.
        if path not in found.read:
            yield Wish(READ, {"path": path})


def _uncounted(found: Findings, scope: Scope) -> list[str]:
    """Files in an order that says nothing of their size."""
    return sorted(found.lines) or [path for path in scope.paths if not path.endswith("/")]


def _read_on(found: Findings, scope: Scope) -> Iterator[Wish]:
    """The second page of the largest file."""
    for path, lines in found.largest()[:1]:
        reached = found.read.get(path, 0)
        if 0 < reached < lines:
            yield Wish(READ, {"path": path, "offset": reached + 1})


_STAGES: tuple[Callable[[Findings, Scope], Iterator[Wish]], ...] = (
    _look,
    _search,
    _read,
    _read,  # what the limit of pages a turn left over
    _read_on,
)


def _is_introducing(path: str) -> bool:
    return _stem(path) in _INTRODUCING


def _rank(path: str) -> tuple[int, int, str]:
    return path.count("/"), _INTRODUCING.index(_stem(path)), path


def _stem(path: str) -> str:
    return posixpath.basename(path).partition(".")[0].lower()


# ── what the answers say ─────────────────────────────────────────────────────────────────────────


def gather(conversation: Conversation, scope: Scope) -> Findings:
    """Everything that the conversation tells of the scope, summaries of earlier turns included."""
    found = Findings()
    # In a pruned summary request the first text is a transcript, earlier summary included.
    for aside in (conversation.task, *conversation.asides):
        if earlier := parse(aside):
            absorb(found, earlier)
    found.covered = []
    told = answers(conversation.calls)
    for answer in told:
        _list_files(found, answer)
    scope = scope.confirmed(found.lines)
    found.lines = {path: n for path, n in found.lines.items() if scope.holds(path)}
    for answer in told:
        if answer.call.tool == "grep":
            _take_matches(found, scope, answer)
    _take_pages(found, scope, conversation)
    return found


def _list_files(found: Findings, answer: Answer) -> None:
    """Paths with their lines, where counted; 0 until then."""
    call = answer.call
    listed: dict[str, int] = {}
    if call.tool == "glob" or (call.tool == "grep" and call.argument("output") != "content"):
        counted = call.arguments.get("pattern") == _EVERY_LINE
        listed = dict(formats.counts(answer.text)) if counted else {}
        found.is_counted = found.is_counted or call.argument("output") == "count"
        listed = listed or dict.fromkeys(formats.paths(answer.text), 0)
    elif call.tool == "ls":
        folder = call.argument("path") or "."
        names = formats.folder_entries(answer.text)[1]
        # `glob` leaves hidden names out, and so do we.
        shown = (posixpath.normpath(f"{folder}/{n}") for n in names if not n.startswith("."))
        listed = dict.fromkeys(shown, 0)
    for path, lines in listed.items():
        found.lines[path] = max(lines, found.lines.get(path, 0))


def _take_matches(found: Findings, scope: Scope, answer: Answer) -> None:
    pattern = answer.call.argument("pattern")
    for path, number, line in formats.matches(answer.text):
        if scope.holds(path):
            _take_line(found, path, number, line)
    if not answer.whole:
        # Of a call in an excerpt the pattern may be cut off.
        what = _SEARCHES.get(pattern, "a search")
        found.add_gap(f"{what}: only a part of the answer was read")


def _take_line(found: Findings, path: str, number: int, line: str) -> None:
    if text := extract.marked(line):
        found.marked.setdefault((path, number), text)
    if name := extract.public_name(path, line):
        found.add_name(path, name)
    if text := extract.purpose(path, number, line):
        found.purposes.setdefault(path, text)


def _take_pages(found: Findings, scope: Scope, conversation: Conversation) -> None:
    """What was read of the scope's own files; pages of moved answers are none of them."""
    for path, lines in pages_by_path(conversation.calls).items():
        if path not in found.lines and path not in scope.paths:
            continue
        for number, line in lines.items():
            _take_line(found, path, number, line)
        if text := extract.first_purpose(path, lines.items()):
            found.purposes.setdefault(path, text)
        found.read[path] = max(lines, default=0)
        found.lines[path] = max(found.lines.get(path, 0), found.read[path])


def note_gaps(found: Findings, scope: Scope, conversation: Conversation) -> None:
    """Say what the survey did not see: failed calls, missing tools, files that were not opened."""
    for call in conversation.calls:
        if call.failed:
            found.add_gap(_failure(call))
    # After a compaction not every file is known any more, only how many there were.
    for path in scope.paths if scope.exact and not found.total[0] else ():
        if not any(Scope((path,)).holds(file) for file in found.lines):
            found.add_gap(f"`{path}`: no files were found there")
    if not conversation.tools:
        found.add_gap("everything: there were no tools to look with")
    elif "grep" not in conversation.tools:
        found.add_gap("TODO/FIXME lines and names outside the pages that were read: no grep here")
    unread = found.size[0] - len(found.read)
    if found.lines and unread > 0:
        found.add_gap(f"{count_of(unread, 'file')} only listed and searched, not read")


def _failure(call: Call) -> str:
    subject = call.argument("path") or call.argument("pattern")
    return f"`{call.tool}` of `{subject}`: {extract.shortened(call.answer)}"
