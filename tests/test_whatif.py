"""What if: recorded conversations played again under other settings, and `outrider replay`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from orchestrator import Context, Request, run, tool
from orchestrator.cli.replay import replay
from orchestrator.cli.table import width_of
from orchestrator.errors import ConfigError
from orchestrator.events import (
    AgentStarted,
    Compacted,
    Event,
    ModelReplied,
    Offloaded,
    Record,
    ToolReturned,
)
from orchestrator.journal import read_records
from orchestrator.ledger import Usage
from orchestrator.messages import Block, Message, assistant, tool_result, user
from orchestrator.model import Reply
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.whatif import (
    PAGE_CHARS,
    Call,
    Compaction,
    Conversation,
    Exhausted,
    Stored,
    append_only,
    moments,
    of_messages,
    of_records,
    on_model,
    play,
)
from tests.histories import conversations, orphans

NEVER = Context(offload_at=None, compaction=False)


def session(turns: int, chars: int, request: str = "Look at everything.") -> list[Message]:
    """A conversation of ``turns`` calls, each answered by a text of its own of ``chars``."""
    messages = [user(request)]
    for number in range(turns):
        use = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {"n": number}}
        text = f"part {number} " + "lorem ipsum " * (chars // 12 + 1)
        messages += [assistant(use), user(tool_result(f"c{number}", text[:chars]))]
    return [*messages, assistant("Done.")]


windows = st.sampled_from([8_000, 16_000, 32_000, 200_000])
shares = st.sampled_from([0.0, 0.25, 1.0])
contexts = st.builds(
    Context,
    offload_at=st.sampled_from([None, 200, 5_000]),
    compaction=st.booleans(),
    keep_turns=st.integers(1, 8),
    summary_model=st.sampled_from([None, "rules", "other"]),
)


# ── laws ──


@settings(deadline=None, max_examples=60)
@given(conversations(), contexts, windows, shares)
def test_every_request_is_whole_and_fits(
    messages: list[Message], context: Context, window: int, share: float
) -> None:
    """O3, C4, E3: no call loses its result, and where the provider counts as the estimate does no
    request is over the window; a conversation that does not fit is reported as exhausted."""
    ended = False
    for moment in moments(of_messages(messages), context, window, read_back=share):
        assert not ended
        ended = isinstance(moment.what, Exhausted)
        if isinstance(moment.what, Call) and moment.what.purpose != "summary":
            assert not moment.what.rejected
            assert moment.what.tokens + moment.state.output_tokens <= window
            sent = [e.message for e in moment.state.messages]
            assert not orphans(sent)


@settings(deadline=None, max_examples=60)
@given(conversations(), contexts, windows, shares)
def test_the_totals_are_the_sum_of_the_calls(
    messages: list[Message], context: Context, window: int, share: float
) -> None:
    played = play(of_messages(messages), context, window, read_back=share)
    for one in played.calls:
        assert one.read + one.written + one.uncached == one.tokens
        assert min(one.read, one.written, one.uncached) >= 0
    usage = played.usage
    assert usage.context_tokens == sum(c.tokens for c in played.calls)
    assert played.billed == pytest.approx(
        usage.input_tokens
        + 1.25 * usage.cache_creation_input_tokens
        + 0.1 * usage.cache_read_input_tokens
    )
    assert played.peak <= window
    assert 0 <= played.cache_share < 1


@settings(deadline=None, max_examples=40)
@given(conversations(), st.integers(200, 6_000))
def test_reading_back_never_makes_it_cheaper(messages: list[Message], offload_at: int) -> None:
    """As long as no line is crossed: compaction may come sooner, and then less is carried on."""
    recorded = of_messages(messages)
    context = Context(offload_at=offload_at)
    costs = [play(recorded, context, 10**9, read_back=s).billed for s in (0, 0.25, 0.5, 1)]
    assert costs == sorted(costs)


@settings(deadline=None, max_examples=40)
@given(conversations())
def test_a_text_may_stand_plainly_in_a_message(messages: list[Message]) -> None:
    plain = [
        {**m, "content": m["content"][0]["text"]}
        if [b["type"] for b in m["content"]] == ["text"]
        else m
        for m in messages
    ]
    assert of_messages(plain) == of_messages(messages)


@settings(deadline=None, max_examples=40)
@given(conversations())
def test_nothing_is_edited_where_everything_is_kept(messages: list[Message]) -> None:
    """Append-only: each request is the one before, and what came since; only that is written."""
    played = append_only(of_messages(messages))
    replies = sum(m["role"] == "assistant" for m in messages)
    assert len(played.calls) == replies
    assert not played.offloads
    assert not played.compactions
    before = 0
    for one in played.calls:
        assert (one.read, one.uncached) == (before, 0)
        before = one.tokens


# ── conversations ──


def test_a_prefix_weighs_what_was_asked_for() -> None:
    for rate in (0.2, 0.25, 0.4):
        played = append_only(of_messages([user("x"), assistant("y")], rate=rate))
        request = '{"role":"user","content":[{"type":"text","text":"x"}]}'
        assert played.peak == pytest.approx(1_500 + len(request) * rate, abs=1)


def test_unclean_histories_are_played_all_the_same() -> None:
    """A call that was interrupted is answered so, an answer to nothing is left out."""
    use = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    image = {"type": "image", "source": {}}
    messages: list[Message] = [
        assistant(use),
        user("go on", image),
        assistant(use, {**use, "id": "b"}),
        user(tool_result("b", "seen"), tool_result("z", "nobody asked"), "by the way"),
        assistant("well"),
        assistant("well, well"),
    ]
    recorded = of_messages(messages)
    assert recorded.started.brief == "(no request)"
    states = [m.state for m in moments(recorded, Context(), 200_000)]
    told = [b for e in states[-1].messages for b in e.message["content"]]
    assert [b["is_error"] for b in told if b.get("is_error")] == [True, True]
    assert [b["content"] for b in told if b.get("tool_use_id") == "b"] == ["seen"]
    assert [b["text"] for b in told if b["type"] == "text"][1:] == [
        *("go on\n(image)", "by the way", "well")
    ]
    assert not [b for b in told if b.get("tool_use_id") == "z"]


def test_rates_by_turn_play_a_provider_that_counts_otherwise() -> None:
    messages = session(4, 2_000)
    even = append_only(of_messages(messages))
    dense = append_only(of_messages(messages, rates=[0.25, 0.25, 0.5]))
    added = [c.tokens for c in dense.calls], [c.tokens for c in even.calls]
    difference = [a - b for a, b in zip(*added, strict=True)]
    assert difference[:2] == [0, 0]
    assert difference[2] == pytest.approx(2_150 * 0.25, rel=0.05)
    assert difference[2:] == pytest.approx([difference[2]] * 3, abs=1)


def test_a_request_over_the_window_is_rejected_and_answered_as_the_loop_does() -> None:
    """The provider counts much more than the estimate expects: an overflow, then the largest part
    goes, and nothing that was refused is billed."""
    messages = session(3, 20_000)
    messages[-2] = user(tool_result("c2", "dense " * 4_000))
    recorded = of_messages(messages, rates=[0.25, 0.25, 0.25, 1.0])
    played = play(recorded, Context(offload_at=100_000), 32_000)
    refused = [c for c in played.calls if c.rejected]
    assert played.rejected == len(refused) == 1
    assert refused[0].billed == 0
    assert played.offloads == 1
    assert played.exhausted_at is None
    assert played.peak < 32_000 < refused[0].tokens + 8_000


# ── what settings make of them ──


def test_offloading_at_birth_costs_no_prefix() -> None:
    recorded = of_messages(session(10, 8_000))
    offloaded = play(recorded, Context(), 200_000)
    kept = play(recorded, NEVER, 200_000)
    assert offloaded.offloads == 10
    assert offloaded.billed < kept.billed / 2
    assert offloaded.cache_share > 0.8


def test_texts_in_a_list_and_images_move_as_they_do_in_a_run() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8gd29ybGQ="}
    shown: list[Block] = [
        {"type": "text", "text": "long " * 2_000},
        {"type": "image", "source": image},
    ]
    messages = session(20, 1_000)
    messages[2] = user(tool_result("c0", shown))
    whats = [m.what for m in moments(of_messages(messages), Context(), 16_000, read_back=1.0)]
    born, *later = [w for w in whats if isinstance(w, Stored)]
    assert born.at_birth
    assert [len(text) for text in born.files.values()] == [10_000]
    assert any(path.endswith(".png") for stored in later for path in stored.files)


def test_what_moved_out_of_a_list_is_put_back_in_its_place() -> None:
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    shown: list[Block] = [
        {"type": "text", "text": "short"},
        {"type": "text", "text": "[offloaded r/1.txt …]"},
    ]
    facts: list[Event] = [
        AgentStarted(
            agent_id="main",
            definition="d",
            model="m",
            window_tokens=32_000,
            output_tokens=8_000,
            brief="x",
        ),
        ModelReplied(model="m", blocks=[use], stop_reason="tool_use", usage=None),
        Offloaded(
            tool="look", tool_use_id="c", chars=9, path="r/1.txt", reason="birth", key="content.1"
        ),
        ToolReturned(tool="look", tool_use_id="c", index=0, result=shown),
    ]
    records = [
        Record(seq=n, ts=0.0, agent_id="main", turn=1, fact=f) for n, f in enumerate(facts, 1)
    ]
    recorded = of_records(records, {"r/1.txt": "all of it"}.get)["main"]
    returned = recorded.events[-1]
    assert isinstance(returned, ToolReturned)
    assert [b["text"] for b in returned.result if isinstance(b, dict)] == ["short", "all of it"]
    assert recorded.folder == "r"


def test_equal_results_are_stored_once() -> None:
    messages = [*session(1, 8_000)[:-1], *session(1, 8_000)[1:]]
    stored = [
        m.what
        for m in moments(of_messages(messages), Context(), 200_000)
        if isinstance(m.what, Stored)
    ]
    assert len(stored) == 2
    assert stored[0].files == stored[1].files


def test_a_read_back_takes_a_call_for_each_page_and_pages_stay() -> None:
    """O6: what is read back is not offloaded again at birth, and not read back twice."""
    recorded = of_messages(session(1, 3 * PAGE_CHARS + 1))
    without = play(recorded, Context(), 200_000)
    played = play(recorded, Context(), 200_000, read_back=1.0)
    pages = [c for c in played.calls if c.purpose == "read_back"]
    assert len(pages) == 4
    assert len(played.calls) == len(without.calls) + 4
    assert played.offloads == without.offloads == 1
    assert played.peak >= without.peak + 3 * PAGE_CHARS // 4


def test_a_window_that_is_crossed_compacts_and_pays_for_the_summary() -> None:
    recorded = of_messages(session(60, 3_000))
    played = play(recorded, Context(offload_at=None), 32_000)
    assert played.compactions
    assert played.summary_calls == len(played.compactions)
    summaries = [c for c in played.calls if c.purpose == "summary"]
    assert all(c.read > c.uncached and c.written == 0 and c.output == 800 for c in summaries)
    rules = play(recorded, Context(offload_at=None, summary_model="rules"), 32_000)
    assert rules.summary_calls == 0
    assert rules.compactions
    other = play(recorded, Context(offload_at=None, summary_model="other"), 32_000)
    # Another model cannot read this one's cache.
    assert all(c.read == 0 for c in other.calls if c.purpose == "summary")


def test_without_compaction_a_window_that_is_too_small_ends_it() -> None:
    # Many small results: none is worth a file, however short its placeholder.
    recorded = of_messages(session(600, 500))
    played = play(recorded, Context(compaction=False), 32_000)
    assert played.exhausted_at is not None
    assert len(played.sent) == played.exhausted_at < 601
    whats = [m.what for m in moments(recorded, Context(compaction=False), 32_000)]
    assert isinstance(whats[-1], Exhausted)


def test_the_window_is_the_models_unless_one_is_given() -> None:
    recorded = of_messages(session(1, 10))
    small = on_model(recorded, "some-unknown-model")
    [first, *_] = moments(small, Context())
    assert first.state.window_tokens == 32_000
    [first, *_] = moments(on_model(recorded, "claude-opus-5-5"), Context())
    assert first.state.window_tokens == 200_000
    assert first.state.spec.binds_thinking
    with pytest.raises(ValueError, match="input cap"):
        play(on_model(recorded, "claude-3-opus"), Context(window=300_000))


# ── a run, and the command ──


@tool
def look(n: int) -> str:
    """Look at part n."""
    return f"part {n} in src/part_{n}.py:{n} " + "lorem ipsum " * (110, 300, 1_000, 110)[n % 4]


def record(root: Path, context: Context, window: int = 32_000) -> None:
    """A run that looks at 150 parts, one after another."""

    async def go() -> None:
        counter = iter(range(1_000))

        def answer(request: Request) -> Any:
            number = next(counter)
            return [call("look", n=number)] if number < 150 else "Done."

        model = ScriptedModel(answer, window=window)
        await run("Look.", model=model, tools=[look], root=root, run_id="first", context=context)

    anyio.run(go)


RULES = Context(summary_model="rules")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of a run in a window of 32,000 tokens, with summaries by rules. Only read it."""
    root = tmp_path_factory.mktemp("ran")
    record(root, RULES)
    return root


