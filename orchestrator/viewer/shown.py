"""What may leave for the page: texts of people, models and tools only where they were asked for, no
secrets, and no character that acts instead of being read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from orchestrator.redaction import Redact, redact_shapes, without_secrets

Clean = Callable[[Any], Any]
Text = str | int
"""A text as the page gets it: its words or, where they are not shown, how many characters it has."""


class Tell(Protocol):
    """What the page is told of a text that people, models or tools wrote. Every such text of a story or
    a detail goes through the one that they were given."""

    def __call__(self, text: str, most: int | None = None) -> Text:
        """``most``: of the words no more characters than these."""
        ...


def length_only(text: str, most: int | None = None) -> Text:
    return len(text)


def in_full(text: str, most: int | None = None) -> Text:
    return text[:most]


# Control characters but tab and line feed; what reorders text or hides in it; what is no character.
# The joiners U+200C and U+200D stay: scripts and emoji need them.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_PICTURES = 0x2400
# Texts of at most so many characters are remembered.
_SHORT = 64
_DELETE, _DELETE_PICTURE = "\x7f", "\u2421"


def cleaner(redact: Redact) -> Clean:
    """JSON as it may be shown: every text redacted, then made `visible`."""

    def shown(raw: str) -> str:
        return visible(redact(raw))

    # Names of fields, kinds and agents come again with every row.
    short = lru_cache(maxsize=4_096)(shown)

    def text(raw: str) -> str:
        return short(raw) if len(raw) <= _SHORT else shown(raw)

    return lambda value: without_secrets(value, text)


def without_shapes(value: Any) -> Any:
    """`cleaner` where no environment is known: what is secret by its shape is taken out."""
    return _WITHOUT_SHAPES(value)


def visible(text: str) -> str:
    """``text`` with each acting character replaced by a picture or its number: an inspector must see
    that it is there (``␛[31m``, ``[U+202E]``)."""
    if text.isprintable():
        return text  # as nearly all of it is: none of those is printable
    return _ACTING.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    character = found[0]
    if character < " ":
        return chr(_PICTURES + ord(character))
    return _DELETE_PICTURE if character == _DELETE else f"[U+{ord(character):04X}]"


_WITHOUT_SHAPES = cleaner(redact_shapes)
