"""Journals whose records, each as it was written by its digest, contradict each other: no run wrote them
so, but a file can hold anything. Commands say so in a sentence, and never stumble."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orchestrator import Request
from orchestrator import events as ev
from orchestrator.cli import main
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from tests.test_cli_process import Cli, cli, root
from tests.viewing import Fact, viewer, write_journal

__all__ = ["cli", "root"]

RUN = "first"
SAID = "does not follow from those before it: `outrider audit` says what else is wrong"


def script(request: Request) -> Any:
    """A plan, a child, and pages until the first ones are offloaded and compacted."""
    if request.purpose == "summary":
        return "Goal: read all pages."
    if request.agent_type != "main":
        return "seen it" if results(request) else [call("ls")]
    uses = [b for m in request.messages for b in m["content"] if b["type"] == "tool_use"]
    pages = max((use["input"].get("number", 0) for use in uses), default=0)
    if not results(request):
        return [call("write_todos", todos=[{"content": "read", "status": "in_progress"}])]
    if pages == 2 and not any(use["name"] == "task" for use in uses):
        return [call("task", prompt="look", subagent_type="explorer"), call("page", number=3)]
    return [call("page", number=pages + 1)] if pages < 24 else "read them all"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> list[Fact]:
    """What a run recorded: with a child, a plan, results that moved to files, compactions."""
    folder = tmp_path_factory.mktemp("recorded")
    command = ["run", "read", "--model", "rehearsal", "--run-id", RUN, "--window", "20000"]
    command += ["--offload-at", "never", "--tools", "tests.viewing:page", "--quiet"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.chdir(folder)
        patch.setattr("orchestrator.rehearsal.RehearsalModel", lambda: ScriptedModel(script))
        patch.setattr("sys.argv", ["outrider", *command])
        assert main() == 0
    records = list(read_records(RunDir(folder, RUN).journal))
    assert {ev.Compacted, ev.AgentSpawned, ev.TodosWritten} <= {type(r.fact) for r in records}
    return [(record.agent_id, record.turn, record.fact) for record in records]


def without(facts: Sequence[Fact], kind: type[Any], agent_id: str = "main") -> list[Fact]:
    """``facts`` without the first of a kind of an agent."""
    at = next(i for i, f in enumerate(facts) if f[0] == agent_id and isinstance(f[2], kind))
    return [*facts[:at], *facts[at + 1 :]]


def unended(facts: Sequence[Fact]) -> list[Fact]:
    return [
        f for f in facts if not (f[0] == "main" and isinstance(f[2], ev.AgentEnded | ev.RunEnded))
    ]


KINDS = [ev.AgentStarted, ev.ModelReplied]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "command",
    [
        ("context", RUN),
        ("context", RUN, "--turn", "3", "--diff", "--json"),
        ("replay", RUN),
    ],
)
def test_commands_name_the_record_that_does_not_follow(
    cli: Cli, root: Path, facts: list[Fact], kind: type[Any], command: tuple[str, ...]
) -> None:
    write_journal(root, without(facts, kind))
    ran = cli(*command)
    if command[0] == "replay" and kind is ev.AgentStarted:
        return  # an agent that never began is no conversation to replay
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("outrider: record ")
    assert ran.err.endswith(f"{SAID}\n")
    assert len(ran.err.splitlines()) == 1


def test_a_run_that_contradicts_itself_is_not_resumed(
    cli: Cli, root: Path, facts: list[Fact]
) -> None:
    """Its sentence, exit 1, and the journal is as it was: nothing was sent and nothing recorded."""
    place = write_journal(root, unended(without(facts, ev.ModelReplied)))
    before = list(read_records(place.journal))
    ran = cli("resume", RUN)
    assert (ran.code, ran.out) == (1, "")
    assert SAID in ran.err
    assert len(ran.err.splitlines()) == 1
    assert list(read_records(place.journal)) == before


def test_nor_is_a_child_asked_more_or_the_run_forked(
    cli: Cli, root: Path, facts: list[Fact]
) -> None:
    child = next(f[0] for f in facts if f[0] != "main")
    write_journal(root, without(facts, ev.ModelReplied, child))
    ran = cli("resume", RUN, "and now?", "--agent", child)
    assert (ran.code, SAID in ran.err, len(ran.err.splitlines())) == (1, True, 1)
    write_journal(root, without(facts, ev.ModelReplied), "second")
    ran = cli("fork", "second", "--at", "4", "go on")
    assert (ran.code, SAID in ran.err, len(ran.err.splitlines())) == (1, True, 1)


def test_the_page_and_its_file_say_it_and_show_the_rest(
    cli: Cli, root: Path, facts: list[Fact]
) -> None:
    write_journal(root, without(facts, ev.ModelReplied))
    ran = cli("view", RUN, "--export", "run.html")
    assert ran.code == 0
    assert SAID in ran.err
    text = (root / "run.html").read_text()
    assert '"problem":"record ' in text
    child = next(f[0] for f in facts if f[0] != "main")
    assert f"data-name='\"agent:{child}\"'" in text
    assert "data-name='\"agent:main\"'" not in text
    with viewer(root, RUN) as running:
        answer = running.get("/agent?id=main")
        assert answer.status == 500
        assert SAID in answer.body
        assert running.get("/accounts").status == 200


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, float, float]]:
    """What is done to a journal: records are left out, told twice, told elsewhere, given to another agent,
    or end in the middle. Places as shares of its length."""
    place = st.floats(0, 1, exclude_max=True)
    ways = st.sampled_from(["drop", "copy", "move", "swap", "give", "cut"])
    return draw(st.lists(st.tuples(ways, place, place), min_size=1, max_size=3))


def changed(facts: Sequence[Fact], how: Sequence[tuple[str, float, float]]) -> list[Fact]:
    made = list(facts)
    for way, one, other in how:
        i, j = int(one * len(made)), int(other * len(made))
        match way:
            case "drop":
                del made[i]
            case "copy":
                made.insert(j, made[i])
            case "move":
                made.insert(j, made.pop(i))
            case "swap":
                made[i], made[j] = made[j], made[i]
            case "give":
                made[i] = (made[j][0], made[i][1], made[i][2])
            case "cut":
                made = made[: max(i, 3)]
    return made


# Not made smaller: that runs all commands a thousand times more.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
COMMANDS = (
    ("context", RUN),
    ("context", RUN, "--turn", "9", "--diff"),
    ("context", RUN, "--agent", "explorer"),
    ("view", RUN, "--export", "run.html"),
    ("tokens", RUN),
    ("replay", RUN),
    ("audit", RUN),
    ("resume", RUN, "--quiet"),
)


@settings(
    max_examples=15, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(how=changes())
def test_no_command_stumbles_over_any_journal(
    cli: Cli,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    how: list[tuple[str, float, float]],
) -> None:
    """An answer, or one sentence that says what is wrong: never an error that nobody foresaw."""
    folder = tmp_path_factory.mktemp("changed")
    write_journal(folder, changed(request.getfixturevalue("facts"), how))
    monkeypatch.chdir(folder)
    for command in COMMANDS:
        ran = cli(*command)
        assert "unexpected" not in ran.err, (command, ran.err)
        assert ran.code in (0, 1, 2, 3), (command, ran.err)
