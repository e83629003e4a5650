"""Offload: large content moves to a file, losslessly, and a bounded placeholder stays. Pure.

Where the file is and how it is written is the workspace's affair (`workspace.ResultStore`).
"""

from __future__ import annotations

from orchestrator.messages import Block, text_of

PLACEHOLDER_CHARS = 900
_PREVIEW_CHARS = 260
_FIRST_LINE = "[offloaded {path} · {chars:,} characters, {lines:,} lines · preview, not the whole]"


def is_over(content: str | list[Block], limit: int | None) -> bool:
    """Whether a tool's output is over its birth limit in characters (exactly at it stays inline)."""
    return limit is not None and isinstance(content, str) and len(content) > limit


def line_count(text: str) -> int:
    """Lines as an editor counts them: a last line without newline counts."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def placeholder(path: str, text: str, reader: str) -> str:
    """What stands in the history for ``text``: where it is, how large, its ends, how to read it.

    ``reader`` is the name of the tool that the agent reads it back with. At most
    `PLACEHOLDER_CHARS` characters for any text.
    """
    first = _FIRST_LINE.format(path=path, chars=len(text), lines=line_count(text))
    call = _read_call(reader, path)
    room = PLACEHOLDER_CHARS - len(first) - len(call) - len("\nbegins: \n…\nends: \n")
    preview = max(0, min(_PREVIEW_CHARS, room // 2))
    head = _one_line(text[: preview * 2])[:preview]
    tail = _one_line(text[-preview * 2 :] if preview else "")[-preview:] if preview else ""
    return f"{first}\nbegins: {head}\n…\nends: {tail}\n{call}"


def _read_call(reader: str, path: str) -> str:
    if reader == "bash":
        return f"Read it: bash(command=\"sed -n '1,200p' '{path}'\")"
    if reader == "grep":
        return f'Search it: grep(pattern="…", path="{path}", output="content")'
    return f'Read it: {reader}(path="{path}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def characters(content: str | list[Block]) -> int:
    """Characters of text in a tool's output."""
    return len(content) if isinstance(content, str) else len(text_of(content))
