"""Laws of the context pipeline, over generated histories that are played through the real decisions.

The player below stands for everything that the loop does around `next_step` and `apply`: it answers
calls, runs tools, stores and archives, all in memory. At every request it is checked that nothing was
lost, doubled, orphaned, too large, or sent behind another prefix than it was produced from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.context import Context, compaction, facts, offload, policy
from orchestrator.context.estimate import weigh
from orchestrator.context.history import THINKING, unit_starts
from orchestrator.context.offload import Media
from orchestrator.context.overflow import window_in
from orchestrator.context.placeholders import ReadBack, placeholder
from orchestrator.context.room import Compact, Offload
from orchestrator.context.windows import Window
from orchestrator.events import (
    AgentStarted,
    BudgetReached,
    Compacted,
    Event,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    Offloaded,
    TodosWritten,
    ToolReturned,
    WindowCorrected,
)
from orchestrator.ledger import Usage
from orchestrator.messages import (
    Block,
    Message,
    assistant,
    encode,
    text_block,
    text_of,
    tool_result,
    tool_uses,
    user,
)
from orchestrator.model import Purpose, Request
from orchestrator.state import State, apply
from orchestrator.steps import (
    CallModel,
    CallTools,
    End,
    Refuse,
    Say,
    Step,
    lines_of,
    next_step,
    request_for,
    summary_request,
    transcript_request,
)
from tests.histories import IMAGE, conversations, orphans

ARCHIVE = "history.md"
READER = "read_file"
BY = ReadBack(READER)
# What a message becomes of which only thinking was left.
WORDLESS = text_block("(thought without words)")
SYSTEM = [text_block("You are an agent."), text_block("# Memory\n\nThe snapshot.")]
TOOLS: list[Block] = [{"name": "grep", "input_schema": {"type": "object"}}]


def started(brief: str, window: int, context: Context, *, binds: bool) -> AgentStarted:
    return AgentStarted(
        agent_id="main",
        definition="test",
        model="test",
        window_tokens=window,
        output_tokens=policy.output_reserve(window, Window(window, window, 64_000)),
        reader=READER,
        brief=brief,
        system=SYSTEM,
        tool_schemas=TOOLS,
        policy=asdict(context),
        binds_thinking=binds,
    )


def bare(value: Any) -> Any:
    """Without breakpoints, which are no part of a prefix."""
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k != "cache_control"}
    return [bare(v) for v in value] if isinstance(value, list | tuple) else value


def digest(request: Request, end: int) -> str:
    """Names all that stands before message ``end``: system, tools, every earlier message."""
    prefix = [bare(request.system), bare(request.tools), bare(request.messages[:end])]
    return hashlib.sha256(encode(prefix)).hexdigest()


def thoughts(blocks: Iterable[Block]) -> list[Block]:
    return [b for b in blocks if b.get("type") in THINKING]


def tokens_in(request: Request, ratio: float) -> int:
    """What a service would count, at ``ratio`` tokens a byte and a fixed figure for an image."""
    weight = len(encode(bare(request.system))) + len(encode(bare(request.tools)))
    for message in request.messages:
        content = bare(message["content"])
        weight += weigh(content, len(encode({"role": message["role"], "content": content})))
    return round(weight * ratio)


@dataclass
class Player:
    """Plays a conversation to its end and checks every request.

    ``turns``: what the model says, and the answers. ``ratio``: tokens a byte that the service reports.
    ``true_window``: where the service refuses, with the number (``names_window``) or without; ``None``:
    it never does. ``todo_every``: turns between two changes of the to-do list. ``limit_at``: after so
    many replies the agent has reached a limit.
    """

    spec: AgentStarted
    turns: list[tuple[list[Block], list[Block]]]
    ratio: float = 0.25
    true_window: int | None = None
    names_window: bool = True
    todo_every: int = 0
    limit_at: int | None = None
    summary: str = "They went on."
    state: State = field(init=False)
    # The conversation as it was told, whole; and what compactions moved to the archive, as it was.
    told: list[Message] = field(init=False)
    archive: list[Message] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)
    # What each placeholder stands for.
    stubs: dict[str, str | Media] = field(default_factory=dict)
    produced: dict[str, tuple[str, list[Block]]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    compactions: list[tuple[Compacted, int]] = field(default_factory=list)
    offloads: list[Offload] = field(default_factory=list)
    # Sizes in bytes of the requests that were refused since the last reply.
    refused: list[int] = field(default_factory=list)
    refusals: int = 0
    answers: dict[int, Block] = field(default_factory=dict)
    replies: int = 0
    edited: bool = False
    end: End | None = None

    def __post_init__(self) -> None:
        self.state = apply(State(), self.spec)
        self.told = [user(self.spec.brief)]

    def record(self, *events: Event) -> None:
        for event in events:
            self.state = apply(self.state, event)

    def play(self) -> Player:
        for _ in range(20 * len(self.turns) + 200):
            self.step()
            if self.end is not None:
                return self
        pytest.fail("the agent does not come to an end")

    def step(self) -> None:
        match next_step(self.state):
            case CallModel(purpose):
                self._call(purpose)
            case CallTools(uses) if self.replies == self.limit_at:
                # Some calls are answered, the others are not: the limit is reached.
                self._answer(uses[::2])
                self.record(BudgetReached(name="max_turns", limit=self.replies))
                if not uses[1::2]:
                    self._tell_answers()
            case CallTools(uses):
                self._answer(uses)
                self._tell_answers()
            case Refuse(uses, why):
                self._answer(uses, refused=why)
                self._tell_answers()
            case Say(text):
                self._said(text, "outrider")
            case Offload() as step:
                self._offload(step)
            case Compact() as step:
                self._compact(step)
            case End() as end:
                self.end = end
            case other:
                pytest.fail(f"unexpected: {other}")

    # ── what happens ──

    def _call(self, purpose: Purpose) -> None:
        request = request_for(self.state, purpose)
        self._check_request(request)
        size = tokens_in(request, self.ratio)
        if self.true_window is not None and size > self.true_window:
            self._refuse(request, size)
            return
        self.requests.append(request)
        self.edited = False
        self.refused = []
        if self.replies == len(self.turns) or purpose == "handback":
            assert (request.tool_choice is None) == (purpose == "agent")
            self._reply(request, [text_block("done")], size)
            return
        blocks, answers = self.turns[self.replies]
        self._reply(request, blocks, size)
        if not tool_uses(blocks):
            self._said(text_of(answers), "user")
        if self.todo_every and self.replies % self.todo_every == 0:
            text = f"- [ ] step {self.replies}\n"
            self.record(TodosWritten(text=text, done=0, total=1))

    def _reply(self, request: Request, blocks: list[Block], size: int) -> None:
        number = self.replies
        self.replies += 1
        signed = [
            {**b, "signature": f"{number}.{i}"} if b["type"] == "thinking" else b
            for i, b in enumerate(blocks)
        ]
        for block in thoughts(signed):
            self.produced[block["signature"]] = (
                digest(request, len(request.messages)),
                thoughts(signed),
            )
        self._tell(assistant(*signed))
        self.record(
            ModelReplied(
                model="test",
                blocks=signed,
                stop_reason="tool_use" if tool_uses(signed) else "end_turn",
                usage=Usage(size, 1),
                context_tokens=size,
            )
        )

    def _refuse(self, request: Request, size: int) -> None:
        """E6: never the same again: first the largest part goes, then one compaction, then the end."""
        sent = len(encode(bare(request.messages)))
        assert not self.refused or sent < self.refused[-1], "E6: not made smaller"
        self.refused.append(sent)
        assert len(self.refused) <= 3, "E6: refused again and again"
        self.refusals += 1
        said = "prompt is too long"
        if self.names_window:
            said += f": {size} tokens > {self.true_window} maximum"
        self.record(ModelFailed(model="test", kind="overflow", message=said, status=400))
        assert self.state.estimator.reported_tokens is None, "E2"
        named = window_in(said)
        if named is not None and named < self.state.window_tokens:
            self.record(WindowCorrected(model="test", tokens=named, source="error"))

    def _said(self, text: str, origin: Any) -> None:
        self._tell(user(text))
        self.record(MessageAdded(text=text, origin=origin))

    def _tell(self, message: Message) -> None:
        last = self.told[-1]
        if message["role"] == "user" == last["role"]:
            self.told[-1] = user(*last["content"], *message["content"])
        else:
            self.told.append(message)

    def _answer(self, uses: Sequence[tuple[int, Block]], refused: str | None = None) -> None:
        """Answers come in any order, and a call that has none yet holds everything up (C4)."""
        late = list(uses)[::2]
        for index, use in [u for u in uses if u not in late] + late[::-1]:
            rest = next_step(self.state)
            assert isinstance(rest, CallTools | Refuse)
            assert (index, use) in rest.uses
            content = self.turns[self.replies - 1][1][index]["content"]
            content = content if refused is None else f"[error] {refused}"
            self.answers[index] = tool_result(use["id"], content)
            self.record(
                ToolReturned(
                    tool=use["name"], tool_use_id=use["id"], index=index, result=self._born(content)
                )
            )

    def _tell_answers(self) -> None:
        self._tell(user(*(self.answers[i] for i in sorted(self.answers))))
        self.answers = {}

    def _born(self, content: str | list[Block]) -> str | list[Block]:
        if not isinstance(content, str) or not offload.is_over(
            content, self.state.settings.offload_at
        ):
            return content
        stub = placeholder(self._store(content.encode()), content, BY)
        self.stubs[stub] = content
        return stub

    def _store(self, data: bytes) -> str:
        known = next((path for path, have in self.stored.items() if have == data), None)
        path = known or f"results/{len(self.stored) + 1:04d}.txt"
        self.stored[path] = data
        return path

    def _offload(self, step: Offload) -> None:
        self._check_parts(step)
        self.offloads.append(step)
        moved: list[Offloaded] = []
        for part in step.parts:
            path = self._store(part.data)
            stub = part.placeholder(path, BY)
            self.stubs[stub] = part.media or part.text
            moved.append(
                Offloaded(
                    tool=part.tool,
                    tool_use_id=part.tool_use_id,
                    chars=len(part.text),
                    path=path,
                    reason=step.reason,
                    placeholder=stub,
                    entry=part.entry,
                    block=part.block,
                    key=part.key,
                    batch_end=False,
                )
            )
        kept, more = facts.at_offload(
            self.state.facts,
            self.state.more_facts,
            [part.text for part in step.parts],
            self.state.window_tokens,
        )
        update = {"batch_end": True, "facts": kept, "more_facts": more}
        moved[-1] = moved[-1].model_copy(update=update)
        before = self.state.weight
        self.record(*moved)
        assert self.state.weight < before, "an offload made nothing smaller"
        assert self.state.estimator.reported_tokens is None, "E2"
        self.edited = True

    def _compact(self, step: Compact) -> None:
        self._check_cut(step)
        self._check_summary(summary_request(self.state, step.cut))
        dropped = self.state.messages[1 : 1 + step.cut.dropped]
        self._check_summary(transcript_request(self.state, dropped, self.state.summary, model=None))
        self.archive += [e.message for e in dropped]
        kept, more = facts.at_compaction(
            self.state.facts,
            self.state.more_facts,
            (e.message for e in dropped),
            self.state.window_tokens,
        )
        fact = Compacted(
            trigger=step.trigger,
            before_tokens=self.state.context_tokens,
            after_tokens=0,
            messages=step.cut.dropped,
            calls=1,
            fallback=False,
            archive=ARCHIVE,
            summary=self.summary,
            facts=kept,
            more_facts=more,
            facts_left_out=len(self.state.more_facts) + len(more),
        )
        after = apply(self.state, fact).context_tokens
        fact = fact.model_copy(update={"after_tokens": after})
        self._check_progress(fact)
        self.record(fact)
        assert self.state.estimator.reported_tokens is None, "E2"
        self.compactions.append((fact, self.replies))
        self.edited = True

    # ── what must be true ──

    def _check_request(self, request: Request) -> None:
        messages = list(request.messages)
        assert orphans(messages) == [], "C4"
        assert bare(request.system) == SYSTEM, "C6"
        assert request.tools == TOOLS, "C6"
        brief = self.spec.brief
        assert messages[0]["content"][0]["text"] == (
            compaction.pinned(brief, ARCHIVE) if self.compactions else brief
        ), "C7: the first request"
        if self.state.newest_request:
            assert self.state.newest_request in "\n".join(text_of(m["content"]) for m in messages)
        marks = sum("cache_control" in b for m in messages for b in m["content"])
        assert marks + sum("cache_control" in b for b in request.system) <= 4
        self._check_whole()
        self._check_size(request)
        self._check_thinking(request)
        self._check_todos(request)
        if self.requests and not self.edited:
            self._check_appended(self.requests[-1], request)

    def _check_whole(self) -> None:
        """C3, O3: archive and kept messages, placeholders followed, are all that was ever told."""
        now = [*self.archive, *(e.message for e in self.state.messages[1:])]
        assert [self._restored(m) for m in now] == [self._restored(m) for m in self.told[1:]]

    def _restored(self, message: Message) -> Any:
        blocks = [
            self._followed(b)
            for b in message["content"]
            if b["type"] not in THINKING
            and b != WORDLESS
            and not (b["type"] == "text" and b["text"].startswith("<todos>\n"))
        ]
        return message["role"], blocks

    def _followed(self, block: Block) -> Block:
        match block:
            case {"type": "tool_result", "content": str(content)}:
                return {**block, "content": self.stubs.get(content, content)}
            case {"type": "tool_result", "content": list(content)}:
                return {**block, "content": [self._followed(b) for b in content]}
            case {"type": "tool_use", "input": dict(given)}:
                return {**block, "input": {k: self.stubs.get(v, v) for k, v in given.items()}}
            case {"type": "text", "text": text} if isinstance(media := self.stubs.get(text), Media):
                source = {"media_type": media.media_type, "data": media.encoded}
                return {"type": "image", "source": {"type": "base64", **source}}
        return block

    def _check_size(self, request: Request) -> None:
        assert self.state.context_tokens + request.max_tokens <= self.state.window_tokens, "E3"
        # The few words that ask for a hand-back are not estimated.
        known = self.state.estimator.reports >= 5 and request.purpose == "agent"
        if self.true_window is None and known:
            actual = tokens_in(request, self.ratio)
            assert abs(self.state.context_tokens - actual) <= 0.1 * actual + 2, "E1"

    def _check_todos(self, request: Request) -> None:
        """C13, T1: the list as it is now, once; old ones only where they cannot be taken back."""
        texts = [b["text"] for m in request.messages for b in m["content"] if b["type"] == "text"]
        shown = [t for t in texts if t.startswith("<todos>\n")]
        if self.state.todos.strip():
            assert [self.state.todos.strip() in t for t in shown][-1:] == [True]
            assert self.spec.binds_thinking or len(shown) == 1
        else:
            assert shown == []

    def _check_thinking(self, request: Request) -> None:
        for number, message in enumerate(request.messages):
            shown = thoughts(message["content"])
            if not shown:
                continue
            prefix, all_of_it = self.produced[shown[0]["signature"]]
            assert bare(shown) == all_of_it, "C16: sent in part"
            if self.spec.binds_thinking:
                assert digest(request, number) == prefix, "C16a: bound to another prefix"
        newest = request.messages[-2] if len(request.messages) > 1 else None
        if newest is not None and not self.spec.binds_thinking:
            said = self.turns[self.replies - 1][0]
            assert len(thoughts(newest["content"])) == len(thoughts(said)), (
                "C16: the open tool loop"
            )

    def _check_appended(self, before: Request, now: Request) -> None:
        """C16a: up to its last breakpoint the request before is a prefix of this one."""
        ends = [
            (m, b)
            for m, message in enumerate(before.messages)
            for b, block in enumerate(message["content"])
            if "cache_control" in block
        ]
        last, block = ends[-1]
        assert bare(before.messages[:last]) == bare(now.messages[:last])
        there = before.messages[last]["content"][: block + 1]
        again = now.messages[last]["content"]
        assert bare(there) == bare(again[: block + 1])
        # It is a breakpoint once more, or the to-dos that became history right behind it are: what was
        # written to the cache there is found again.
        assert any("cache_control" in b for b in again[block : block + 2])

    def _check_parts(self, step: Offload) -> None:
        assert step.parts
        for part in step.parts:
            assert part.entry > 0, "C7: the first message stays"
            assert part.text not in self.stubs, "O7: a placeholder was moved"
        if step.reason == "line":
            starts = unit_starts(self.state.messages)
            newest = starts[-self.state.settings.keep_turns :]
            assert all(p.entry < newest[0] for p in step.parts), "O8: newest turns stay"

    def _check_cut(self, step: Compact) -> None:
        """C5, C20: at a unit, never the newest, and only when enough has gathered."""
        entries = self.state.messages[1:]
        starts = unit_starts(entries)
        assert step.cut.dropped in starts
        kept = [s for s in starts if s >= step.cut.dropped]
        limit = self.state.settings
        assert 1 <= len(kept) <= limit.keep_turns
        at, per_byte = lines_of(self.state), self.state.estimator.tokens_per_byte
        tail = sum(e.weight for e in entries[step.cut.dropped :]) * per_byte
        assert len(kept) == 1 or tail <= policy.KEEP_SHARE * at.window + 1, "C20"
        if step.trigger == "line" and self.state.context_tokens < at.exhausted:
            assert len(starts) - len(kept) >= policy.GATHER_TURNS, "C20"

    def _check_summary(self, request: Request) -> None:
        assert orphans(list(request.messages)) == [], "C4: the summary call"
        if not request.tools:  # over a transcript
            assert IMAGE["source"]["data"] not in json.dumps(request.messages[0]), "C17"

    def _check_progress(self, now: Compacted) -> None:
        """C11: after three in a row that freed under their share, none follows."""
        least = policy.GAIN_SHARE * self.state.window_tokens
        newest = [c.before_tokens - c.after_tokens < least for c, _ in self.compactions[-3:]]
        assert now.trigger == "overflow" or newest != [True] * 3, "C11: a fourth without gain"


def turns_of(messages: list[Message]) -> list[tuple[list[Block], list[Block]]]:
    return [
        (messages[i]["content"], messages[i + 1]["content"]) for i in range(1, len(messages), 2)
    ]


def player(
    messages: list[Message], window: int, context: Context, *, binds: bool = False, **more: Any
) -> Player:
    brief = messages[0]["content"][0]["text"]
    return Player(started(brief, window, context, binds=binds), turns_of(messages), **more)


CONTEXTS = st.builds(
    Context,
    offload_at=st.sampled_from([None, 100, 1_000, 5_000]),
    compact_at=st.sampled_from([None, None, 0.5, 0.9]),
    keep_turns=st.integers(1, 8),
    summary_tokens=st.sampled_from([50, 200]),
)
LAWS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Conversations, some with a long first request, some of many turns."""
    first, *turns = draw(conversations(max_turns=12))
    times = draw(st.sampled_from([1, 1, 50, 400]))
    brief = first["content"][0]["text"] * times
    return [user(brief), *(turns * draw(st.integers(1, 6)))]


