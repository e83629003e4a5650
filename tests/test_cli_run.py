"""`outrider run`: the result on stdout alone, progress on stderr, exit codes, signals, failures."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.watching import harmless, progress_for
from orchestrator.config import Settings as Config
from orchestrator.events import Record
from orchestrator.progress import LiveTree, PlainLines
from orchestrator.rundir import list_runs
from orchestrator.testing.standin import Fault, Server, Settings, call, say, serve
from orchestrator.testing.standin.answers import Answer, Brain
from tests.test_cli_process import OUTRIDER, Cli, Ran, clean_environment, cli, outrider, root
from tests.warm import WARM

__all__ = ["cli", "root"]
REHEARSE = ("run", "Survey this", "--model", "rehearsal")
MODEL = ("--model", "claude-sonnet-5")


async def begin(
    server: Server, root: Path, *arguments: str, command: Sequence[str] = OUTRIDER, **more: str
) -> asyncio.subprocess.Process:
    environment = clean_environment(root.parent, ANTHROPIC_API_KEY="test", **more)
    given = ("--base-url", server.base_url, *MODEL, *arguments)
    return await asyncio.create_subprocess_exec(
        *(*command, "run", "do it", *given),
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def served(
    brain: Brain, root: Path, *arguments: str, faults: Any = (), settings: Settings | None = None
) -> Ran:
    """Run `outrider run` as a process against a stand-in with this brain."""
    async with serve(brain, faults=faults, settings=settings) as server:
        process = await begin(server, root, *arguments, command=WARM)
        out, err = await process.communicate()
        return Ran(process.returncode or 0, out.decode(), err.decode())


def results(body: Mapping[str, Any]) -> list[Any]:
    return [
        block
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, Mapping) and block.get("type") == "tool_result"
    ]


# ── stdout and stderr ──


def test_stdout_is_the_conclusion_and_stderr_the_progress(root: Path) -> None:
    """H1."""
    ran = outrider(root, *REHEARSE)
    assert ran.code == 0
    newest = list_runs(root)[0]
    assert ran.out == newest.result.read_text()
    assert "main started on rehearsal" in ran.err
    assert f"outrider tokens {newest.run_id}" in ran.err
    assert "\x1b" not in ran.err
    assert "Traceback" not in ran.err


def test_quiet_says_nothing_on_stderr(cli: Cli) -> None:
    ran = cli(*REHEARSE, "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out


def test_json_is_the_report_and_nothing_else(cli: Cli) -> None:
    """H1."""
    ran = cli(*REHEARSE, "--output-format", "json")
    report = json.loads(ran.out)
    assert report["status"] == "finished"
    assert report["schema"] == 1
    assert len(report["agents"]) >= 3
    assert ran.out.isascii()


def test_stream_json_is_the_log_and_then_the_report(cli: Cli, root: Path) -> None:
    """H1, L1."""
    ran = cli(*REHEARSE, "--output-format", "stream-json")
    *lines, last = map(json.loads, ran.out.splitlines())
    newest = list_runs(root)[0]
    assert lines == [json.loads(line) for line in newest.log.read_text().splitlines()]
    assert last["run_id"] == newest.run_id
    assert last["usage"] == lines[-1]["usage"]


def test_the_task_comes_from_standard_input(root: Path) -> None:
    done = subprocess.run(
        [*WARM, "run", "-", "--model", "rehearsal", "--quiet", "--output-format", "json"],
        input="Count the färbige files".encode(),
        cwd=root,
        env=clean_environment(root.parent),
        capture_output=True,
        check=True,
    )
    assert "färbige" in json.loads(done.stdout)["conclusion"]


def test_a_reader_that_goes_away_stops_the_run_without_a_traceback(root: Path) -> None:
    """H3: nobody wants the rest, and what was done is kept."""
    with subprocess.Popen(
        [*WARM, *REHEARSE, "--output-format", "stream-json"],
        cwd=root,
        env=clean_environment(root.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1
    assert "Traceback" not in said
    assert "nobody reads the output any more" in said


def test_on_a_terminal_the_tree_is_drawn_on_stderr_and_stdout_stays_pure(root: Path) -> None:
    """H1."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*WARM, *REHEARSE],
        cwd=root,
        env=clean_environment(root.parent, TERM="xterm", COLUMNS="80", LINES="24"),
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = bytearray()
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:  # how a pseudo terminal on Linux says that its other end is closed
            pass
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    assert out == list_runs(root)[0].result.read_text()
    # Cursor hidden, and shown again at the end.
    assert b"\x1b[?25l" in shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