def records_in(root: Path) -> list[Record]:
    return list(read_records(RunDir(root, "first").journal))


def stored_in(root: Path) -> Any:
    return lambda path: (root / path).read_text(encoding="utf-8")


def test_a_run_played_as_it_was_set_does_what_it_did(ran: Path) -> None:
    """The same offloads and compactions, at the same turns, with estimates that are as good."""
    records = records_in(ran)
    recorded = of_records(records, stored_in(ran))["main"]
    played = play(recorded, RULES, recorded.started.window_tokens)
    facts = [r.fact for r in records]
    compacted = [f for f in facts if isinstance(f, Compacted)]
    assert len(compacted) >= 2
    assert len(played.compactions) == len(compacted)
    for mine, real in zip(played.compactions, compacted, strict=True):
        assert len(mine.dropped) == real.messages
        assert mine.before == pytest.approx(real.before_tokens, rel=0.03)
        assert mine.after == pytest.approx(real.after_tokens, rel=0.03)
    assert played.offloads == sum(isinstance(f, Offloaded) for f in facts)
    assert played.exhausted_at is None


def test_offloaded_results_are_played_whole(ran: Path) -> None:
    records = records_in(ran)
    whole = of_records(records, stored_in(ran))["main"]
    longest = max(len(e.result) for e in whole.events if isinstance(e, ToolReturned))
    assert longest > 5_000
    # What is gone stays a placeholder.
    torn = of_records(records, lambda path: None)["main"]
    assert max(len(e.result) for e in torn.events if isinstance(e, ToolReturned)) <= 5_000
    assert play(whole, NEVER, 10**9).billed > play(torn, NEVER, 10**9).billed


