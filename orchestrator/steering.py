"""What a person may ask of a live run from outside, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from orchestrator.agent import Agent, Seams
from orchestrator.events import MessageAdded, Steered
from orchestrator.ids import named
from orchestrator.rundir import MAIN
from orchestrator.team import Team

# Limits that can be raised while the run goes on.
RAISED = ("max_tokens", "max_cost", "max_turns", "max_agents")


class Refused(Exception):
    """The command cannot be carried out; the message says why, for the person who asked."""


class Steering:
    """The commands of one live run; each is a JSON object with ``command`` and its ``argument``."""

    def __init__(self, team: Team, seams: Seams, cost: Callable[[], float | None]) -> None:
        """``cost``: USD of the run so far; ``None``: not known."""
        self._cost = cost
        self._team = team
        self._seams = seams
        self._commands: dict[str, Callable[[str], Awaitable[str]]] = {
            "pause": self._pause,
            "continue": self._continue,
            "cancel": self._cancel,
            "budget": self._budget,
            "say": self._say,
            "approve": self._approve,
            "deny": self._deny,
            "compact": self._compact,
        }

    async def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """``{"ok": true, …}``, or ``{"ok": false, "error": …}``."""
        name, argument = str(asked.get("command")), str(asked.get("argument") or "")
        if self._team.lead is None or self._team.lead.state.started is None:
            return {"ok": False, "error": "the run is only beginning; try again"}
        if name == "status":
            return {"ok": True, "status": self._status()}
        command = self._commands.get(name)
        if command is None:
            return {"ok": False, "error": f"no command {name!r}"}
        try:
            return {"ok": True, "said": await command(argument)}
        except Refused as error:
            return {"ok": False, "error": str(error)}

    def _status(self) -> dict[str, Any]:
        reins, budget = self._seams.reins, self._team.budget
        return {
            "run_id": self._seams.run_id,
            "state": "stopping"
            if reins.is_stopping
            else "paused"
            if reins.is_paused
            else "running",
            "agents": [_row(agent) for agent in self._team.live.values()],
            "questions": [
                {
                    "id": number,
                    "agent_id": asked.agent_id,
                    "tool": asked.tool,
                    "rule": asked.rule,
                    "input": dict(asked.input),
                }
                for number, asked in self._seams.asking.waiting.items()
            ],
            "limits": {"max_tokens": budget.max_tokens, "max_cost": budget.max_cost},
            "used": {"tokens": budget.tokens, "cost": budget.cost if budget.counts_cost else None},
        }

    async def _pause(self, _: str) -> str:
        self._seams.reins.pause()
        await self._record(Steered(command="pause"))
        return "paused: what is under way ends, nothing new begins until continue"

    async def _continue(self, _: str) -> str:
        self._seams.reins.go_on()
        await self._record(Steered(command="continue"))
        return "it goes on"

    async def _cancel(self, agent_id: str) -> str:
        agent = self._agent(agent_id)
        if (scope := self._team.scope_of(agent.agent_id)) is None:
            self._seams.reins.stop()
            return "stopping: agents hand back what they have"
        await agent.record(Steered(command="cancel"))
        scope.cancel()
        return f"{agent.agent_id} is being stopped; its parent is told how far it got"

    async def _budget(self, given: str) -> str:
        name, _, text = given.partition("=")
        name = name.strip().replace("-", "_")
        if name not in RAISED:
            raise Refused(f"no limit {name!r} can be raised here; there are: {', '.join(RAISED)}")
        try:
            value = float(text)
            whole = name == "max_cost" or value.is_integer()
        except ValueError:
            raise Refused(f"{text!r} is no number: write {name}=NUMBER") from None
        if not (0 < value < math.inf and whole):
            raise Refused(f"{name} cannot be {text}")
        if name == "max_cost" and self._cost() is None:
            raise Refused("no price is known for what the run has used: raise max_tokens instead")
        used = {"max_tokens": self._team.budget.tokens, "max_cost": self._cost() or 0.0}.get(
            name, 0
        )
        if value <= used:
            raise Refused(
                f"{name} {value:g} is not over the {used:,g} already used and would end the run; to end it: "
                "cancel main"
            )
        fact = Steered(command="budget", name=name, value=value)
        if name == "max_turns":
            for agent in list(self._team.live.values()):
                await agent.record(fact)
        else:
            self._team.raise_limit(name, value, self._cost() or 0.0)
            await self._record(fact)
        return f"{name} is {value:g} from now on"

    async def _say(self, text: str) -> str:
        if not text.strip():
            raise Refused("there is nothing to say")
        await self._record(Steered(command="say"))
        self._lead.deliver(MessageAdded(text=text, origin="user"))
        return "main is told at the next safe moment"

    async def _approve(self, number: str) -> str:
        return await self._settle(number, "approve")

    async def _deny(self, number: str) -> str:
        return await self._settle(number, "deny")

    async def _settle(self, number: str, command: Any) -> str:
        asking = self._seams.asking
        if not asking.settle(number, "once" if command == "approve" else "no"):
            there = ", ".join(asking.waiting) or "none"
            raise Refused(f"no question {number!r} waits for an answer; there are: {there}")
        await self._record(Steered(command=command))
        return f"{number}: {'permitted, this once' if command == 'approve' else 'denied'}"

    async def _compact(self, agent_id: str) -> str:
        agent = self._agent(agent_id or MAIN)
        await agent.record(Steered(command="compact"))
        return f"{agent.agent_id} is compacted before its next call"

    def _agent(self, text: str) -> Agent:
        live = self._team.live
        found = named(text, live)
        if len(found) > 1:
            raise Refused(f"{text!r} fits {len(found)} agents at work: {', '.join(found)}")
        if not found:
            raise Refused(f"no agent {text!r} is at work; there are: {', '.join(live)}")
        return live[found[0]]

    @property
    def _lead(self) -> Agent:
        assert self._team.lead is not None, "checked before any command"
        return self._team.lead

    async def _record(self, fact: Steered) -> None:
        await self._lead.record(fact)


def _row(agent: Agent) -> dict[str, Any]:
    state = agent.state
    return {
        "agent_id": agent.agent_id,
        "agent_type": state.spec.agent_type,
        "model": state.spec.model,
        "turn": state.turn,
        "tool_calls": state.tool_calls,
        "waits": agent.waiting > 0,
        "context_tokens": state.context_tokens,
        "window_tokens": state.window_tokens,
        "tokens": state.ledger.usage.total_tokens,
    }
