"""What a parent can do with its children: start, launch, check, cancel, ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from orchestrator import compose
from orchestrator.agent import Agent, Call
from orchestrator.background import Background, delivery
from orchestrator.calls import handback_tokens
from orchestrator.events import AgentSpawned, AgentStarted, MessageAdded
from orchestrator.execution import current_call
from orchestrator.state import apply
from subagents import Brief, Conclusion, Definition, Finished, SpawnError, render


class Maker(Protocol):
    """Makes children and runs them to their end."""

    async def make_child(
        self, parent: Agent, definition: Definition, brief: Brief, child_id: str
    ) -> tuple[Agent, AgentStarted]: ...

    async def revive(self, parent: Agent, child_id: str) -> Agent: ...

    async def take_over(self, parent: Agent, child_id: str) -> Agent | None: ...

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

    def allow(self, most: int) -> None:
        """How many children the run may start from now on."""
        self._most = most

    def restore(self, spawned: int, ended: Mapping[str, Conclusion]) -> None:
        """Take over from an earlier process: how many children there were, and how those came out
        that have ended."""
        self._spawned = spawned
        self._ended = dict(ended)

    async def start(self, parent: Agent, definition: Definition, brief: Brief) -> Conclusion:
        """Run a child to its end. Raises `SpawnError` if it cannot be started.

        A child of the same call that is there already, from before a crash, is not run twice.
        """
        child_id = _child_id(parent, definition)
        if (ended := self._ended.get(child_id)) is not None:
            return ended
        child = await self._begin(parent, definition, brief, child_id, background=False)
        with parent.patient():
            return await self._see_through(child)

    async def launch(
        self, parent: Agent, definition: Definition, brief: Brief, finished: Finished
    ) -> str:
        """Start a child in the background; its id. Raises `SpawnError` if it cannot be started."""
        child_id = _child_id(parent, definition)
        if (ended := self._ended.get(child_id)) is not None:
            parent.deliver(delivery(child_id, await finished(ended)))
            return child_id
        child = await self._begin(parent, definition, brief, child_id, background=True)
        self._background.start(parent, child, self._see_through, finished)
        return child_id

    async def take_over(self, parent: Agent, definition: Definition, spawned: AgentSpawned) -> None:
        """Go on with a child that was in the background when the process died, or tell its parent
        how it has ended meanwhile."""
        assert parent.spawner is not None, "whoever has started children can be told of them"
        child_id, finished = spawned.child_id, parent.spawner.told(definition, spawned.todo)
        if (ended := self._ended.get(child_id)) is not None:
            parent.deliver(delivery(child_id, await finished(ended)))
        elif (child := await self._maker.take_over(parent, child_id)) is not None:
            self._background.start(parent, child, self._see_through, finished)

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
        asked = MessageAdded(text=question, origin="user", asked_by=_key(current_call.get()))
        # The question of a call that was under way at a crash is there already.
        child = await self._maker.take_over(parent, agent_id)
        if child is None or child.state.asked_by != asked.asked_by:
            if self._background.live(agent_id) is not None or agent_id not in self._ended:
                raise SpawnError(
                    f"{agent_id} is still running: wait until you are told that it ended."
                )
            child = await self._maker.revive(parent, agent_id)
            if child.state.asked_by != asked.asked_by:
                # Two questions at a time to one agent would run into each other.
                del self._ended[agent_id]
                await child.record(asked)
        with parent.patient():
            return render(await self._see_through(child), child.conclusion_tokens)

    async def _begin(
        self,
        parent: Agent,
        definition: Definition,
        brief: Brief,
        child_id: str,
        *,
        background: bool,
    ) -> Agent:
        if (child := await self._maker.take_over(parent, child_id)) is not None:
            return child
        is_new = child_id not in parent.children
        if is_new:
            self._take_place()
        try:
            child, spec = await self._maker.make_child(parent, definition, brief, child_id)
            _take_room(child, spec)
        except SpawnError:
            self._spawned -= is_new
            raise
        try:
            if is_new:
                parent.children.append(child_id)
                spawned = AgentSpawned(
                    child_id=child_id,
                    child_type=definition.name,
                    background=background,
                    tool_use_id=current_call.get().tool_use_id,
                    todo=brief.todo,
                )
                await parent.record(spawned)
            await child.record(spec)
        except BaseException:
            child.let_go()
            raise
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


def _take_room(child: Agent, spec: AgentStarted) -> None:
    """Reserve the child's last turn. Raises `SpawnError` where a limit leaves no room for a first
    request beside it."""
    state = apply(child.state, spec)
    last = handback_tokens(state)
    reached = child.budget.refuses(state.context_tokens + state.output_tokens, last)
    if reached is not None:
        raise SpawnError(
            f"Limit {reached.name} ({reached.limit:,g}): too little is left for a subagent; do it "
            "yourself, or conclude with what you have."
        )
    child.hold(last)


def _child_id(parent: Agent, definition: Definition) -> str:
    """The id of the child that the running call starts: the same again after a crash."""
    call = current_call.get()
    return compose.child_id(
        parent.agent_id, definition.name, call.turn, call.index, call.tool_use_id
    )


def _key(call: Call) -> str:
    return f"{call.turn}.{call.index}.{call.tool_use_id}"


def _head(ended: Conclusion) -> str:
    return render(ended, 0).split("\n")[0]
