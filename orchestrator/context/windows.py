"""How large a model's window is: one table, asked by everything that shows or chooses a window.

Precedence: what the model's server says > this table > the model's family > a low guess; a number
in an overflow error corrects all of them during a run. `make_windows` makes the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from orchestrator.context.windows_table import WINDOWS

# An unknown model gets a window that nearly every model in use has. Too low costs a compaction that
# was not needed; too high costs a rejected request.
FLOOR_TOKENS = 32_000
FLOOR_OUTPUT_TOKENS = 8_000

# A row of the table: window, input cap, output cap.
Sizes = tuple[int, int, int]


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
_LONG_BY_NAME = r"claude-.*-1m\b"
_LONG = Window(1_000_000, 1_000_000, 64_000)

# For generations that the table lacks: what its line has at least. A guess all the same, since lines
# have shrunk before (Gemini 1.5 to 2.5, Grok 4.3 to 4.5). First match wins.
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

    Case, provider prefixes (``anthropic/``, ``us.anthropic.``), dates and revisions (``-v1:0``) do
    not matter. A generation that the table lacks is not taken for an earlier one.
    """
    names = names_of(model)
    plain = names[0]
    if plain not in WINDOWS and re.match(_LONG_BY_NAME, plain):
        return _LONG
    for name in names:
        if sizes := sizes_of(name, WINDOWS):
            return Window(*sizes)
    if _another_kind(plain):
        return _FLOOR
    return next((window for line, window in _LINES if re.match(line, plain)), _FLOOR)


def family_of(model: str) -> str:
    """The line that ``model`` is of, whatever its generation: ``claude-opus`` of ``claude-opus-4-5``.

    Models of one line count tokens nearly alike: what one has taught is where the next begins.
    """
    name = names_of(model)[0]
    return re.split(r"-?\d", name, maxsplit=1)[0] or name


def sizes_of(name: str, table: Mapping[str, Sizes]) -> Sizes | None:
    """``name``'s entry in ``table``, or that of the longest name it continues."""
    return next((table[n] for n in (name, *_shorter(name)) if n in table), None)


# "us.anthropic." and the like.
_VENDOR = r"^(?:[a-z][a-z-]*\.)+"
_OWN = r"(?:claude|gemini|gpt|grok|glm|kimi|deepseek|llama|minimax|qwen)-"

# Each way of writing a name, and the one it is listed under, in the order they are undone. Patterns
# here are compiled at first use, by `re`'s own cache: this module is imported by everything.
_SPELLINGS = (
    # Revisions on Bedrock: "-v1:0", "-v1:0:200k", "-v1".
    (r"-v\d+:\d+(?::\w+)?$|-v1$", ""),
    # A date is one word.
    (r"(20\d\d)-(\d\d)-(\d\d)", r"\1\2\3"),
    # Dots, colons and "@" stand for dashes, and "p" for the point in a version ("v3p1").
    (r"[^a-z0-9]+|(?<=\d)p(?=\d)", "-"),
    # So is a day at the end, as in "preview-05-06".
    (r"-([01]\d)-([0-3]\d)$", r"-\1\2"),
    # A gateway's words before a well-known name: "azure-gpt-4o", "my-company-claude-opus-5-5".
    (rf"^-?(?!{_OWN})(?:[a-z]+-){{1,2}}(?={_OWN})", ""),
    # "llama3.1" is "llama-3.1", "claude-4.5-sonnet" is "claude-sonnet-4.5".
    (r"^(llama|qwen)(?=\d)", r"\1-"),
    (r"^claude-(\d+(?:-\d)?)-([a-z]+)", r"claude-\2-\1"),
)


@lru_cache(maxsize=1_024)
def names_of(model: str) -> tuple[str, str]:
    """The names that ``model`` may be listed under, likelier first: lower case, joined by dashes.

    The second keeps a dotted vendor, which is part of some names (``deepseek.r1`` is DeepSeek-R1).
    """
    last = model.strip().lower().rstrip("/").rpartition("/")[2]
    return _joined(re.sub(_VENDOR, "", last)), _joined(last)


def _joined(name: str) -> str:
    for pattern, instead in _SPELLINGS:
        name = re.sub(pattern, instead, name)
    return name.strip("-")


# One to three digits at the end of a name count generations: claude-opus-4 says nothing of -4-9.
# More of them are a date.
_GENERATION = r"\d{1,3}"
# Words that make another model of a name: not continued from it, nor guessed by its line.
_KINDS = {"audio", "distill", "embedding", "image", "live", "ocr", "realtime", "transcribe", "tts"}


def _shorter(name: str) -> Iterator[str]:
    words = name.split("-")
    while len(words) > 1 and words[-1] not in _KINDS and not re.fullmatch(_GENERATION, words[-1]):
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
