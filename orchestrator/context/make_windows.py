"""Makes ``windows_table.py`` from the model list in `genai-prices` and the facts below. No network.

    python -m orchestrator.context.make_windows

Run it after an update of genai-prices, then read the difference. Windows come from the vendors' own
lists there, and from OpenRouter's for models of vendors that have none; it knows no output caps, which
are here. Where sources disagree, the smaller figure wins: too low costs an early compaction, too high
a rejected request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from orchestrator.context.windows import FLOOR_OUTPUT_TOKENS, Sizes, names_of, sizes_of

TABLE = Path(__file__).with_name("windows_table.py")

# Lists of chat models at their vendors, which go before OpenRouter's.
_VENDORS = (
    *("anthropic", "openai", "google", "deepseek", "moonshotai", "minimax", "zai", "zhipuai"),
    *("mistral", "x-ai", "meta", "cohere"),
)
_BEHIND_OPENROUTER = re.compile(
    r"(?:amazon|anthropic|bytedance-seed|cohere|deepseek|google|meta-llama|minimax|mistralai|moonshotai"
    r"|openai|qwen|stepfun|tencent|x-ai|xiaomi|z-ai)/"
)
# No chat models of today, or no names of models.
_LEFT_OUT = re.compile(
    r"audio|code-search|computer-use|distill|embed|guard|image|live|moderation|ocr|omni|realtime|robotics"
    r"|transcri|tts|vision|voice|voxtral|banana|lyria|-her$|instruct-|^(?:ada|davinci|text|whisper)"
    r"|^hy-mt|^claude-(?:\d$|v)|(?:1-[05]|pro-1-5|flash-1-5).*|^gpt-(?:3|4-vision|4-32k|chat)"
    r"|^gemini-pro|^c4ai"
)
# Listed by their vendors as a round million; OpenRouter has the exact figure.
_ROUNDED = re.compile(r"gemini-|gpt-")

# Windows that genai-prices lacks or has too large, and input caps under the window: from the vendors'
# and models.dev's lists, November 2026. An input cap of None is the window.
_WINDOWS: dict[str, tuple[int, int | None]] = {
    # Ours: offline stand-ins.
    "rehearsal": (200_000, None),
    "scripted": (200_000, None),
    "claude-opus-4": (200_000, None),
    "claude-sonnet-4": (200_000, None),
    "claude-mythos-5": (1_000_000, None),
    "claude-mythos-5-1": (1_000_000, None),
    "claude-mythos-preview": (1_000_000, None),
    # Now served by V4 with a million tokens; older lists grant 131,072 of input, and so do hosts.
    "deepseek-chat": (1_000_000, 131_072),
    "deepseek-reasoner": (1_000_000, 131_072),
    "gemini-2.5-pro": (1_048_576, None),
    "gemini-3-pro-preview": (1_048_576, None),
    "glm-4.5": (131_072, 128_000),
    "glm-4.6": (204_800, 200_000),
    "glm-4.7": (204_800, 200_000),
    "glm-5v-turbo": (200_000, None),
    "gpt-5-chat": (128_000, None),
    "gpt-5.1-chat": (128_000, None),
    "gpt-5.2-chat": (128_000, None),
    "gpt-5.3-chat": (128_000, None),
    "gpt-5.3": (128_000, None),
    "kimi-k2.7-code": (262_144, 229_376),
    # Meta's own service; hosts of the open weights differ, and say so themselves.
    "llama-3.1": (128_000, None),
    "llama-3.2": (128_000, None),
    "llama-3.3": (128_000, None),
    "llama-3": (8_192, None),
    "llama-4": (128_000, None),
    "minimax-m2": (196_608, None),
    "minimax-m2.1": (204_800, None),
    "minimax-m2.5": (204_800, None),
    "codestral": (256_000, 128_000),
    "devstral-latest": (262_144, 256_000),
    "devstral-medium-latest": (262_144, 256_000),
    "devstral-medium": (128_000, None),
    "devstral-small": (128_000, None),
    "magistral-medium": (128_000, None),
    "mistral-large-latest": (262_144, None),
    "mistral-medium-latest": (262_144, None),
    "mistral-small": (256_000, None),
    "mistral-small-latest": (256_000, None),
    # DashScope keeps some of the window for itself.
    "qwen-flash": (1_000_000, 997_952),
    "qwen-max": (32_768, 30_720),
    "qwen-plus": (1_000_000, 129_024),
    "qwen-turbo": (1_000_000, 129_024),
    "qwen3-coder-flash": (1_000_000, 997_952),
    "qwen3-coder-plus": (1_048_576, 997_952),
    "qwen3-max": (262_144, 258_048),
    "qwen3.5": (262_144, None),
    "qwen3.6": (262_144, None),
    "qwen3.5-plus": (1_000_000, 991_808),
    "qwen3.6-plus": (1_000_000, None),
    "qwen3.7-max": (1_000_000, 991_808),
    "qwen3.7-plus": (1_000_000, 991_808),
}

# Output caps by name, first match wins: from the same lists. Without one, a floor.
_OUTPUTS = (
    (r"rehearsal|scripted", 64_000),
    (r"claude-(?:opus|sonnet|haiku)-4-5|claude-sonnet-(?:4|3-7)", 64_000),
    (r"claude-opus-4-[6-8]|claude-\w+-[5-9]|claude-mythos", 128_000),
    (r"claude-opus-4", 32_000),
    (r"claude-\w+-3-5", 8_192),
    (r"claude", 4_096),
    (r"gemini-2-0", 8_192),
    (r"gemini", 65_536),
    (r"gpt-5(?:-\d)?-chat|gpt-5-3$", 16_384),
    (r"gpt-5-pro", 272_000),
    (r"gpt-[5-9]", 128_000),
    (r"gpt-4-1", 32_768),
    (r"gpt-4o|chatgpt-4o", 16_384),
    (r"gpt-oss", 32_768),
    (r"gpt|command", 4_096),
    (r"o1-mini", 65_536),
    (r"o1-preview", 32_768),
    (r"o[134]", 100_000),
    (r"grok-4", 30_000),
    (r"deepseek-(?:chat$|reasoner|flash|v4)", 384_000),
    (r"kimi-k2-(?:0711|7)", 16_384),
    (r"kimi-k2", 262_144),
    (r"glm-4-5", 98_304),
    (r"glm-4-[67]|glm-5v?-turbo", 131_072),
    (r"glm-5", 128_000),
    (r"minimax-m2-", 131_072),
    (r"minimax-m", 128_000),
    (r"codestral|llama", 4_096),
    (r"magistral", 16_384),
    (r"devstral-(?:medium|small)$", 128_000),
    (r"devstral|mistral-large-(?:latest|2512)|mistral-medium-latest", 262_144),
    (r"mistral-small-latest", 256_000),
    (r"qwen-max", 8_192),
    (r"qwen-turbo", 16_384),
    (r"qwen-(?:plus|flash)", 32_768),
    (r"qwen-3-(?:[5-9]\b|coder-(?:plus|flash)|max)", 65_536),
)


def table() -> dict[str, Sizes]:
    """(window, input cap, output cap) by model, sorted by name; names as `names_of` writes them.

    A name is left out where a shorter one, which a look-up falls back to, says the same.
    """
    made: dict[str, Sizes] = {}
    for name, (window, input_cap) in sorted(_windows().items()):
        output = min(_output_cap(name), window)
        if input_cap is None:
            # From GPT-5 on OpenAI sets the largest output aside: 400,000 is 272,000 of input.
            input_cap = (
                window - 128_000 if re.match(r"gpt-[5-9]", name) and output >= 128_000 else window
            )
        sizes = (window, input_cap, output)
        if sizes_of(name, made) != sizes:
            made[name] = sizes
    return made


def source(made: dict[str, Sizes]) -> str:
    """The text of ``windows_table.py``."""
    rows = "".join(f'    "{n}": ({w:_}, {i:_}, {o:_}),\n' for n, (w, i, o) in made.items())
    return (
        '"""Made by `make_windows` from genai-prices and its own facts: change it there."""\n\n'
        "from __future__ import annotations\n\n"
        "from collections.abc import Mapping\n\n"
        f'GENAI_PRICES_VERSION = "{version("genai-prices")}"\n\n'
        "# Tokens by model: (window, input cap, output cap).\n"
        f"WINDOWS: Mapping[str, tuple[int, int, int]] = {{\n{rows}}}\n"
    )


def _windows() -> dict[str, tuple[int, int | None]]:
    """Window and, where it differs, input cap by name."""
    found = {name: (window, None) for name, window in _listed().items()}
    return found | {names_of(name)[0]: sizes for name, sizes in _WINDOWS.items()}


def _listed() -> dict[str, int]:
    """Windows as genai-prices has them: under their own names at the vendors, and without "preview"
    or date where no other model is called so."""
    vendors = _least(pair for vendor in _VENDORS for pair in _models(vendor))
    routed = _least((_bare(name), window) for name, window in _models("openrouter"))
    for name, window in vendors.items():
        if window == 1_000_000 and _ROUNDED.match(name):
            vendors[name] = routed.get(_bare(name), window)
    bare = ((_bare(name), window) for name, window in vendors.items())
    return _least(chain(bare, routed.items())) | vendors


def _models(provider: str) -> Iterator[tuple[str, int]]:
    from genai_prices import data

    models = next(p.models for p in data.providers if p.id == provider)
    for model in models:
        name = names_of(model.id)[0]
        if model.context_window is None or ":" in model.id or _LEFT_OUT.search(name):
            continue
        if provider != "openrouter" or _BEHIND_OPENROUTER.match(model.id):
            yield name, model.context_window


def _least(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, window in pairs:
        found[name] = min(window, found.get(name, window))
    return found


def _bare(name: str) -> str:
    return re.sub(r"-(?:preview|latest|\d{4,8})$", "", name)


def _output_cap(name: str) -> int:
    return next((cap for pattern, cap in _OUTPUTS if re.match(pattern, name)), FLOOR_OUTPUT_TOKENS)


if __name__ == "__main__":
    TABLE.write_text(source(table()), encoding="utf-8")
