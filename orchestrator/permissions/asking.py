"""Asking a person about a call, one question at a time, while other agents go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from orchestrator.permissions.decision import Decision

Answer = Literal["once", "always", "no"]
"""``always``: for the rest of this run."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A call that waits for a person. ``rule``: why it is asked for; ``permit``: the rules that the
    answer "always" adds for the rest of the run, empty where none can be written."""

    agent_id: str
    agent_type: str
    tool: str
    input: Mapping[str, Any]
    rule: str
    permit: tuple[str, ...] = ()


Ask = Callable[[AskedFor], Awaitable[Answer]]


class Asking:
    """Who is asked, and what has been answered for the rest of the run. ``ask`` is never called twice
    at the same time; without it nobody can be asked."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask
        self._turn = anyio.Lock()
        self._always: set[str] = set()

    async def answer(self, asked: AskedFor) -> Answer | None:
        """What a person says; ``None``: there is nobody to say it."""
        if self._is_answered(asked):
            return "always"
        if self._ask is None:
            return None
        async with self._turn:
            # The question before may have been the same.
            if self._is_answered(asked):
                return "always"
            answer = await self._ask(asked)
            if answer == "always":
                self._always.update(asked.permit)
        return answer

    def _is_answered(self, asked: AskedFor) -> bool:
        return bool(asked.permit) and self._always.issuperset(asked.permit)


_NOT_READ = (
    "this command is more than rules can read; write it as plain commands, without substitutions, "
    "redirections, variables or loops"
)


def refusal(decision: Decision, answer: Answer | None, *, is_read: bool = True) -> str:
    """What the model is told. ``is_read``: whether it was understood what the call is about."""
    if decision.verdict == "deny":
        said = [] if is_read else [_NOT_READ]
        said = said or ["this is not permitted here; go another way, or say that it was not done"]
        said += [hint] if (hint := decision.how_to_permit) else []
    elif answer == "no":
        said = ["a person said no; do not try it again"]
    else:
        said = ["nobody can be asked here", *([] if is_read else [_NOT_READ])]
        said += [hint] if (hint := decision.how_to_permit) else []
    return f"[denied by {decision.rule}] {'; '.join(said)}"
