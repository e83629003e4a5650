"""Progress: the board as a fold over records, plain lines, the live tree, and inert text."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator import Request, run
from orchestrator import events as ev
from orchestrator.events import Record
from orchestrator.ledger import Usage
from orchestrator.progress import Board, LiveTree, PlainLines, drawn, inert, notable, one_line
from orchestrator.testing import ScriptedModel, call, results

MAIN = "main"


def records(*facts: tuple[str, int, ev.Event]) -> list[Record]:
    """Records a second apart; each given as (agent, turn, event)."""
    return [
        Record(seq=seq, ts=1_000.0 + seq, agent_id=agent, turn=turn, fact=fact)
        for seq, (agent, turn, fact) in enumerate(facts, 1)
    ]


def started(agent_id: str, parent_id: str | None = None, brief: str = "do it") -> ev.AgentStarted:
    return ev.AgentStarted(
        agent_id=agent_id,
        parent_id=parent_id,
        agent_type=agent_id.partition("-")[0],
        definition="built-in:x",
        model="m",
        window_tokens=1_000,
        output_tokens=100,
        brief=brief,
        depth=0 if parent_id is None else 1,
    )


def replied(**usage: int) -> ev.ModelReplied:
    return ev.ModelReplied(model="m", blocks=[], stop_reason="end_turn", usage=Usage(**usage))


def failed(retry_in_ms: int | None) -> ev.ModelFailed:
    return ev.ModelFailed(
        model="m", kind="overloaded", message="no room\x1b[2J now", retry_in_ms=retry_in_ms
    )


def ended(status: ev.Status = "finished", reason: str | None = None) -> ev.AgentEnded:
    return ev.AgentEnded(status=status, reason=reason, turns=2, tool_calls=3, usage=Usage(10, 5))


def tool(tool_use_id: str, name: str = "grep") -> ev.ToolStarted:
    return ev.ToolStarted(tool=name, tool_use_id=tool_use_id)


def returned(tool_use_id: str) -> ev.ToolReturned:
    return ev.ToolReturned(tool="grep", tool_use_id=tool_use_id, index=0, result="x")


def todos(text: str, done: int, total: int) -> ev.TodosWritten:
    return ev.TodosWritten(text=text, done=done, total=total)


def board(*facts: tuple[str, int, ev.Event]) -> Board:
    return Board().after_all(records(*facts))


def team(size: int, *more: tuple[str, int, ev.Event]) -> Board:
    children = ((f"explorer-{n}", 0, started(f"explorer-{n}", MAIN)) for n in range(size))
    return board((MAIN, 0, started(MAIN)), *children, *more)


# ── the board ──


def test_an_agent_thinks_uses_tools_and_ends() -> None:
    facts: list[tuple[str, int, ev.Event]] = [(MAIN, 0, started(MAIN))]
    states = []
    steps: Iterable[ev.Event] = (
        replied(input_tokens=1),
        tool("a", "ls"),
        tool("b"),
        returned("a"),
        returned("b"),
        failed(2_000),
        replied(input_tokens=1),
        ended("partial", "limit:max_turns"),
    )
    for fact in steps:
        facts.append((MAIN, 1, fact))
        states.append(board(*facts).agents[MAIN].state)
    assert states == [
        *("thinking", "ls", "ls +1", "grep", "thinking"),
        *("retry: overloaded", "thinking", "partial (limit:max_turns)"),
    ]


def test_a_parent_waits_for_as_many_children_as_are_at_work() -> None:
    spawning = (MAIN, 1, tool("t", "task"))
    before = team(2, spawning)
    assert before.agents[MAIN].state == "waits for 2"
    after = team(2, spawning, ("explorer-0", 1, ended()))
    assert after.agents[MAIN].state == "waits for 1"


def test_tokens_and_the_caches_share_are_those_of_all_calls() -> None:
    found = board(
        (MAIN, 0, started(MAIN)),
        (MAIN, 1, replied(input_tokens=100, output_tokens=7)),
        (MAIN, 2, replied(cache_read_input_tokens=300, output_tokens=3)),
        (MAIN, 3, failed(None)),
    ).agents[MAIN]
    assert (found.ledger.usage.context_tokens, found.ledger.usage.output_tokens) == (400, 10)
    assert found.cache_share == 0.75
    assert found.ledger.unreported == 1
    assert found.turns == 3


def test_only_the_main_agents_todos_are_shown() -> None:
    """T3: a child's list is its own."""
    found = team(
        1,
        (MAIN, 1, todos("- [ ] mine <!-- 1 -->\n", 0, 1)),
        ("explorer-0", 1, todos("- [ ] its own <!-- 1 -->\n", 0, 1)),
    )
    assert [todo.content for todo in found.todos] == ["mine"]


