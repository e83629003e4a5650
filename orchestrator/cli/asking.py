"""Asking a person at the terminal whether a call may run."""

from __future__ import annotations

import os
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TextIO

import anyio

from orchestrator.cli.exits import say
from orchestrator.config import Settings
from orchestrator.permissions import Answer, Ask, AskedFor
from orchestrator.progress import LiveTree, PlainLines

TERMINAL = "/dev/tty"
MOST_SHOWN = 4_000
"""Characters of a call that a question shows; more than anybody reads before an answer."""

_ANSWERS: dict[str, Answer] = {
    **dict.fromkeys(("y", "yes", "once"), "once"),
    **dict.fromkeys(("a", "always"), "always"),
    **dict.fromkeys(("n", "no", "\x04"), "no"),
}
# What of a tool's arguments is the matter itself; everything else is shown as name = value.
_MATTERS = ("command", "path", "url", "prompt")

Pause = Callable[[], AbstractContextManager[object]]


def asking_here(wanted: bool | None, stderr: TextIO, pause: Pause = nullcontext) -> Ask | None:
    """Who is to be asked: the person at the terminal, where there is one and it is wanted.

    ``pause``: holds back everything else that is written to the terminal.
    """
    if wanted is False or not stderr.isatty():
        return None
    with suppress(OSError):
        os.close(_opened())
        return TerminalAsk(stderr, pause)
    return None


def person_asked(
    settings: Settings, progress: LiveTree | PlainLines | None, stderr: TextIO
) -> Ask | None:
    """The same for a run, whose display pauses meanwhile."""
    ask = asking_here(settings.asking, stderr, nullcontext if progress is None else progress.paused)
    if ask is None and settings.asking:
        say("--ask: there is no terminal here, so what would have to be asked is denied")
    return ask


def _opened() -> int:
    return os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


class TerminalAsk:
    """Puts a question and waits for a line, however long that takes; ends cleanly when cancelled."""

    def __init__(self, stderr: TextIO, pause: Pause = nullcontext) -> None:
        self._stderr = stderr
        self._pause = pause

    async def __call__(self, asked: AskedFor) -> Answer:
        """Raises ``OSError`` where nobody is at the terminal: it is gone, or in use by others."""
        with self._pause(), _terminal() as terminal:
            self._write(question(asked))
            try:
                return await self._answer(terminal, asked)
            except anyio.get_cancelled_exc_class():
                self._write("\n")
                raise

    async def _answer(self, terminal: int, asked: AskedFor) -> Answer:
        choices = "y/a/n" if asked.permit else "y/n"
        while True:
            self._write(f"[{choices}] ")
            await anyio.wait_readable(terminal)
            line = os.read(terminal, 4_096)
            if not line:  # end of input
                self._write("\n")
                return "no"
            answer = _ANSWERS.get(line.decode(errors="replace").strip().lower())
            if answer is not None and (answer != "always" or asked.permit):
                return answer

    def _write(self, text: str) -> None:
        self._stderr.write(text)
        self._stderr.flush()


@contextmanager
def _terminal() -> Iterator[int]:
    terminal = _opened()
    try:
        # Of a job in the background the terminal is somebody else's.
        if os.tcgetpgrp(terminal) != os.getpgrp():
            raise OSError("the terminal is in use by another job")
        # What was typed before the question is no answer to it.
        termios.tcflush(terminal, termios.TCIFLUSH)
        yield terminal
    finally:
        os.close(terminal)


def question(asked: AskedFor) -> str:
    """The question, with the whole call as far as a person can read it."""
    lines = [
        "",
        f"{visible(asked.agent_id)} asks to use {visible(asked.tool)} ({visible(asked.rule)}):",
        *(f"    {line}" for line in _call(asked.input).split("\n")),
        "  y  yes, this once",
        *([f"  a  yes, and in this run always {_rules(asked)}"] if asked.permit else []),
        "  n  no",
        "",
    ]
    return "\n".join(lines)


def _rules(asked: AskedFor) -> str:
    return visible(" ".join(asked.permit)).replace("\n", "\\n")


def _call(given: Mapping[str, Any]) -> str:
    first = [str(given[name]) for name in _MATTERS if name in given]
    rest = [f"{name} = {value}" for name, value in given.items() if name not in _MATTERS]
    text = visible("\n".join([*first, *rest])) or "(no arguments)"
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n[… {len(text) - MOST_SHOWN:,} more characters are not shown]"


def visible(text: str) -> str:
    """``text`` with everything that a terminal would not show as it is written out: nobody should
    agree to what he cannot see."""
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
