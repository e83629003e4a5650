"""What an agent does instead of its next step, while a person holds the run back."""

from __future__ import annotations

from orchestrator.agent import Agent
from orchestrator.events import Steered
from orchestrator.reins import CHILDREN_SECONDS
from orchestrator.steps import AwaitChildren, CallModel, CallTools, Halt, Hold, Step


def heeded(agent: Agent, step: Step) -> Step:
    """``step``, or what is done instead of it while the run is paused or being stopped."""
    reins = agent.seams.reins
    if not isinstance(step, CallModel | CallTools):
        return step
    if reins.is_paused:
        return Hold()
    if not reins.is_stopping:
        return step
    if agent.state.limit is None:
        return Halt()
    if agent.state.background and reins.seconds_since_stop() < CHILDREN_SECONDS:
        return AwaitChildren()
    return step


async def hold(agent: Agent) -> None:
    """Wait while the run is paused."""
    with agent.patient():
        await agent.seams.reins.released()


async def halt(agent: Agent) -> None:
    """From now on the agent only hands back what it has."""
    await agent.record(Steered(command="cancel"))


async def await_children(agent: Agent) -> None:
    """Children in the background hand back first: their parent tells of them."""
    with agent.seams.reins.at_most(CHILDREN_SECONDS), agent.patient():
        await agent.arrived.wait()