def command(root: Path, *arguments: str) -> str:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("replay")(replay)
    ran = CliRunner().invoke(app, [*arguments, "--root", str(root)], catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.output


def test_replay_compares_a_run_with_what_was_asked(ran: Path) -> None:
    found = json.loads(command(ran, "latest", "--window", "64000", "--json"))
    assert (found["schema"], found["run_id"], found["missing_results"]) == (1, "first", 0)
    [agent] = found["agents"]
    assert agent["agent_id"] == "main"
    as_run, what_if = agent["as_run"], agent["what_if"]
    assert (as_run["window_tokens"], what_if["window_tokens"]) == (32_000, 64_000)
    assert what_if["settings"]["window"] == 64_000
    assert as_run["compactions"] > what_if["compactions"]
    assert as_run["peak_context_tokens"] < what_if["peak_context_tokens"]
    assert found["total"]["as_run"]["billed_tokens"] == as_run["billed_tokens"]
    # The scripted model has no price: unknown stays unknown.
    assert as_run["cost_usd"] is None
    assert found["total"]["what_if"]["cost_usd"] is None


def test_replay_prices_a_model_that_has_a_price(ran: Path) -> None:
    asked = ("latest", "--model", "claude-sonnet-4-5", "--offload-at", "never", "--json")
    found = json.loads(command(ran, *asked))
    what_if = found["agents"][0]["what_if"]
    assert what_if["model"] == "claude-sonnet-4-5"
    assert what_if["window_tokens"] == 200_000
    assert what_if["settings"]["offload_at"] is None
    usage = what_if["usage"]
    dollars = (
        3 * usage["input_tokens"]
        + 3.75 * usage["cache_creation_input_tokens"]
        + 0.3 * usage["cache_read_input_tokens"]
        + 15 * usage["output_tokens"]
    )
    assert what_if["cost_usd"] == pytest.approx(dollars / 1_000_000, rel=0.01)


def test_replay_knows_aliases_and_says_what_it_guesses(ran: Path) -> None:
    found = json.loads(command(ran, "latest", "--model", "Haiku", "--json"))
    assert found["agents"][0]["what_if"]["model"].startswith("claude-haiku-")
    lines = command(ran, "latest", "--model", "claud-typo").splitlines()
    assert lines[-1] == "What 'claud-typo' takes is not known: 32,000 tokens were assumed."


def test_replay_as_a_table_fits_eighty_columns(ran: Path) -> None:
    lines = command(ran, "latest", "--offload-at", "2000").splitlines()
    assert lines[0].split() == [
        *("agent", "settings", "calls", "peak", "mean", "offl", "comp", "billed", "cached"),
        "cost",
    ]
    assert lines[1].split()[:3] == ["main", "as", "run"]
    assert lines[2].split()[:2] == ["what", "if"]
    assert lines[-1].startswith("Recorded: 151 calls, ")
    assert width_of(lines) <= 80


def test_replay_adds_up_the_agents_of_a_run(tmp_path: Path) -> None:
    def answer(request: Request) -> Any:
        if request.agent_type != "main":
            usage = Usage(100, 20, 300, 400)
            return Reply([{"type": "text", "text": "seen"}], "end_turn", usage)
        if results(request):
            return "merged"
        return [call("task", prompt=f"look {n}", subagent_type="explorer") for n in range(2)]

    async def go() -> None:
        await run("Go.", model=ScriptedModel(answer), root=tmp_path, run_id="many")

    anyio.run(go)
    found = json.loads(command(tmp_path, "many", "--offload-at", "100", "--json"))
    assert len(found["agents"]) == 3
    for side in ("as_run", "what_if"):
        parts = [agent[side] for agent in found["agents"]]
        for figure in ("calls", "billed_tokens", "offloaded"):
            assert found["total"][side][figure] == pytest.approx(
                sum(p[figure] for p in parts), abs=len(parts)
            )
    lines = command(tmp_path, "many", "--compact-at", "0.5").splitlines()
    assert sum(line.startswith("total (3)") for line in lines) == 1
    # Without a question there is nothing to compare with.
    assert "what if" not in command(tmp_path, "many")


def test_results_that_are_gone_are_said_to_be(ran: Path, tmp_path: Path) -> None:
    root = tmp_path / "torn"
    shutil.copytree(ran, root)
    for file in RunDir(root, "first").agent("main").results.iterdir():
        file.unlink()
    assert "stored results are gone" in command(root, "first")
    assert json.loads(command(root, "first", "--json"))["missing_results"] > 0


def test_a_run_that_would_not_have_gone_on_says_where_it_ends(tmp_path: Path) -> None:
    record(tmp_path, Context(compaction=False), window=200_000)
    asked = ("first", "--window", "32000", "--offload-at", "never")
    assert "main, what if: after turn " in command(tmp_path, *asked)
    what_if = json.loads(command(tmp_path, *asked, "--json"))["agents"][0]["what_if"]
    assert what_if["exhausted"] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--offload-at", "0"], "--offload-at: "),
        (["--compact-at", "1.5"], "--compact-at: "),
        (["--window", "2000000", "--model", "claude-sonnet-4-5"], "input cap"),
    ],
)
def test_values_that_cannot_be_are_refused(ran: Path, options: Sequence[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        command(ran, "first", *options)


def test_a_conversation_is_not_changed_by_being_played() -> None:
    messages = session(20, 9_000)
    recorded = of_messages(messages)
    first = play(recorded, Context(), 32_000, read_back=0.5)
    assert messages == session(20, 9_000)
    assert play(recorded, Context(), 32_000, read_back=0.5) == first
    assert isinstance(recorded, Conversation)
    assert all(isinstance(c, Compaction) for c in first.compactions)
