"""The worked examples of the source material: with its own numbers, and over HTTP by order and level.

The numbers are those of the policy's source: records with preset token counts, offload at
birth, pinning and the gain rule switched off, the last two messages kept, nothing reserved for output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Context, Report, run
from orchestrator.context import compacted, compaction, offload, placeholder, policy
from orchestrator.context.estimate import BYTES_PER_TOKEN
from orchestrator.context.history import Entry
from orchestrator.context.room import Compact
from orchestrator.context.standalone import entries_of
from orchestrator.events import AgentStarted
from orchestrator.messages import Message, Role, assistant, text_of, tool_result, user
from orchestrator.state import State
from orchestrator.steps import CallModel, End, Step, next_step
from orchestrator.testing.standin import Answer, call, say, serve
from tests.histories import orphans

# ── one: a bug, a large file, a larger test log ──

WINDOW = 50_000
SUMMARY = 800
# What each record of the session weighs, in tokens, and who says it.
STORY: tuple[tuple[str, Role, int], ...] = (
    ("user", "user", 500),
    ("note", "assistant", 800),
    ("read call", "assistant", 300),
    ("file", "user", 19_000),
    ("diagnosis", "assistant", 900),
    ("test call", "assistant", 300),
    ("test log", "user", 22_100),
)


def record(name: str, role: Role, tokens: int) -> Entry:
    """An entry that weighs ``tokens`` at the uncalibrated four bytes a token."""
    weight = round(tokens * BYTES_PER_TOKEN)
    message: Message = {"role": role, "content": [{"type": "text", "text": name}]}
    return Entry(message, b"", weight, 0, b"")


def name_of(entry: Entry) -> str:
    return text_of(entry.message["content"])


@dataclass
class Session:
    """One session of the example; the lines are checked after every record.

    ``memory``: tokens of the snapshot, ``None``: memory is off. ``compactions``: what each one took in.
    """

    settings: Context
    system: int = 3_000
    memory: int | None = 1_000
    records: list[Entry] = field(default_factory=list)
    compactions: list[list[str]] = field(default_factory=list)
    remembered: int = 0

    @property
    def tokens(self) -> int:
        weight = sum(e.weight for e in self.records)
        return self.system + (self.memory or 0) + round(weight / BYTES_PER_TOKEN)

    @property
    def parts(self) -> list[str]:
        fixed = ["system", "memory"] if self.memory is not None else ["system"]
        return [*fixed, *map(name_of, self.records)]

    def take(self, name: str, role: Role, tokens: int) -> None:
        self.records.append(record(name, role, tokens))
        self._make_room()

    def _make_room(self) -> None:
        at = policy.lines(self.settings, WINDOW, reserve=0)
        while self.settings.compaction and policy.level(self.tokens, at) == "compact":
            # A call and its result are the last two messages. `forced`: there is no waiting for more.
            cut = compaction.plan(self.records, keep_turns=1, keep_weight=0, gather_turns=1)
            if cut is None:
                return
            self.compactions.append([name_of(e) for e in self.records[: cut.dropped]])
            summary = record("summary", "user", SUMMARY)
            self.records = [summary, *self.records[cut.dropped :]]

    def remember(self, tokens: int) -> None:
        """Add to the memory file: the snapshot stays as it was (M1); without memory, to nothing (M4)."""
        if self.memory is not None:
            self.remembered += tokens

    def next_session(self) -> Session:
        memory = None if self.memory is None else self.memory + self.remembered
        return Session(self.settings, self.system, memory)


def played(settings: Context, **more: Any) -> Session:
    session = Session(settings, **more)
    for name, role, tokens in STORY:
        session.take(name, role, tokens)
    session.remember(100)
    return session


def test_one_at_092_one_compaction_takes_479k_to_272k_and_the_next_session_has_41k() -> None:
    """Worked example one; C3, C4, C6: what was dropped and what is kept is the whole, and
    the call keeps its result."""
    settings = Context(window=WINDOW, compact_at=0.92, offload_at=None)
    before = Session(settings, records=[record(*row) for row in STORY])
    at = policy.lines(settings, WINDOW, reserve=0)
    assert (before.tokens, at.compact, at.exhausted) == (47_900, 46_000, 50_000)
    assert policy.level(before.tokens, at) == "compact"
    session = played(settings)
    assert session.compactions == [["user", "note", "read call", "file", "diagnosis"]]
    assert session.parts == ["system", "memory", "summary", "test call", "test log"]
    assert session.tokens == 27_200
    after = session.next_session()
    assert (after.parts, after.tokens) == (["system", "memory"], 4_100)


def test_one_without_memory_469k_becomes_262k_and_the_next_session_is_the_system_prompt() -> None:
    """Worked example one; M4: compaction works, nothing is remembered."""
    settings = Context(window=WINDOW, compact_at=0.92, offload_at=None)
    before = Session(settings, memory=None, records=[record(*row) for row in STORY])
    assert before.tokens == 46_900
    session = played(settings, memory=None)
    assert len(session.compactions) == 1
    assert session.parts == ["system", "summary", "test call", "test log"]
    assert session.tokens == 26_200
    after = session.next_session()
    assert (after.parts, after.tokens) == (["system"], 3_000)


def test_one_at_050_the_second_of_two_compactions_takes_in_the_first_summary() -> None:
    """Worked example one; C8: after the diagnosis and after the test log."""
    settings = Context(window=WINDOW, compact_at=0.5, offload_at=None)
    assert policy.lines(settings, WINDOW, reserve=0).compact == 25_000
    session = Session(settings)
    done: list[tuple[str, int]] = []
    for name, role, tokens in STORY:
        before = len(session.compactions)
        session.take(name, role, tokens)
        if len(session.compactions) > before:
            done.append((name, session.tokens))
    assert done == [("diagnosis", 5_700), ("test log", 27_200)]
    assert session.compactions == [
        ["user", "note", "read call", "file"],
        ["summary", "diagnosis"],
    ]


def step_at(*rows: tuple[str, Role, int], settings: Context, reserve: int) -> Step | None:
    """The loop's own decision on these records, behind 3.0k of system prompt and 1.0k of memory. An
    entry of no weight stands where the pinned request is: pinning is off."""
    entries = (record("(nothing pinned)", "user", 0), *(record(*row) for row in rows))
    spec = AgentStarted(
        agent_id="main",
        definition="example",
        model="example",
        window_tokens=WINDOW,
        output_tokens=reserve,
        brief="",
        policy=asdict(settings),
    )
    fixed = round(4_000 * BYTES_PER_TOKEN)
    weight = sum(e.weight for e in entries)
    state = State(spec, settings, entries, fixed, weight=weight, window_tokens=WINDOW)
    assert state.context_tokens == 4_000 + sum(tokens for _, _, tokens in rows)
    return next_step(state)


def test_one_without_compaction_485k_and_490k_are_sent_and_535k_is_refused() -> None:
    """Worked example one; C19: the end names ``context_length_exceeded``."""
    off = Context(window=WINDOW, compact_at=0.92, offload_at=None, compaction=False)
    assert played(off).tokens == 47_900
    more: tuple[tuple[str, Role, int], ...] = (
        ("second diagnosis", "assistant", 600),
        ("fix", "assistant", 500),
        ("second test log", "user", 4_500),
    )
    steps = [step_at(*STORY, *more[:n], settings=off, reserve=0) for n in (1, 2, 3)]
    assert steps[:2] == [CallModel(), CallModel()]
    assert steps[2] == End("failed", "context_length_exceeded", "")


def test_one_is_what_the_loop_decides_where_the_window_forces_it() -> None:
    """C1, C20: the same cut from `next_step`.

    The gain rule and the wait for four more turns have no switch. Both give way where the window
    forces a compaction, so here 4,000 tokens are reserved: then the window ends at the line, 46k.
    """
    settings = Context(window=WINDOW, compact_at=0.92, offload_at=None, keep_turns=1)
    assert step_at(*STORY[:-1], settings=settings, reserve=4_000) == CallModel()
    step = step_at(*STORY, settings=settings, reserve=4_000)
    assert step == Compact("line", compaction.Cut(dropped=5))
    kept: list[tuple[str, Role, int]] = [("summary", "user", SUMMARY), *STORY[5:]]
    assert step_at(*kept, settings=settings, reserve=4_000) == CallModel()
    # With nothing reserved the rules hold: three turns are too few to be worth a summary.
    assert step_at(*STORY, settings=settings, reserve=0) == CallModel()


# ── two: ten questions with answers, a request, and a large result ──

LINES = [
    f"{n:04d},customer-{n % 37},open,{n * 17 % 9_973},2026-11-30,north-west" for n in range(400)
]
RESULT = "\n".join(["id,customer,status,amount,date,region", *LINES])
SYSTEM = "You answer questions about orders. " * 12


def characters(messages: list[Message]) -> int:
    """Characters of all that is said, called and returned."""
    return len(SYSTEM) + sum(
        len(str(block.get("text") or block.get("content") or block.get("input")))
        for message in messages
        for block in message["content"]
    )


@pytest.mark.parametrize("offloaded_at_birth", [True, False])
def test_two_leaves_ten_messages_about_92_percent_shorter_with_a_placeholder(
    offloaded_at_birth: bool,
) -> None:
    """Worked example two; O1, O2, C3, C4: system, summary and the last eight.

    Our result answers a call, which the source leaves out, and the first question stays pinned in the
    summary's message. A limit at birth puts the result away first; without one the compaction is
    first, and the result goes as the oversized part of the tail (C12).
    """
    messages = [user("Question 1: which orders are open, and since when?")]
    for n in range(1, 11):
        messages.append(assistant(f"Answer {n}: orders {n}-17 are open since {n} November 2026."))
        following = f"Question {n + 1}: and what about region {n + 1}?"
        messages.append(user(following if n < 10 else "Request: list all orders and sum them up."))
    use = {"type": "tool_use", "id": "t1", "name": "orders", "input": {"status": "any"}}
    messages += [assistant(use), user(tool_result("t1", RESULT))]
    before = characters(messages)

    stub = placeholder(".outrider/runs/r/agents/main/results/0001-orders.txt", RESULT)
    if offloaded_at_birth:
        assert offload.is_over(RESULT, Context().offload_at)
        messages[-1] = user(tool_result("t1", stub))
    cut = compaction.plan(entries_of(messages)[1:], keep_turns=4, keep_weight=10**9, gather_turns=1)
    assert cut is not None
    kept = messages[1 + cut.dropped :]
    assert len(kept) == 8
    summary = "Goal: open orders. Done: questions 1 to 8 are answered."
    made = compacted(messages, cut, summary, archive="history.md")
    if not offloaded_at_birth:
        (part,) = offload.largest_parts(entries_of(made), needed=1)
        assert (part.entry, part.text) == (len(made) - 1, RESULT)
        made[-1] = user(tool_result("t1", stub))

    assert 1 + len(made) == 10
    assert orphans(made) == []
    assert "Question 1" in text_of(made[0]["content"][:1])
    assert "[summary of 14 earlier messages" in text_of(made[0]["content"][1:])
    assert made[1:-1] == kept[:-1]
    assert made[-1]["content"][0]["content"].startswith("[offloaded ")
    saved = 1 - characters(made) / before
    assert 0.91 <= saved <= 0.93


# ── the same stories over HTTP: order and level changes ──

LANGUAGES = {
    "English": ("the quick brown fox jumps over it. ", "Find the bug in the parser and fix it."),
    "Chinese": ("敏捷的棕色狐狸跳过了那只懒狗。", "请找出解析器中的错误并修复它。"),
}
MODEL = "claude-opus-5"


def filled(sentence: str, tokens: int) -> str:
    """``sentence`` again and again, over several lines, up to ``tokens`` of four bytes each."""
    unit = sentence * 3 + "\n"
    return unit * round(tokens * BYTES_PER_TOKEN / len(unit.encode()))


def story_of(root: Path, report: Report) -> list[str]:
    """Offloads, compactions and level changes, in the log's order."""
    told = []
    for line in (root / report.log).read_text().splitlines():
        match json.loads(line):
            case {"event": "offloaded", "reason": reason}:
                told.append(f"offloaded at {reason}")
            case {"event": "compacted", "trigger": trigger}:
                told.append(f"compacted at {trigger}")
            case {"event": "level_changed", "level": level}:
                told.append(f"level {level}")
    return told


