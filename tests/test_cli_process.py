"""``outrider`` as a process: start-up, exit codes, what is on stdout, signals, broken pipes.

`Cli` runs a command inside the test's process, `outrider` as one of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cli.exits import explain
from orchestrator.errors import JournalError
from tests.warm import WARM

OUTRIDER = (sys.executable, "-m", "orchestrator")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """An environment without keys and settings of the person who runs the tests."""
    others = ("OUTRIDER_", "ANTHROPIC_", "PYTHONUNBUFFERED")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), **more}


def outrider(root: Path, *arguments: str, command: Sequence[str] = WARM, **more: str) -> Ran:
    """Run the command as a process, in ``root``: `OUTRIDER` where it matters how it starts up."""
    done = subprocess.run(
        [*command, *arguments],
        cwd=root,
        env=clean_environment(root.parent, **more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with something in it."""
    workspace = tmp_path / "ws"
    for part in ("alpha", "beta"):
        (workspace / part).mkdir(parents=True)
        text = f'"""Holds {part}."""\n\n# TODO: finish {part}\n\ndef {part}(): ...\n'
        (workspace / part / f"{part}.py").write_text(text)
    return workspace


@pytest.fixture
def cli(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command inside this process, in ``root``: quick, for what needs no process."""
    for name in list(os.environ):
        if name.startswith(("OUTRIDER_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root.parent / ".config"))
    monkeypatch.chdir(root)

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
        capsys.readouterr()
        code = main()
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


# ── start-up ──

HEAVY = (
    *("anthropic", "httpx2", "mcp", "structlog", "genai_prices", "yaml", "rich", "anyio"),
    "pydantic_settings",
)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_imports_none_of_the_heavy_libraries(root: Path, arguments: list[str]) -> None:
    # typer itself needs pydantic to describe a command's options, but not for the first page.
    heavy = [*HEAVY, "pydantic"] if arguments == ["--help"] else HEAVY
    code = (
        "import sys\nfrom orchestrator.cli import main\n"
        f"sys.argv = ['outrider', *{arguments!r}]\nmain()\n"
        f"print('LOADED', sorted(set({heavy!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env=clean_environment(root.parent),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_version_and_help_and_no_argument_at_all(root: Path) -> None:
    assert outrider(root, "--version", command=OUTRIDER).out.startswith("outrider 0.")
    bare, asked = outrider(root, command=OUTRIDER), outrider(root, "--help", command=OUTRIDER)
    assert bare == asked
    assert bare.code == 0
    assert bare.err == ""


@pytest.mark.parametrize(
    "command",
    [
        *("run", "runs", "tokens", "log", "doctor"),
        *("agents list", "agents show", "agents check", "config show"),
    ],
)
def test_every_command_has_examples_in_its_help(cli: Cli, command: str) -> None:
    shown = cli(*command.split(), "--help")
    assert shown.code == 0
    examples = shown.out.partition("Examples:")[2].partition("Options:")[0]
    assert examples.count("outrider ") >= 2


# ── wrong usage ──


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "outrider: no such command 'rum'. Did you mean 'run'"),
        (["run"], "outrider: missing argument 'TASK' (see: outrider run --help)\n"),
        (["agents"], "outrider: missing command (see: outrider agents --help)\n"),
        (["runs", "--nope"], "outrider: no such option: --nope (see: outrider runs --help)\n"),
        (["tokens", "x", "--root", "/nope"], "outrider: invalid value for '--root'"),
        (["tokens", "latest"], "outrider: no run is recorded in "),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    cli: Cli, arguments: list[str], said: str
) -> None:
    """H3."""
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(said)
    assert ran.err.count("\n") == 1


def test_an_unexpected_error_is_one_sentence_too(capsys: pytest.CaptureFixture[str]) -> None:
    """H3: no traceback; and of a group of errors, the one that is ours is told."""
    assert explain(RuntimeError("odd\n\x1b[2Jthing")) == 1
    assert capsys.readouterr().err == (
        "outrider: unexpected RuntimeError: odd thing (OUTRIDER_DEBUG=1 shows where)\n"
    )
    group = ExceptionGroup("", [ValueError("x"), ExceptionGroup("", [JournalError("disk full")])])
    assert explain(group) == 1
    assert capsys.readouterr().err == "outrider: disk full\n"
    assert explain(PermissionError(13, "Permission denied", "/x")) == 1
    assert capsys.readouterr().err == "outrider: Permission denied: /x\n"


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_DEBUG", "1")
    explain(RuntimeError("odd"))
    assert "RuntimeError: odd\n" in capsys.readouterr().err


# ── pipes and signals ──


def test_a_reader_that_goes_away_is_no_error_to_read(root: Path) -> None:
    """H3: `outrider log | head` prints no traceback."""
    whole = outrider(root, "run", "look", "--model", "rehearsal", "--quiet", command=OUTRIDER)
    assert whole.code == 0
    for json in ([], ["--json"]):
        with subprocess.Popen(
            [*OUTRIDER, "log", "latest", *json],
            cwd=root,
            env=clean_environment(root.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "code", "without"),
    [
        (("--version",), 0, 1),
        (("tokens", "nosuch"), 2, 2),
        (("tokens", "--nosuch"), 2, 2),
    ],
)
@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_the_exit_code_is_the_command_s_also_where_nothing_can_be_written(
    root: Path, arguments: tuple[str, ...], code: int, without: int, where: str
) -> None:
    """H2: Python's own for output that was not taken, 120, is none of ours. A result that is lost is a
    failure, unless its stream was closed on purpose."""
    ran = outrider(root, "-c", f'"$@" {where}', "sh", *OUTRIDER, *arguments, command=["/bin/sh"])
    assert ran.code == (without if where == ">/dev/full" else code), ran.err
    assert "Traceback" not in ran.err


def test_a_command_that_there_is_not_is_answered_with_those_that_there_are(cli: Cli) -> None:
    ran = cli("memory", "list")
    assert ran.code == 2
    assert "no such command 'list'; there are: show, add, update, forget, review" in ran.err


# Written past Python's buffers: a signal may come while those are being emptied.
STUBBORN = """
import anyio, os, signal
from orchestrator.cli.signals import until_signal

async def work(scope):
    with anyio.CancelScope(shield=True):
        os.write(1, b"at work\\n")
        await anyio.sleep_forever()

def stop():
    os.write(1, b"stop\\n")

def cancelling():
    os.write(1, b"cancelling\\n")

def at_once():
    os.write(1, b"at once\\n")

async def both():
    await until_signal(work, stop, cancelling, at_once)

anyio.run(both)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_third_signal_stops_on_the_spot(name: str, code: int) -> None:
    """H2: the third one does not wait for what refuses to end and to be cancelled."""
    import signal

    number = getattr(signal, name)
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stop\n"
        process.send_signal(number)
        assert process.stdout.readline() == "cancelling\n"
        process.send_signal(number)
        assert process.stdout.readline() == "at once\n"
        assert process.wait(30) == code


def test_rules_from_the_command_line_hold_in_the_run_and_are_shown_with_the_settings(
    root: Path,
) -> None:
    (root / ".outrider").mkdir(exist_ok=True)
    (root / ".outrider/config.toml").write_text('allow = ["fetch(example.org)"]\n')
    done = outrider(root, "run", "survey", "--model", "rehearsal", "--deny", "read(beta/**)")
    assert done.code == 0
    # A folder from elsewhere may bring rules that permit: that is said.
    assert "allow is set by .outrider/config.toml: fetch(example.org)" in done.err
    assert "alpha.py" in done.out
    assert "beta.py" not in done.out
    shown = outrider(root, "config", "show", OUTRIDER_ASK="task")
    assert "fetch(example.org)" in shown.out
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["ask", "task", "OUTRIDER_ASK"] in lines
    wrong = outrider(root, "run", "x", "--model", "rehearsal", "--allow", "bash(a; b)")
    assert wrong.code == 2
    assert "--allow: the rule 'bash(a; b)' cannot be read: it is not one plain command" in wrong.err
