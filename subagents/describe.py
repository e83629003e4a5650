"""`describe_subagent`: the full text of one kind of subagent, for where the listing had no room."""

import sys
from collections.abc import Callable, Iterable

from subagents.conclusion import estimate
from subagents.definition import Definition
from subagents.spawn import LISTING, Definitions, find, listing

_LIMITS = (
    *("max_turns", "max_tokens", "max_seconds", "max_cost"),
    *("conclusion_tokens", "effort", "can_spawn", "returns"),
)


def is_shortened(definitions: Definitions, limit_tokens: int = LISTING) -> bool:
    """Whether a `listing` within `limit_tokens` leaves out a part of the descriptions."""
    return estimate(listing(definitions, sys.maxsize)) > limit_tokens


def described(definition: Definition, model: str, tools: Iterable[str]) -> str:
    """All that a parent should know of one kind; `tools` are those that it really gets."""
    said = [
        definition.name,
        definition.description,
        f"model: {model}",
        f"tools: {', '.join(tools) or 'none'}",
    ]
    said += [f"{key}: {_shown(value)}" for key, value in limits_of(definition).items()]
    return "\n".join(said)


def limits_of(definition: Definition) -> dict[str, object]:
    """What a definition sets for itself beyond tools and model."""
    values = ((key, getattr(definition, key)) for key in _LIMITS)
    return {key: value for key, value in values if value is not None}


class DescribeTool:
    """`describe_subagent` for one parent. `tools_of` gives the tools that a kind gets when it is started
    now, with the pattern that bounds one, `model_of` the model that it runs on."""

    def __init__(
        self,
        definitions: Definitions,
        tools_of: Callable[[Definition], Iterable[str]],
        model_of: Callable[[Definition], str],
    ) -> None:
        self._definitions = definitions
        self._tools_of = tools_of
        self._model_of = model_of

    async def describe_subagent(self, name: str) -> str:
        """Read the whole description of a kind of subagent, its tools, model and limits."""
        definition = find(self._definitions, name)
        return described(definition, self._model_of(definition), self._tools_of(definition))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
