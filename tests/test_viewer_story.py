"""The viewer's story: rows and growing lists, handed out in pieces; nothing that acts or is secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import events as ev
from orchestrator.events import Event, Record
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.readings import summarise, unpriced
from orchestrator.redaction import redactor
from orchestrator.rundir import RunDir
from orchestrator.viewer import Story, cleaner, in_full
from orchestrator.viewer.items import told
from orchestrator.viewer.shown import visible
from tests.test_logs import canaries
from tests.viewing import Fact, LongRead, crowd, ended, record_run, started, two_children

LISTS = ("models", "calls", "marks", "events")


def records(*facts: Fact) -> list[Record]:
    """Records a second apart."""
    return [
        Record(seq=seq, ts=1_000.0 + seq, agent_id=agent, turn=turn, fact=fact)  # type: ignore[arg-type]
        for seq, (agent, turn, fact) in enumerate(facts, 1)
    ]


def story_of(*facts: Fact, price: Any = None) -> Story:
    story = Story("r", price or unpriced, in_full)
    story.take_all(records(*facts))
    return story


def recorded(root: Path, run_id: str = "first") -> list[Record]:
    return list(read_records(RunDir(root, run_id).journal))


def replied(**more: Any) -> ev.ModelReplied:
    values: dict[str, Any] = {"model": "m", "blocks": [], "stop_reason": "end_turn"}
    return ev.ModelReplied(**values | {"usage": Usage(10, 5, 30, 2)} | more)


# ── what it says ──


def test_an_agents_bar_stands_where_its_calls_do_also_after_a_resume() -> None:
    """All times of the page are the journal's: what was before a stop stays where it was."""
    facts: list[Fact] = [("main", 0, started("main")), ("main", 1, replied())]
    before = {r["id"]: r["began"] for r in story_of(*facts).whole()["agents"]}
    after = story_of(*facts, ("main", 1, ev.RunResumed()), ("main", 2, replied())).whole()
    assert {r["id"]: r["began"] for r in after["agents"]} == before == {"main": 0}


def test_the_figures_are_those_of_outrider_tokens(tmp_path: Path) -> None:
    record_run(tmp_path, two_children)
    found = summarise(recorded(tmp_path), "first")
    story = Story("first", tell=in_full)
    story.take_all(recorded(tmp_path))
    whole = story.whole()
    assert whole["run"]["total"] == found.usage.total_tokens > 0
    rows = {row["id"]: row for row in whole["agents"]}
    assert [rows_id(whole, n) for n in whole["order"]] == [a.agent_id for a in found.agents]
    for agent in found.agents:
        row = rows[agent.agent_id]
        usage = agent.usage
        assert (row["input"], row["read"], row["write"], row["output"]) == (
            *(usage.input_tokens, usage.cache_read_input_tokens),
            *(usage.cache_creation_input_tokens, usage.output_tokens),
        )
        assert (row["peak"], row["turns"], row["status"]) == (
            *(agent.peak_context_tokens, agent.turns),
            agent.status,
        )
    assert len(whole["models"]) == sum(agent.requests for agent in found.agents)
    assert len(whole["events"]) == len(recorded(tmp_path))
    assert whole["todos"] == {"main": [["in_progress", "look"]]}
    assert whole["conclusions"]["main"]["text"] == "merged"


def rows_id(whole: dict[str, Any], n: int) -> str:
    (found,) = (row["id"] for row in whole["agents"] if row["n"] == n)
    return str(found)


def test_the_run_says_where_most_tokens_and_most_tool_output_went() -> None:
    result = ev.ToolReturned(tool="grep", tool_use_id="a", index=0, chars=300, result="x")
    other = ev.ToolReturned(tool="ls", tool_use_id="b", index=1, chars=100, result="x")
    story = story_of(
        ("main", 0, started("main")),
        ("explorer-1", 0, started("explorer-1", "main")),
        ("main", 1, replied(usage=Usage(10, 10))),
        ("explorer-1", 1, replied(usage=Usage(50, 10))),
        ("explorer-1", 1, result),
        ("explorer-1", 1, other),
    )
    run = story.whole()["run"]
    assert run["top_agent"] == [1, 60, 0.75]
    assert run["top_tool"] == ["grep", 300, 0.75]


def test_a_price_that_is_not_known_is_not_zero() -> None:
    """L3."""
    story = story_of(("main", 0, started("main")), ("main", 1, replied()))
    whole = story.whole()
    assert whole["run"]["cost"] is None
    assert whole["agents"][0]["cost"] is None
    assert whole["models"][0][-1] is None


def test_a_call_of_which_nothing_was_reported_is_counted_apart() -> None:
    failed = ev.ModelFailed(model="m", kind="timeout", message="x", retry_in_ms=5)
    story = story_of(("main", 0, started("main")), ("main", 1, failed))
    whole = story.whole()
    assert whole["run"]["unreported"] == 1
    assert whole["models"][0][12] == "failed: timeout"
    assert whole["agents"][0]["doing"] == "retry: timeout"


def test_a_tool_call_spans_from_its_start_to_its_return() -> None:
    story = story_of(
        ("main", 0, started("main")),
        ("main", 1, ev.ToolStarted(tool="grep", tool_use_id="a")),
        ("main", 1, ev.ToolStarted(tool="ls", tool_use_id="b")),
        ("main", 1, ev.ToolReturned(tool="grep", tool_use_id="a", index=0, chars=7, result="x")),
    )
    assert story.whole()["calls"] == [[4, 0, 1, 1_000, 3_000, "grep", 7, False]]
    assert story.whole()["agents"][0]["doing"] == "ls"


