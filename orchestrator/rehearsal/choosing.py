"""Which kind of subagent suits a job: by the words of the job and of each kind's description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_LISTED = re.compile(r"\s*[-*]\s+[`*]*([^:`*\n]{1,80})[`*]*:\s+(\S.*)")
_WORD = re.compile(r"[a-z]+(?:-only)?")
_STEM = 6  # letters: "explorer" and "explores" are one word here
_SMALL = re.compile(
    r"an?|and|any|are|as|at|by|for|from|in|into|is|its?|of|on|one|or|own|so|that|the|them|this|to"
    r"|up|use|when|which|with|without|your?"
)
# What each of the rehearsal's subagents is going to do, whatever the task is.
_JOB = "explore survey find search read read-only list look files code codebase report questions"


def listed(text: str) -> dict[str, str]:
    """The kinds of subagents with their descriptions: the list under the line that names
    ``subagent_type``. Other lists, of project instructions for instance, are none of it."""
    kinds: dict[str, str] = {}
    lines = iter(text.splitlines())
    if any("subagent_type" in line for line in lines):
        for line in lines:
            match = _LISTED.fullmatch(line)
            if match is None:
                break
            kinds[match[1].strip()] = match[2]
    return kinds


def choose(task: str, kinds: Mapping[str, str]) -> str | None:
    """The kind whose description has most in common with the job; the first one of equals.

    A word counts less, the more kinds use it: what is said of all tells nothing.
    """
    words = {name: _stems(description) for name, description in kinds.items()}
    usage = Counter(word for stems in words.values() for word in stems)
    job, wanted = _stems(_JOB), _stems(task)

    def score(name: str) -> float:
        return sum(((word in job) + (word in wanted)) / usage[word] for word in words[name])

    return max(kinds, key=score, default=None)


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.lower()) if not _SMALL.fullmatch(word)}
