"""What each model accepts, as far as it is published: windows, caps, thinking, prefill, cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_THINKING = ("adaptive", "between_tools", "disabled", "enabled")


@dataclass(frozen=True, slots=True)
class Model:
    """One model's limits, in tokens, and what its requests may hold."""

    name: str
    window: int = 1_000_000
    output_cap: int = 128_000
    #: A prompt shorter than this is silently not cached.
    cache_minimum: int = 1_024
    #: Its thinking blocks are valid only behind the exact prefix that they were produced from.
    binds_thinking: bool = False
    #: A final assistant message is continued rather than refused.
    prefill: bool = False
    #: `role: "system"` inside `messages`. Which models have it is not verified.
    system_role: bool = True
    #: The accepted `thinking.type` values.
    thinking: frozenset[str] = frozenset({"adaptive", "between_tools", "disabled"})

    @property
    def always_thinks(self) -> bool:
        """Thinking cannot be turned off, so it is on where the request says nothing."""
        return "disabled" not in self.thinking


_ALWAYS = frozenset({"adaptive"})
_BOTH = frozenset({"adaptive", "between_tools", "disabled", "enabled"})
_MANUAL = frozenset({"disabled", "enabled"})


def _old(name: str, cache_minimum: int) -> Model:
    """The 4.5 generation: 200k window, manual thinking, prefill, no system role in messages."""
    return Model(name, 200_000, 64_000, cache_minimum, False, True, False, _MANUAL)


# Cache minimums of the 5.1, 5.2 and 5.5 models are not published in what we know: their family's.
_TABLE = (
    Model("claude-fable-5-2", cache_minimum=512, binds_thinking=True, thinking=_ALWAYS),
    Model("claude-mythos-5-2", cache_minimum=512, binds_thinking=True, thinking=_ALWAYS),
    Model("claude-haiku-5-5", cache_minimum=4_096, binds_thinking=True),
    Model("claude-sonnet-5-5", binds_thinking=True),
    Model("claude-opus-5-5", cache_minimum=512, binds_thinking=True),
    Model("claude-fable-5-1", cache_minimum=512, binds_thinking=True, thinking=_ALWAYS),
    Model("claude-mythos-5-1", cache_minimum=512, binds_thinking=True, thinking=_ALWAYS),
    Model("claude-sonnet-5"),
    Model("claude-fable-5", cache_minimum=512, thinking=_ALWAYS),
    Model("claude-mythos-5", cache_minimum=512, thinking=_ALWAYS),
    Model("claude-opus-5", cache_minimum=512),
    Model("claude-opus-4-8"),
    Model("claude-opus-4-7", cache_minimum=2_048, system_role=False),
    Model("claude-mythos-preview", cache_minimum=2_048, system_role=False),
    Model("claude-opus-4-6", cache_minimum=4_096, system_role=False, thinking=_BOTH),
    Model("claude-sonnet-4-6", system_role=False, thinking=_BOTH),
    _old("claude-haiku-4-5", 4_096),
    _old("claude-opus-4-5", 4_096),
    _old("claude-sonnet-4-5", 1_024),
)

DATED = {
    "claude-haiku-4-5-20251001": "claude-haiku-4-5",
    "claude-opus-4-5-20251101": "claude-opus-4-5",
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
}

MODELS = {model.name: model for model in _TABLE}
MODELS |= {dated: replace(MODELS[name], name=dated) for dated, name in DATED.items()}

#: Limits of a name that is not in the table, where such names are accepted at all.
UNKNOWN = Model("unknown", window=200_000, output_cap=64_000, thinking=_BOTH)


def _flags(names: tuple[str, ...], supported: frozenset[str]) -> dict[str, dict[str, bool]]:
    return {name: {"supported": name in supported} for name in names}


def describe(model: Model) -> dict[str, Any]:
    """The entry of `GET /v1/models/{id}`."""
    yes, no = {"supported": True}, {"supported": False}
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name.replace("-", " ").title(),
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "max_input_tokens": model.window,
        "max_tokens": model.output_cap,
        "capabilities": {
            "batch": no,
            "citations": no,
            "code_execution": no,
            "context_management": {"supported": False},
            "effort": {"supported": True, **_flags(_EFFORTS, frozenset(_EFFORTS))},
            "image_input": yes,
            "pdf_input": yes,
            "server_tools": {"supported": False, "code_execution": no, "web_search": no},
            "structured_outputs": yes,
            "thinking": {"supported": True, "types": _flags(_THINKING, model.thinking)},
        },
    }