def test_at_most_so_many_agents_are_chosen_those_at_work_first() -> None:
    found = team(10, *((f"explorer-{n}", 1, ended()) for n in range(8)))
    chosen, hidden = found.chosen(4)
    # Main, the two at work, and the one that ended last, in tree order.
    assert [a.agent_id for a in chosen] == [MAIN, "explorer-7", "explorer-8", "explorer-9"]
    assert hidden == 7


def test_open_todos_go_before_done_ones_and_keep_their_order() -> None:
    text = "- [x] a <!-- 1 -->\n- [ ] b <!-- 2 -->\n- [~] c <!-- 3 -->\n- [x] d <!-- 4 -->\n"
    chosen, hidden = board((MAIN, 1, todos(text, 2, 4))).open_todos(2)
    assert ([todo.content for todo in chosen], hidden) == (["b", "c"], 2)


# ── plain lines ──


def lines_of(*facts: tuple[str, int, ev.Event]) -> list[str]:
    stream = io.StringIO()
    PlainLines(stream)(records(*facts))
    return stream.getvalue().splitlines()


def test_off_a_terminal_each_notable_event_is_one_plain_line() -> None:
    """H1."""
    lines = lines_of(
        (MAIN, 0, started(MAIN)),
        (MAIN, 1, replied(input_tokens=5)),
        ("explorer-1", 0, started("explorer-1", MAIN, "look\nat it")),
        ("explorer-1", 1, tool("a")),
        (MAIN, 1, ev.BudgetReached(name="max_tokens", limit=5_000)),
        ("explorer-1", 1, ended("failed", "refusal")),
    )
    assert lines == [
        "    0.0s  main started on m",
        "    2.0s  explorer-1 started on m: look at it",
        "    4.0s  main reached the limit max_tokens (5,000)",
        "    5.0s  explorer-1 failed (refusal) after 2 turns, 3 calls, 15 tokens",
    ]


def test_a_failed_call_says_why_and_whether_it_is_tried_again() -> None:
    again, never = lines_of((MAIN, 1, failed(1_500)), (MAIN, 1, failed(None)))
    assert again.endswith("main call failed (overloaded): no room now; again in 1.5s")
    assert never.endswith("main call failed (overloaded): no room now; it is not tried again")


def test_a_changed_plan_shows_what_changed_and_an_unchanged_one_nothing() -> None:
    lines = lines_of(
        (MAIN, 1, todos("- [ ] a <!-- 1 -->\n- [ ] b <!-- 2 -->\n", 0, 2)),
        (MAIN, 1, todos("- [ ] a <!-- 1 -->\n- [~] b <!-- 2 -->\n", 0, 2)),
        (MAIN, 1, todos("- [ ] a <!-- 1 -->\n- [~] b <!-- 2 -->\n", 0, 2)),
        (MAIN, 1, todos("- [ ] a <!-- 1 -->\n- [x] b <!-- 2 -->\n", 1, 2)),
    )
    assert [line.partition("s  ")[2] for line in lines] == [
        "to-dos 0/2 done; pending: a (and 1 more)",
        "to-dos 0/2 done; in progress: b",
        "to-dos 1/2 done; completed: b",
    ]


def test_compaction_denial_and_a_failed_offload_are_notable() -> None:
    compacted = ev.Compacted(
        trigger="line",
        before_tokens=150_000,
        after_tokens=27_000,
        messages=40,
        calls=1,
        fallback=False,
        archive="x",
        summary="secret",
    )
    denied = ev.PermissionDecided(tool="ls", rule="read(x)", decision="deny", by="rule")
    lost = ev.OffloadFailed(tool="ls", tool_use_id="a", chars=9, message="disk full")
    said = [
        notable(Board(), r) for r in records(*((MAIN, 1, f) for f in (compacted, denied, lost)))
    ]
    assert said == [
        "main summarised 40 old messages: 150,000 → 27,000 tokens",
        "main was denied ls by read(x)",
        "main could not store a result of ls: disk full",
    ]


# ── the live tree ──


def picture(found: Board, width: int = 80, height: int = 24, **options: Any) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        height=height,
        force_terminal=True,
        legacy_windows=False,
        **options,
    )
    console.print(drawn(found, 1_100.0, console))
    return stream.getvalue()


def test_the_tree_shows_agents_state_tokens_and_todos() -> None:
    text = "- [x] first <!-- 1 -->\n- [~] second <!-- 2 -->\n"
    found = team(
        1,
        (MAIN, 2, replied(input_tokens=1_000, cache_read_input_tokens=3_000, output_tokens=50)),
        (MAIN, 2, tool("t", "task")),
        (MAIN, 2, todos(text, 1, 2)),
        ("explorer-0", 1, tool("a", "read_file")),
    )
    shown = picture(found, no_color=True, color_system=None)
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "agent doing turn in out cached time",
        "main waits for 1 2 4.0k 50 75% 99s",
        "└ explorer do it read_file 1 0 0 98s",
        "to-dos 1/2",
        "[x] first",
        "[~] second",
    ]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (50, 8), (200, 50), (20, 3)])
