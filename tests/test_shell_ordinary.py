"""Escape attempts where Outrider itself is an ordinary user, and makes its sandbox as one.

In `test_shell_escapes`, run as root, only the sandbox is an ordinary user's. That each attempt succeeds
without the guard, made by the same user, is shown there.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from tests import test_shell_escapes as table
from tests.shells import CHILD, OWN, SECRET, Ground, ground, needs_sandbox, tried_by
from tests.test_shell_escapes import Attempt, printed
from workspace import Access

pytestmark = [
    needs_sandbox,
    pytest.mark.skipif(os.geteuid() != 0, reason="test_shell_escapes is run as an ordinary user"),
]

LENGTH = f"{400 + os.getpid() % 1000}.{time.monotonic_ns() % 1_000_000}"
PLAIN = Access(readable_private=lambda: (OWN, f"{CHILD}/results"))


def something_stands(output: str, place: Ground) -> bool:
    return any(os.path.lexists(place.root.joinpath(*parts)) for parts in table.GUARDED)


def may(command: str) -> tuple[Access, Attempt]:
    return PLAIN, Attempt(command, f"({command}) 2>/dev/null && echo done it", printed("done it"))


ATTEMPTS = (
    *((PLAIN, attempt) for attempt in table.ATTEMPTS),
    *((table.RULES, attempt) for attempt in table.PASSED_BY_RULES),
    *((table.GOVERNING, replace(a, got_through=something_stands)) for a in table.PLANTED),
    *map(may, (*table.BY_ROOT_THERE, *table.BY_NAMESPACES, *table.BY_ROOT)),
    (PLAIN, Attempt("kernel's settings", table.SETTINGS, printed("/proc/"))),
    (PLAIN, Attempt("environment", table.OWN_SECRETS, printed(SECRET))),
    (PLAIN, Attempt("environment of others", table.OTHERS_SECRETS, printed(SECRET))),
    (PLAIN, Attempt("network", table.CONNECT, printed("hello"))),
    (
        PLAIN,
        Attempt(
            "more processes",
            f"{table.MANY_PROCESSES} 2>&1",
            lambda output, place: "fork" not in output,
        ),
    ),
    (
        PLAIN,
        Attempt(
            "out of the session",
            table.leaving(LENGTH),
            lambda output, place: table.running(LENGTH) != [],
            ("started",),
        ),
    ),
)


def given(access: Access, attempt: Attempt, port: int) -> dict[str, Any]:
    return {
        "command": attempt.command.replace("{port}", str(port)),
        "deny_read": [rule.pattern for rule in access.deny_read],
        "deny_write": [rule.pattern for rule in access.deny_write],
        "guarded": access.guarded,
        "readable": [*access.readable_private()],
        "results": f"{OWN}/results",
    }


@pytest.fixture(scope="module")
def tried() -> Iterator[list[tuple[str, Ground]]]:
    """What each command printed, and the workspace that it ran in."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        port = stack.enter_context(table.answering())
        places = [stack.enter_context(ground("ordinary", patch)) for _ in ATTEMPTS]
        first = places[0]
        sleeping = [*first.become, "sleep", "300"]
        neighbour = subprocess.Popen(sleeping, env={**os.environ, "NEIGHBOUR_KEY": SECRET})
        stack.callback(neighbour.wait)
        stack.callback(neighbour.kill)
        printed = tried_by(
            first,
            "shell",
            [place.root for place in places],
            [given(access, attempt, port) for access, attempt in ATTEMPTS],
            SOME_PASSWORD=SECRET,
        )
        yield list(zip(printed, places, strict=True))


@pytest.mark.parametrize(
    "number", range(len(ATTEMPTS)), ids=[attempt.name for _, attempt in ATTEMPTS]
)
def test_an_attempt_fails_in_the_sandbox_that_an_ordinary_user_makes(
    tried: list[tuple[str, Ground]], number: int
) -> None:
    (_, attempt), (output, place) = ATTEMPTS[number], tried[number]
    assert not attempt.got_through(output, place)
    assert all(text in output for text in attempt.says)
    assert "bwrap" not in output
