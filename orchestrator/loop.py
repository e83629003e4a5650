"""The loop: decide from the state, act, record; the record makes the next state.

Starting, resuming and every kind of agent run through here. What is decided is in
`orchestrator.steps`; how a step is carried out is in the module named for it.
"""

from __future__ import annotations

from orchestrator.agent import Agent
from orchestrator.calls import call_model
from orchestrator.compacting import compact
from orchestrator.concluding import conclude
from orchestrator.context.room import Compact, Offload
from orchestrator.events import MessageAdded
from orchestrator.execution import call_tools, refuse
from orchestrator.halting import await_children, halt, heeded, hold
from orchestrator.offloading import offload
from orchestrator.state import State
from orchestrator.steps import (
    AwaitChildren,
    CallModel,
    CallTools,
    End,
    Halt,
    Hold,
    Refuse,
    Say,
    Step,
    Wait,
    next_step,
)


async def run_agent(agent: Agent) -> State:
    """Run a started agent to its end. Returns its last state."""
    await agent.take_in()
    while (step := next_step(agent.state)) is not None:
        await perform(agent, heeded(agent, step))
        await agent.take_in()
    return agent.state


async def perform(agent: Agent, step: Step) -> None:  # noqa: C901 (one arm for each kind of step)
    """Carry out one step. Everything that it changes, it changes by recording events."""
    match step:
        case CallModel(purpose):
            await call_model(agent, purpose)
        case CallTools(uses):
            await call_tools(agent, uses)
        case Refuse(uses, why):
            await refuse(agent, uses, why)
        case Say(text, repair):
            await agent.record(MessageAdded(text=text, origin="outrider", repair=repair))
        case Wait():
            await agent.arrived.wait()
        case Offload(reason, parts):
            await offload(agent, reason, parts)
        case Compact(trigger, cut):
            await compact(agent, trigger, cut)
        case Hold():
            await hold(agent)
        case Halt():
            await halt(agent)
        case AwaitChildren():
            await await_children(agent)
        case End(status, reason, text):
            await conclude(agent, status, reason, text)
