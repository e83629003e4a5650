"""Carrying out a compaction: archive, then summarise, then record. Nothing is dropped before both."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.agent import Agent
from orchestrator.calls import send
from orchestrator.context import compaction, facts
from orchestrator.context.compaction import Cut
from orchestrator.context.history import Entry
from orchestrator.errors import ContextOverflow, ModelError
from orchestrator.events import Compacted, OffloadFailed, Trigger
from orchestrator.messages import Message, text_of, user
from orchestrator.model import Request
from orchestrator.state import ARCHIVE, apply
from orchestrator.steps import summary_request, transcript_request, transcript_room
from workspace import WorkspaceError

# The name that stands for "no model": summaries by rules.
RULES = "rules"


async def compact(agent: Agent, trigger: Trigger, cut: Cut) -> None:
    """Replace the oldest messages, up to ``cut``, by a summary; they are archived first."""
    state = agent.state
    entries = state.messages[1 : 1 + cut.dropped]
    dropped = [e.message for e in entries]
    try:
        archive = await _archive(agent, dropped)
    except OSError as error:
        # Nothing is dropped that is not kept: the agent goes on as far as its window lets it.
        chars = sum(len(e.data) for e in entries)
        failed = OffloadFailed(tool=ARCHIVE, tool_use_id="", chars=chars, message=str(error))
        await agent.record(failed)
        return
    summariser = _Summariser(agent, entries, cut)
    summary = await summariser.run()
    kept, more = facts.at_compaction(state.facts, state.more_facts, dropped, state.window_tokens)
    fact = Compacted(
        trigger=trigger,
        before_tokens=state.context_tokens,
        after_tokens=0,
        messages=cut.dropped,
        calls=summariser.calls,
        fallback=summary is None or summariser.fell_back,
        archive=archive,
        summary=summary or compaction.mechanical(entries, state.summary),
        facts=kept,
        more_facts=more,
        facts_left_out=len(state.more_facts) + len(more),
        facts_path=await _write_facts(agent, (*state.more_facts, *more)),
    )
    after = apply(agent.state, fact).context_tokens
    await agent.record(fact.model_copy(update={"after_tokens": after}))


async def _write_facts(agent: Agent, more: Sequence[str]) -> str | None:
    """What does not fit beside the summary goes to a file that is named there."""
    if not more or agent.state.spec.reader is None:
        return None
    try:
        return (await agent.store.write("facts", "\n".join(more) + "\n")).path
    except (WorkspaceError, OSError):
        return None  # the archive has them all the same


async def _archive(agent: Agent, dropped: list[Message]) -> str:
    """Append the dropped messages, and with the first of them a request too long to stay whole."""
    state = agent.state
    first = state.compacted_messages + 1
    heading = f"Compaction {state.compactions + 1}: messages {first}–{first + len(dropped) - 1}"
    brief = state.spec.brief
    if not state.compactions and compaction.pinned(brief, "") != brief:
        await agent.desk.archive([user(brief)], "The first request")
    return await agent.desk.archive(dropped, heading)


class _Summariser:
    """One compaction's summary calls: bounded in number, each fitting by construction."""

    def __init__(self, agent: Agent, entries: Sequence[Entry], cut: Cut) -> None:
        self._agent = agent
        self._entries = entries
        self._cut = cut
        self.calls = 0
        self.fell_back = False
        self._was_too_large = False

    async def run(self) -> str | None:
        """A model's summary, if it gives one worth having."""
        if self._agent.state.settings.summary_model == RULES or self._agent.seams.reins.is_stopping:
            return None
        text = await self._on_own_prefix()
        if text is None:
            text = await self._divided(self._entries, self._agent.state.summary, 0)
        return text

    async def _on_own_prefix(self) -> str | None:
        """The agent's own prefix first: that is a cache read. Another model cannot read that cache,
        a full window has no room for the question, and images are not sent to be summarised."""
        state = self._agent.state
        asked = state.settings.summary_tokens * 2 + 1_000
        if (
            state.settings.summary_model is not None
            or state.overflowed
            or state.context_tokens + asked > state.window_tokens
            or compaction.has_media(state.messages)
        ):
            return None
        return await self._ask(summary_request(state, self._cut, run_id=self._run_id))

    async def _divided(self, entries: Sequence[Entry], previous: str, depth: int) -> str | None:
        """Over a transcript; in two parts where it is too much for one call. What the calls do not
        cover is summarised by rules, part by part."""
        state = self._agent.state
        room = transcript_room(state)
        parts = compaction.halves(entries) if depth < compaction.MAX_DEPTH else None
        if parts is None or compaction.fitting_transcript(entries, previous, room) is not None:
            model = state.settings.summary_model
            request = transcript_request(state, entries, previous, run_id=self._run_id, model=model)
            text = await self._ask(request)
            if text is not None or parts is None or not self._was_too_large:
                return text
        texts = []
        for number, part in enumerate(parts):
            before = previous if number == 0 else ""
            text = await self._divided(part, before, depth + 1)
            self.fell_back = self.fell_back or text is None
            texts.append(text or compaction.mechanical(part, before))
        return "\n".join(texts)

    async def _ask(self, request: Request) -> str | None:
        self._was_too_large = False
        if self.calls >= compaction.MAX_CALLS:
            return None
        self.calls += 1
        reply = await send(self._agent, request, len(request.body) // 4)
        if isinstance(reply, ModelError):
            self._was_too_large = isinstance(reply, ContextOverflow)
            return None
        if reply.stop_reason in ("refusal", "max_tokens"):
            return None
        text = text_of(reply.content)
        weight = sum(e.weight for e in self._entries)
        return text if compaction.is_acceptable(text, weight) else None

    @property
    def _run_id(self) -> str:
        return self._agent.seams.run_id
