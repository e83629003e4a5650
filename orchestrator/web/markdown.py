"""HTML to Markdown, in a process of its own that cannot take more than it is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.lowlevel import RunVar

from orchestrator.web import page_to_markdown
from orchestrator.web.guard import FetchFailed

MISSING_EXTRA = (
    "this page is HTML, and turning it into Markdown needs a package that is not installed: "
    "a person can add it with pip install 'outrider[web]'"
)
# An honest page of 5 MB takes about 1.5 seconds and 200 MB.
_SECONDS = 10
_MEMORY = 1 << 30
# What a Python outside of the usual places needs to start.
_KEPT = ("LD_LIBRARY_PATH", "PATH")

_places: RunVar[anyio.CapacityLimiter] = RunVar("places")


async def to_markdown(html: str, url: str, most: int) -> tuple[str, tuple[str, ...]]:
    """A page as Markdown of at most ``most`` bytes, links made absolute, and notes on what is missing.
    Where nothing comes of it, its source, with a note that says so.

    Raises `FetchFailed` where the package for it is missing.
    """
    found = find_spec("html_to_markdown")
    if found is None or found.origin is None:
        raise FetchFailed(f"{url[:500]}: {MISSING_EXTRA}")
    folder = str(Path(found.origin).parent.parent)
    async with _limiter():
        made = await _converted(html, [folder, url, str(_SECONDS), str(_MEMORY)], most)
    head, _, body = made.partition(b"\n")
    if not head:
        return html, ("its HTML, which could not be converted",)
    text, notes = body[:most].decode(errors="ignore"), tuple(json.loads(head))
    if len(body) > most:
        notes = (*notes, f"cut: its Markdown has more than {most:,} bytes")
    if not text.strip() and html.strip():
        return html, ("its HTML, in which no text was found",)
    return text, notes


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _places.get()
    except LookupError:
        _places.set(anyio.CapacityLimiter(os.cpu_count() or 1))
        return _places.get()


async def _converted(html: str, arguments: list[str], most: int) -> bytes:
    """What the program says, up to a little over ``most`` bytes; nothing if it failed."""
    command = [sys.executable, "-I", page_to_markdown.__file__, *arguments]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    made = bytearray()
    # One that is cancelled while it starts would be nobody's for a moment.
    with anyio.CancelScope(shield=True):
        started = await anyio.open_process(command, stderr=subprocess.DEVNULL, env=environment)
    # A process is ended, and waited for, however this block is left.
    async with started as process, anyio.create_task_group() as group:
        group.start_soon(_feed, process, html.encode(errors="replace"))
        assert process.stdout is not None
        # Enough for the notes, which are part of the first line.
        enough = most + 65_536
        async for piece in process.stdout:
            made += piece
            if len(made) > enough:
                process.kill()
                return bytes(made)
    return bytes(made) if process.returncode == 0 else b""


async def _feed(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    # One that has ended does not listen any more.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.send(data)
        await process.stdin.aclose()
