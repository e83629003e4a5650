"""Tools for a parent and the subagents that it started. What stands behind them is not known here."""

from collections.abc import Awaitable, Callable

DELEGATING = ("task", "check_task", "cancel_task", "ask_task", "describe_subagent")
"""Tools of agents that may start others; an agent alone would not have them."""
IN_BACKGROUND = ("check_task", "cancel_task")
"""Those of them that are about subagents in the background alone. Questions are also put to one that was
waited for: it still knows what it has read."""


class ChildTools:
    """`check_task`, `cancel_task` and `ask_task` of one parent. Each is handed what does the work; all
    of them raise `SpawnError` for an id that is no child's."""

    def __init__(
        self,
        check: Callable[[str], Awaitable[str]],
        cancel: Callable[[str], Awaitable[str]],
        ask: Callable[[str, str], Awaitable[str]],
    ) -> None:
        self._check = check
        self._cancel = cancel
        self._ask = ask

    async def check_task(self, agent_id: str) -> str:
        """See how far a subagent is."""
        return await self._check(agent_id)

    async def cancel_task(self, agent_id: str) -> str:
        """Stop a subagent that runs in the background."""
        return await self._cancel(agent_id)

    async def ask_task(self, agent_id: str, question: str) -> str:
        """Ask a finished subagent about its work; it still knows what it saw."""
        return await self._ask(agent_id, question)
