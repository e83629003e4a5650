"""Which progress display a run gets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from orchestrator.agent import Observe
from orchestrator.config import Settings
from orchestrator.events import Record
from orchestrator.progress import LiveTree, PlainLines
from orchestrator.redaction import Redact, redactor


def progress_for(
    settings: Settings, stderr: TextIO, stdout: TextIO
) -> LiveTree | PlainLines | None:
    """A live tree on a terminal, else plain lines; nothing where it would disturb."""
    streams_to_terminal = settings.output_format == "stream-json" and stdout.isatty()
    if settings.quiet or streams_to_terminal:
        return None
    can_redraw = stderr.isatty() and os.environ.get("TERM") != "dumb"
    if can_redraw:
        return LiveTree(stderr)
    # Where lines are kept they are a log: texts are there as little as in the other one.
    return PlainLines(stderr, with_content=settings.log_content)


def discreet(observe: Observe) -> Observe:
    """The display, shown records without secrets. In the records, since what a display shortens, a
    secret included, cannot be recognised any more."""
    redact = redactor(os.environ)
    return lambda records: observe([_cleaned(record, redact) for record in records])


# What displays show of what people, models and tools wrote.
_SHOWN = {
    "agent_started": ("brief", "agent_type", "model"),
    "model_failed": ("message",),
    "model_switched": ("from_model", "to"),
    "offload_failed": ("message", "tool"),
    "permission_decided": ("tool", "rule", "hint"),
    "todos_written": ("text",),
    "tool_started": ("tool",),
}


def _cleaned(record: Record, redact: Redact) -> Record:
    fact = record.fact
    if (names := _SHOWN.get(fact.event)) is None:
        return record
    update = {name: redact(getattr(fact, name)) for name in names}
    return record.model_copy(update={"fact": fact.model_copy(update=update)})


@contextmanager
def shown(progress: LiveTree | PlainLines | None) -> Iterator[None]:
    """Show ``progress`` meanwhile; that its terminal may have gone away at the end harms nothing."""
    if progress is None:
        yield
        return
    progress.__enter__()
    try:
        yield
    finally:
        with suppress(OSError):
            progress.__exit__(None, None, None)


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
