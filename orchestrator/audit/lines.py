"""Whether ``log.jsonl`` says what the journal says, line by line. Pure.

A secret that was taken out of a line cannot be put back, and which ones were depends on the
environment of that time: where a line holds the mark, the text around it must be the journal's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.audit.finding import Check
from orchestrator.events import AgentStarted, Fact
from orchestrator.journal import Whole
from orchestrator.logs import HEADER, log_line
from orchestrator.redaction import MARK


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log, from 1. ``fields`` is ``None`` where it is no JSON object; ``is_torn``: the
    file ends before it does."""

    number: int
    fields: dict[str, Any] | None
    is_torn: bool = False

    @property
    def seq(self) -> int | None:
        seq = None if self.fields is None else self.fields.get("seq")
        return seq if isinstance(seq, int) else None


def parse(data: bytes) -> list[Line]:
    """The lines of a log file."""
    texts = data.split(b"\n")
    torn = texts.pop()
    lines = [Line(number, _object(text)) for number, text in enumerate(texts, 1)]
    if torn:
        lines.append(Line(len(lines) + 1, _object(torn), is_torn=True))
    return lines


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def last_seq(lines: Sequence[Line]) -> int:
    """The highest number that the log knows."""
    return max((line.seq or 0 for line in lines), default=0)


def check_log(
    lines: Sequence[Line], whole: Sequence[Whole], run_id: str, *, is_complete: bool
) -> Check:
    """``is_complete``: the run has ended, so that the log holds all that the journal holds."""
    reading = _Reading(whole, run_id, is_complete=is_complete)
    for line in lines:
        reading.take(line)
    return reading.end(len(lines))


class _Reading:
    """The log, line by line, against the journal's records."""

    def __init__(self, whole: Sequence[Whole], run_id: str, *, is_complete: bool) -> None:
        self._check = Check("log")
        self._records = {each.record.seq: each for each in whole}
        self._run_id = run_id
        self._is_complete = is_complete
        self._parents = {
            each.record.agent_id: (each.record.fact.parent_id, each.record.fact.agent_type)
            for each in whole
            if isinstance(each.record.fact, AgentStarted)
        }
        self._last = self._redacted = self._alone = 0

    def take(self, line: Line) -> None:
        where = f"line {line.number}"
        if line.is_torn:
            self._take_torn(where)
        elif line.fields is None or line.seq is None:
            self._check.wrong(where, "it is no line of a log")
        else:
            if line.seq != self._last + 1:
                self._check.wrong(where, f"it has seq {line.seq}, {self._last + 1} is next")
            self._last = line.seq
            self._compare(f"{where} (seq {line.seq})", line.seq, line.fields)

    def _take_torn(self, where: str) -> None:
        if self._is_complete:
            self._check.wrong(where, "it is torn")
        else:
            self._check.notes.append(f"{where} is torn: a resumed run writes it again")

    def _compare(self, where: str, seq: int, fields: Mapping[str, Any]) -> None:
        if (found := self._records.get(seq)) is None:
            self._alone += 1
            return
        compared = _Comparison(fields)
        if (wrong := compared.with_record(found, self._run_id, self._parents)) is not None:
            self._check.wrong(where, wrong)
        self._redacted += compared.redacted

    def end(self, count: int) -> Check:
        check, end = self._check, max(self._records, default=0)
        said = f"it ends with seq {self._last}, the journal has {end}"
        if self._last < end and self._is_complete:
            check.wrong("its end", said)
        elif self._last < end:
            check.notes.append(f"{said}: the run has not ended, a resumed run writes the rest")
        check.checked = count
        check.said = f"{count:,} lines say what the journal says"
        if self._alone:
            check.notes.append(f"{self._alone} lines are of records that the journal has lost")
        if self._redacted:
            check.notes.append(
                f"in {self._redacted} texts a secret was taken out: what it was is not checked"
            )
        return check


class _Comparison:
    """One line against the journal's record."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self.redacted = 0

    def with_record(
        self, each: Whole, run_id: str, parents: Mapping[str, tuple[str | None, str]]
    ) -> str | None:
        """What is wrong with the line, in words that hold nothing of its content."""
        fact: Fact = each.record.fact
        expected = log_line(each.record, run_id, parents, with_content=True, redact=str)
        # The fields of the version that wrote the record; this one may know more.
        written = HEADER.keys() | each.written.keys()
        known = {name for name in expected if name in written}
        content = known & fact.content
        wanted = known if content & self._fields.keys() else known - content
        for name in sorted(wanted - self._fields.keys()):
            return f"the field {name} is missing"
        for name in sorted(self._fields.keys() - wanted):
            return f"the field {name:.40} is none of this event's"
        for name in self._fields:
            if not self._same(self._fields[name], expected[name]):
                return f"the field {name} is not what the journal has"
        return None

    def _same(self, line: Any, journal: Any) -> bool:
        if isinstance(line, str) and isinstance(journal, str):
            if line == journal:
                return True
            return MARK in line and self._around(line.split(MARK), journal)
        if isinstance(line, dict) and isinstance(journal, Mapping):
            return len(line) == len(journal) and all(
                self._same(key, str(name)) and self._same(line[key], journal[name])
                for key, name in zip(line, journal, strict=True)
            )
        if isinstance(line, list) and isinstance(journal, list | tuple):
            return len(line) == len(journal) and all(
                self._same(one, other) for one, other in zip(line, journal, strict=True)
            )
        return type(line) is type(journal) and bool(line == journal)

    def _around(self, parts: Sequence[str], text: str) -> bool:
        """Whether ``text`` has the parts in their order, from its beginning to its end."""
        first, *middle, last = parts
        if not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        self.redacted += 1
        return at <= end
