"""Which progress display a run gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from orchestrator.agent import Observe
from orchestrator.config import Settings
from orchestrator.events import Record
from orchestrator.progress import LiveTree, PlainLines


def progress_for(
    settings: Settings, stderr: TextIO, stdout: TextIO
) -> LiveTree | PlainLines | None:
    """A live tree on a terminal, else plain lines; nothing where it would disturb."""
    streams_to_terminal = settings.output_format == "stream-json" and stdout.isatty()
    if settings.quiet or streams_to_terminal:
        return None
    can_redraw = stderr.isatty() and os.environ.get("TERM") != "dumb"
    return LiveTree(stderr) if can_redraw else PlainLines(stderr)


def shown(progress: LiveTree | PlainLines | None) -> AbstractContextManager[object]:
    return nullcontext() if progress is None else progress


def harmless(observe: Observe) -> Observe:
    """A run that is paid for must not die of its display: an error ends the display only."""
    works = True

    def observe_while_it_works(records: Sequence[Record]) -> None:
        nonlocal works
        if not works:
            return
        try:
            observe(records)
        except Exception:  # noqa: BLE001  # most likely nobody reads stderr any more
            works = False

    return observe_while_it_works
