"""Whether everything that left a context for a file is there: offloaded results with their hashes,
archives with the messages that compactions took out, conclusions word for word. Reads, never writes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from orchestrator import events as ev
from orchestrator.audit.finding import Check
from orchestrator.audit.sums import replayed
from orchestrator.journal import Whole
from orchestrator.messages import Message
from orchestrator.rundir import read_archive
from orchestrator.state import State


class Outside(Exception):
    """A record names a path that is not inside the workspace."""


class Workspace:
    """Files by the paths that records name: only such as lie inside ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def find(self, path: str) -> Path | None:
        """The file, or ``None`` where there is none. Raises `Outside`, `OSError`."""
        try:
            found = (self._root / path).resolve()
        except (ValueError, RuntimeError):  # a NUL byte; a loop of symlinks
            return None
        if not found.is_relative_to(self._root):
            raise Outside
        return found if found.is_file() else None

    def read(self, path: str, check: Check, where: str) -> bytes | None:
        """The file's bytes. What keeps it from being read goes to the check's problems."""
        try:
            if (found := self.find(path)) is not None:
                return found.read_bytes()
            check.wrong(where, f"{path} is missing")
        except Outside:
            check.wrong(where, f"{path} is not in the workspace")
        except OSError as error:
            check.wrong(where, f"{path} cannot be read: {error.strerror}")
        return None


def check_offloaded(whole: Sequence[Whole], files: Workspace) -> Check:
    """Every offloaded file is there, with the hash that its record has."""
    check = Check("offloaded")
    unhashed: set[str] = set()
    seen: set[tuple[str, str | None]] = set()
    for each in whole:
        fact = each.record.fact
        if not isinstance(fact, ev.Offloaded) or (fact.path, fact.sha256) in seen:
            continue
        seen.add((fact.path, fact.sha256))
        check.checked += 1
        where = f"{each.record.agent_id}, record {each.record.seq}"
        data = files.read(fact.path, check, where)
        if data is None:
            continue
        if fact.sha256 is None:
            unhashed.add(fact.path)
        elif hashlib.sha256(data).hexdigest() != fact.sha256:
            check.wrong(where, f"{fact.path} is not as it was stored: its SHA-256 differs")
    check.said = f"{check.checked:,} files are there, with the hashes that they were stored with"
    if unhashed:
        check.notes.append(
            f"of {len(unhashed)} files no hash was recorded (an older journal): that they are there "
            "is checked, what is in them is not checked"
        )
    return check


def check_archives(whole: Sequence[Whole], files: Workspace, *, is_complete: bool) -> Check:
    """Every archive holds each message that a compaction took out, in order.

    ``is_complete``: no record is lost, and each follows from those before it, so that it is known which
    messages these were.
    """
    check = Check("archives")
    archives: dict[str, _Archive | None] = {}
    for before, each in replayed(whole) if is_complete else ((None, each) for each in whole):
        fact = each.record.fact
        if not isinstance(fact, ev.Compacted):
            continue
        check.checked += 1
        where = f"{each.record.agent_id}, record {each.record.seq}"
        if fact.archive not in archives:
            archives[fact.archive] = _opened(fact.archive, files, check, where)
        _check_dropped(archives[fact.archive], before, fact, check, where)
        _check_facts(files, before, fact, check, where)
    check.said = f"{check.checked:,} compactions, every message that they took out is archived"
    if not is_complete:
        check.notes.append(
            "what is in the archives is not checked: the journal is not whole, or of no run"
        )
    return check


def _check_dropped(
    archive: _Archive | None, before: State | None, fact: ev.Compacted, check: Check, where: str
) -> None:
    if before is None or archive is None:
        return
    dropped = [e.message for e in before.messages[1 : 1 + fact.messages]]
    if not archive.has_next(dropped):
        check.wrong(where, f"{fact.archive} lacks messages that this compaction took out")


def _check_facts(
    files: Workspace, before: State | None, fact: ev.Compacted, check: Check, where: str
) -> None:
    """The file of facts that had no place beside the summary."""
    if fact.facts_path is None:
        return
    data = files.read(fact.facts_path, check, where)
    if data is None or before is None:
        return
    kept = "\n".join((*before.more_facts, *fact.more_facts)) + "\n"
    if data != kept.encode("utf-8", "surrogatepass"):
        check.wrong(where, f"{fact.facts_path} is not as it was stored")


class _Archive:
    """An archive's messages, looked through from the first to the last."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._at = 0

    def has_next(self, wanted: Sequence[Message]) -> bool:
        """Whether ``wanted`` stand together somewhere behind those that were found before."""
        for start in range(self._at, len(self._messages) - len(wanted) + 1):
            if list(self._messages[start : start + len(wanted)]) == list(wanted):
                self._at = start + len(wanted)
                return True
        return False


def _opened(path: str, files: Workspace, check: Check, where: str) -> _Archive | None:
    if files.read(path, check, where) is None:
        return None
    found = files.find(path)
    return None if found is None else _Archive(list(read_archive(found)))


def check_conclusions(whole: Sequence[Whole], files: Workspace) -> Check:
    """Every conclusion lies in its file, word for word."""
    check = Check("conclusions")
    ends: dict[str, Whole] = {}
    unwritten = 0
    for each in whole:
        fact = each.record.fact
        if isinstance(fact, ev.AgentEnded) and fact.path is not None:
            ends[fact.path] = each  # a later end of the same agent may stand in the same file
        elif isinstance(fact, ev.AgentEnded):
            unwritten += 1
    for path, each in ends.items():
        fact = each.record.fact
        assert isinstance(fact, ev.AgentEnded)
        check.checked += 1
        where = f"{each.record.agent_id}, record {each.record.seq}"
        data = files.read(path, check, where)
        text = fact.conclusion if fact.conclusion.endswith("\n") else f"{fact.conclusion}\n"
        if data is not None and data != text.encode(errors="backslashreplace"):
            check.wrong(where, f"{path} is not the conclusion that was recorded")
    check.said = f"{check.checked:,} conclusions are in their files, word for word"
    if unwritten:
        check.notes.append(f"{unwritten} could not be written at the time: the journal has them")
    return check