@pytest.mark.asyncio
async def test_a_tool_that_prints_does_not_spoil_the_result(root: Path) -> None:
    """H1; tools come from modules of the current folder."""
    (root / "mytools.py").write_text(
        "def shout(text: str) -> str:\n"
        '    "Shout."\n'
        "    print('PRINTED')\n"
        "    return text.upper()\n\n"
        "def whisper(text: str) -> str: return text.lower()\n"
        "both = [shout, whisper]\n"
    )

    def brain(body: Mapping[str, Any]) -> Answer:
        found = results(body)
        return say(str(found[0]["content"])) if found else Answer([call("shout", text="hi")])

    ran = await served(brain, root, "--tools", "mytools:both")
    assert (ran.code, ran.out.count("HI")) == (0, 1)
    assert "PRINTED" not in ran.out
    assert "PRINTED" in ran.err


@pytest.mark.asyncio
async def test_a_conclusion_is_printed_as_it_is_in_a_pipe(root: Path) -> None:
    ran = await served(lambda _: say("a\x1b[31mb 漢"), root, "--quiet")
    assert ran.out == "a\x1b[31mb 漢\n"


# ── exit codes ──


@pytest.mark.asyncio
async def test_exit_code_3_when_a_limit_was_reached(root: Path) -> None:
    def brain(body: Mapping[str, Any]) -> Answer:
        handing_back = (body.get("tool_choice") or {}).get("type") == "none"
        return say("what I have") if handing_back else Answer([call("ls")])

    ran = await served(brain, root, "--max-turns", "2")
    assert (ran.code, ran.out) == (3, "what I have\n")
    assert "partial (limit:max_turns)" in ran.err


@pytest.mark.asyncio
async def test_an_empty_answer_is_exit_code_1(root: Path) -> None:
    """S3: never a success."""
    ran = await served(lambda _: Answer([]), root, "--output-format", "json")
    assert ran.code == 1
    assert json.loads(ran.out)["status"] == "empty"


@pytest.mark.asyncio
async def test_a_wrong_key_is_one_clear_sentence(root: Path) -> None:
    """H3."""
    refused = Fault("status", status=401, message="invalid x-api-key", times=None)
    ran = await served(lambda _: say("x"), root, "--quiet", faults=[refused])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("outrider: failed (provider:authentication): ")
    assert ran.err.count("\n") == 1


@pytest.mark.asyncio
async def test_an_unknown_model_is_one_clear_sentence(root: Path) -> None:
    """H3."""
    settings = Settings(unknown_models="reject")
    ran = await served(lambda _: say("x"), root, "--quiet", "--model", "clod-9", settings=settings)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("outrider: failed (provider:not_found): ")
    assert "clod-9" in ran.err
    assert ran.err.count("\n") == 1


