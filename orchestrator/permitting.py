"""The check before every tool call: rules first, then a person where one can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from orchestrator.agent import Agent
from orchestrator.events import PermissionDecided
from orchestrator.permissions import Answer, AskedFor, Decision, refusal
from orchestrator.steps import STOPPING


@dataclass(frozen=True, slots=True)
class Ruling:
    """``refusal``: the answer to a call that may not run. ``passed``: what a person let it pass."""

    decided: tuple[PermissionDecided, ...] = ()
    refusal: str | None = None
    passed: frozenset[str] = frozenset()


_UNRULED = Ruling()


async def rule_on(agent: Agent, tool: str, given: object) -> Ruling:
    """Whether the call may run. Waits for a person where the rules say so and one is there."""
    arguments = given if isinstance(given, Mapping) else {}
    decision = agent.permissions.decide(tool, arguments)
    if decision.rule is None:
        return _UNRULED
    if decision.verdict == "ask":
        return await _asked(agent, tool, arguments, decision)
    if decision.verdict == "allow":
        return Ruling((_decided(tool, decision.rule, "allow", "rule"),))
    decided = (_decided(tool, decision.rule, "deny", "rule", decision.how_to_permit),)
    return Ruling(decided, _said(agent, tool, arguments, decision, None))


async def _asked(agent: Agent, tool: str, given: Mapping[str, Any], decision: Decision) -> Ruling:
    assert decision.rule is not None, "what is asked for is asked for by a rule"
    asked = AskedFor(
        agent.agent_id,
        agent.state.spec.agent_type,
        tool,
        given,
        decision.rule,
        decision.permit,
    )
    answer = await _answer(agent, asked)
    if answer in ("once", "always"):
        decided = _decided(tool, decision.rule, "allow", "person")
        return Ruling((decided,), passed=frozenset({decision.rule}))
    if answer is None and agent.seams.reins.is_stopping:
        return Ruling(refusal=f"[error] not run: {STOPPING}")
    by, hint = ("nobody", decision.how_to_permit) if answer is None else ("person", "")
    decided = _decided(tool, decision.rule, "deny", by, hint)
    return Ruling((decided,), _said(agent, tool, given, decision, answer))


async def _answer(agent: Agent, asked: AskedFor) -> Answer | None:
    reins = agent.seams.reins
    with agent.patient(), reins.at_most(0), anyio.move_on_after(agent.seconds_left()):
        try:
            return await agent.seams.asking.answer(asked)
        # A question that cannot be put is not answered, whatever the reason.
        except Exception:  # noqa: BLE001
            return None
    return None


def _said(
    agent: Agent, tool: str, given: Mapping[str, Any], decision: Decision, answer: Answer | None
) -> str:
    return refusal(decision, answer, is_read=agent.permissions.understands(tool, given))


def denied_by(rule: str, tool: str, kept: str | None = None) -> PermissionDecided:
    """What a tool met on its way: a path by another name, a rule of its own. ``kept``: where what it
    had made there lies now."""
    by = "nobody" if rule.startswith("ask ") else "rule"
    return PermissionDecided(tool=tool, rule=rule, decision="deny", by=by, kept=kept)


def _decided(
    tool: str,
    rule: str,
    decision: Literal["allow", "deny"],
    by: str,
    hint: str = "",
) -> PermissionDecided:
    return PermissionDecided(tool=tool, rule=rule, decision=decision, by=by, hint=hint)
