"""Commands and pages side by side in one run: cancelled in the middle, nothing of them is left. Counted."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Permissions, Request, run, webtools
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.web import Fetch
from orchestrator.web.client import Bounds
from tests.shells import _known_processes, needs_sandbox, processes
from tests.test_fetch import LOCAL, serving, sockets, text_of
from tests.test_shell_commands import left_open, until
from tests.test_shell_escapes import groups_left

__all__ = ["_known_processes"]
pytestmark = [pytest.mark.anyio, needs_sandbox]

EACH = 100
COMMAND = "setsid sleep 300 & touch started.{}; mktemp; echo printed; sleep 300"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


async def standing(port: int) -> int:
    """Connections of ours at which the server lets us wait."""
    return int((await text_of(port, "waiting"))[1])


async def go(root: Path, calls: list[dict[str, Any]], **options: Any) -> list[str]:
    heard: list[str] = []

    def script(request: Request) -> Any:
        heard[:] = results(request)
        return "done" if heard else calls

    rules = Permissions(allow=("bash", f"fetch({LOCAL})"))
    await run("x", model=ScriptedModel(script), root=root, permissions=rules, **options)
    return heard


def outputs(root: Path) -> list[Path]:
    return sorted(root.rglob("results/*"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fetch` gives no page up by itself, however slowly this machine starts a hundred commands beside it."""
    bounds = Bounds(seconds=3_600, connect_seconds=3_600, silent_seconds=3_600)
    monkeypatch.setattr(webtools, "Fetch", partial(Fetch, bounds=bounds))


def begun(root: Path) -> int:
    return len(list(root.glob("started.*")))


async def cancelled(root: Path, calls: list[dict[str, Any]], port: int) -> None:
    """Cancel the run when all calls are under way."""
    async with anyio.create_task_group() as group:
        group.start_soon(go, root, calls)
        with anyio.fail_after(300):
            while begun(root) < EACH or await standing(port) < EACH:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert processes() >= 3 * EACH
        group.cancel_scope.cancel()


async def at_its_limit(root: Path, calls: list[dict[str, Any]], port: int) -> None:
    """Give the run as much time as this machine needs until all calls are under way when it is over:
    the server has all connections, and what each call is answered says so."""
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, await standing(port))
            await anyio.sleep(0.2)

    for seconds in (8, 16, 32, 64, 128):
        async with anyio.create_task_group() as group:
            group.start_soon(look)
            heard = await go(root, calls, limits=Limits(max_seconds=seconds))
            group.cancel_scope.cancel()
        commands, pages = heard[::2], heard[1::2]
        if most >= EACH and all("\nprinted\n[ended by" in text for text in commands):
            assert (len(commands), begun(root)) == (EACH, EACH)
            assert pages == ["[error] TimeoutError: stopped: the time is over"] * EACH
            return
    pytest.fail("they were never all under way at the end")


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("end", [cancelled, at_its_limit], ids=lambda end: end.__name__)
async def test_of_200_commands_and_fetches_in_one_run_nothing_is_left(
    tmp_path: Path, temporary: Path, port: int, end: Callable[..., Awaitable[None]]
) -> None:
    """100 of each, all under way at once: no process, no socket, no descriptor, no control group, no
    temporary file, no half output; whether the run is cancelled or its own time is over."""
    root = tmp_path / "work"
    root.mkdir()
    warm = [call("bash", command="true"), call("fetch", url=f"http://{LOCAL}:{port}/json")]
    assert len(await go(root, warm)) == 2
    idle = await standing(port)
    open_before, sockets_before, files = left_open(), sockets(), outputs(root)
    calls = []
    for number in range(EACH):
        calls.append(call("bash", command=COMMAND.format(number), timeout=600))
        calls.append(call("fetch", url=f"http://{LOCAL}:{port}/half"))
    await end(root, [{**each, "id": f"call_{n}"} for n, each in enumerate(calls)], port)
    await until(lambda: sockets() <= sockets_before)
    assert processes() == 0
    assert left_open() <= open_before
    assert groups_left() == []
    assert os.listdir(temporary) == []
    assert await standing(port) <= idle + 1
    if end is cancelled:
        assert outputs(root) == files
    assert not [name for name in os.listdir(root) if not name.startswith(("started.", ".outrider"))]
