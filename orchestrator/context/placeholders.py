"""What stands in the history for content that moved to a file: where it is, how large, its ends, and
how to get at it again. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.context import facts

PLACEHOLDER_CHARS = 900
_PREVIEW_CHARS = 160
# What is left in old history is only to be recognised: less of it is shown.
_OLD_PREVIEW_CHARS = 100
_NAMED_CHARS = 160
_OPENING = "[offloaded "
_FIRST_LINE = _OPENING + "{path} · {chars:,} characters, {lines:,} lines · preview, not the whole]"


@dataclass(frozen=True, slots=True)
class ReadBack:
    """The tools by which an agent gets at what moved to a file.

    ``reader`` reads it. ``searcher`` finds places in it: said first where there is one, since a search
    brings back lines and a reader whole pages.
    """

    reader: str = "read_file"
    searcher: str | None = None


def placeholder(path: str, text: str, by: ReadBack) -> str:
    """What stands in the history for ``text`` from its birth on: where it is, how large, its ends,
    how to get at it. At most `PLACEHOLDER_CHARS` characters for any text.
    """
    return _placeholder(path, text, by, _PREVIEW_CHARS, "")


def stored_placeholder(
    path: str, chars: int, lines: int, head: str, tail: str, by: ReadBack
) -> str:
    """`placeholder` for a text of which only ``head`` and ``tail`` are at hand: each either whole or
    at least twice a preview long."""
    return _assembled(path, chars, lines, head, tail, by, _PREVIEW_CHARS, "")


def old_placeholder(path: str, text: str, by: ReadBack) -> str:
    """`placeholder` for what the agent has seen whole before: less of its ends, but the facts in it
    by name, since the agent may remember them."""
    named = ""
    for fact in facts.extract_from([text]):
        if len(named) + len(fact) > _NAMED_CHARS:
            break
        named += f"{', ' if named else 'names: '}{fact}"
    return _placeholder(path, text, by, _OLD_PREVIEW_CHARS, named)


def terse_placeholder(path: str, text: str, by: ReadBack) -> str:
    """The shortest: where it is, how large, how to read it."""
    first = _FIRST_LINE.format(path=path, chars=len(text), lines=line_count(text))
    return f"{first}\nRead it: {_read_call(path, by)}"


def media_placeholder(path: str, media_type: str, size: int, by: ReadBack) -> str:
    """What stands in the history for an image or a document of ``size`` bytes."""
    first = f"{_OPENING}{path} · {media_type[:100]}, {size:,} bytes · not shown]"
    # Only `read_file` shows an image; a shell can at least work on it.
    if by.reader == "bash":
        return f"{first}\nIt is there: bash(command=\"ls -l '{path}'\")"
    return f"{first}\nRead it: {_read_call(path, by)}"


def is_placeholder(text: str) -> bool:
    """Whether a text is as short as a placeholder and begins like one: moving it would gain nothing,
    whatever it is. A longer text that begins so is content like any other."""
    return len(text) <= PLACEHOLDER_CHARS and text.startswith(_OPENING)


def line_count(text: str) -> int:
    """Lines as an editor counts them: a last line without newline counts."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _placeholder(path: str, text: str, by: ReadBack, preview_chars: int, named: str) -> str:
    return _assembled(path, len(text), line_count(text), text, text, by, preview_chars, named)


def _assembled(
    path: str, chars: int, lines: int, head: str, tail: str, by: ReadBack, most: int, named: str
) -> str:
    first = _FIRST_LINE.format(path=path, chars=chars, lines=lines)
    last = "\n".join(part for part in (named, _how(path, by)) if part)
    room = PLACEHOLDER_CHARS - len(first) - len(last) - len("\nbegins: \n…\nends: \n")
    preview = max(0, min(most, room // 2))
    begins = _one_line(head[: preview * 2])[:preview]
    ends = _one_line(tail[-preview * 2 :] if preview else "")[-preview:] if preview else ""
    return f"{first}\nbegins: {begins}\n…\nends: {ends}\n{last}"


def _how(path: str, by: ReadBack) -> str:
    search = f"Search it with {by.searcher}. " if by.searcher is not None else ""
    return f"{search}Read it: {_read_call(path, by)}"


def _read_call(path: str, by: ReadBack) -> str:
    if by.reader == "bash":
        return f"bash(command=\"sed -n '1,200p' '{path}'\")"
    return f'{by.reader}(path="{path}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())
