"""How strict the stand-in is, and whom it imitates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .models import MODELS, UNKNOWN, Model
from .tokens import encode

Body = Mapping[str, Any]


def agent_by_opening(body: Body) -> str:
    """A name for who asks, where no header says so: the same system prompt and first message."""
    messages = body.get("messages") or [None]
    opening = encode([body.get("system"), messages[0]])
    return "agent-" + hashlib.blake2b(opening, digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class Settings:
    """What the stand-in enforces. The defaults are the strictest reading of the documentation."""

    #: `newer`: a prompt over the window is refused, generation stops at its end.
    #: `older`: the prompt and `max_tokens` together must fit.
    overflow: Literal["newer", "older"] = "newer"
    #: Window of every model, in tokens; `None`: each model's own.
    window: int | None = None
    #: Names outside the table: served with modest limits, or 404.
    unknown_models: Literal["accept", "reject"] = "accept"
    #: Models of one's own, or other limits for known ones.
    models: Mapping[str, Model] = field(default_factory=dict)
    #: When the prefix of a thinking block is compared. `asked`: as for accounts from before
    #: 31 August 2026, only if the request sends `thinking.block_binding`.
    binding: Literal["always", "asked", "never"] = "always"
    #: Declared tools in one request. The service has a limit; its number is not published.
    tool_limit: int = 256
    #: Largest request body, in bytes.
    body_limit: int = 32 * 1024 * 1024
    #: `False`: the route answers 404, as on smaller servers.
    count_tokens: bool = True
    model_list: bool = True
    #: `False`: no prompt cache, and usage without its fields.
    cache: bool = True
    #: Seconds before an answer begins.
    latency: float = 0.0
    #: Stream oddities that a client must bear. `late_stops`, `bare_calls`: what llama.cpp does.
    pings: bool = True
    unknown_events: bool = False
    late_stops: bool = False
    bare_calls: bool = False
    #: Names the agent of a request that has no `x-outrider-agent` header.
    agent_of: Callable[[Body], str] = agent_by_opening

    def model(self, name: str) -> Model | None:
        """The limits that hold for this model name; `None`: there is no such model."""
        model = self.models.get(name) or MODELS.get(name)
        if model is None and self.unknown_models == "accept":
            model = replace(UNKNOWN, name=name)
        if model is not None and self.window is not None:
            model = replace(model, window=self.window)
        return model
