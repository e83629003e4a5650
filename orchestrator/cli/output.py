"""What a run leaves on stdout, its result, and on stderr, a short summary."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from orchestrator.cli.table import cost, duration, number

if TYPE_CHECKING:
    from orchestrator.events import Record
    from orchestrator.report import Report
    from orchestrator.rundir import RunDir


def print_json(value: Any) -> None:
    """Indented JSON in ASCII: what models wrote stays escaped, so it cannot steer a terminal."""
    typer.echo(json.dumps(value, indent=2))


def clean(value: Any) -> Any:
    """A JSON value without secrets: names in it come from models, files and tools."""
    from orchestrator.redaction import redactor, without_secrets

    return without_secrets(value, redactor(os.environ))


def without_secrets_but_result(report: Report) -> dict[str, Any]:
    """The result as JSON; its conclusion is what was asked for, and stays as it is."""
    return {**clean(report.as_json()), "conclusion": report.conclusion}


def print_text(text: str) -> None:
    """A text that a model wrote: as it is for programs, inert for a terminal."""
    from orchestrator.progress import inert

    if text.strip():
        # Not typer.echo, which takes colours out of what goes into a pipe.
        sys.stdout.write((inert(text) if sys.stdout.isatty() else text).rstrip("\n") + "\n")


class Stream:
    """Each record as its log line, as it happens. An observer.

    A reader that goes away stops the run (``gone`` is called once): nobody wants the rest.
    """

    def __init__(
        self, stream: TextIO, run_id: str, *, with_content: bool, gone: Callable[[], None]
    ) -> None:
        from orchestrator.redaction import redactor

        self._stream = stream
        self._run_id = run_id
        self._with_content = with_content
        self._redact = redactor(os.environ)
        self._parents: dict[str, tuple[str | None, str]] = {}
        self._gone = gone
        self.broken: bool = False

    def __call__(self, records: Sequence[Record]) -> None:
        from orchestrator.logs import log_lines

        lines = log_lines(records, self._run_id, self._parents, self._with_content, self._redact)
        self.write("".join(f"{_compact(line)}\n" for _, line in lines))

    def write(self, text: str) -> None:
        if self.broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            self.broken = True
            self._gone()

    def end(self, report: Report) -> None:
        self.write(f"{_compact(without_secrets_but_result(report))}\n")


def print_report(report: Report, output_format: str) -> None:
    """The result of a run on stdout, as text or JSON."""
    if output_format == "json":
        print_json(without_secrets_but_result(report))
    elif output_format == "text":
        print_text(report.conclusion)


def summary(report: Report, at: Path) -> list[str]:
    """How a run went, and where to look on. ``at``: the workspace as it was given."""
    agents = f"{len(report.agents)} agent" + ("" if len(report.agents) == 1 else "s")
    figures = (
        f"{ending(report)} in {duration(report.seconds)}",
        agents,
        f"{number(report.usage.total_tokens)} tokens",
        f"cost {'unknown' if report.cost_usd is None else cost(report.cost_usd)}",
    )
    return [" · ".join(figures), f"see: outrider tokens {report.run_id}{root_option(at)}"]


def ending(report: Report) -> str:
    """``finished``, or why not, in the provider's words where a call ended the run."""
    if report.reason is None:
        return report.status
    said = f": {report.message}" if report.message and report.reason.startswith("provider:") else ""
    return f"{report.status} ({report.reason}){said}"


def kept(run: RunDir, at: Path) -> list[str]:
    """What a run that was stopped leaves behind."""
    return [
        f"the work so far is kept in {run.shown(run.folder)}",
        f"see: outrider log {run.run_id}{root_option(at)}",
        going_on(run.run_id, at),
    ]


def going_on(run_id: str, at: Path) -> str:
    return f"go on with: outrider resume {run_id}{root_option(at)}"


def root_option(at: Path) -> str:
    """What a suggested command needs so that it finds the workspace."""
    import shlex

    return "" if at == Path() else f" --root {shlex.quote(str(at))}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
