"""Running a regular expression on lines, without ever being stuck in one.

`re` backtracks, cannot be interrupted, and holds the interpreter meanwhile: one unlucky pattern
would stop every agent of the process. What could take long runs in a helper process that is killed
when the time is up.
"""

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workspace.search import Regex

_HELPER = """
import json, re, sys
expression = re.compile(json.loads(sys.stdin.readline()))
for line in sys.stdin:
    found = expression.search(json.loads(line))
    print(found.start() if found else -1, flush=True)
"""
_POLL = 50  # milliseconds between two looks at the clock while the helper works


class TimeUp(Exception):
    """The time limit came before the answer."""


class Matcher:
    """Looks for one expression in many lines; use `matching`, which ends the helper."""

    def __init__(self, regex: Regex, beat: Callable[[], bool]) -> None:
        self._regex = regex
        self._beat = beat
        self._helper: subprocess.Popen[str] | None = None

    def find(self, line: str) -> int | None:
        """Where the first match begins. Raises `TimeUp`."""
        if self._regex.is_quick(len(line)):
            found = self._regex.expression.search(line)
            return found.start() if found else None
        start = self._ask(line)
        return start if start >= 0 else None

    def close(self) -> None:
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()

    def _ask(self, line: str) -> int:
        helper = self._helper = self._helper or _start(self._regex)
        assert helper.stdin is not None
        assert helper.stdout is not None
        helper.stdin.write(json.dumps(line) + "\n")
        helper.stdin.flush()
        ready = select.poll()
        ready.register(helper.stdout)
        while not ready.poll(_POLL):
            if not self._beat():
                raise TimeUp
        return int(helper.stdout.readline())


def _start(regex: Regex) -> subprocess.Popen[str]:
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
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
