"""Calls in a transcript: what a summary by rules keeps, and what a pruned summary request shows.

There (`orchestrator.context.compaction`) a call is a line `called name({…})`, its answer a later line
`result: …`, both cut to an excerpt with all white space made single spaces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

_CALLED = re.compile(r"called (\w+)\((.*)\)")
_PAIR = re.compile(r"'(\w+)': '((?:[^'\\]|\\.)*)'")
_ANSWERED = "result: "
_HEADER = re.compile(r"\[[^\]]*\]")
_CUT = "\n[incomplete: an excerpt]"
# Behind an entry in an answer of `ls`: a size or kind in parentheses, or a folder's slash.
_ENTRY_END = re.compile(r"(?<=[)/]) ")
# In front of what begins a line in an answer of `grep`.
_MATCH_START = re.compile(r" (?=[^\s:]+:\d+:)")


def calls_in(text: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Tool, arguments and answer of each call, as far as an excerpt tells them."""
    waiting: list[tuple[str, dict[str, Any]]] = []
    for line in text.splitlines():
        if match := _CALLED.fullmatch(line):
            waiting.append((match[1], _arguments(match[2])))
        elif waiting and line.startswith(_ANSWERED):
            tool, arguments = waiting.pop(0)
            yield tool, arguments, _lines_of(tool, arguments, line.removeprefix(_ANSWERED))


def _arguments(shown: str) -> dict[str, Any]:
    """Those texts among the arguments that were not cut."""
    return {name: ast.literal_eval(f"'{value}'") for name, value in _PAIR.findall(shown)}


def _lines_of(tool: str, arguments: dict[str, Any], answer: str) -> str:
    """The answer in lines again. Of a page only its header is of use: which line is which is lost."""
    if tool == "read_file":
        header = _HEADER.match(answer)
        return header[0] if header else ""
    if answer.startswith("["):
        return answer
    # The last word of an excerpt may be half a word.
    rows = answer.rpartition(" ")[0] if answer.endswith("…") else answer
    if tool == "glob" or arguments.get("output") == "count":
        rows = rows.replace(" ", "\n")
    else:
        rows = (_ENTRY_END if tool == "ls" else _MATCH_START).sub("\n", rows)
    return rows + (_CUT if answer.endswith("…") else "")