def test_no_network_is_one_clear_sentence(root: Path) -> None:
    """H3; the reason for each retry is shown."""
    ran = outrider(root, "run", "hi", "--base-url", "http://127.0.0.1:1", *MODEL)
    assert (ran.code, ran.out) == (1, "")
    assert "main call failed (connection): no connection to http://127.0.0.1:1" in ran.err
    last = ran.err.splitlines()[-2]
    assert last.startswith("outrider: failed (provider:connection): no connection to ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hi"], "no model to call: set ANTHROPIC_API_KEY, or give --base-url"),
        (["hi", "--max-turns", "x"], "--max-turns: write a whole number"),
        (["hi", "--max-turns", "0"], "--max-turns: must be over 0, or none for no limit"),
        (["hi", "--compact-at", "2"], "--compact-at: is a share of the window"),
        (["hi", "--output-format", "xml"], "--output-format: Input should be 'text'"),
        (["hi", "--deny", "foo(x)"], "--deny: the rule 'foo(x)'"),
        (["hi", "--agent", "nosuch"], "no definition is called 'nosuch'; there are: explorer"),
        (["hi", "--run-id", "latest"], "a run cannot be called 'latest'"),
        (["hi", "--max-cost", "1"], "no price is known for rehearsal"),
        (["hi", "--tools", "nosuch:x"], "--tools nosuch:x: no module nosuch in "),
        (["hi", "--tools", "json"], "--tools json: write it as MODULE:NAME"),
        (["hi", "--tools", "json:dumb"], "--tools json:dumb: json has no dumb; did you mean dump?"),
        (["hi", "--tools", "json:dump"], "--tools json:dump: tool dump: parameter obj needs"),
        (["hi", "--tools", "sys:path"], "--tools sys:path: path is no function"),
        (["hi", "--tools", "broken:x"], "--tools broken:x: importing broken failed: NameError"),
        (["hi", "--tools", "odd:f"], "--tools odd:f: f cannot be described to a model"),
        ([" "], "the task is empty"),
    ],
)
def test_what_cannot_be_run_is_exit_code_2_and_leaves_no_run(
    cli: Cli, root: Path, arguments: list[str], said: str
) -> None:
    """H3."""
    (root / "broken.py").write_text("nonsense\n")
    (root / "odd.py").write_text("class C: ...\ndef f(c: C) -> str: ...\n")
    model = [] if said.startswith("no model") else ["--model", "rehearsal"]
    ran = cli("run", *arguments, *model)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"outrider: {said}")
    assert ran.err.count("\n") == 1
    assert list_runs(root) == []


def test_a_run_that_exists_is_not_overwritten(cli: Cli) -> None:
    assert cli(*REHEARSE, "--run-id", "mine", "--quiet").code == 0
    ran = cli(*REHEARSE, "--run-id", "mine")
    assert ran.code == 2
    assert "run mine exists already" in ran.err


def test_model_names_go_through_the_table_of_aliases(cli: Cli, root: Path) -> None:
    (root / ".outrider").mkdir()
    (root / ".outrider/config.toml").write_text('[models]\ntry = "rehearsal"\n')
    assert cli("run", "look", "--model", "Try", "--quiet").code == 0
    line = json.loads(list_runs(root)[0].log.read_text().splitlines()[0])
    assert line["model"] == "rehearsal"


def test_none_takes_a_limit_away(cli: Cli, root: Path) -> None:
    assert cli(*REHEARSE, "--max-turns", "none", "--quiet").code == 0
    line = json.loads(list_runs(root)[0].log.read_text().splitlines()[1])
    assert line["max_turns"] is None


# ── definitions ──


def test_problems_of_the_projects_definitions_are_warnings_with_their_place(
    cli: Cli, root: Path
) -> None:
    """D5: one bad file stops nothing."""
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\nname: bad\n---\nno description\n")
    ran = cli(*REHEARSE)
    assert ran.code == 0
    assert ".claude/agents/bad.md:" in ran.err
    assert "description: " in ran.err


def test_many_problems_do_not_bury_the_run(cli: Cli, root: Path) -> None:
    folder = root / ".claude/agents"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"bad{number}.md").write_text("---\nname: bad\n---\nx\n")
    ran = cli(*REHEARSE)
    assert "… and 20 more: outrider agents check\n" in ran.err


