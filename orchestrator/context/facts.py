"""Facts that stay verbatim through every summary: a whitelist of shapes, found by rules. Pure.

A summary paraphrases; an id, an amount or a user's "never …" must not be. What the rules find in
dropped text is kept beside the summary, the user's rules first, then what was named most often.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from orchestrator.messages import Block, Message, text_of

MOST_FACTS = 200
_LONGEST = 160

# What a user lays down. Whole sentences, in the user's own words.
_RULE = re.compile(
    r"(?i:\b(?:always|never|must(?: not)?|do not|don't|prefer|make sure|only ever)\b)|"
    r"总是|永远|不要|不得|必须|务必|禁止|一律|偏好"
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]?")

_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"https?://[^\s<>\"'`)\]}，。]+",
        # path:line, then plain paths with an extension
        r"(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]{1,8}:\d+\b",
        r"(?:[\w.@+-]+/)+[\w.@+-]+\.\w{1,8}\b",
        # ids: UUIDs, hashes, KEY-123, and identifiers that mix letters and digits
        r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
        r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b",
        r"\b[A-Z][A-Z0-9]{1,9}-\d{1,8}\b",
        r"\b[A-Za-z][A-Za-z]*[_-](?=[\w-]*\d)[\w-]{3,40}\b",
        r"#\d{2,8}\b",
        # amounts, dates, versions
        r"(?:[$€£¥]|USD |EUR |CNY )\s?\d[\d,]*(?:\.\d+)?(?:\s?(?:[kKmMbB]n?|万|亿))?",
        r"\b\d[\d,]*(?:\.\d+)?\s?(?:%|ms|s|KB|MB|GB|TB|tokens|元|万元|亿元|美元)(?![\w])",
        r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?",
        r"\d{4}年\d{1,2}月(?:\d{1,2}日)?",
        r"\bv?\d+\.\d+(?:\.\d+)+(?:[-+][\w.]+)?\b|\bv\d+(?:\.\d+)+\b",
        # quoted names
        r"`[^`\n]{2,80}`|「[^」\n]{1,60}」|《[^》\n]{1,60}》",
    )
)


def extract(messages: Iterable[Message]) -> list[str]:
    """The facts of these messages: the user's rules, then shapes by how often they occur."""
    rules: dict[str, None] = {}
    shapes: Counter[str] = Counter()
    for message in messages:
        for block in message["content"]:
            if block.get("type") == "text" and message["role"] == "user":
                rules.update(dict.fromkeys(user_rules(block["text"])))
            shapes.update(_in_text(_text(block)))
    ranked = [shape for shape, _ in shapes.most_common()]
    return [*rules, *(s for s in ranked if s not in rules)]


def user_rules(text: str) -> list[str]:
    """Sentences in which a user lays something down, word for word."""
    found = (match[0].strip() for match in _SENTENCE.finditer(text))
    return [s for s in found if _RULE.search(s) and len(s) <= 2 * _LONGEST]


def merge(kept: Sequence[str], new: Sequence[str], most: int = MOST_FACTS) -> tuple[list[str], int]:
    """The facts to keep from now on, and how many did not fit. What was kept stays before what is
    new; the user's rules go before everything."""
    together = list(dict.fromkeys((*kept, *new)))
    together.sort(key=lambda fact: not _RULE.search(fact))
    return together[:most], max(0, len(together) - most)


def render(facts: Sequence[str]) -> str:
    """The facts as they stand beside the summary."""
    return "Named word for word in the earlier messages:\n" + "\n".join(f"- {f}" for f in facts)


def _in_text(text: str) -> set[str]:
    found: set[str] = set()
    for shape in _SHAPES:
        found.update(m[0].rstrip(".,;:") for m in shape.finditer(text) if len(m[0]) <= _LONGEST)
    return found


def _text(block: Block) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "tool_result":
            return text_of(block.get("content") or "")
        case "tool_use":
            return " ".join(v for v in block["input"].values() if isinstance(v, str))
    return ""
