"""The shell's own words for jobs, which are no commands of a fresh shell. Pure."""

import re
from dataclasses import dataclass
from typing import Literal, cast

_WORDS = re.compile(r"\s*(?:(jobs)|(wait|kill)\s+%(\d{1,4}))\s*")


@dataclass(frozen=True)
class JobWords:
    """`jobs`, `wait %1` or `kill %1`. `number` is 0 where there is none."""

    word: Literal["jobs", "wait", "kill"]
    number: int = 0


def job_words(command: str) -> JobWords | None:
    """What a command asks about jobs, if that is all that it is."""
    found = _WORDS.fullmatch(command)
    if found is None:
        return None
    word = cast(Literal["jobs", "wait", "kill"], found[1] or found[2])
    return JobWords(word, int(found[3] or 0))
