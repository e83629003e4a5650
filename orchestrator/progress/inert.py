"""Text that cannot steer the terminal. Pure."""

from __future__ import annotations

import re

# Escape sequences as a whole (CSI; OSC, DCS and their like up to their end; two-character ones).
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
# What is left of control characters, and those that reorder text; tab and line feed stay.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def inert(text: str) -> str:
    """``text`` without escape sequences and control characters; lines and tabs stay."""
    if text.isprintable():
        return text  # as nearly all of it is: nothing below would find anything
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


def one_line(text: str, most: int = 100) -> str:
    """``text`` made inert, on one line, of at most so many characters."""
    line = " ".join(inert(text[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"
