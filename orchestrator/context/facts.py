"""Facts that stay verbatim through every summary: a whitelist of shapes, found by rules. Pure.

A summary paraphrases; an id, an amount or a user's "never …" must not be. What the rules find in
dropped text is kept beside the summary, the user's rules first, then what was named most often.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.messages import Block, Message, text_of

MOST_FACTS = 200
# In a small window fewer stand beside the summary: at least 40, one for every 400 tokens of window.
_LEAST_FACTS = 40
_TOKENS_A_FACT = 400
_LONGEST = 160

# What a user lays down. Whole sentences, in the user's own words.
_RULE = re.compile(
    r"(?i:\b(?:always|never|must(?: not)?|do not|don't|prefer|make sure|only ever)\b)|"
    r"总是|永远|不要|不得|必须|务必|禁止|一律|偏好"
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]?")

# Words are what stands between spaces, quotes, brackets and Chinese text. Only words of bounded length
# are looked into, and every quantifier elsewhere is bounded: a megabyte without a space costs no more
# than one with.
_BETWEEN_WORDS = re.compile(r"[\s\"'`<>|,;()\[\]{}*\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+")
_PROMISING = re.compile(r"[\d/]")
_WORD_SHAPES = re.compile(
    r"""
      https?://\S+
    | (?:[\w.@+~-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7}:\d+     # path:line
    | \.{0,2}/?(?:[\w.@+~$-]+/)+[\w.@+-]+\.\w{1,8}                # a path with an extension
    | [0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}        # UUID
    | (?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}             # hash
    | [A-Z][A-Z0-9]{1,9}-\d{1,8}                                 # KEY-123
    | \#\d{2,8}
    | [A-Za-z]+[_-](?=[\w-]*\d)[\w-]{2,40}                       # order_77x
    | v?\d+(?:\.\d+){2,}(?:[-+][\w.]+)? | v\d+(?:\.\d+)+        # version
    """,
    re.VERBOSE,
)
_INSIDE = re.compile(
    r"""
      ^(?:[\w.@+~$-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7}:\d+(?=:)
    | (?<![0-9a-fA-F])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9a-fA-F])
    | https?://[^\s:]+
    """,
    re.VERBOSE,
)
_PHRASES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:[$€£¥]|USD |EUR |CNY )\s?\d[\d,]{0,15}(?:\.\d{1,6})?(?:\s?(?:[kKmM](?!\w)|[bB]n|万|亿))?",
        r"(?<![\w.,])\d[\d,]{0,15}(?:\.\d{1,6})?\s?"
        r"(?:%|(?:ms|s|KB|MB|GB|TB|tokens)(?!\w)|元|万元|亿元|美元)",
        r"(?<!\d)\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?(?!\d)",
        r"\d{4}年\d{1,2}月(?:\d{1,2}日)?",
        r"`[^`\n]{2,80}`",
        r"「[^」\n]{1,60}」|《[^》\n]{1,60}》",
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


def extract_from(texts: Iterable[str]) -> list[str]:
    """The facts of texts that nobody said: tool results and inputs. No user's rules are in them."""
    shapes: Counter[str] = Counter()
    for text in texts:
        shapes.update(_in_text(text))
    return [shape for shape, _ in shapes.most_common()]


def user_rules(text: str) -> list[str]:
    """Sentences in which a user lays something down, word for word."""
    found = (match[0].strip() for match in _SENTENCE.finditer(text))
    return [s for s in found if _RULE.search(s) and len(s) <= 2 * _LONGEST]


def most_for(window_tokens: int) -> int:
    """How many facts may stand beside a summary in a window of this size."""
    return min(MOST_FACTS, max(_LEAST_FACTS, window_tokens // _TOKENS_A_FACT))


def merge(
    kept: Sequence[str], new: Sequence[str], most: int = MOST_FACTS
) -> tuple[list[str], list[str]]:
    """The facts to keep from now on, and those that do not fit. What was kept stays before what is
    new; the user's rules go before everything."""
    together = list(dict.fromkeys((*kept, *new)))
    together.sort(key=lambda fact: not _RULE.search(fact))
    return together[:most], together[most:]


def at_compaction(
    kept: Sequence[str], more: Sequence[str], dropped: Iterable[Message], window_tokens: int
) -> tuple[list[str], list[str]]:
    """The facts that stand beside the summary from now on, and those that go to the file of facts
    besides ``more``, which is there already."""
    messages = list(dropped)
    together, left = merge(kept, extract(messages), most_for(window_tokens))
    texts = (_text(block) for message in messages for block in message["content"])
    return together, _beyond(together, more, [*left, *loose(texts)])


def at_offload(
    kept: Sequence[str], more: Sequence[str], texts: Sequence[str], window_tokens: int
) -> tuple[list[str], list[str]]:
    """The same for texts that move to files: once only a placeholder is left, a compaction finds no
    facts there any more."""
    together, left = merge(kept, extract_from(texts), most_for(window_tokens))
    return together, _beyond(together, more, [*left, *loose(texts)])


def loose(texts: Iterable[str]) -> list[str]:
    """Every word that could be a fact, known shape or not: with a digit or a slash in it. For the
    file of facts, where room costs nothing until it is read."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _BETWEEN_WORDS.split(text):
            if len(word) <= _LONGEST and _PROMISING.search(word):
                found[_bare(word)] = None
    return list(found)


def _beyond(kept: Sequence[str], more: Sequence[str], new: Iterable[str]) -> list[str]:
    known = frozenset((*kept, *more))
    return list(dict.fromkeys(fact for fact in new if fact and fact not in known))


def render(facts: Sequence[str]) -> str:
    """The facts as they stand beside the summary."""
    return "Named word for word in the earlier messages:\n" + "\n".join(f"- {f}" for f in facts)


def _in_text(text: str) -> list[str]:
    """The shapes in a text, each once. The order is the text's own: the same text always gives the
    same facts."""
    found: dict[str, None] = {}
    for word in _BETWEEN_WORDS.split(text):
        if len(word) <= _LONGEST and _PROMISING.search(word):
            bare = _bare(word)
            whole = _WORD_SHAPES.fullmatch(bare) or _WORD_SHAPES.fullmatch(bare.lstrip("."))
            if whole is not None:
                found[whole[0]] = None
            else:
                # `a.py:12:def f():` in a search's output, an id behind a date.
                found.update(dict.fromkeys(match[0] for match in _INSIDE.finditer(bare)))
    for shape in _PHRASES:
        found.update(dict.fromkeys(match[0] for match in shape.finditer(text)))
    return list(found)


def _bare(word: str) -> str:
    """A word without the punctuation around it. `.github/x.yml` and `../x.py` begin with dots of
    their own; an ellipsis is none."""
    bare = word.rstrip(".,:!?").lstrip(",:!?")
    return bare.lstrip(".") if bare.startswith("...") else bare


def _text(block: Block) -> str:
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "tool_result":
            return text_of(block.get("content") or "")
        case "tool_use":
            return " ".join(_strings(block["input"]))
    return ""


def _strings(value: object) -> Iterator[str]:
    """The texts in an argument, however deep."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for item in value.values():
                yield from _strings(item)