WINDOWS = st.integers(1_500, 16_000)
SUMMARIES = st.sampled_from(["They went on.", "word " * 40, "步骤已完成。" * 30])


@LAWS
@given(
    histories(), WINDOWS, CONTEXTS, st.booleans(), st.floats(0.2, 0.6), st.integers(0, 3), SUMMARIES
)
def test_whatever_happens_nothing_is_lost_orphaned_misbound_or_too_large(
    messages: list[Message],
    window: int,
    context: Context,
    binds: bool,
    ratio: float,
    todo_every: int,
    summary: str,
) -> None:
    """C3, C4, C6, C7, C13, C16, C16a, C20, E1, E2, E3, O3, O7, O8, T1: at every request of any history,
    with parallel calls, thinking and images, on models that bind thinking and on others."""
    played = player(
        messages,
        window,
        context,
        binds=binds,
        ratio=ratio,
        todo_every=todo_every,
        summary=summary,
    ).play()
    assert played.end is not None
    assert (played.end.status, played.end.reason) in [("finished", None), ("failed", "exhausted")]


@LAWS
@given(histories(), WINDOWS, CONTEXTS, st.booleans(), st.integers(1, 12))
def test_c4_calls_that_a_limit_leaves_unanswered_are_answered_before_the_handback(
    messages: list[Message], window: int, context: Context, binds: bool, limit_at: int
) -> None:
    """C4, S7: and whatever else is true of a request is true of the last one."""
    played = player(messages, window, context, binds=binds, limit_at=limit_at).play()
    assert played.end is not None
    assert (played.end.status, played.end.reason) in [
        ("finished", None),
        ("partial", "limit:max_turns"),
        ("failed", "exhausted"),
    ]


