"""What is understood of a shell command is what a shell makes of it: held against a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from orchestrator.permissions.commands import Part, parts_of, spelled

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="there is no bash here")

# No name of a command is made of these letters, and where PATH leads there is nothing.
PIECES = st.sampled_from(
    [
        *(
            "a",
            "b",
            "Q",
            "ab",
            "1",
            "=",
            "-",
            "--",
            ":",
            ".",
            ",",
            "/",
            "%",
            "+",
            "@",
            "^",
            "!",
            "#",
        ),
        *(" ", " ", " ", "\t", "\n", ";", "&", "|", "&&", "||", "\\", "'", '"', "'a b'", '"a b"'),
        *("$", "`", "(", ")", "<", ">", "{", "}", "[", "]", "*", "?", "~", "ä", "\u00a0", "\r"),
        *(
            '"\\a"',
            '"\\""',
            '"$"',
            "'\"'",
            "\\ ",
            "\\'",
            "2>&1",
            "$(",
            "${",
            "a=",
            "if",
            "time",
            ".",
        ),
    ]
)
COMMANDS = st.lists(PIECES, max_size=12).map("".join)

# Every simple command comes here, since none of the names exists, and tells its words.
TELL = """
PATH=/nowhere
command_not_found_handle() { printf '%s\\0' "$#" "$@" >&3; }
"""


def as_a_shell_reads_it(command: str, folder: Path) -> list[list[str]]:
    """The words of each command that a real shell runs; all of them fail, so that `&&` stops."""
    read, write = os.pipe()
    script = f"exec 3>&{write}\n{TELL}\n{command}\nwait"
    try:
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", script],
            pass_fds=[write],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        )
    finally:
        os.close(write)
    with os.fdopen(read, "rb") as pipe:
        fields = iter(pipe.read().decode(errors="replace").split("\0")[:-1])
    return [[next(fields) for _ in range(int(count))] for count in fields]


def words(part: Part) -> list[str]:
    return [word.text for word in part]


@needs_bash
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(command=COMMANDS)
@example(command='a \'b c\' "d\\"e\\f" g\\ h')
@example(command="a\n\nb ; ab;")
@example(command="a | b | ab")
@example(command="a 'b\nc'\nb")
def test_what_is_understood_is_what_a_shell_runs(tmp_path: Path, command: str) -> None:
    """Each command that runs is one of the parts, word for word; no other command ever runs."""
    parts = parts_of(command)
    assume(parts)
    assert parts is not None
    if any(word.expands for part in parts for word in part):
        return
    known = [words(part) for part in parts]
    for run in as_a_shell_reads_it(command, tmp_path):
        assert run in known, (command, run, known)


@needs_bash
def test_the_shell_of_these_tests_does_tell_what_it_runs(tmp_path: Path) -> None:
    """So that the law above can fail: a substitution would be seen."""
    seen = as_a_shell_reads_it("aa 'b c' $(bb d)\nQ=1 cc", tmp_path)
    assert sorted(seen) == [["aa", "b c"], ["bb", "d"], ["cc"]]


@given(COMMANDS)
def test_the_rule_that_names_a_command_is_read_as_that_command(command: str) -> None:
    """Spelled out and read again it has the same words, and no wildcard but where the shell has one."""
    for part in parts_of(command) or ():
        text = spelled(part)
        if text is None:
            assert part[0].expands
            continue
        (again,) = parts_of(text) or ((),)
        assert len(again) == len(part)
        for word, before in zip(again, part, strict=True):
            assert word.expands == before.expands
            assert word.text == ("*" if before.expands else before.text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_not_understood(text: str) -> None:
    parts = parts_of(text)
    assert parts is None or all(part and part[0].text for part in parts)
