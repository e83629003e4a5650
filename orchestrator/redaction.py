"""Secrets, taken out of what is written for people and tools: known shapes, and the values of variables
whose names say that they are secret. Pure, and light to import.

Every line of a log, a stream, a progress display and an error goes through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Redact = Callable[[str], str]

MARK = "[redacted]"
_SECRET_NAME = (
    r"(?:password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|private[_-]?key"
    r"|auth[_-]?token|access[_-]?token|refresh[_-]?token|credentials?)"
)
# Shapes that are secret wherever they stand, each with words of which one must occur: looking for a
# word is a hundred times quicker than trying a pattern at every place. A pattern's group 1 is kept.
# Shapes begin only where a word does (`_EDGE`): otherwise a long text of beginnings would be read
# over and over.
# A word also begins behind the last letter of an escape, which JSON, an address and a terminal have:
# `\nAKIA…`, `%3Dghp_…`, `␛[31msk-…`.
_ESCAPE = r"(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4})|(?<=%[0-9a-f]{2})|(?<=[\d;\[]m)"
_EDGE = rf"(?:(?<![\w-])|{_ESCAPE})"
# Those of one run of characters may also be glued to something: `tool-sk-…`.
_GLUED = rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})"
_WORD = rf"(?:\b|{_ESCAPE})"
# A quotation mark, or none, as JSON in JSON in JSON has it.
_QUOTE = r"\\{0,7}[\"']?"
_SHAPES = (
    ("private", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("sk- sk_ pk- pk_ rk- rk_", rf"{_GLUED}(?:sk|pk|rk)[-_][\w-]{{16,}}"),
    ("ghp_ gho_ ghu_ ghs_ ghr_ github_", rf"{_GLUED}(?:gh[pousr]|github_pat)_\w{{20,}}"),
    ("glpat- pypi- xox", rf"{_GLUED}(?:glpat|pypi|xox[abeoprs])-[\w-]{{10,}}"),
    ("hf_ npm_", rf"{_GLUED}(?:hf|npm)_\w{{20,}}"),
    ("aiza", rf"{_GLUED}AIza[\w-]{{30,}}"),
    ("akia asia agpa aroa", rf"{_GLUED}(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{{16}}\b"),
    ("eyj", rf"{_EDGE}eyJ[\w-]{{8,}}\.[\w-]{{8,}}\.[\w-]*"),
    # "Bearer" is also a word: what follows it must look random.
    ("bearer", rf"{_WORD}(bearer\s+)(?=\S*\d)[\w.~+/=-]{{16,}}"),
    (
        "authorization",
        rf"{_WORD}((?:proxy-)?authorization{_QUOTE}\s*[:=]\s*{_QUOTE}(?:\w+\s+)?)[^\s\"'\\,]+",
    ),
    ("cookie", rf"{_WORD}((?:set-)?cookie{_QUOTE}\s*[:=]\s*{_QUOTE})[^\r\n\"'\\]+"),
    ("://", r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
    ("token= key= sig= signature=", r"([?&](?:token|key|sig|signature)=)[^\s&\"'\\]+"),
    (
        # A log is full of "tokens": the word alone is none of the names.
        "passw passphrase secret api access private auth refresh credential",
        rf"({_SECRET_NAME}{_QUOTE}\s*[:=]\s*{_QUOTE})[^\s\"'\\,;&]+",
    ),
)
_PATTERNS = tuple(
    (words.split(), re.compile(shape, re.IGNORECASE | re.DOTALL)) for words, shape in _SHAPES
)
_ANY_WORD = re.compile("|".join(re.escape(word) for words, _ in _PATTERNS for word in words))
# A JSON field, or an environment variable, whose value is secret whatever its shape.
_FIELD = re.compile(rf"(?:.*[_-])?(?:{_SECRET_NAME}|token|cookie|authorization)", re.IGNORECASE)
_VARIABLE = re.compile(
    r"(?:.*_)?(?:\w*KEY|\w*TOKEN|\w*SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIES?|PAT)"
    r"(?:_.*)?",
    re.IGNORECASE,
)
# Shorter values ("1", "true") are no secrets, and would blot out ordinary text.
_SHORTEST = 6
# Texts of at most so many characters are remembered.
_SHORT = 64


def redactor(environ: Mapping[str, str]) -> Redact:
    """A function that takes secrets out of a text: known shapes, and the values of those variables
    in ``environ`` whose names say that they are secret."""
    values = {
        form
        for name, value in environ.items()
        if len(value) >= _SHORTEST and _VARIABLE.fullmatch(name)
        for form in (value, _escaped(value), _escaped(_escaped(value)))
    }
    if not values:
        return _remembering(redact_shapes)
    # Longest first: one value may begin with another.
    known = re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))
    return _remembering(lambda text: redact_shapes(known.sub(MARK, text)))


def _escaped(text: str) -> str:
    """``text`` as it stands inside JSON."""
    return json.dumps(text)[1:-1]


def _remembering(redact: Redact) -> Redact:
    """Names, ids and kinds are short and come again with every line."""
    short = lru_cache(maxsize=2_048)(redact)
    return lambda text: short(text) if len(text) <= _SHORT else redact(text)


def redact_shapes(text: str) -> str:
    """``text`` without what is secret by its shape."""
    lowered = text.lower()
    if _ANY_WORD.search(lowered) is None:
        return text
    for words, pattern in _PATTERNS:
        if any(word in lowered for word in words):
            text = pattern.sub(_kept, text)
    return text


def _kept(found: re.Match[str]) -> str:
    return (found[found.lastindex] if found.lastindex else "") + MARK


def without_secrets(value: Any, redact: Redact) -> Any:
    """JSON with every text redacted; a text under a name such as ``password`` goes whole."""
    if value is None or type(value) in _NO_TEXT:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        # Looked at here already: a call for each figure would take longer than all the rest.
        return [
            part if part is None or type(part) in _NO_TEXT else without_secrets(part, redact)
            for part in value
        ]
    if isinstance(value, Mapping):
        return {redact(str(key)): _field(str(key), part, redact) for key, part in value.items()}
    return value


# Most of what is in a line, and looked at first.
_NO_TEXT = frozenset({int, float, bool})


@lru_cache(maxsize=1_024)
def _is_secret(name: str) -> bool:
    return _FIELD.fullmatch(name) is not None


def _field(name: str, value: Any, redact: Redact) -> Any:
    if isinstance(value, str) and _is_secret(name):
        return MARK
    return without_secrets(value, redact)
