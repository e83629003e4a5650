"""`benchmarks/replay.py`: recorded sessions judged, over a small folder written here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from orchestrator.messages import Message, assistant, tool_result, user

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

Part = Callable[[str], Any]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Part:
    """A module of the benchmark, which is no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def recorded(turns: int, chars: int, *, per_byte: float = 0.3, compacted_at: int = -1) -> Any:
    """A session in the recorded form: each call finds a place in a file; a provider that counts
    ``per_byte`` tokens a byte and 9,000 for what it was sent before the messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [text("Find all places.")]}]
    weight = 60.0
    for number in range(turns):
        if number == compacted_at:
            summary = {"role": "user", "content": [text("so far …")], "is_compact_summary": True}
            messages += [{"role": "event", "event": "compact_boundary"}, summary]
            weight = 60.0
        use = {"type": "tool_use", "id": f"c{number}", "name": "Grep", "input": {"n": number}}
        found = f"see src/part_{number}.py:{number + 1} at 2026-01-{number % 28 + 1:02d} "
        found = (found + "nothing else in here is of note " * (chars // 32))[:chars]
        tokens = round(9_000 + weight * per_byte)
        usage = {"output_tokens": 40}
        reply = {"role": "assistant", "content": [use], "prompt_tokens": tokens, "usage": usage}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": found}
        messages += [reply, {"role": "user", "content": [result]}]
        weight += len(json.dumps(reply["content"])) + len(json.dumps(result)) + 60
    messages.append({"role": "assistant", "content": [], "synthetic": True})
    return {"id": "x", "model": "claude-opus-4-5-20251101", "messages": messages}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sessions = {
        "small": recorded(8, 300),
        "long": recorded(90, 1_400, compacted_at=60),
        "wide": recorded(30, 12_000),
    }
    (tmp_path / "one").mkdir()
    for name, session in sessions.items():
        (tmp_path / "one" / f"{name}.json").write_text(json.dumps(session))
    (tmp_path / "manifest.json").write_text(json.dumps({"items": []}))
    return tmp_path


def benchmark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "replay.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_session_is_judged_in_every_window(folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    ran = benchmark(str(folder), "--window", "16000", "--window", "200000", "--json", str(written))
    assert ran.returncode == 0, ran.stderr
    found = json.loads(written.read_text())
    assert [t["window"] for t in found["totals"]] == [16_000, 200_000]
    assert len(found["sessions"]) == 6
    for row in [*found["sessions"], *found["totals"]]:
        assert row["orphans"] == row["idle_pairs"] == 0
        assert row["billed"] <= row["append_only"] * 1.2
    rows = {(r["session"], r["window"]): r for r in found["sessions"]}
    # What fits is left alone, and costs what it costs to append.
    assert rows["small", 200_000]["share_billed"] == 1
    assert rows["small", 200_000]["offloads"] == 0
    assert rows["wide", 200_000]["offloads"] == 30
    assert rows["wide", 200_000]["share_billed"] < 0.6
    assert rows["long", 16_000]["compactions"] > 0
    assert rows["long", 16_000]["dropped_facts"] > 0
    for total in found["totals"]:
        own = [r for r in found["sessions"] if r["window"] == total["window"]]
        assert total["billed"] == pytest.approx(sum(r["billed"] for r in own))
        assert total["peak"] == max(r["peak"] for r in own)
    [(family, bias)] = found["estimate"].items()
    assert family == "claude-opus"
    assert bias["within"] == 1
    assert "window 16,000" in ran.stdout
    assert "claude-opus" in ran.stdout


def test_reading_back_costs_what_its_pages_take(folder: Path, tmp_path: Path) -> None:
    figures = []
    for share in ("0", "1"):
        written = tmp_path / f"figures-{share}.json"
        asked = ("--window", "200000", "--read-back", share, "--jobs", "1", "--json", str(written))
        assert benchmark(str(folder), *asked).returncode == 0
        rows = json.loads(written.read_text())["sessions"]
        figures.append(next(r for r in rows if r["session"] == "wide"))
    without, everything = figures
    # 12,000 characters are three pages each.
    assert everything["calls"] == without["calls"] + 29 * 3
    assert everything["billed"] > without["billed"]


def test_the_curve_covers_all_settings(folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "curve.json"
    ran = benchmark(str(folder), "--curve", "--window", "64000", "--json", str(written))
    assert ran.returncode == 0, ran.stderr
    points = json.loads(written.read_text())["curve"]
    settings = {(p["window"], p["offload_at"], p["read_back"]) for p in points}
    assert len(points) == len(settings) == 8 * 3
    shares = {p["share_billed"] for p in points if p["read_back"] == 0}
    assert len(shares) > 1
    assert "columns by share read back" in ran.stdout


def test_a_folder_without_sessions_says_so(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    ran = benchmark(str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no recorded session" in ran.stderr


def test_the_recorders_own_compaction_is_not_part_of_the_work(part: Part, folder: Path) -> None:
    sessions = part("replay_sessions")
    session = sessions.load(folder / "one" / "long.json")
    assert "so far" not in str(session.conversation.events)
    assert {r.context for r in session.reports} == {0, 1}
    assert session.conversation.rate == pytest.approx(0.3, rel=0.05)
    assert len(session.conversation.rates) == 91
    # Turn 0 is the first request; nobody reported what came after the last reply.
    assert session.conversation.rates[5] == pytest.approx(0.3, rel=0.05)


def test_what_a_recorder_took_out_unseen_begins_a_context_of_its_own(
    part: Part, tmp_path: Path
) -> None:
    sessions = part("replay_sessions")
    session = recorded(20, 2_000)
    replies = [m for m in session["messages"] if m.get("prompt_tokens")]
    for reply in replies[12:]:
        reply["prompt_tokens"] -= 6_000
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(session))
    reports = sessions.load(path).reports
    assert {r.context for r in reports} == {0, 1}
    assert max(map(abs, sessions.biases(reports))) < 0.05


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("see https://example.org/a?b=1, then", ["https://example.org/a?b=1"]),
        ("in src/app/main.py:12: error", ["src/app/main.py:12"]),
        ("main.py:7:def f()", ["main.py:7"]),
        ("main.py alone, and a/b/c.toml.", ["a/b/c.toml"]),
        ("commit 9fc3a1b and deadbeef", ["9fc3a1b"]),
        ("OPS-1482 follows #77 (colour #336699)", ["OPS-1482"]),
        ("costs $1,250.50 or 12.5%", ["$1,250.50", "12.5%"]),
        ("at 2026-01-27T16:32:05.141Z", ["2026-01-27T16:32:05"]),
        ("since 2026-01-27", ["2026-01-27"]),
        ("needs v1.10.2 (or 3.4.0)", ["v1.10.2", "3.4.0"]),
        ("合同「A-7」金额 12,000元，见 docs/合同.md", ["12,000元", "docs/合同.md"]),
        ("nothing to see: e.g. this, 12 of 34", []),
    ],
)
def test_facts_are_told_by_the_build_of_a_word(
    part: Part, words: str, found: Sequence[str]
) -> None:
    checks = part("replay_checks")
    assert checks.facts(words) == set(found)


def test_the_benchmark_finds_facts_on_its_own() -> None:
    """What judges the whitelist shares no code with it."""
    source = (BENCHMARKS / "replay_checks.py").read_text()
    assert "orchestrator" not in source


def test_facts_are_reachable_in_the_context_or_in_a_file_that_it_names(part: Part) -> None:
    checks = part("replay_checks")
    reach = checks.Reach()
    reach.drop([user("fix a/one.py:1, a/two.py:2 and a/three.py:3")])
    reach.store({"results/1.txt": "… a/two.py:2 …", "results/2.txt": "… a/three.py:3 …"})
    context: list[Message] = [user("summary: a/one.py:1"), assistant("it is in results/1.txt")]
    assert reach.dropped == 3
    assert reach.lost(context) == {"a/three.py:3"}


def test_orphans_are_counted_at_every_cut(part: Part) -> None:
    checks = part("replay_checks")
    use = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    whole: list[Message] = [user("x"), assistant(use), user(tool_result("a", "y"))]
    assert checks.orphans(whole) == 0
    assert checks.orphans(whole[:2]) == 1
    assert checks.orphans([whole[0], whole[2]]) == 1
    assert checks.orphans([*whole, assistant("z"), user(tool_result("a", "y"))]) == 1
