"""Regular expressions as ripgrep writes them, and showing a line that matches. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from workspace.errors import BadPattern

EXCERPT_CHARS = 300
"""The most characters of a matching line that `grep` shows."""
_QUICK_STEPS = 10_000_000  # of backtracking, well under a second

_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": "\\x00-\\x7f",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "word": "\\w",
    "xdigit": "0-9A-Fa-f",
}
# What ripgrep spells otherwise than `re`. Inside a class, `[`, `&`, `~` and `|` are escaped: `re`
# warns that they may come to mean sets.
_OUTSIDE = re.compile(r"(?P<escape>\\z)|\\.|\(\?<(?=[A-Za-z_])|\[\^?\]?|.", re.DOTALL)
_INSIDE = re.compile(r"\\.|\[:(?P<posix>[a-z]+):\]|(?P<sign>[\[&~|]|--)|\]|.", re.DOTALL)


@dataclass(frozen=True)
class Regex:
    """A compiled regular expression, and how its cost grows with the length of a line.

    `repeats` and `options` count `* + {` and `?`; `nested` is a repeated group, whose cost may be
    anything.
    """

    expression: re.Pattern[str]
    repeats: int = 0
    options: int = 0
    nested: bool = False

    def is_quick(self, length: int) -> bool:
        """Whether even the worst line of `length` characters takes no more than an instant."""
        if self.nested:
            return False
        return self.options < 20 and length ** (1 + self.repeats) << self.options <= _QUICK_STEPS


def regex(pattern: str, *, literal: bool = False) -> Regex:
    """Compile what `grep` looks for. Raises `BadPattern` with the column."""
    if literal:
        return Regex(re.compile(re.escape(pattern)))
    pieces = list(_python_pieces(pattern))
    try:
        expression = re.compile("".join(text for _, text, _ in pieces))
    except re.error as error:
        column = _source_column(pieces, error.pos or 0)
        raise BadPattern(pattern, error.msg, column) from None
    except (OverflowError, RecursionError):
        raise BadPattern(pattern, "too large", 1) from None
    signs = [text if not inside else "class" for _, text, inside in pieces]
    repeats = [index for index, sign in enumerate(signs) if sign in ("*", "+", "{")]
    nested = any(signs[index - 1] == ")" for index in repeats if index)
    return Regex(expression, len(repeats), signs.count("?"), nested)


def _python_pieces(pattern: str) -> Iterator[tuple[int, str, bool]]:
    """The pattern for `re` in pieces: place in `pattern`, text, whether it is inside a class."""
    position, inside = 0, False
    while position < len(pattern):
        found = (_INSIDE if inside else _OUTSIDE).match(pattern, position)
        assert found is not None  # both end in `.`, which matches anything
        text = found.group()
        yield position, _piece(found, inside), inside
        inside = text != "]" if inside else text.startswith("[")
        position = found.end()


def _piece(found: re.Match[str], inside: bool) -> str:
    text = found.group()
    if inside:
        if found["posix"] in _POSIX:
            return _POSIX[found["posix"]]
        if found["sign"]:
            return "".join("\\" + sign for sign in text)
        return text.replace("[", "\\[") if text.startswith("[:") else text
    if found["escape"]:
        return "\\Z"
    return "(?P<" if text == "(?<" else text


def _source_column(pieces: list[tuple[int, str, bool]], position: int) -> int:
    reached = 0
    for source, text, _ in pieces:
        reached += len(text)
        if reached > position:
            return source + 1
    return pieces[-1][0] + 1 if pieces else 1


def excerpt(line: str, match: int) -> str:
    """`line` as `grep` shows it: whole, or a stretch around the match that says where it is."""
    if len(line) <= EXCERPT_CHARS:
        return line
    start = max(0, min(match - EXCERPT_CHARS // 3, len(line) - EXCERPT_CHARS))
    return (
        f"…{line[start : start + EXCERPT_CHARS]}… "
        f"[{len(line):,} characters in the line, match at char_offset={match}]"
    )
