"""Exit codes, and how anything that goes wrong becomes one sentence on stderr and one of them."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress

import typer

from orchestrator.errors import ConfigError, OutriderError

FINISHED = 0
FAILED = 1
WRONG_USAGE = 2
PARTIAL = 3
DENIED = 4
SIGNALLED = 128  # plus the signal's number
INTERRUPTED = 130

# typer brings its own copy of click's exceptions from 0.2x on; this is their public end.
UsageError: type = typer.BadParameter.__mro__[1]


def say(text: str) -> None:
    """A line on stderr, without secrets: a provider's or a tool's error may repeat one."""
    from orchestrator.progress import inert
    from orchestrator.redaction import redactor

    # Not typer.echo, which would write past a live display into the stream behind it.
    with suppress(OSError):  # the terminal has gone away
        sys.stderr.write(f"outrider: {redactor(os.environ)(inert(text))}\n")


def code_of(status: str, reason: str | None) -> int:
    """The exit code for a run that ended so."""
    if reason is not None and reason.startswith("permission:"):
        return DENIED
    return {"finished": FINISHED, "partial": PARTIAL}.get(status, FAILED)


def explain(error: BaseException) -> int:
    """Say what went wrong, in one sentence without a traceback; returns the exit code."""
    cause = _cause(error)
    if os.environ.get("OUTRIDER_DEBUG"):
        traceback.print_exception(error)
    if isinstance(cause, UsageError):
        say(_usage(cause))
        return WRONG_USAGE
    if isinstance(cause, OutriderError):
        say(str(cause))
        return WRONG_USAGE if isinstance(cause, ConfigError) else FAILED
    if isinstance(cause, OSError) and cause.strerror:
        name = f": {cause.filename}" if cause.filename else ""
        say(f"{cause.strerror}{name}")
        return FAILED
    said = " ".join(str(cause).split())
    say(f"unexpected {type(cause).__name__}: {said} (OUTRIDER_DEBUG=1 shows where)")
    return FAILED


def open_closed() -> None:
    """Where a stream was closed before we began, what is written goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            forget(name)


def settle() -> None:
    """Write what is still buffered. What nobody can be told any more goes nowhere, without a word: left
    to Python, it would end the process with a code of its own, 120."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError):
            forget(name)


def forget(name: str) -> None:
    """Let what is still buffered for ``stdout`` or ``stderr``, and what follows, go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), getattr(sys, name).fileno())
    except (AttributeError, OSError, ValueError):
        setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # to the end of the process


def _cause(error: BaseException) -> BaseException:
    """What to talk about: task groups wrap errors, and one of ours says most."""
    leaves = list(_leaves(error))
    ours = [leaf for leaf in leaves if isinstance(leaf, OutriderError)]
    return (ours or leaves)[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _usage(error: BaseException) -> str:
    message = getattr(error, "format_message", error.__str__)().rstrip(".")
    if message.endswith("argument 'RUN'"):
        message += ": a run's id or the beginning of one, or latest; outrider runs lists them"
    context = getattr(error, "ctx", None)
    if message.startswith("No such command") and context is not None:
        message += f"; there are: {', '.join(context.command.list_commands(context))}"
    path = "outrider" if context is None else context.command_path
    return f"{message[:1].lower()}{message[1:]} (see: {path} --help)"
