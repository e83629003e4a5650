"""Carrying out a compaction: archive, then summarise, then record. Nothing is dropped before both."""

from __future__ import annotations

from orchestrator.agent import Agent
from orchestrator.calls import send
from orchestrator.context import compaction
from orchestrator.context.compaction import Cut
from orchestrator.events import Compacted, Trigger
from orchestrator.messages import text_of
from orchestrator.state import apply
from orchestrator.steps import pruned_summary_request, summary_request

# The name that stands for "no model": summaries by rules.
RULES = "rules"


async def compact(agent: Agent, trigger: Trigger, cut: Cut) -> None:
    """Replace the oldest messages, up to ``cut``, by a summary; they are archived first."""
    state = agent.state
    dropped = [e.message for e in state.messages[1 : 1 + cut.dropped]]
    first = state.compacted_messages + 1
    heading = f"Compaction {state.compactions + 1}: messages {first}–{first + cut.dropped - 1}"
    archive = await agent.desk.archive(dropped, heading)
    summary, calls = await _summarise(agent, cut)
    fact = Compacted(
        trigger=trigger,
        before_tokens=state.context_tokens,
        after_tokens=0,
        messages=cut.dropped,
        calls=calls,
        fallback=summary is None,
        archive=archive,
        summary=summary
        or compaction.mechanical(state.messages[1 : 1 + cut.dropped], state.summary),
    )
    after = apply(agent.state, fact).context_tokens
    await agent.record(fact.model_copy(update={"after_tokens": after}))


async def _summarise(agent: Agent, cut: Cut) -> tuple[str | None, int]:
    """A model's summary, if it gives one worth having, and the calls it took."""
    state, run_id, calls = agent.state, agent.seams.run_id, 0
    model = state.settings.summary_model
    if model == RULES:
        return None, calls
    weight = sum(e.weight for e in state.messages[1 : 1 + cut.dropped])
    # The agent's own prefix first: that is a cache read. Another model cannot read that cache.
    makers = [summary_request] if model is None and not state.overflowed else []
    for make in (*makers, pruned_summary_request):
        request = make(state, cut, run_id=run_id, model=model)
        calls += 1
        reply = await send(agent, request, len(request.body) // 4)
        if reply is not None and reply.stop_reason not in ("refusal", "max_tokens"):
            text = text_of(reply.content)
            if compaction.is_acceptable(text, weight):
                return text, calls
    return None, calls
