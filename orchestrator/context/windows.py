"""How large a model's window is: one table, asked by everything that shows or chooses a window.

Precedence: what the model's server says > this table > the model's family > a low guess; a number in
an overflow error corrects all of them during a run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# An unknown model gets a window that nearly every model in use has. Too low costs a compaction that
# was not needed; too high costs a rejected request.
FLOOR_TOKENS = 32_000
FLOOR_OUTPUT_TOKENS = 8_000


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens: ``window`` in all, at most ``input_cap`` of them input and ``output_cap`` output."""

    window: int
    input_cap: int
    output_cap: int
    known: bool = True


def _claude(window: int, output: int) -> Window:
    return Window(window, window, output)


# From the providers' published model lists, November 2026. First match wins.
_FAMILIES: tuple[tuple[re.Pattern[str], Window], ...] = tuple(
    (re.compile(pattern), window)
    for pattern, window in (
        (r"claude-.*-1m\b", _claude(1_000_000, 64_000)),
        (r"claude-(?:opus|sonnet|haiku)-4-5", _claude(200_000, 64_000)),
        (r"claude-opus-4-[678]", _claude(1_000_000, 128_000)),
        (r"claude-sonnet-4-6", _claude(1_000_000, 64_000)),
        (
            r"claude-(?:fable|mythos|opus|sonnet|haiku)-(?:5|[6-9]|preview)",
            _claude(1_000_000, 128_000),
        ),
        (r"claude-(?:opus|sonnet)-4(?:-1|-0|-2025|$)", _claude(200_000, 32_000)),
        (r"claude-3", _claude(200_000, 8_192)),
        (r"claude", _claude(200_000, 32_000)),
        (r"gemini-(?:2\.5|3)", Window(1_048_576, 1_048_576, 65_536)),
        (r"gpt-5", Window(400_000, 272_000, 128_000)),
        (r"gpt-4\.1", Window(1_047_576, 1_047_576, 32_768)),
        (r"gpt-4o", Window(128_000, 128_000, 16_384)),
        (r"rehearsal|scripted", Window(200_000, 200_000, 64_000)),
    )
)


def window_for(model: str) -> Window:
    """The window of ``model`` by table and family; for unknown names a low guess (``known`` False).

    Provider prefixes (``anthropic/``, ``us.anthropic.``) and date suffixes do not matter.
    """
    name = model.lower()
    for pattern, window in _FAMILIES:
        if pattern.search(name):
            return window
    return Window(FLOOR_TOKENS, FLOOR_TOKENS, FLOOR_OUTPUT_TOKENS, known=False)


# Models that bind each thinking block to its exact prefix (Messages API, "preserved thinking").
_BINDS_THINKING = re.compile(
    r"claude-(?:fable|mythos)-5-[1-9]|claude-(?:opus|sonnet|haiku)-5-[5-9]|claude-\w+-[6-9]"
)


def binds_thinking(model: str) -> bool:
    """Whether ``model`` refuses thinking whose prefix (system, tools, earlier messages) changed."""
    return bool(_BINDS_THINKING.search(model.lower()))
