"""Asking a person about a call, one question at a time, while other agents go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class _Question:
    asked: AskedFor
    answer: Answer | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)


async def _first(ask: Ask, question: _Question) -> Answer:
    """The answer of whoever gives one first: who is asked, or somebody elsewhere."""
    given: list[Answer] = []
    failed: list[Exception] = []

    async def put() -> None:
        try:
            given.append(await ask(question.asked))
        # Carried past the group, which would wrap it.
        except Exception as error:  # noqa: BLE001
            failed.append(error)
        question.settled.set()

    async with anyio.create_task_group() as group:
        group.start_soon(put)
        await question.settled.wait()
        group.cancel_scope.cancel()
    if question.answer is not None:
        return question.answer
    if failed:
        raise failed[0]
    return given[0]


class Asking:
    """Who is asked, and what has been answered for the rest of the run. ``ask`` is never called twice
    at the same time; without it nobody can be asked."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask
        self._turn = anyio.Lock()
        self._asked = 0
        self._open: dict[str, _Question] = {}
        self._always: set[str] = set()

    async def answer(self, asked: AskedFor) -> Answer | None:
        """What a person says; ``None``: there is nobody to say it."""
        if self._is_answered(asked):
            return "always"
        if self._ask is None:
            return None
        self._asked += 1
        number = f"q{self._asked}"
        question = self._open[number] = _Question(asked)
        try:
            async with self._turn:
                # It may have been answered from elsewhere; or the question before was the same.
                if question.answer is None and self._is_answered(asked):
                    return "always"
                answer = question.answer or await _first(self._ask, question)
                if answer == "always":
                    self._always.update(asked.permit)
            return answer
        finally:
            del self._open[number]

    @property
    def waiting(self) -> dict[str, AskedFor]:
        """The questions that wait for an answer, by their numbers."""
        return {number: q.asked for number, q in self._open.items() if q.answer is None}

    def settle(self, number: str, answer: Answer) -> bool:
        """Answer a question from elsewhere; whether there is such a one."""
        question = self._open.get(number)
        if question is None or question.answer is not None:
            return False
        question.answer = answer
        question.settled.set()
        return True

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
