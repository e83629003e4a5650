"""How large a model's window is: one table, asked by everything that shows or chooses a window.

Precedence: what the model's server says > this table > the model's family > a low guess; a number in
an overflow error corrects all of them during a run. `make_windows` makes the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.context.windows_table import WINDOWS

# An unknown model gets a window that nearly every model in use has. Too low costs a compaction that
# was not needed; too high costs a rejected request.
FLOOR_TOKENS = 32_000
FLOOR_OUTPUT_TOKENS = 8_000


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens: ``window`` in all, at most ``input_cap`` of them input and ``output_cap`` output.

    ``known`` is False for a guess, which a larger ``--window`` may go beyond.
    """

    window: int
    input_cap: int
    output_cap: int
    known: bool = True


_FLOOR = Window(FLOOR_TOKENS, FLOOR_TOKENS, FLOOR_OUTPUT_TOKENS, known=False)

# A million tokens asked for by name: "claude-sonnet-4-5-1m", "claude-sonnet-4-5[1m]".
_LONG_BY_NAME = re.compile(r"claude-.*-1m\b")
_LONG = Window(1_000_000, 1_000_000, 64_000)

# For generations that the table lacks: the least that a line's newest ones have. A guess all the same,
# since lines have shrunk before (Gemini 1.5 to 2.5, Grok 4 to 4.5). First match wins.
_LINES = (
    (
        r"claude-(?:fable|mythos|[a-z]+-(?:[5-9]|\d\d))\b",
        Window(1_000_000, 1_000_000, 128_000, known=False),
    ),
    (r"claude", Window(200_000, 200_000, 32_000, known=False)),
    (r"gemini-(?:[3-9]|\d\d)\b", Window(1_048_576, 1_048_576, 65_536, known=False)),
    (r"gpt-(?:[5-9]|\d\d)\b", Window(400_000, 272_000, 128_000, known=False)),
    (r"o\d\b", Window(128_000, 128_000, 32_768, known=False)),
    (r"grok-\d", Window(131_072, 131_072, 30_000, known=False)),
    (r"(?:deepseek-v|kimi-k|glm-|minimax-m)\d", Window(128_000, 128_000, 8_192, known=False)),
    (
        r"mistral-(?:large|medium|small)|(?:code|dev|magi)stral",
        Window(128_000, 128_000, 4_096, known=False),
    ),
)


def window_for(model: str) -> Window:
    """The window of ``model``: by name, by family, else a low guess (``known`` False). Never raises.

    Case, provider prefixes (``anthropic/``, ``us.anthropic.``), dates and suffixes (``-latest``,
    ``-v1:0``) do not matter. A generation that the table lacks is not taken for an earlier one.
    """
    names = names_of(model)
    plain = names[0]
    if plain not in WINDOWS and _LONG_BY_NAME.match(plain):
        return _LONG
    for name in names:
        if sizes := sizes_of(name, WINDOWS):
            return Window(*sizes)
    if _another_kind(plain):
        return _FLOOR
    return next((window for line, window in _LINES if re.match(line, plain)), _FLOOR)


Sizes = tuple[int, int, int]


def sizes_of(name: str, table: Mapping[str, Sizes]) -> Sizes | None:
    """``name``'s entry in ``table``, or that of the longest name it continues."""
    return next((table[n] for n in (name, *_shorter(name)) if n in table), None)


# "-v1:0", "-v1:0:200k" and "-v1" on Bedrock.
_REVISION = re.compile(r"-v\d+:\d+(?::\w+)?$|-v1$")
_DATE = re.compile(r"(20\d\d)-(\d\d)-(\d\d)")
_DAY = re.compile(r"-([01]\d)-([0-3]\d)$")
# Dots, colons and "@" are written for dashes, and "p" for the point in a version ("v3p1").
_DASHES = re.compile(r"[^a-z0-9]+|(?<=\d)p(?=\d)")
# "llama3.1" is "llama-3.1", "claude-4.5-sonnet" is "claude-sonnet-4.5".
_GLUED = re.compile(r"^(llama|qwen)(?=\d)")
_TURNED = re.compile(r"^claude-(\d+(?:-\d)?)-([a-z]+)")
# What stands before a model's own name: "us.anthropic.", "azure-" and the like.
_VENDOR = re.compile(r"^(?:[a-z][a-z-]*\.)+")
_OWN = r"(?:claude|gemini|gpt|grok|glm|kimi|deepseek|llama|minimax|qwen)-"
_GATEWAY = re.compile(rf"^(?!{_OWN})(?:[a-z]+-){{1,2}}(?={_OWN})")


def names_of(model: str) -> tuple[str, str]:
    """The names that ``model`` may be listed under, likelier first: lower case, words joined by dashes.

    The second keeps a dotted vendor, which is part of some names (``deepseek.r1`` is DeepSeek-R1).
    """
    last = model.strip().lower().rstrip("/").rpartition("/")[2]
    return _joined(_VENDOR.sub("", last)), _joined(last)


def _joined(name: str) -> str:
    name = _DATE.sub(r"\1\2\3", _REVISION.sub("", name))
    name = _DAY.sub(r"-\1\2", _DASHES.sub("-", name).strip("-"))
    return _TURNED.sub(r"claude-\2-\1", _GLUED.sub(r"\1-", _GATEWAY.sub("", name)))


# One to three digits at the end of a name count generations: claude-opus-4 says nothing of -4-9.
# More of them are a date.
_GENERATION = re.compile(r"\d{1,3}")
# Words that make another model of a name: not continued from it, nor guessed by its line.
_KINDS = frozenset(
    ("audio", "distill", "embed", "embedding", "guard", "image", "live", "ocr", "realtime")
    + ("transcribe", "tts")
)


def _shorter(name: str) -> Iterator[str]:
    words = name.split("-")
    while len(words) > 1 and words[-1] not in _KINDS and not _GENERATION.fullmatch(words[-1]):
        words.pop()
        yield "-".join(words)


def _another_kind(name: str) -> bool:
    return not _KINDS.isdisjoint(name.split("-"))


# Models that bind each thinking block to its exact prefix (Messages API, "preserved thinking").
_BINDS_THINKING = re.compile(
    r"claude-(?:fable|mythos)-5-[1-9]|claude-(?:opus|sonnet|haiku)-5-[5-9]|claude-\w+-[6-9]"
)


def binds_thinking(model: str) -> bool:
    """Whether ``model`` refuses thinking whose prefix (system, tools, earlier messages) changed."""
    return bool(_BINDS_THINKING.search(model.lower()))
