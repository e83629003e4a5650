"""A shell command as its parts, each a list of words. Strict: what is not fully understood is ``None``.

Understood are plain commands, joined by ``;``, ``&``, ``&&``, ``||``, ``|`` and line breaks, with words
that may be quoted. Substitutions, redirections, assignments, groups, loops and functions are not: a
rule cannot say what they would do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

MOST_CHARACTERS = 20_000
"""A longer command is not looked at."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word after the quotes are taken off. ``wild``: places of characters that the shell would
    expand (``*``, ``?``, ``[``, ``~``, ``{``), so that what the word becomes is not known."""

    text: str
    wild: tuple[int, ...] = ()
    quoted: bool = False

    @property
    def expands(self) -> bool:
        return bool(self.wild)


Part = tuple[Word, ...]

_RESERVED_WORDS = """
    ! { } [[ ]] if then else elif fi for while until do done case esac select function in time coproc
    . alias
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[.*\])?\+?=", re.DOTALL | re.ASCII)
_BLANK = " \t"
_ACTIVE = "*?[~{"
_JOINTS = (";", "&", "&&", "||", "|", "\n")
_OPERATOR = re.compile(r"[;&|]+|\n")
# In double quotes a backslash only quotes these.
_ESCAPED = '$`"\\'


class _NotUnderstood(Exception):
    pass


def parts_of(command: str) -> tuple[Part, ...] | None:
    """The plain commands that ``command`` runs; ``None`` if it is more than that."""
    if len(command) > MOST_CHARACTERS or not _is_plain(command):
        return None
    try:
        return tuple(_joined(command))
    except _NotUnderstood:
        return None


def spelled(part: Part) -> str | None:
    """The part as a rule's text: only what the shell expands is a wildcard there. ``None`` where that
    is the program itself."""
    if part[0].expands:
        return None
    head, *rest = part
    shown = f"'{head.text}'" if head.text in _RESERVED else shlex.quote(head.text)
    return " ".join([shown, *("*" if w.expands else shlex.quote(w.text) for w in rest)])


def _is_plain(text: str) -> bool:
    # Other blanks and control characters mean different things to different shells.
    return all((c.isprintable() and (c == " " or not c.isspace())) or c in "\t\n" for c in text)


def _joined(command: str) -> Iterator[Part]:
    part: list[Word] = []
    joint = "\n"
    for token in _tokens(command):
        if isinstance(token, Word):
            part.append(token)
            continue
        if part:
            yield _checked(part)
        elif token != "\n":
            raise _NotUnderstood  # an operator with nothing before it
        part, joint = [], token
    if part:
        yield _checked(part)
    elif joint not in (";", "&", "\n"):
        raise _NotUnderstood


def _checked(part: list[Word]) -> Part:
    head = part[0]
    if not head.text or (not head.quoted and head.text in _RESERVED):
        raise _NotUnderstood
    if _ASSIGNMENT.match(head.text):
        raise _NotUnderstood
    return tuple(part)


def _tokens(command: str) -> Iterator[Word | str]:
    """Words and the operators between them."""
    at = 0
    while at < len(command):
        here = command[at]
        if here in _BLANK:
            at += 1
        elif found := _OPERATOR.match(command, at):
            if found[0] not in _JOINTS or command[found.end() : found.end() + 1] == ">":
                raise _NotUnderstood
            at = found.end()
            yield found[0]
        elif here == "#":
            raise _NotUnderstood
        else:
            word, at = _word(command, at)
            yield word


def _word(command: str, at: int) -> tuple[Word, int]:
    text, wild, quoted = "", [], False
    while at < len(command) and command[at] not in " \t\n;&|":
        here = command[at]
        if here in "$`()<>":
            raise _NotUnderstood
        if here in "'\"\\":
            more, at = _quoted(command, at)
            text, quoted = text + more, True
            continue
        if here in _ACTIVE:
            wild.append(len(text))
        text, at = text + here, at + 1
    return Word(text, tuple(wild), quoted), at


def _quoted(command: str, at: int) -> tuple[str, int]:
    """What a quotation that begins at ``at`` stands for, and where it ends."""
    mark, at = command[at], at + 1
    if mark == "\\":
        if command[at : at + 1] in ("", "\n"):
            raise _NotUnderstood
        return command[at], at + 1
    if mark == "'":
        end = command.find("'", at)
        if end < 0:
            raise _NotUnderstood
        return command[at:end], end + 1
    return _double_quoted(command, at)


def _double_quoted(command: str, at: int) -> tuple[str, int]:
    text = ""
    while at < len(command):
        here = command[at]
        if here == '"':
            return text, at + 1
        if here in "$`":
            raise _NotUnderstood
        if here == "\\":
            after = command[at + 1 : at + 2]
            if after == "\n":
                raise _NotUnderstood
            text, at = (
                (text + after, at + 2) if after and after in _ESCAPED else (text + here, at + 1)
            )
        else:
            text, at = text + here, at + 1
    raise _NotUnderstood