@LAWS
@given(
    histories(),
    WINDOWS,
    CONTEXTS,
    st.booleans(),
    st.floats(0.2, 0.6),
    st.floats(0.3, 1.2),
    st.booleans(),
)
def test_e6_a_refused_request_is_made_smaller_each_time_and_at_most_three_times(
    messages: list[Message],
    window: int,
    context: Context,
    binds: bool,
    ratio: float,
    share: float,
    names_window: bool,
) -> None:
    """E6, E4: where the service's window is smaller than we believe; its number is believed at once."""
    true_window = max(1_024, int(window * share))
    played = player(
        messages,
        window,
        context,
        binds=binds,
        ratio=ratio,
        true_window=true_window,
        names_window=names_window,
    ).play()
    assert played.end is not None
    assert played.end.reason in (None, "exhausted", "context_length_exceeded")
    if names_window and played.refusals:
        assert played.state.window_tokens == min(window, true_window)


def test_e6_first_the_largest_part_goes_then_one_compaction_then_the_end() -> None:
    """E6: a service that refuses whatever it is sent, and names no window."""
    messages = [user("go"), *(m for n in range(1, 20) for m in calls_of(1, "r" * 200 * n))]
    played = player(messages, 32_000, Context(), true_window=9_000, names_window=False)
    while played.refusals == 0:
        played.step()
    played.true_window = 0
    after: list[Step | None] = []
    while played.end is None:
        after.append(next_step(played.state))
        played.step()
    match after:
        case [
            Offload("overflow", (part,)),
            CallModel(),
            Compact("overflow"),
            CallModel(),
            End("failed", "context_length_exceeded"),
        ]:
            results = [b for m in played.told for b in m["content"] if b["type"] == "tool_result"]
            assert len(part.text) == max(len(b["content"]) for b in results)
        case _:
            pytest.fail(f"another order: {after}")