def test_offload_compaction_and_cache_breaks_are_marked(tmp_path: Path) -> None:
    marks = set()
    for offload_at in (2_000, None):
        root = tmp_path / str(offload_at)
        root.mkdir()
        LongRead().go(root, offload_at=offload_at)
        story = Story("first")
        story.take_all(recorded(root))
        marks |= {mark[4] for mark in story.whole()["marks"]}
    assert marks >= {"birth", "compaction", "level"}
    broken = ev.CacheBroken(expected_tokens=10, read_tokens=0, cause="service")
    moved = ev.Offloaded(tool="ls", tool_use_id="a", chars=9, path="p", reason="line", entry=1)
    story = story_of(("main", 0, started("main")), ("main", 1, broken), ("main", 1, moved))
    assert [mark[4] for mark in story.whole()["marks"]] == ["cache", "offload"]


@pytest.mark.parametrize(
    ("alive", "facts", "status"),
    [
        (True, [], "running"),
        (False, [], "crashed"),
        (False, [("main", 1, ev.RunEnded(status="partial", usage=Usage()))], "partial"),
    ],
)
def test_a_run_without_its_end_is_running_or_crashed(
    alive: bool, facts: list[Fact], status: str
) -> None:
    story = story_of(("main", 0, started("main")), *facts)
    story.alive = alive
    assert story.whole()["run"]["status"] == status


# ── in pieces ──

CROWD = records(*crowd(5, 120))
EXPECTED = story_of(*crowd(5, 120)).whole()


@given(steps=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 50))))
def test_pieces_of_any_size_join_to_the_whole(steps: list[tuple[int, int]]) -> None:
    """Whenever a page asks, and however much it is given at once, in the end it knows everything."""
    story, everything = Story("r", tell=in_full), CROWD
    lists: dict[str, list[Any]] = {name: [] for name in LISTS}
    agents: dict[int, Any] = {}
    rows = at = 0
    kept: dict[str, Any] = {}
    for more, most in [*steps, (len(everything), len(everything))]:
        story.take_all(everything[story.seq : story.seq + more])
        patch = story.since(rows, at, most)
        rows, at = patch["last"], patch["seq"]
        for name in LISTS:
            lists[name] += patch[name]
        agents |= {row["n"]: row for row in patch["agents"]}
        kept |= {name: patch[name] for name in ("run", "order", "tools") if name in patch}
        assert at <= story.seq
    expected = EXPECTED
    assert lists == {name: expected[name] for name in LISTS}
    assert sorted(agents.values(), key=str) == sorted(expected["agents"], key=str)
    assert kept == {name: expected[name] for name in ("run", "order", "tools")}


def test_what_has_not_changed_is_not_sent_again() -> None:
    story = story_of(
        ("main", 0, started("main")),
        ("explorer-1", 0, started("explorer-1", "main")),
        ("main", 1, replied()),
    )
    patch = story.since(2, 2)
    assert [row["id"] for row in patch["agents"]] == ["main"]
    assert [event[0] for event in patch["events"]] == [3]
    assert "tools" not in patch


# ── nothing acts, nothing secret ──


@pytest.mark.parametrize("fact", canaries().values(), ids=canaries().keys())
def test_an_event_in_a_line_holds_no_content(fact: Event) -> None:
    assert "canary" not in told(fact)


ACTING = "\x00\x07\x08\x0b\x1b\x7f\x9b\u061c\u200b\u200e\u200f\u2028\u202e\u2066\ufeff\ud800"


@given(st.text(st.sampled_from(ACTING + "ab\n\t<é漢\u200d")))
def test_acting_characters_are_shown_and_do_not_act(text: str) -> None:
    shown = visible(text)
    assert not set(shown) & set(ACTING)
    kept = [c for c in text if c not in ACTING]
    # Nothing that was readable is lost, and its order is kept.
    rest = iter(shown)
    assert all(c in rest for c in kept)


def test_an_escape_sequence_is_told_as_what_it_is() -> None:
    assert visible("\x1b[31mred\u202e\r\n") == "␛[31mred[U+202E]\n"


def test_secrets_leave_every_text_also_in_keys_and_nested() -> None:
    clean = cleaner(redactor({"DEPLOY_TOKEN": "hunter2hunter2"}))
    given_value = {"a": ["hunter2hunter2 sk-ant-api03-" + "x" * 40], "password": "abc", "n": 3}
    assert "hunter2" not in json.dumps(clean(given_value))
    assert "sk-ant-api03-x" not in json.dumps(clean(given_value))
    assert clean(given_value)["password"] == "[redacted]"
    assert clean(given_value)["n"] == 3


def test_a_long_task_is_sent_as_its_head_and_says_so() -> None:
    task = ev.RunStarted(task="x" * 5_000, task_chars=5_000, model="m", version="0", root="/")
    shown = story_of(("main", 0, task)).whole()["run"]["task"]
    assert shown.endswith("… (3,800 more characters: first request of the main agent)")


def test_a_conclusion_of_a_megabyte_is_sent_as_its_head() -> None:
    story = story_of(("main", 0, started("main")), ("main", 1, ended("x" * 1_000_000)))
    told_now = story.whole()["conclusions"]["main"]
    assert told_now["chars"] == 1_000_000
    assert len(told_now["text"]) < 2_000
