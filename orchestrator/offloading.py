"""Carrying out an offload of history: each part stored first, then all of them recorded together."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.agent import Agent
from orchestrator.context import facts
from orchestrator.context.offload import Part
from orchestrator.events import Fact, Offloaded, OffloadFailed, OffloadReason
from workspace import StoredFile, WorkspaceError


async def offload(agent: Agent, reason: OffloadReason, parts: Sequence[Part]) -> None:
    """Store the parts and put placeholders in their place. What cannot be stored stays."""
    by = agent.state.read_back
    assert by is not None, "nothing is offloaded for an agent that cannot read it back"
    moved: list[Offloaded] = []
    failed: list[Fact] = []
    for part in parts:
        try:
            stored = await _store(agent, part)
        except (WorkspaceError, OSError) as error:
            failed.append(
                OffloadFailed(
                    tool=part.tool,
                    tool_use_id=part.tool_use_id,
                    chars=len(part.text),
                    message=str(error),
                )
            )
            break  # the next one would hardly do better
        moved.append(
            Offloaded(
                tool=part.tool,
                tool_use_id=part.tool_use_id,
                chars=stored.chars,
                path=stored.path,
                reason="input" if reason == "line" and part.is_input else reason,
                sha256=stored.sha256,
                placeholder=part.placeholder(stored.path, by),
                entry=part.entry,
                block=part.block,
                key=part.key,
                batch_end=False,
            )
        )
    if moved:
        state = agent.state
        kept, more = facts.at_offload(
            state.facts,
            state.more_facts,
            [part.text for part in parts[: len(moved)]],
            state.window_tokens,
        )
        update = {"batch_end": True, "facts": kept, "more_facts": more}
        moved[-1] = moved[-1].model_copy(update=update)
    await agent.record(*moved, *failed)


async def _store(agent: Agent, part: Part) -> StoredFile:
    if part.media is None:
        return await agent.store.write(part.tool, part.text)
    return await agent.store.write_bytes(part.tool, part.data, part.suffix)
