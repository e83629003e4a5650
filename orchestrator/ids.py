"""Ids as people type them: whole, or as the beginning of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def named(text: str, ids: Iterable[str]) -> list[str]:
    """Those of ``ids`` that ``text`` names, in their order: itself, where it is one of them, else all
    that begin so. An empty text names none; two or more are for the caller to refuse."""
    known = list(dict.fromkeys(ids))
    if text in known:
        return [text]
    return [each for each in known if text and each.startswith(text)]
