"""Playing a conversation: the loop's order of things, with the recorded world around it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from orchestrator import events as ev
from orchestrator.context import compaction, facts, policy
from orchestrator.context.estimate import BYTES_PER_TOKEN
from orchestrator.context.history import Entry
from orchestrator.context.offload import Part, is_over
from orchestrator.context.placeholders import ReadBack, placeholder
from orchestrator.context.policy import Context
from orchestrator.context.room import Compact, Full, Offload, after_overflow, make_room
from orchestrator.context.windows import window_for
from orchestrator.messages import Block
from orchestrator.state import State, apply
from orchestrator.steps import lines_of, situation_of, transcript_room
from orchestrator.whatif.figures import (
    Call,
    Compaction,
    Exhausted,
    Moment,
    Played,
    Purpose,
    Stored,
    gather,
)
from orchestrator.whatif.recorded import READER, Conversation

# What `read_file` shows at most of a file in one call.
PAGE_CHARS = 5_000

_SUMMARY_INSTRUCTION_TOKENS = 300
_READ_CALL_TOKENS = 60
# No model writes summaries.
_RULES = "rules"
# Call ids of our own, which tell pages that are read back from recorded results.
_READ_BACK = "read_back_"


def play(
    recorded: Conversation, settings: Context, window: int | None = None, *, read_back: float = 0.0
) -> Played:
    """Play ``recorded`` under ``settings``, in a working window of ``window`` tokens (``None``: that
    of the settings and the model)."""
    return gather(moments(recorded, settings, window, read_back=read_back))


def append_only(recorded: Conversation) -> Played:
    """The baseline: everything is sent for ever, in a window without end."""
    never = Context(offload_at=None, compaction=False)
    return play(recorded, never, window=10**12)


def moments(
    recorded: Conversation, settings: Context, window: int | None = None, *, read_back: float = 0.0
) -> Iterator[Moment]:
    """What happens, one by one, with the state at each: for whoever wants more than `Played`.

    Raises ``ValueError`` where the settings' window is above what the model takes.
    """
    return _Player(recorded, _started(recorded, settings, window), read_back).play()


def _started(recorded: Conversation, settings: Context, window: int | None) -> ev.AgentStarted:
    started = recorded.started
    known = window_for(started.model)
    working = policy.working_window(settings, known) if window is None else window
    update = {
        "window_tokens": working,
        "policy": {name: getattr(settings, name) for name in Context.__dataclass_fields__},
    }
    if working != started.window_tokens:
        update["output_tokens"] = policy.output_reserve(working, known)
    return started.model_copy(update=update)


@dataclass
class _Player:
    """Plays one conversation: the loop's order of things, with the recorded world around it."""

    recorded: Conversation
    started: ev.AgentStarted
    read_back: float
    state: State = field(init=False)
    _rates: list[float] = field(init=False)
    _replies: int = 0
    _paths: dict[str, str] = field(default_factory=dict)
    # Offloaded texts that the model is going to read back, with their paths.
    _wanted: list[tuple[str, str]] = field(default_factory=list)
    # Tokens of the last request up to its newest breakpoint.
    _cached: int = 0
    _done: bool = False

    def __post_init__(self) -> None:
        self.state = apply(State(), self.started)
        self._rates = [self._rate_of(0)]

    def play(self) -> Iterator[Moment]:
        for event in self.recorded.events:
            if isinstance(event, ev.ModelReplied):
                yield from self._read_back()
                yield from self._reply(event, "agent", self._rate_of(self._replies + 1))
                self._replies += 1
            elif isinstance(event, ev.ToolReturned):
                yield from self._answer(event)
            else:
                self.state = apply(self.state, event)
            if self._done:
                return

    # ── calls ──

    def _reply(self, event: ev.ModelReplied, purpose: Purpose, rate: float) -> Iterator[Moment]:
        """Make room, send, take the reply in. ``rate``: tokens a byte of what comes in now."""
        yield from self._make_room()
        while not self._done:
            call = self._sent(event, purpose)
            yield Moment(call, self.state)
            if not call.rejected:
                break
            refused = ev.ModelFailed(model=event.model, kind="overflow", message="", status=400)
            self.state = apply(self.state, refused)
            yield from self._make_room()
        else:
            return
        self._cached = call.read + call.written
        self._rates.append(rate)
        update = {"usage": call.usage, "context_tokens": call.tokens}
        self.state = apply(self.state, event.model_copy(update=update))

    def _sent(self, event: ev.ModelReplied, purpose: Purpose) -> Call:
        state = self.state
        tail = round((state.request_weight - state.fixed_weight - state.weight) * self._rates[-1])
        kept = self._fixed_tokens + self._tokens_of(state.messages)
        read = min(self._readable, kept)
        call = Call(
            purpose=purpose,
            turn=state.turn + 1,
            tokens=kept + tail,
            estimate=state.context_tokens,
            level=policy.level(state.context_tokens, lines_of(state)),
        )
        if call.tokens + state.output_tokens > state.window_tokens:
            return replace(call, rejected=True)
        output = self._output_of(event, purpose)
        return replace(call, read=read, written=kept - read, uncached=tail, output=output)

    def _output_of(self, event: ev.ModelReplied, purpose: Purpose) -> int:
        if purpose == "read_back":
            return _READ_CALL_TOKENS
        known = self.recorded.output
        reported = known[self._replies] if self._replies < len(known) else None
        weight = sum(len(str(block)) for block in event.blocks)
        return round(weight * self.recorded.rate) if reported is None else reported

    @property
    def _readable(self) -> int:
        """Tokens that a cache holds of the next request: all up to the last request's newest
        breakpoint; after an edit the fixed prefix, once it was written."""
        if self.state.newest_breakpoint is not None:
            return self._cached
        return self._fixed_tokens if self.state.turn else 0

    # ── results ──

    def _answer(self, event: ev.ToolReturned) -> Iterator[Moment]:
        stored: dict[str, str] = {}
        result = self._at_birth(event, stored)
        self.state = apply(self.state, event.model_copy(update={"result": result}))
        if stored:
            yield Moment(Stored(stored, at_birth=True), self.state)

    def _at_birth(self, event: ev.ToolReturned, stored: dict[str, str]) -> str | list[Block]:
        """The result with placeholders for texts over the limit, which are added to ``stored``."""
        if self.started.reader is None or event.tool in self.recorded.bounded:
            return event.result
        if isinstance(event.result, str):
            return self._text_at_birth(event.tool, event.result, stored)
        return [
            {**block, "text": self._text_at_birth(event.tool, block["text"], stored)}
            if block.get("type") == "text"
            else block
            for block in event.result
        ]

    def _text_at_birth(self, tool: str, text: str, stored: dict[str, str]) -> str:
        if not is_over(text, self.state.settings.offload_at):
            return text
        path = self._store(tool, text)
        stored[path] = text
        self._want(path, text)
        return placeholder(path, text, self._by)

    @property
    def _by(self) -> ReadBack:
        return self.state.read_back or ReadBack(READER)

    def _read_back(self) -> Iterator[Moment]:
        """The model asks for what was moved away, page by page, before it goes on."""
        while self._wanted and not self._done:
            path, text = self._wanted.pop(0)
            for number, start in enumerate(range(0, len(text), PAGE_CHARS)):
                yield from self._read_page(path, number, text[start : start + PAGE_CHARS])
                if self._done:
                    return

    def _read_page(self, path: str, number: int, page: str) -> Iterator[Moment]:
        call_id = f"{_READ_BACK}{self.state.turn}"
        use: Block = {
            "type": "tool_use",
            "id": call_id,
            "name": READER,
            "input": {"path": path, "offset": 1, "char_offset": number * PAGE_CHARS},
        }
        asked = ev.ModelReplied(
            model=self.started.model, blocks=[use], stop_reason="tool_use", usage=None
        )
        yield from self._reply(asked, "read_back", self.recorded.rate)
        if not self._done:
            shown = ev.ToolReturned(tool=READER, tool_use_id=call_id, index=0, result=page)
            self.state = apply(self.state, shown)

    def _want(self, path: str, text: str) -> None:
        """Deterministic by content: the same results are read back under all settings, and a larger
        share reads what a smaller one reads, and more."""
        digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=4).digest()
        if int.from_bytes(digest, "big") < self.read_back * 2**32:
            self._wanted.append((path, text))

    def _store(self, tool: str, content: str, suffix: str = ".txt") -> str:
        """The path of ``content``: each is stored once."""
        hint = re.sub(r"[^A-Za-z0-9_-]+", "-", tool).strip("-")[:40] or "result"
        name = f"{len(self._paths) + 1:04d}-{hint}{suffix}"
        return self._paths.setdefault(content, f"{self.recorded.folder}/{name}")

    # ── room ──

    def _make_room(self) -> Iterator[Moment]:
        while True:
            now = situation_of(self.state)
            overflowed = self.state.overflowed
            room = after_overflow(now, self.state.overflows) if overflowed else make_room(now)
            match room:
                case Offload():
                    yield self._offload(room)
                case Compact():
                    yield from self._compact(room)
                case Full():
                    self._done = True
                    yield Moment(Exhausted(self.state.turn), self.state)
                    return
                case None:
                    return

    def _offload(self, step: Offload) -> Moment:
        state = self.state
        kept, more = facts.at_offload(
            state.facts, state.more_facts, [p.text for p in step.parts], state.window_tokens
        )
        moved = [self._moved(step.reason, part) for part in step.parts]
        moved[-1] = moved[-1].model_copy(
            update={"batch_end": True, "facts": kept, "more_facts": more}
        )
        for fact in moved:
            self.state = apply(self.state, fact)
        files = {fact.path: part.text for fact, part in zip(moved, step.parts, strict=True)}
        return Moment(Stored(files, at_birth=False), self.state)

    def _moved(self, reason: ev.OffloadReason, part: Part) -> ev.Offloaded:
        content = part.text if part.media is None else part.media.encoded
        path = self._store(part.tool, content, part.suffix)
        if part.text and not part.is_input and not part.tool_use_id.startswith(_READ_BACK):
            self._want(path, part.text)
        return ev.Offloaded(
            tool=part.tool,
            tool_use_id=part.tool_use_id,
            chars=len(content),
            path=path,
            reason=reason,
            placeholder=part.placeholder(path, self._by),
            entry=part.entry,
            block=part.block,
            key=part.key,
            batch_end=False,
        )

    def _compact(self, step: Compact) -> Iterator[Moment]:
        state = self.state
        dropped = state.messages[1 : 1 + step.cut.dropped]
        if state.settings.summary_model != _RULES:
            yield Moment(self._summary_call(dropped), state)
        kept, more = facts.at_compaction(
            state.facts, state.more_facts, (e.message for e in dropped), state.window_tokens
        )
        listed = "\n".join((*state.more_facts, *more))
        facts_path = self._store("facts", listed, ".txt") if listed else None
        if facts_path is not None:
            yield Moment(Stored({facts_path: listed}, False, is_facts=True), state)
        before = state.context_tokens
        fact = ev.Compacted(
            trigger=step.trigger,
            before_tokens=before,
            after_tokens=0,
            messages=step.cut.dropped,
            calls=0,
            fallback=False,
            archive=f"{self.recorded.folder.removesuffix('results')}history.md",
            summary=self._summary(dropped),
            facts=kept,
            more_facts=more,
            facts_left_out=len(state.more_facts) + len(more),
            facts_path=facts_path,
        )
        after = apply(state, fact).context_tokens
        self.state = apply(state, fact.model_copy(update={"after_tokens": after}))
        yield Moment(Compaction(dropped, state.turn, before, after), self.state)

    def _summary(self, dropped: Sequence[Entry]) -> str:
        """By rules; where a model would write it, no longer than the model may."""
        text = compaction.mechanical(dropped, self.state.summary)
        if self.state.settings.summary_model == _RULES:
            return text
        return compaction.pruned(text, round(self.state.settings.summary_tokens * BYTES_PER_TOKEN))

    def _summary_call(self, dropped: Sequence[Entry]) -> Call:
        """On the agent's own prefix, which the cache holds; else over a transcript of its own."""
        state = self.state
        if self._asks_on_own_prefix():
            tokens = self._fixed_tokens + self._tokens_of(state.messages)
            read = min(self._readable, tokens)
        else:
            tokens, read = round(len(self._transcript(dropped)) * self.recorded.rate), 0
        tokens += _SUMMARY_INSTRUCTION_TOKENS
        return Call(
            purpose="summary",
            turn=state.turn + 1,
            tokens=tokens,
            estimate=tokens,
            level="compact",
            read=read,
            uncached=tokens - read,
            output=state.settings.summary_tokens,
        )

    def _transcript(self, dropped: Sequence[Entry]) -> str:
        room = transcript_room(self.state)
        text = compaction.fitting_transcript(dropped, self.state.summary, room)
        # What a run would divide over several calls is priced as one.
        return compaction.transcript(dropped, self.state.summary)[:room] if text is None else text

    def _asks_on_own_prefix(self) -> bool:
        """As `orchestrator.compacting` decides it, with its services and failures left out."""
        state = self.state
        asked = state.settings.summary_tokens * 2 + 1_000
        return not (
            state.settings.summary_model is not None
            or state.overflowed
            or state.context_tokens + asked > state.window_tokens
            or compaction.has_media(state.messages)
        )

    # ── tokens ──

    @property
    def _fixed_tokens(self) -> int:
        return round(self.state.fixed_weight * self.recorded.rate)

    def _tokens_of(self, entries: Iterable[Entry]) -> int:
        """What a provider would count: each turn's bytes at that turn's rate."""
        return round(sum(e.weight * self._rates[e.turn] for e in entries))

    def _rate_of(self, turn: int) -> float:
        rates = self.recorded.rates
        return rates[turn] if turn < len(rates) else self.recorded.rate
