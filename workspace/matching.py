"""Running a regular expression on lines, without ever being stuck in one.

`re` backtracks, cannot be interrupted, and holds the interpreter meanwhile: one unlucky pattern
would stop every agent of the process. What could take long runs in a helper process that is killed
when the time is up.
"""

import errno
import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from workspace.search import Regex

Line = tuple[int, str]
"""A line of a file with its number."""

_HELPER = """
import json, re, sys
expression = re.compile(json.loads(sys.stdin.readline()))
for batch in sys.stdin:
    found = [expression.search(line) for line in json.loads(batch)]
    print(json.dumps([match and match.start() for match in found]), flush=True)
"""
_POLL = 50  # milliseconds between two looks at the clock while the helper works
_BATCH_CHARS = 50_000
_BATCH_LINES = 1_000


class TimeUp(Exception):
    """The time limit came before the answer."""


class Matcher:
    """Looks for one expression in many lines; use `matching`, which ends the helper."""

    def __init__(self, regex: Regex, beat: Callable[[], bool]) -> None:
        self._regex = regex
        self._beat = beat
        self._helper: subprocess.Popen[str] | None = None

    def matches(self, lines: Iterable[Line]) -> Iterator[tuple[int, str, int]]:
        """The lines that match, in order, each with where the first match begins.

        Raises `TimeUp`, and `BrokenPipeError` if something ended the helper.
        """
        batch: list[Line] = []
        chars = 0
        for number, line in lines:
            if not batch and self._regex.is_quick(len(line)):
                found = self._regex.expression.search(line)
                if found:
                    yield number, line, found.start()
                continue
            batch.append((number, line))
            chars += len(line)
            if chars > _BATCH_CHARS or len(batch) == _BATCH_LINES:
                yield from self._ask(batch)
                batch, chars = [], 0
        if batch:
            yield from self._ask(batch)

    def close(self) -> None:
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()

    def _ask(self, batch: list[Line]) -> Iterator[tuple[int, str, int]]:
        helper = self._helper = self._helper or _start(self._regex)
        assert helper.stdin is not None
        assert helper.stdout is not None
        helper.stdin.write(json.dumps([line for _, line in batch]) + "\n")
        helper.stdin.flush()
        ready = select.poll()
        ready.register(helper.stdout)
        while not ready.poll(_POLL):
            if not self._beat():
                raise TimeUp
        reply = helper.stdout.readline()
        if not reply:
            raise BrokenPipeError(errno.EPIPE, "the process that searches it was ended")
        starts: list[int | None] = json.loads(reply)
        for (number, line), start in zip(batch, starts, strict=True):
            if start is not None:
                yield number, line, start


def _start(regex: Regex) -> subprocess.Popen[str]:
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="ascii",
    )
    assert helper.stdin is not None
    helper.stdin.write(json.dumps(regex.expression.pattern) + "\n")
    return helper


@contextmanager
def matching(regex: Regex, beat: Callable[[], bool]) -> Iterator[Matcher]:
    """A matcher that stops waiting once `beat` is false."""
    matcher = Matcher(regex, beat)
    try:
        yield matcher
    finally:
        matcher.close()
