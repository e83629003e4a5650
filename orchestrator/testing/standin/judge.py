"""The verdict on a request: every rule applied, the prompt measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import checks, thinking
from .errors import Rejection
from .models import UNKNOWN, Model
from .settings import Body, Settings
from .tokens import Prompt, measure


@dataclass(slots=True)
class Verdict:
    """What a request is, and what is wrong with it, if anything."""

    body: Body
    rejection: Rejection | None = None
    model: Model = UNKNOWN
    prompt: Prompt = field(default_factory=Prompt)
    #: Thinking blocks that are left out, as the beta reports them.
    dropped: list[dict[str, str]] = field(default_factory=list)

    @property
    def prefix(self) -> bytes:
        """The name of the whole prompt: what its answer's thinking and ids are bound to."""
        return self.prompt.hash_before(len(self.prompt.hashes))


def judge(
    body: Any, headers: checks.Headers, settings: Settings, *, counting: bool = False
) -> Verdict:
    """Applies the rules in the service's order: form, conversation, thinking, window."""
    verdict = Verdict(body if isinstance(body, dict) else {})
    try:
        verdict.rejection = checks.check(body, headers, settings, counting=counting)
        if verdict.rejection is None:
            _measure(verdict, settings, counting=counting)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # The rules read what they need and no more; a value of a wrong JSON type trips them.
        verdict.rejection = Rejection(f"a field is missing or has the wrong type: {error!r}")
    return verdict


def _measure(verdict: Verdict, settings: Settings, *, counting: bool) -> None:
    body = verdict.body
    model = settings.model(str(body["model"]))
    assert model is not None  # else the checks had refused it
    verdict.model = model
    verdict.prompt = measure(body)
    objection, verdict.dropped = thinking.check(body, verdict.prompt, model, settings)
    window = None if counting else _window(body, verdict.prompt, model, settings)
    verdict.rejection = objection or window


def _window(body: Body, prompt: Prompt, model: Model, settings: Settings) -> Rejection | None:
    """The window, by the older or the newer rule."""
    if prompt.tokens > model.window:
        return Rejection(f"prompt is too long: {prompt.tokens} tokens > {model.window} maximum")
    asked = body["max_tokens"]
    if settings.overflow == "older" and prompt.tokens + asked > model.window:
        return Rejection(
            f"input length and `max_tokens` exceed context limit: {prompt.tokens} + {asked} > "
            f"{model.window}, decrease input length or `max_tokens` and try again"
        )
    return None