def test_an_error_in_a_file_that_was_named_stops_the_run(cli: Cli, root: Path) -> None:
    (root / "bad.md").write_text("---\nname: bad\n---\nno description\n")
    ran = cli(*REHEARSE, "--agents", "bad.md", "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == "outrider: bad.md gives no definition; nothing was run"
    assert list_runs(root) == []


def test_settings_by_which_a_project_runs_code_or_gets_the_key_are_told(
    cli: Cli, root: Path
) -> None:
    (root / ".outrider").mkdir()
    (root / "mytools.py").write_text("def f() -> str: return 'x'\n")
    text = 'tools = ["mytools:f"]\nquiet = true\n'
    (root / ".outrider/config.toml").write_text(text)
    ran = cli(*REHEARSE)
    assert ran.err == "outrider: tools is set by .outrider/config.toml: mytools:f\n"


# ── progress ──


def test_a_display_that_breaks_does_not_break_the_run() -> None:
    """A run that is paid for goes on without its display."""
    calls = []

    def broken(records: Sequence[Record]) -> None:
        calls.append(records)
        raise BrokenPipeError

    observe = harmless(broken)
    observe([])
    observe([])
    assert calls == [[]]


@pytest.mark.parametrize(
    ("settings", "term", "is_terminal", "expected"),
    [
        ({}, "xterm", True, LiveTree),
        ({}, "dumb", True, PlainLines),
        ({}, "xterm", False, PlainLines),
        ({"quiet": True}, "xterm", True, type(None)),
        ({"output_format": "stream-json"}, "xterm", True, type(None)),
        ({"output_format": "stream-json"}, "xterm", False, PlainLines),
    ],
)
def test_which_display_a_run_gets(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    term: str,
    is_terminal: bool,
    expected: type,
) -> None:
    """H1: off a terminal it is plain lines."""

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setenv("TERM", term)
    assert type(progress_for(Config(**settings), Stream(), Stream())) is expected


# ── what is easily mistyped ──


@pytest.mark.parametrize(
    ("rule", "near"), [("raed", "read"), ("bsh", "bash"), ("wrte_file", "write_file")]
)
def test_a_rule_that_looks_misspelt_is_said(cli: Cli, rule: str, near: str) -> None:
    """It would protect nothing without a word; an error it is not, since servers' tools have any name."""
    ran = cli(*REHEARSE, "--deny", rule)
    assert ran.code == 0
    assert f"outrider: the rule {rule}: Outrider has no such tool; did you mean {near}?" in ran.err


@pytest.mark.parametrize(
    "rule", ["read(x/**)", "mcp(github)", "Bash(git:*)", "task", "lookup_order"]
)
def test_a_rule_that_is_right_or_unlike_any_is_not_remarked_on(cli: Cli, rule: str) -> None:
    assert "did you mean" not in cli(*REHEARSE, "--deny", rule).err


def test_a_misspelt_setting_of_the_environment_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would change nothing without a word; an error it is not, since others may know it."""
    monkeypatch.setenv("OUTRIDER_MAX_TURN", "3")
    said = "outrider: OUTRIDER_MAX_TURN: no such setting; did you mean max_turns?"
    ran = cli(*REHEARSE)
    assert ran.code == 0
    assert said in ran.err
    assert said not in cli(*REHEARSE, "--quiet").err


def test_a_misspelt_rehearsal_is_told_before_anything_is_recorded(cli: Cli, root: Path) -> None:
    ran = cli("run", "x", "--model", "rehersal")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("no model is called 'rehersal'; did you mean rehearsal?\n")
    assert list_runs(root) == []


def test_h_is_help_everywhere(cli: Cli) -> None:
    assert cli("-h").out.startswith("Usage: outrider")
    assert cli("run", "-h").out.startswith("Usage: outrider run")


def test_a_log_of_nobody_names_who_there_is(cli: Cli) -> None:
    assert cli(*REHEARSE).code == 0
    ran = cli("log", "latest", "--agent", "nobody")
    assert (ran.code, ran.out) == (2, "")
    assert "'nobody' is no agent of this run; there are: main, explorer-" in ran.err
