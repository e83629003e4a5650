"""How a journal grows, and how long a resume takes to get to work.

::

    python benchmarks/resume.py                        160 and 1,600 steps, then a run of 20,000 events
    python benchmarks/resume.py --steps 160 --events 0

A step is a tool call with 2,400 characters of made-up words as its result. Prints the journal's bytes after it
was closed against the text that the run produced (results and replies), and for the longest run the
seconds from the call of `resume` to its first record.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from orchestrator import Limits, Request, resume, run
from orchestrator.events import ModelReplied, ToolReturned
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = ["".join(random.Random(n).choices(_LETTERS, k=7)) for n in range(3_000)]


def read_page(number: int) -> str:
    """Read a page of words."""
    return " ".join(random.Random(number).choices(_WORDS, k=300))


class Steps:
    """Calls the tool so many times, then concludes."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, request: Request) -> Any:
        self.left -= 1
        return [call("read_page", number=self.left)] if self.left >= 0 else "done"


def written(steps: int, root: Path) -> tuple[int, int, int]:
    """Events, bytes of the journal, and bytes of text of a run of ``steps`` steps."""
    model = ScriptedModel(Steps(steps), window=200_000)
    limits = Limits(max_turns=None)

    async def begin() -> None:
        await run("go", model=model, root=root, run_id="r", tools=[read_page], limits=limits)

    anyio.run(begin)
    journal = RunDir(root, "r").journal
    events, text = 0, 0
    for record in read_records(journal):
        events += 1
        match record.fact:
            case ToolReturned(result=result):
                text += len(str(result).encode())
            case ModelReplied(blocks=blocks):
                text += len(str(blocks).encode())
    return events, journal.stat().st_size, text


def to_the_first_record(root: Path) -> tuple[float, float]:
    """Seconds, by the clock and of CPU, until a resume records that it goes on."""
    took: list[tuple[float, float]] = []
    began, cpu = time.perf_counter(), time.process_time()

    def observe(records: object) -> None:
        took.append((time.perf_counter() - began, time.process_time() - cpu))

    async def go_on() -> None:
        model = ScriptedModel(lambda request: "done", window=200_000)
        await resume("r", "more", model=model, root=root, tools=[read_page], observers=[observe])

    anyio.run(go_on)
    return took[0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, nargs="*", default=[160, 1_600])
    options.add_argument("--events", type=int, default=20_000, help="of the run that is resumed")
    given = options.parse_args()
    say = sys.stdout.write
    for steps in given.steps:
        with tempfile.TemporaryDirectory() as folder:
            events, size, text = written(steps, Path(folder))
        say(
            f"{steps:,} steps: {events:,} events, journal {size:,} bytes, {size / text:.2f} × its text\n"
        )
    if given.events:
        with tempfile.TemporaryDirectory() as folder:
            events, _, _ = written(given.events // 4, Path(folder))
            seconds, cpu = to_the_first_record(Path(folder))
        say(f"resume of {events:,} events: {seconds:.2f} s by the clock, {cpu:.2f} s of CPU\n")


if __name__ == "__main__":
    main()
