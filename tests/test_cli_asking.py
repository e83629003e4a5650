"""Questions at the terminal: what is shown, how they are answered, and that they never hang."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.asking import asking_here, question, visible
from orchestrator.cli.exits import code_of
from orchestrator.events import PermissionDecided, Record
from orchestrator.permissions import AskedFor
from orchestrator.progress import PlainLines
from tests.warm import WARM

SECONDS = 90
# The terminal that is its standard input becomes the one that it is controlled by.
ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace in which subagents have to be asked for; its survey starts one for each part."""
    workspace = tmp_path / "ws"
    for part in ("alpha", "beta"):
        (workspace / part).mkdir(parents=True)
        (workspace / part / f"{part}.py").write_text(f"# TODO: finish {part}\ndef {part}(): ...\n")
    (workspace / ".outrider").mkdir()
    (workspace / ".outrider/config.toml").write_text('ask = ["task"]\n')
    return workspace


def environment(root: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OUTRIDER_", "ANTHROPIC_"))}
    return {**kept, "HOME": str(root.parent), "XDG_CONFIG_HOME": str(root.parent), "TERM": "xterm"}


class Terminal:
    """A process on a terminal of its own; ``seen`` is everything that it wrote there."""

    def __init__(self, controller: int, process: subprocess.Popen[bytes]) -> None:
        self.controller = controller
        self.process = process
        self.seen = ""

    def reaches(self, text: str) -> bool:
        """Read on until ``text`` comes; false if the process ends before."""
        start, deadline = len(self.seen), time.monotonic() + SECONDS
        while text not in self.seen[start:]:
            if not self._more(deadline):
                return False
        return True

    def until(self, text: str) -> str:
        """What comes up to ``text``."""
        start = len(self.seen)
        assert self.reaches(text), f"the end came before {text!r}: {self.seen[start:]}"
        return self.seen[start:]

    def type(self, text: str) -> None:
        os.write(self.controller, text.encode())

    def end(self) -> int:
        deadline = time.monotonic() + SECONDS
        while self._more(deadline):
            pass
        return self.process.wait(SECONDS)

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.controller], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"nothing more came in time: {self.seen[-2000:]}"
        try:
            data = os.read(self.controller, 65_536)
        except OSError:  # every end on the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(root: Path, *arguments: str) -> Iterator[Terminal]:
    controller, own = pty.openpty()
    command = [sys.executable, "-m", "orchestrator", "run", "survey", "--model", "rehearsal"]
    process = subprocess.Popen(
        [sys.executable, "-c", ON_ITS_TERMINAL, *command, *arguments],
        cwd=root,
        env=environment(root),
        stdin=own,
        stdout=own,
        stderr=own,
        start_new_session=True,
    )
    os.close(own)
    try:
        yield Terminal(controller, process)
    finally:
        process.kill()
        process.wait()
        os.close(controller)


def decided(root: Path) -> list[tuple[str, str, str]]:
    (log,) = (root / ".outrider/runs").glob("*/log.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    found = [e for e in events if e["event"] == "permission_decided"]
    return [(e["rule"], e["decision"], e["by"]) for e in found]


# ── in a process ──


@pytest.mark.parametrize("display", [(), ("--quiet",)], ids=["tree", "quiet"])
def test_a_person_answers_at_the_terminal_and_the_run_goes_on(
    root: Path, display: tuple[str, ...]
) -> None:
    """Nonsense and what was typed before the question are no answer; `always` is asked once only."""
    with terminal(root, *display) as person:
        person.type("y\ny\ny\n")
        asked = person.until("[y/a/n] ")
        assert "main asks to use task (ask task):" in asked
        assert "a  yes, and in this run always task" in asked
        person.type("maybe\n")
        person.until("[y/a/n] ")
        person.type("a\n")
        assert person.end() == 0
        assert person.seen.count("asks to use task") == 1
    answers = set(decided(root))
    assert answers == {("ask task", "allow", "person")}


def test_a_no_is_a_refusal_that_the_agent_works_around(root: Path) -> None:
    with terminal(root) as person:
        while person.reaches("[y/a/n] "):
            person.type("n\n")
        assert person.end() == 0
    assert set(decided(root)) == {("ask task", "deny", "person")}


def test_ctrl_c_at_a_question_ends_the_run_as_anywhere_else(root: Path) -> None:
    with terminal(root) as person:
        person.until("[y/a/n] ")
        person.type("\x03")
        assert person.end() == 128 + signal.SIGINT
        assert "cancelled" in person.seen


def test_the_end_of_input_is_a_no(root: Path) -> None:
    with terminal(root) as person:
        while person.reaches("[y/a/n] "):
            person.type("\x04")
    assert set(decided(root)) == {("ask task", "deny", "person")}


def test_with_no_ask_nobody_is_asked_on_a_terminal_either(root: Path) -> None:
    with terminal(root, "--no-ask") as person:
        person.end()
        assert "asks to use" not in person.seen
    assert set(decided(root)) == {("ask task", "deny", "nobody")}


def test_p7_without_a_terminal_what_has_to_be_asked_is_denied_at_once(root: Path) -> None:
    """P7: never a hang, also when a question is wanted."""
    done = subprocess.run(
        [*WARM, "run", "survey", "--model", "rehearsal", "--ask"],
        cwd=root,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "--ask: there is no terminal here" in done.stderr
    assert set(decided(root)) == {("ask task", "deny", "nobody")}


# ── what is shown ──


def asked(given: Mapping[str, Any], *permit: str) -> AskedFor:
    return AskedFor("main", "main", "bash", given, "ask bash", permit)


def test_a_question_shows_all_of_a_command_and_nothing_that_could_hide_a_part_of_it() -> None:
    """Nobody should agree to what he cannot see."""
    command = "echo \x1b[2K\u202egnp.exe\r\nrm -rf /\x07"
    shown = question(asked({"command": command, "timeout": 5}, "bash(x)"))
    assert "    echo \\x1b[2K\\u202egnp.exe\\r\n    rm -rf /\\x07\n    timeout = 5\n" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)
    long = question(asked({"command": "x" * 5_000}))
    assert "[… 1,000 more characters are not shown]" in long
    assert "always" not in long  # there is no rule that names it
    assert visible("ordinary ä 文") == "ordinary ä 文"


def test_lines_of_the_display_wait_while_a_question_is_open() -> None:
    """They would be written into the middle of it."""
    stream = io.StringIO()
    lines = PlainLines(stream)
    fact = PermissionDecided(tool="bash", rule="bash(rm:*)", decision="deny", by="rule")
    record = Record(seq=1, ts=1.0, agent_id="main", turn=1, fact=fact)
    with lines.paused():
        lines([record])
        assert stream.getvalue() == ""
    assert stream.getvalue().endswith("main was denied bash by bash(rm:*)\n")
    lines([record])
    assert stream.getvalue().count("was denied") == 2


def test_nobody_is_asked_where_the_errors_go_to_no_terminal() -> None:
    assert asking_here(None, io.StringIO()) is None
    assert asking_here(True, io.StringIO()) is None


def test_a_denial_that_ended_the_run_has_an_exit_code_of_its_own() -> None:
    assert code_of("partial", "permission:bash(rm:*)") == 4
    assert code_of("failed", "permission:ask bash") == 4
    assert code_of("finished", None) == 0
