"""Whether a rule such as ``bash(git status:*)`` covers a command: for certain, or possibly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from orchestrator.permissions.commands import Part, Word, parts_of

ANY = None  # any number of words

# They run what stands behind them, so a command is also looked for there.
_WRAPPER_NAMES = """
    env sudo doas su nice ionice nohup timeout xargs exec command builtin stdbuf setsid chroot unshare
    nsenter parallel watch find fd strace ltrace busybox flock runuser bwrap systemd-run chrt taskset
    time trap ssh script entr
"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
# They run a text that is an argument.
_SHELL_NAMES = "sh bash dash zsh ksh ash fish mksh busybox su script"
_SHELLS = frozenset(_SHELL_NAMES.split())
_INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|perl|ruby|node|php|lua|g?awk|mawk|tclsh|osascript"
)
_RUNS_TEXT = re.compile(r"-[A-Za-z]*[ceEr].*|--eval.*|--command.*")
_DEEPEST = 3  # shells in shells that are looked into


@dataclass(frozen=True)
class CommandPattern:
    """The words that a command begins with, or consists of.

    ``*`` as a word (or ``:*`` at the end) stands for any number of words, in a word for any text in it.
    Raises ``ValueError`` for a pattern that is not one plain command.
    """

    text: str

    def __post_init__(self) -> None:
        _ = self._pattern

    @cached_property
    def _pattern(self) -> tuple[Word | None, ...]:
        text = self.text.strip()
        if text in ("*", ":*"):
            return (ANY,)
        if text.endswith(":*"):
            text = f"{text.removesuffix(':*')} *"
        parts = parts_of(text)
        if parts is None or len(parts) != 1:
            raise ValueError("it is not one plain command: write words, and * for what may follow")
        return tuple(ANY if word.text == "*" and word.expands else word for word in parts[0])

    @property
    def is_everything(self) -> bool:
        return self._pattern == (ANY,)

    @cached_property
    def _certain(self) -> re.Pattern[str]:
        pieces = []
        for index, word in enumerate(self._pattern):
            gap = "\0" if index else ""
            if word is ANY:
                pieces.append(r"(?:\0[^\0]*)*" if index else r"[^\0]*(?:\0[^\0]*)*")
            else:
                pieces.append(gap + _expression(word, "[^\0\1]*"))
        return re.compile("".join(pieces), re.DOTALL)

    def names(self, part: Part) -> bool:
        """Whether the pattern is this very command, without any wildcard."""
        return all(word is not ANY and not word.expands for word in self._pattern) and self.covers(
            part
        )

    def covers(self, part: Part) -> bool:
        """Whether the command is one of the pattern for certain. A word that the shell expands can
        only stand where the pattern takes any word."""
        words = (f"\1{word.text}" if word.expands else word.text for word in part)
        return self._certain.fullmatch("\0".join(words)) is not None

    def may_cover(self, part: Part, depth: int = 0) -> bool:
        """Whether the command could be, or run, one of the pattern."""
        if self.is_everything or part[0].expands:
            return True
        head = _program(part[0])
        if self._fits(part):
            return True
        if head in _WRAPPERS and any(self._fits(part[i:]) for i in range(1, len(part))):
            return True
        return any(self._may_run(text, depth) for text in _texts_run(head, part))

    def _may_run(self, text: str | None, depth: int) -> bool:
        parts = None if text is None or depth >= _DEEPEST else parts_of(text)
        return parts is None or any(self.may_cover(part, depth + 1) for part in parts)

    def _fits(self, part: Part) -> bool:
        """Options between the words of the pattern, with one value each, do not pass it."""
        pattern = self._pattern
        states = self._onwards({(0, False)})
        for number, word in enumerate(part):
            after: set[tuple[int, bool]] = set()
            for at, skips in states:
                after |= self._after(at, skips, word, number)
            states = self._onwards(after)
        return any(at == len(pattern) for at, _ in states)

    def _after(self, at: int, skips: bool, word: Word, number: int) -> set[tuple[int, bool]]:
        after: set[tuple[int, bool]] = set()
        if at < len(self._pattern):
            wanted = self._pattern[at]
            if wanted is ANY:
                after.add((at, False))
            elif word.expands or _matches(wanted, word, is_head=number == 0):
                after.add((at + 1, False))
            if number > 0 and (skips or word.expands):
                after.add((at, False))
            if number > 0 and word.text.startswith("-"):
                after.add((at, True))
        elif word.expands:
            after.add((at, False))  # it may become nothing
        return after

    def _onwards(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        for at, _ in list(states):
            while at < len(self._pattern) and self._pattern[at] is ANY:
                at += 1
                states.add((at, False))
        return states


def _texts_run(head: str, part: Part) -> Iterator[str | None]:
    """The texts that a shell would run; ``None`` for one that cannot be read."""
    if head == "eval":
        yield None if any(w.expands for w in part) else " ".join(w.text for w in part[1:])
    for index, word in enumerate(part):
        program = _program(word)
        if index and head not in _WRAPPERS:
            return
        rest = part[index + 1 :]
        flags = [i for i, w in enumerate(rest) if _RUNS_TEXT.fullmatch(w.text)]
        if program in _SHELLS:
            yield from (w.text for i in flags for w in rest[i + 1 : i + 2])
        elif _INTERPRETERS.fullmatch(program) and (flags or "awk" in program):
            yield None


def _matches(wanted: Word, word: Word, *, is_head: bool) -> bool:
    text = _program(word) if is_head and "/" not in wanted.text else word.text
    return re.fullmatch(_expression(wanted, ".*"), text, re.IGNORECASE | re.DOTALL) is not None


def _program(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _expression(word: Word, anything: str) -> str:
    """Only ``*`` is a wildcard in a rule."""
    return "".join(
        anything if index in word.wild and char == "*" else re.escape(char)
        for index, char in enumerate(word.text)
    )
