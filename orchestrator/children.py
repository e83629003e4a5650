"""What a parent can do with its children: start, launch, check, cancel, ask."""

from __future__ import annotations

from typing import Protocol

from orchestrator import compose
from orchestrator.agent import Agent
from orchestrator.background import Background
from orchestrator.events import AgentSpawned, AgentStarted, MessageAdded
from orchestrator.execution import current_call
from subagents import Brief, Conclusion, Definition, Finished, SpawnError, render


class Maker(Protocol):
    """Makes children and runs them to their end."""

    async def make_child(
        self, parent: Agent, definition: Definition, brief: Brief, child_id: str
    ) -> tuple[Agent, AgentStarted]: ...

    async def revive(self, parent: Agent, child_id: str) -> Agent: ...

    async def see_through(self, child: Agent) -> Conclusion: ...


class Children:
    """The spawning of one run. Every method is handed the parent that calls."""

    def __init__(self, maker: Maker, background: Background, most: int | None) -> None:
        self._maker = maker
        self._background = background
        self._most = most
        self._spawned = 0
        # How each child that has ended came out; its text is in its file.
        self._ended: dict[str, Conclusion] = {}

    async def start(self, parent: Agent, definition: Definition, brief: Brief) -> Conclusion:
        """Run a child to its end. Raises `SpawnError` if it cannot be started."""
        child = await self._begin(parent, definition, brief, background=False)
        with parent.patient():
            return await self._see_through(child)

    async def launch(
        self, parent: Agent, definition: Definition, brief: Brief, finished: Finished
    ) -> str:
        """Start a child in the background; its id. Raises `SpawnError` if it cannot be started."""
        child = await self._begin(parent, definition, brief, background=True)
        self._background.start(parent, child, self._see_through, finished)
        return child.agent_id

    async def check(self, parent: Agent, agent_id: str) -> str:
        """How far a child is, in a line."""
        self._check_kin(parent, agent_id)
        if (child := self._background.live(agent_id)) is not None:
            state = child.state
            return (
                f"[{state.spec.agent_type} {agent_id} · running · {state.tool_calls} tool calls · "
                f"{state.ledger.usage.total_tokens} tokens]"
            )
        ended = self._ended.get(agent_id)
        if ended is None:
            return f"[{agent_id} · running]"
        return (
            render(ended, 200)
            if not ended.path
            else f"{_head(ended)}\nIts conclusion: {ended.path}"
        )

    async def cancel(self, parent: Agent, agent_id: str) -> str:
        """Stop a child that runs in the background."""
        self._check_kin(parent, agent_id)
        if self._background.live(agent_id) is None:
            raise SpawnError(f"{agent_id} is not running any more.")
        self._background.cancel(agent_id)
        return f"{agent_id} is being stopped; you are told how far it got."

    async def ask(self, parent: Agent, agent_id: str, question: str) -> str:
        """Put a question to a child that has ended. It goes on from what it knows."""
        self._check_kin(parent, agent_id)
        if not question.strip():
            raise SpawnError("The question is empty.")
        if self._background.live(agent_id) is not None or agent_id not in self._ended:
            raise SpawnError(f"{agent_id} is still running: wait until you are told that it ended.")
        child = await self._maker.revive(parent, agent_id)
        # Two questions at a time to one agent would run into each other.
        del self._ended[agent_id]
        await child.record(MessageAdded(text=question, origin="user"))
        with parent.patient():
            return render(await self._see_through(child), child.conclusion_tokens)

    async def _begin(
        self, parent: Agent, definition: Definition, brief: Brief, *, background: bool
    ) -> Agent:
        call = current_call.get()
        self._take_place()
        child_id = compose.child_id(
            parent.agent_id, definition.name, call.turn, call.index, call.tool_use_id
        )
        child, spec = await self._maker.make_child(parent, definition, brief, child_id)
        parent.children.append(child_id)
        spawned = AgentSpawned(
            child_id=child_id,
            child_type=definition.name,
            background=background,
            tool_use_id=call.tool_use_id,
        )
        await parent.record(spawned)
        await child.record(spec)
        return child

    async def _see_through(self, child: Agent) -> Conclusion:
        conclusion = await self._maker.see_through(child)
        self._ended[child.agent_id] = conclusion
        return conclusion

    def _take_place(self) -> None:
        if self._most is not None and self._spawned >= self._most:
            raise SpawnError(
                f"Limit max_agents: this run may start {self._most} subagents and has; do it yourself."
            )
        # Counted here and not when it runs: the next spawn may check before this one begins.
        self._spawned += 1

    def _check_kin(self, parent: Agent, agent_id: str) -> None:
        if agent_id not in parent.children:
            names = ", ".join(parent.children) or "none"
            raise SpawnError(
                f"No subagent of yours is called {agent_id!r:.80}; there are: {names}."
            )


def _head(ended: Conclusion) -> str:
    return render(ended, 0).split("\n")[0]