def test_the_tree_keeps_within_the_terminal(width: int, height: int) -> None:
    text = "".join(f"- [ ] {'long ' * 40}{n} <!-- {n} -->\n" for n in range(30))
    shown = picture(team(60, (MAIN, 1, todos(text, 0, 30))), width, height, no_color=True)
    lines = shown.splitlines()
    assert len(lines) <= max(height, 6)
    assert any("and" in line and "more" in line for line in lines)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: NO_COLOR is respected."""
    found = team(1, ("explorer-0", 1, ended("failed")))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in picture(found, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in picture(found, color_system="standard")


def test_what_models_wrote_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;title\x07ev\x9b31mil\u202e [bold]"
    found = team(
        0,
        ("x-1", 0, started("x-1", MAIN, evil)),
        ("x-1", 1, tool("a", evil)),
        (MAIN, 1, todos(f"- [ ] {evil} <!-- 1 -->\n", 0, 1)),
    )
    shown = picture(found, color_system=None)
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert "evil [bold]" in shown


def test_a_live_tree_leaves_the_terminal_as_it_was() -> None:
    stream = io.StringIO()
    with LiveTree(stream, clock=lambda: 0.0) as tree:
        tree(records((MAIN, 0, started(MAIN))))
    # Off a terminal rich draws nothing in place.
    assert "\x1b" not in stream.getvalue()
    tree.drop()
    assert stream.getvalue().endswith("\x1b[?25h\n")


@pytest.mark.anyio
async def test_a_whole_run_ends_with_every_agent_settled(
    tmp_path: Path, anyio_backend: str
) -> None:
    def script(request: Request) -> Any:
        if request.agent_type != "main":
            return "found"
        if not results(request):
            return [call("task", prompt=f"part {n}") for n in range(3)]
        return "done"

    found = Board()

    def observe(batch: Sequence[Record]) -> None:
        nonlocal found
        found = found.after_all(batch)

    report = await run("go", model=ScriptedModel(script), root=tmp_path, observers=[observe])
    assert {a.status for a in found.agents.values()} == {"finished"}
    assert {a.children for a in found.agents.values()} == {0}
    tokens = {a.agent_id: a.ledger.usage for a in found.agents.values()}
    assert tokens == {row.agent_id: row.usage for row in report.agents}


# ── inert text ──


@given(st.text(st.characters(codec=None)))
def test_inert_text_holds_no_control_character_but_lines_and_tabs(text: str) -> None:
    made = inert(text)
    assert not [c for c in made if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
    made.encode()
    assert inert(made) == made


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert inert(text) == text


def test_sequences_go_as_a_whole_and_an_unended_one_hides_nothing() -> None:
    assert inert("a\x1b[1;31mb\x1b[0mc\x1b]8;;http://x\x1b\\d\x1b]8;;\x07e\r\nf") == "abcde\nf"
    assert inert("a\x1b]0;b") == "a0;b"
    assert inert("\x90" * 20_000) == ""


@given(st.text(), st.integers(1, 40))
def test_one_line_is_one_line_of_at_most_its_length(text: str, most: int) -> None:
    made = one_line(text, most)
    assert len(made) <= most
    assert "\n" not in made


def test_a_parent_waits_again_for_a_child_that_goes_on_after_its_end() -> None:
    """Asked or resumed: else the end of the one would hide that the other is still at work."""
    asked = ("explorer-0", 1, ev.MessageAdded(text="and?", origin="user"))
    over = [("explorer-0", 2, ended()), ("explorer-1", 1, ended())]
    assert team(2, ("explorer-0", 1, ended()), asked).agents[MAIN].children == 2
    assert team(2, ("explorer-0", 1, ended()), asked, *over).agents[MAIN].children == 0


def test_the_time_in_which_nobody_worked_on_a_run_counts_in_no_display() -> None:
    """Stopped after two seconds, gone on with a day later, for three seconds more."""
    first = records((MAIN, 0, started(MAIN)), ("a", 0, started("a", MAIN)), ("a", 1, ended()))
    day = 86_400.0
    facts: list[ev.Event] = [ev.RunResumed(), ev.AgentResumed(), ended(), ended()]
    later = [
        Record(seq=4 + n, ts=1_000.0 + day + n, agent_id=MAIN, turn=1, fact=fact)
        for n, fact in enumerate(facts)
    ]
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines.catch_up(first)
    lines(later)
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["3.0s", "4.0s", "5.0s"]
    main, child = Board().after_all([*first, *later[:3]]).agents.values()
    assert ((main.ended or 0) - main.began, (child.ended or 0) - child.began) == (4.0, 1.0)