FACTS = st.one_of(
    st.integers(1, 99_999).map(lambda n: f"PROJ-{n}"),
    st.integers(1, 9_999).map(lambda n: f"src/part{n}/main.py:{n}"),
    st.integers(1, 9_999).map(lambda n: f".outrider/runs/r/results/{n:04d}-grep.txt"),
    st.integers(1_000, 9_999).map(lambda n: f"${n}.50"),
    st.integers(0, 2**64).map(lambda n: f"https://example.org/{n:x}"),
)


def naming(turn: list[Message], named: list[str]) -> list[Message]:
    """The turn, with facts named in its first result, or in what the user says."""
    said, (role, content) = turn[0], (turn[1]["role"], list(turn[1]["content"]))
    text = "".join(f"\nsee {fact} for it" for fact in named)
    first = content[0]
    if isinstance(first.get("content"), str):
        content[0] = {**first, "content": first["content"] + text}
    elif text and "content" in first:
        content[0] = {**first, "content": [*first["content"], text_block(text)]}
    elif text:
        content.append(text_block(text))
    return [said, {"role": role, "content": content}]


def entered(turn: list[Message], played: Player) -> list[Message]:
    """The turn as it entered the context: of what moved to a file at birth, what stands in its place.
    A preview may end in the middle of a name."""
    stub_of = {whole: stub for stub, whole in played.stubs.items() if isinstance(whole, str)}
    limit = played.state.settings.offload_at

    def born(block: Block) -> Block:
        text = block.get("content")
        if isinstance(text, str) and offload.is_over(text, limit):
            return {**block, "content": stub_of[text]}
        return block

    return [{"role": m["role"], "content": list(map(born, m["content"]))} for m in turn]


