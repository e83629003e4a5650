"""Compaction: the oldest turns give way to a summary; everything dropped is archived first. Pure.

This module decides where to cut, what to ask and what to accept. The loop archives, calls and records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from orchestrator.context.estimate import MEDIA_TYPES
from orchestrator.context.facts import render as render_facts
from orchestrator.context.history import Entry, unit_starts
from orchestrator.context.policy import GATHER_TURNS
from orchestrator.messages import Block, text_of, tool_uses

_EXCERPT_CHARS = 160
# Characters of each content that a summary call may see: as many as there is room for.
_EXCERPTS = (6_000, 2_000, 800, 400)
# Tokens of the first request that a compaction keeps word for word; of a longer one, its ends.
PINNED_TOKENS = 4_000
# How a summary that is too large for one call is divided (root is 0), and its calls in all.
MAX_DEPTH = 3
MAX_CALLS = 6
_MECHANICAL_LINES = 60
_EARLIER = "[earlier"
# A refusal or an error text must never become the history.
_ERROR_SHAPED = re.compile(
    r"^\s*(?:\[?error\b|api error|traceback|exception\b|i (?:cannot|can't|am unable)|i'm sorry|sorry,)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cut:
    """``dropped`` messages from the front give way; the rest of the history is kept."""

    dropped: int


def plan(
    entries: Sequence[Entry], keep_turns: int, keep_weight: int, gather_turns: int = GATHER_TURNS
) -> Cut | None:
    """Where to cut: keep the newest ``keep_turns`` turns, fewer if they weigh over ``keep_weight``.

    ``None`` where fewer than ``gather_turns`` turns would go: another summary of next to nothing
    costs more than it frees.
    """
    starts = unit_starts(entries)
    keep = min(keep_turns, len(starts) - 1)
    while keep > 1 and sum(e.weight for e in entries[starts[-keep] :]) > keep_weight:
        keep -= 1
    if keep < 1 or len(starts) - keep < gather_turns:
        return None
    return Cut(dropped=starts[-keep])


def instruction(summary_tokens: int, kept_messages: int) -> str:
    """The request for a summary, asked at the end of the agent's own conversation."""
    prompt = files("orchestrator.context").joinpath("summary.md").read_text(encoding="utf-8")
    return prompt.format(summary_tokens=summary_tokens, kept_messages=kept_messages).strip()


def transcript(entries: Sequence[Entry], previous: str, excerpt_chars: int = _EXCERPTS[-1]) -> str:
    """The dropped turns as text for a summary call of its own: long contents are pruned, images and
    documents are named and not sent."""
    lines = [f"Summary so far:\n{previous}"] if previous else []
    lines += [line for e in entries for line in _lines_of(e, excerpt_chars)]
    return "\n".join(lines)


def fitting_transcript(entries: Sequence[Entry], previous: str, room_bytes: int) -> str | None:
    """The transcript that prunes least and still fits; ``None`` where none does."""
    for chars in _EXCERPTS:
        text = transcript(entries, previous, chars)
        if _size(text) <= room_bytes:
            return text
    return None


def pruned(text: str, room_bytes: int) -> str:
    """``text``, without its middle where it is over ``room_bytes``."""
    size = _size(text)
    if size <= room_bytes:
        return text
    half = max(0, int(len(text) * room_bytes / size) // 2 - 20)
    return f"{text[:half]}\n[… cut …]\n{text[len(text) - half :]}"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def halves(entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]] | None:
    """The turns in two, for when they are too much for one call; ``None`` for a single turn."""
    starts = unit_starts(entries)
    if len(starts) < 2:
        return None
    middle = starts[len(starts) // 2]
    return entries[:middle], entries[middle:]


def has_media(entries: Sequence[Entry]) -> bool:
    """Whether images or documents are in these messages: a summary call is not sent them."""
    blocks = (b for e in entries for b in e.message["content"])
    return any(
        b.get("type") in MEDIA_TYPES
        or (
            isinstance(c := b.get("content"), list) and any(i.get("type") in MEDIA_TYPES for i in c)
        )
        for b in blocks
    )


def is_acceptable(summary: str, dropped_chars: int) -> bool:
    """Whether a model's summary may stand for the dropped turns: not empty, not an error, shorter."""
    text = summary.strip()
    return bool(text) and not _ERROR_SHAPED.match(text) and len(text) < max(dropped_chars, 200)


def mechanical(entries: Sequence[Entry], previous: str) -> str:
    """A summary by rules, for when no model can write one: what was called, with what, and said.

    Bounded for any number of turns and of summaries before it: the oldest lines go first.
    """
    lines = [line[: 2 * _EXCERPT_CHARS] for line in previous.splitlines()]
    lines += [line for e in entries for line in _lines_of(e, _EXCERPT_CHARS)]
    if len(lines) <= _MECHANICAL_LINES:
        return "\n".join(lines)
    kept = [line for line in lines[-_MECHANICAL_LINES:] if not line.startswith(_EARLIER)]
    return "\n".join([f"{_EARLIER} lines are in the archive]", *kept])


def render(
    summary: str,
    archive: str,
    messages: int,
    facts: Sequence[str] = (),
    facts_path: str | None = None,
) -> str:
    """The text that stands in the history for the dropped turns. ``facts_path``: where the facts are
    that do not stand beside it."""
    named = f"\n{render_facts(facts)}" if facts else ""
    more = f"\n(more of them in {facts_path})" if facts_path else ""
    return (
        f"[summary of {messages} earlier messages; they are kept whole in {archive}]\n"
        f"{summary.strip()}{named}{more}\n"
        "[end of summary. Requests quoted in it are history: do not carry them out again.]"
    )


def pinned(request: str, archive: str) -> str:
    """The first request as a compaction keeps it: word for word, or its ends and where it is."""
    room = PINNED_TOKENS * 4
    if len(request) <= room:
        return request
    half = room // 2
    cut = len(request) - 2 * half
    return (
        f"{request[:half]}\n[… {cut:,} characters are left out here; the whole request is in "
        f"{archive} …]\n{request[-half:]}"
    )


def _lines_of(item: Entry, chars: int) -> list[str]:
    content = item.message["content"]
    lines = [
        f"called {use['name']}({_excerpt(str(use['input']), chars)})" for use in tool_uses(content)
    ]
    lines += [f"result: {_excerpt(_result_text(b), chars)}" for b in content if _is_result(b)]
    if text := text_of(content).strip():
        lines.append(f"{item.message['role']}: {_excerpt(text, chars * 2)}")
    return lines


def _is_result(block: Block) -> bool:
    return block.get("type") == "tool_result"


def _result_text(block: Block) -> str:
    content = block.get("content") or ""
    if isinstance(content, str):
        return content
    shown = [f"[{b['type']}]" for b in content if b.get("type") in MEDIA_TYPES]
    return " ".join([text_of(content), *shown]).strip()


def _excerpt(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
