"""Tests whose tools are missing are skipped, and fail where the tools have to be there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEST = f"{HERE}/test_run_shell.py::test_a_result_exactly_at_the_limit_stays[asyncio]"


def ran(needed: str, *arguments: str) -> tuple[int, str]:
    """Exit code and words of pytest where nothing is installed that lies on the PATH."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments],
        cwd=HERE.parent,
        env={**os.environ, "PATH": "/nowhere", "OUTRIDER_TESTS_NEED": needed},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("needed", "code", "said"),
    [
        ("", 0, "1 skipped"),
        ("browser, localserver", 0, "1 skipped"),
        ("sandbox", 1, "OUTRIDER_TESTS_NEED names sandbox: "),
        ("browser,sandbox", 1, "OUTRIDER_TESTS_NEED names sandbox: "),
    ],
)
def test_a_missing_sandbox_skips_a_test_unless_it_has_to_be_there(
    needed: str, code: int, said: str
) -> None:
    status, text = ran(needed, TEST)
    assert (status, said in text) == (code, True), text
    assert "bubblewrap" in text


def test_a_name_that_is_none_is_refused_before_anything_runs() -> None:
    status, text = ran("sandbx", "--collect-only", TEST)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "passed" not in text