@LAWS
@given(
    histories(),
    st.lists(st.lists(FACTS, max_size=4), min_size=1, max_size=30),
    WINDOWS,
    CONTEXTS,
    st.booleans(),
)
def test_c7_what_was_named_stays_word_for_word_through_any_edits(
    messages: list[Message],
    named: list[list[str]],
    window: int,
    context: Context,
    binds: bool,
) -> None:
    """C7: of all that stood in the context; beside the summary, the first ones as long as there is room, and
    the others in the file of facts."""
    first, *rest = messages
    turns = [naming(rest[i : i + 2], named[i // 2 % len(named)]) for i in range(0, len(rest), 2)]
    whole = [first, *(m for turn in turns for m in turn)]
    played = player(whole, window, context, binds=binds).play()
    state = played.state
    shown = "\n".join(text_of(e.message["content"]) for e in state.messages)
    gone = {
        fact
        for n, turn in enumerate(turns)
        if 2 * n + 1 < len(played.archive)
        for fact in named[n % len(named)]
        if fact in json.dumps(entered(turn, played), ensure_ascii=False)
    }
    assert {fact for fact in gone if fact not in shown} <= set(state.more_facts)
    assert len(state.facts) <= facts.most_for(window)


# ── long turns, huge messages ──


def calls_of(count: int, result: str, *, words: str = "") -> list[Message]:
    """One assistant message with ``count`` calls, and their answers."""
    said = [text_block(words)] if words else []
    uses: list[Block] = [
        {"type": "tool_use", "id": f"c{n}", "name": "grep", "input": {"q": f"{n}"}}
        for n in range(count)
    ]
    answers = [tool_result(use["id"], f"{n} {result}") for n, use in enumerate(uses)]
    return [assistant(*said, *uses), user(*answers)]


@pytest.mark.parametrize("binds", [False, True])
@pytest.mark.parametrize("offload_at", [None, 5_000])
def test_c5_one_turn_of_200_calls_is_cut_between_calls_and_results(
    offload_at: int | None, binds: bool
) -> None:
    """C5, C3, C4, C8: no user message stands between them, every cut is in front of a call; most
    calls make no summary."""
    thinking: Block = {"type": "thinking", "thinking": "next", "signature": ""}
    messages = [user("Do it all in one go.")]
    for _ in range(200):
        call, answers = calls_of(1, "r" * 1_200)
        messages += [assistant(thinking, *call["content"]), answers]
    played = player(messages, 16_000, Context(offload_at=offload_at), binds=binds).play()
    assert played.end == End("finished", None, "done")
    assert 3 <= len(played.compactions) <= 20
    archived = sum(fact.messages for fact, _ in played.compactions)
    assert archived == len(played.archive)
    assert archived + len(played.state.messages) - 1 == 401  # 200 calls, 200 answers, the last word
    assert all(
        played.archive[i]["role"] == ("user" if i % 2 else "assistant") for i in range(archived)
    )


@pytest.mark.parametrize("binds", [False, True])
def test_c5_o5_200_parallel_calls_of_one_message_stay_one_unit_and_fit(binds: bool) -> None:
    """C4, C5, O5: results that are each under their limit move out until the request fits."""
    messages = [user("go"), *calls_of(200, "r" * 4_000), *calls_of(1, "small")]
    played = player(messages, 64_000, Context(), binds=binds).play()
    assert played.end == End("finished", None, "done")
    assert played.offloads[0].reason == "sum"
    assert len(played.requests) == 3
    inline = [
        b for m in played.requests[1].messages for b in m["content"] if b["type"] == "tool_result"
    ]
    assert len(inline) == 200
    assert 0 < sum(b["content"].startswith("[offloaded") for b in inline) < 200


@settings(LAWS, max_examples=15)
@given(histories(), st.booleans(), st.integers(4_000, 64_000), CONTEXTS, st.booleans())
def test_c5_every_law_holds_around_a_turn_of_200_calls(
    messages: list[Message], at_once: bool, window: int, context: Context, binds: bool
) -> None:
    """C3, C4, C5, C16, O3, O7: side by side in one message, or one after another."""
    wide = [calls_of(200, "r" * 800)] if at_once else [calls_of(1, "r" * 800)] * 200
    first, *rest = messages
    whole = [first, *rest[: len(rest) // 4 * 2], *(m for turn in wide for m in turn)]
    whole += rest[len(rest) // 4 * 2 :]
    played = player(whole, window, context, binds=binds).play()
    assert played.end is not None
    assert (played.end.status, played.end.reason) in [("finished", None), ("failed", "exhausted")]


HUGE = 200_000


@pytest.mark.parametrize("offload_at", [None, 5_000])
@pytest.mark.parametrize("what", ["result", "input", "reply", "follow-up", "request"])
def test_c9_a_message_above_the_window_ends_in_one_way_or_the_other(
    what: str, offload_at: int | None
) -> None:
    """C9, C12, E3, C19: what a tool gave or was given moves to a file and the run goes on; what cannot
    move is summarised once it is old, and where that is the newest message the run says it is full."""
    before = [m for _ in range(6) for m in calls_of(1, "r" * 200)]
    after = calls_of(1, "r" * 200) * 2
    huge = "h" * HUGE
    middle: dict[str, list[Message]] = {
        "result": calls_of(1, huge),
        "input": [
            assistant(
                {"type": "tool_use", "id": "w", "name": "write_file", "input": {"text": huge}}
            ),
            user(tool_result("w", "written")),
        ],
        "reply": [assistant(huge), user("And now?")],
        "follow-up": [assistant("done so far"), user(huge)],
        "request": [],
    }
    first = user(huge if what == "request" else "go")
    messages = [first, *before, *middle[what], *after]
    played = player(messages, 16_000, Context(offload_at=offload_at)).play()
    if offload_at is not None and what in ("result", "input"):
        assert played.end == End("finished", None, "done")
        assert huge.encode() in [data[-HUGE:] for data in played.stored.values()]
    else:
        assert played.end is not None
        assert (played.end.status, played.end.reason) == ("failed", "exhausted")


def test_c12_after_a_compaction_an_oversized_tail_moves_out_part_by_part() -> None:
    """C12: the compaction kept the newest turn, which alone is over the window; of its large parts
    only as many go as are needed, the largest first."""
    sizes = [3_000, 20_000, 1_000, 16_000, 2_000]
    uses: list[Block] = [
        {"type": "tool_use", "id": f"w{n}", "name": "write_file", "input": {"text": f"{n}" * size}}
        for n, size in enumerate(sizes)
    ]
    large = [assistant(*uses), user(*(tool_result(use["id"], "written") for use in uses))]
    messages = [user("go"), *(m for _ in range(6) for m in calls_of(1, "r" * 1_400)), *large]
    played = player(messages, 12_000, Context()).play()
    assert played.end == End("finished", None, "done")
    assert len(played.compactions) == 1
    assert [(s.reason, [len(p.text) for p in s.parts]) for s in played.offloads] == [
        ("tail", [20_000])
    ]


def test_c11_compactions_that_free_nothing_end_as_exhausted() -> None:
    """C11: at most three in a row, then one clear end."""
    messages = [user("x" * 15_900), *(m for _ in range(60) for m in calls_of(1, "r" * 1_200))]
    played = player(messages, 8_000, Context(), summary="s" * 3_000).play()
    assert played.end is not None
    assert (played.end.status, played.end.reason) == ("failed", "exhausted")
    assert len(played.compactions) == 3


# ── what is kept word for word; what arrives meanwhile ──


def test_c7_facts_and_requests_are_verbatim_after_five_compactions() -> None:
    """C7: with a summariser that keeps nothing; what was named in the first turn, a user's rule, the
    first request and the newest, which is as old as the second turn."""
    named = ["PROJ-4711", "src/queue.py:88", "$1,250.50", "2026-11-30", "https://example.org/a?b=1"]
    rule = "Never push to main."
    messages = [
        user("TASK: clean up."),
        *calls_of(1, " and ".join(named)),
        assistant("What else?"),
        user(f"Also the tests. {rule} 不要修改测试文件。"),
    ]
    messages += [m for _ in range(170) for m in calls_of(1, "r " * 700)]
    played = player(
        messages, 16_000, Context(offload_at=None), summary="Some work was done."
    ).play()
    assert len(played.compactions) >= 5
    head = text_of(played.requests[-1].messages[0]["content"])
    assert head.startswith("TASK: clean up.")
    for fact in [*named, rule, "不要修改测试文件。"]:
        assert f"- {fact}" in head
    assert f"The user's newest request:\nAlso the tests. {rule} 不要修改测试文件。" in head


@LAWS
@given(histories(), st.integers(1, 8), st.booleans())
def test_c15_a_message_that_arrives_while_history_is_compacted_is_kept_in_order(
    messages: list[Message], keep_turns: int, binds: bool
) -> None:
    """C15: between the decision and its record."""
    begun = player(messages, 200_000, Context(keep_turns=keep_turns), binds=binds)
    begun.play()
    state = apply(begun.state, MessageAdded(text="FIRST", origin="user"))
    cut = compaction.plan(begun.state.messages[1:], keep_turns, 10**9, gather_turns=1)
    if cut is None:
        return
    kept = [e.message for e in state.messages[1 + cut.dropped :]]
    state = apply(state, MessageAdded(text="SECOND", origin="user"))
    fact = Compacted(
        trigger="manual",
        before_tokens=0,
        after_tokens=0,
        messages=cut.dropped,
        calls=0,
        fallback=False,
        archive=ARCHIVE,
        summary="They went on.",
    )
    state = apply(state, fact)
    newest = state.messages[-1].message
    assert [b["text"] for b in newest["content"] if b["type"] == "text"][-2:] == ["FIRST", "SECOND"]
    assert len(state.messages) == 1 + len(kept)
    assert orphans([e.message for e in state.messages]) == []


# ── summary calls ──


@settings(LAWS, max_examples=40)
@given(histories(), st.integers(4_000, 64_000), st.text(max_size=3_000))
def test_c9_c17_a_summary_call_over_a_transcript_fits_and_holds_no_image(
    messages: list[Message], window: int, previous: str
) -> None:
    """C9, C17: whatever is dropped, at four bytes a token."""
    begun = player(messages, 10**9, Context(offload_at=None)).play()
    request = transcript_request(
        replace(begun.state, window_tokens=window),
        begun.state.messages[1:],
        previous,
        model=None,
    )
    assert len(request.body) // 4 + request.max_tokens <= window
    assert IMAGE["source"]["data"] not in request.body.decode(errors="replace")
