"""What single lines of any text file say, whatever its language: marks, names, purpose."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARKED = r"\b(?:TODO|FIXME)\b"
# Definitions at the left margin, in the words of a dozen languages; a leading underscore is private.
NAME = (
    r"^(?:(?:export|default|declare|pub|public|async|abstract|static|final|unsafe) +)*"
    r"(?:class|def|func|function|fn|interface|struct|enum|trait|type|module) +[A-Za-z]"
    r"|^export +(?:const|let|var) +[A-Za-z]"
)
# First lines of docstrings and documentation comments; descriptions in JSON and TOML.
DOCUMENTED = (
    r"^[rRuU]?(?:\"\"\"|''') *[^\s\"']|^//! *\S|^/\*\* *[A-Za-z]"
    r'|^ {0,4}"(?:description|title)" *: *"|^description *= *"'
)
HEADING = r"^#{1,2} +\S"
PROSE = ("md", "mdx", "markdown", "rst", "txt", "adoc")

TEXT_CHARS = 160
# A docstring further down is not the module's.
_TOP_LINES = 60

_MARKED = re.compile(MARKED)
_IS_NAME = re.compile(NAME)
_NAMED = re.compile(r"(?:[a-z]+ +)+([A-Za-z]\w*)")
_DOCUMENTED = re.compile(DOCUMENTED)
_HEADING = re.compile(HEADING)
_WRAPPING = re.compile(
    r"^(?:[rRuU]?(?:\"\"\"|''')|//!|/\*\*|#{1,2} |\"?\w+\"? *[:=] *\")|[\"',*/ ]+$"
)


def is_prose(path: str) -> bool:
    return path.rpartition(".")[2].lower() in PROSE


def marked(line: str) -> str | None:
    """The line as it is reported, if it holds a TODO or FIXME."""
    return shortened(line) if _MARKED.search(line) else None


def public_name(path: str, line: str) -> str | None:
    """The name that the line defines. Prose defines none: it merely begins with such words."""
    if is_prose(path) or not _IS_NAME.match(line):
        return None
    match = _NAMED.match(line)
    return match[1] if match else None


def purpose(path: str, number: int, line: str) -> str | None:
    """What the line says about its file as a whole: a heading, the beginning of a docstring."""
    if is_prose(path):
        found = _HEADING.match(line) is not None
    else:
        found = number <= _TOP_LINES and _DOCUMENTED.match(line) is not None
    text = shortened(_WRAPPING.sub("", line.strip())) if found else ""
    return text or None


def first_purpose(path: str, lines: Iterable[tuple[int, str]]) -> str | None:
    """The first line that says something about the file; a bare opening quote leads to the next."""
    opened = False
    for number, line in lines:
        if opened and line.strip():
            return shortened(line)
        if text := purpose(path, number, line):
            return text
        opened = number <= _TOP_LINES and line.strip() in ('"""', "'''", "/**")
    return None


def shortened(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARS else f"{line[: TEXT_CHARS - 1]}…"