def whole(body: Mapping[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("context", "story"),
    [
        # Our defaults: both large results are put away before they are ever sent; nothing is lost.
        (Context(), ["offloaded at birth", "offloaded at birth"]),
        (Context(window=WINDOW), ["offloaded at birth", "offloaded at birth"]),
        # The source's: one compaction, once the test log is there.
        (Context(window=WINDOW, compact_at=0.92, offload_at=None), ["compacted at line"]),
        (
            Context(window=WINDOW, compact_at=0.92, offload_at=None, compaction=False),
            [],
        ),
    ],
    ids=["defaults", "defaults at 50k", "as the source", "without compaction"],
)
@pytest.mark.asyncio
async def test_one_over_http_goes_in_the_same_order_in_both_languages(
    tmp_path: Path, language: str, context: Context, story: list[str]
) -> None:
    """Worked example one, with real calls; C1, C19, O1."""
    sentence, task = LANGUAGES[language]

    def read_source() -> str:
        """Read the file with the bug."""
        return filled(sentence, 19_000)

    def run_tests() -> str:
        """Run the tests."""
        return filled(sentence, 22_100)

    def brain(body: Mapping[str, Any]) -> Answer:
        if "run_tests" in whole(body):
            return say(f"done. {sentence}")
        if "read_source" in whole(body):
            return Answer([*say(filled(sentence, 900)).content, call("run_tests")])
        return Answer([*say(filled(sentence, 800)).content, call("read_source")])

    async with serve(brain) as server:
        report = await run(
            task,
            model=MODEL,
            base_url=server.base_url,
            root=tmp_path,
            tools=[read_source, run_tests],
            context=context,
        )
    assert story_of(tmp_path, report) == story
    assert [row.error for row in server.ledger.rejected] == []
    if context.compaction:
        assert (report.status, report.conclusion) == ("finished", f"done. {sentence}".strip())
    else:
        assert (report.status, report.reason) == ("failed", "context_length_exceeded")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.asyncio
async def test_two_over_http_goes_in_the_same_order_in_both_languages(
    tmp_path: Path, language: str
) -> None:
    """Worked example two, with real calls; O1, C2, C12: ten questions with answers fill the
    window up to the offload line, the large result is put away, what is left is over the compact line
    and is compacted, and the level is normal again."""
    sentence, task = LANGUAGES[language]

    def ask(number: int) -> str:
        """The user's next question."""
        return f"Question {number}. {sentence}"

    def records() -> str:
        """All records."""
        return "header\n" + "\n".join(f"{n}: {sentence}" for n in range(400))

    last: list[Mapping[str, Any]] = []

    def brain(body: Mapping[str, Any]) -> Answer:
        last[:] = [body]
        if '"name": "records"' in whole(body):
            return say(f"done. {sentence}")
        asked = max(map(int, re.findall(r"Question (\d+)\.", whole(body))), default=0)
        if asked > 10:
            return Answer([*say(filled(sentence, 1_600)).content, call("records")])
        answer = filled(sentence, 860) if asked else sentence
        return Answer([*say(answer).content, call("ask", number=asked + 1)])

    async with serve(brain) as server:
        report = await run(
            task,
            model=MODEL,
            base_url=server.base_url,
            root=tmp_path,
            tools=[ask, records],
            context=Context(window=16_000),
        )
    assert (report.status, report.conclusion) == ("finished", f"done. {sentence}".strip())
    assert story_of(tmp_path, report) == [
        "level offload",
        "offloaded at birth",
        "compacted at line",
        "level normal",
    ]
    assert [row.error for row in server.ledger.rejected] == []
    first, *tail = last[0]["messages"]
    assert first["content"][0]["text"] == task
    assert "[summary of" in first["content"][1]["text"]
    assert "[offloaded " in json.dumps(tail[-1], ensure_ascii=False)
