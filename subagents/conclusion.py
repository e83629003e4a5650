"""What comes back from a subagent: its conclusion, whole on disk, bounded for the parent."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

Status = Literal["finished", "partial", "failed", "empty", "cancelled"]

CONCLUSION_TOKENS = 2_000  # tokens of one conclusion in its parent's context
TOTAL = 10_000  # tokens of all conclusions that come back from parallel children

# From here on (CJK, kana, hangul, emoji) a character is about a token; below, four are.
_DENSE = re.compile("[\u2e80-\ud7ff\uf900-\uffef\U00010000-\U0010ffff]")
_MOST_ARTIFACTS = 20


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The outcome of one agent. `text` is whole; `path` is where it stands, below the root."""

    agent_id: str
    agent_type: str
    status: Status
    reason: str | None
    text: str
    path: str | None
    tool_calls: int
    tokens: int
    artifacts: tuple[str, ...] = ()


def estimate(text: str) -> int:
    """Tokens of a text: four characters each, a CJK character one of its own."""
    dense = len(text) - len(_DENSE.sub("", text))
    return -(-(len(text) + 3 * dense) // 4)


def limit_each(n: int, each: int = CONCLUSION_TOKENS, total: int = TOTAL) -> int:
    """The tokens that each of `n` conclusions may take, so that all of them stay within `total`."""
    return min(each, total // max(n, 1))


def render(conclusion: Conclusion, limit_tokens: int = CONCLUSION_TOKENS) -> str:
    """The conclusion as its parent gets it, at most `limit_tokens` long where its first line and
    its handle leave room: head line, reason, text or its head, and where it goes on."""
    made = conclusion
    head = (
        f"[{made.agent_type} {made.agent_id} · {made.status}"
        f" · {made.tool_calls} tool calls · {made.tokens} tokens]\n"
    )
    if made.reason:
        head += f"reason: {' '.join(made.reason.split())[:300]}\n"
    files = _artifacts(made.artifacts)
    text = made.text.strip() or "(no conclusion)"
    if estimate(head + text + files) <= limit_tokens:
        return head + text + files
    where = f"continues in {made.path}" if made.path else "cut here, the rest was not kept"
    tail = f"\n[{where}]"
    if (room := limit_tokens - estimate(head + tail + files)) < limit_tokens // 2:
        files = ""  # a long list of files must not push out the text
        room = limit_tokens - estimate(head + tail)
    return head + shorten(text, room) + tail + files


def shorten(text: str, limit_tokens: int) -> str:
    """The head of a text, cut at the end of a line or a word where one is near."""
    if estimate(text) <= limit_tokens:
        return text
    size = bisect_right(range(len(text)), limit_tokens, key=lambda n: estimate(text[:n])) - 1
    head = text[: max(size, 0)]
    if text[len(head)].isspace():
        return head.rstrip()
    for mark in ("\n", " "):
        if (end := head.rfind(mark)) > len(head) // 2:
            return head[:end].rstrip()
    return head


def _artifacts(paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    more = len(paths) - _MOST_ARTIFACTS
    names = ", ".join(paths[:_MOST_ARTIFACTS]) + (f" and {more} more" if more > 0 else "")
    return f"\n[files: {names}]"
