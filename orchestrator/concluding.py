"""The end of an agent: its conclusion, whole on disk first, then the record of how it ended."""

from __future__ import annotations

from contextlib import suppress

from orchestrator.agent import Agent
from orchestrator.events import AgentEnded, Status
from subagents import Conclusion, estimate, named_files, render


async def conclude(agent: Agent, status: Status, reason: str | None, text: str) -> None:
    """Write the conclusion, as far as the agent got, and record the end."""
    state = agent.state
    path: str | None = None
    with suppress(OSError):  # the journal has it all the same
        path = await agent.desk.conclude(text)
    artifacts = named_files(text, agent.desk.has_file)
    conclusion = Conclusion(
        agent_id=agent.agent_id,
        agent_type=state.spec.agent_type,
        status=status,
        reason=reason,
        text=text,
        path=path,
        tool_calls=state.tool_calls,
        tokens=state.ledger.usage.total_tokens,
        artifacts=artifacts,
    )
    agent.conclusion = conclusion
    is_child = state.spec.parent_id is not None
    returned = render(conclusion, agent.conclusion_tokens) if is_child else text
    await agent.record(
        AgentEnded(
            status=status,
            reason=reason,
            turns=state.turn,
            tool_calls=state.tool_calls,
            usage=state.ledger.usage,
            conclusion=text,
            conclusion_tokens=estimate(text),
            returned_tokens=estimate(returned),
            path=path,
            artifacts=list(artifacts),
        )
    )
