"""What a replay is judged by: orphans, and facts that can still be reached. On its own feet: nothing
here is shared with what it judges."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]

# What no fact contains, and what parts the words of anything but an address.
_AROUND = string.whitespace + "\"'`()[]{}<>|“”‘’「」《》（），。：；！？…"
_SEPARATORS = str.maketrans(dict.fromkeys(_AROUND, " "))
_BETWEEN = re.compile(r"[=;!?*&]|,(?!\d)|(?<!\d),")
_HEX = frozenset("0123456789abcdef")
_MONEY = "$€£¥"
_LEAST_CHARS, _MOST_CHARS = 4, 160
_LEAST_HASH = 7


# ── orphans ──


def orphans(messages: Sequence[Message]) -> int:
    """Calls without their result in the next message, and results without their call in the one
    before: in the conversation itself, and in what is left of it after a cut in front of any reply."""
    wrong = 0
    asked: set[str] = set()
    for message in messages:
        answers = _ids(message, "tool_result", "tool_use_id")
        # A cut in front of this reply leaves it as the first message: results in it lose their call.
        wrong += len(answers) if message["role"] == "assistant" else len(answers ^ asked)
        asked = _ids(message, "tool_use", "id")
    # The newest calls may be open only where no request is made.
    return wrong + len(asked)


def _ids(message: Message, kind: str, key: str) -> set[str]:
    return {block[key] for block in message["content"] if block.get("type") == kind}


# ── facts ──


def facts(text: str) -> set[str]:
    """Addresses, paths with and without a line, ids, hashes, amounts, dates and versions in ``text``,
    told by how a word is built."""
    words = set(map(_bare, _words(text)))
    return {w for w in words if _LEAST_CHARS <= len(w) <= _MOST_CHARS and _is_fact(w)}


def _words(text: str) -> Iterator[str]:
    for word in text.translate(_SEPARATORS).split():
        if _is_address(word):
            yield word
        else:
            yield from _BETWEEN.split(word)


def _bare(word: str) -> str:
    """A word without what surrounds it: ``src/a.py:12`` of ``src/a.py:12:def``; of a time, what a
    clock shows."""
    if _is_address(word):
        return word.rstrip(".,:;!?*")
    word = word.strip(".:-_/\\")
    if _is_date(word) and word[10:11] == "T":
        return word[: len("2026-01-01T00:00:00")].rstrip("Z")
    name, _, rest = word.partition(":")
    line = rest.split(":")[0]
    if line.isdigit() and _is_path(f"{name}:{line}"):
        return f"{name}:{line}"
    return name if _is_path(name) else word


def facts_of(message: Message) -> set[str]:
    """The facts in everything of a message that a model may need again: not in its thinking."""
    return set().union(*map(facts, texts(message)))


def texts(message: Message) -> Iterator[str]:
    for block in message["content"]:
        yield from _strings(block.get("text", ""))
        yield from _strings(block.get("input", ""))
        yield from _strings(block.get("content", ""))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _is_fact(word: str) -> bool:
    kinds = (_is_address, _is_path, _is_hash, _is_key, _is_amount, _is_date, _is_version)
    return any(kind(word) for kind in kinds)


def _is_address(word: str) -> bool:
    scheme, _, host = word.partition("://")
    return (scheme.isalpha() and "." in host) or host.startswith("localhost")


def _is_path(word: str) -> bool:
    """``a/b.py`` and ``b.py:12``: a name with an extension, in a folder or with a line."""
    name, _, line = word.partition(":")
    folder, _, last = name.rpartition("/")
    stem, dot, extension = last.rpartition(".")
    if not (stem and dot and extension.isalpha() and len(extension) <= 8):
        return False
    return bool(folder.strip("./~")) or line.split(":")[0].isdigit()


def _is_hash(word: str) -> bool:
    plain = word.replace("-", "")
    return (
        len(plain) >= _LEAST_HASH
        and _HEX.issuperset(plain)
        and not plain.isdigit()
        and not plain.isalpha()
    )


def _is_key(word: str) -> bool:
    """``ABC-123``, ``#1234``: not a colour."""
    head, dash, tail = word.partition("-")
    if word.startswith("#"):
        return word[1:].isdigit() and len(word) < len("#000000")
    return bool(dash) and head.isalpha() and head.isupper() and len(head) > 1 and tail.isdigit()


def _is_amount(word: str) -> bool:
    if word[0] in _MONEY or word.endswith(("%", "元")):
        number = word.strip(_MONEY + "%元").rstrip("kKmMbB")
        return _is_number(number)
    return False


def _is_number(word: str) -> bool:
    plain = word.replace(",", "").replace(".", "", 1)
    return plain.isascii() and plain.isdigit()


def _is_date(word: str) -> bool:
    parts = word[:10].split("-")
    return [len(p) for p in parts] == [4, 2, 2] and all(p.isdigit() for p in parts)


def _is_version(word: str) -> bool:
    parts = word.removeprefix("v").split(".")
    return len(parts) >= 3 and all(p.isdigit() for p in parts)


class Reach:
    """What was dropped so far, and how much of it can still be had: from the context itself (the
    facts kept beside the summary are part of it), or from a file that the context names."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._dropped: set[str] = set()
        self._in_files: dict[str, set[str]] = {}

    def store(self, files: Mapping[str, str]) -> None:
        self.files.update(files)

    def drop(self, messages: Iterable[Message]) -> None:
        self._dropped.update(*map(facts_of, messages))

    def lost(self, context: Iterable[Message]) -> set[str]:
        """The dropped facts that neither the context nor a file named in it holds."""
        shown = "\n".join(text for message in context for text in texts(message))
        missing = {fact for fact in self._dropped - facts(shown) if fact not in shown}
        for path, text in self.files.items():
            if missing and path in shown:
                missing -= self._facts_in(path, text)
                missing = {fact for fact in missing if fact not in text}
        return missing

    @property
    def dropped(self) -> int:
        return len(self._dropped)

    def _facts_in(self, path: str, text: str) -> set[str]:
        if path not in self._in_files:
            self._in_files[path] = facts(text)
        return self._in_files[path]
