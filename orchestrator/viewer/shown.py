"""What may leave for the page: no secrets, and no character that acts instead of being read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from orchestrator.redaction import Redact, without_secrets

Clean = Callable[[Any], Any]

# Control characters but tab and line feed; what reorders text or hides in it; what is no character.
# The joiners U+200C and U+200D stay: scripts and emoji need them.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = "\x7f", "\u2421"


def cleaner(redact: Redact) -> Clean:
    """JSON as it may be shown: every text redacted, then made `visible`."""

    def text(raw: str) -> str:
        return visible(redact(raw))

    return lambda value: without_secrets(value, text)


def visible(text: str) -> str:
    """``text`` with each acting character replaced by a picture or its number: an inspector must see
    that it is there (``␛[31m``, ``[U+202E]``)."""
    return _ACTING.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    character = found[0]
    if character < " ":
        return chr(_PICTURES + ord(character))
    return _DELETE_PICTURE if character == _DELETE else f"[U+{ord(character):04X}]"
