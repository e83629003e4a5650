"""One run of the command line: carried out until it ends or a signal stops it, then told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TextIO

import anyio

from orchestrator.agent import Observe
from orchestrator.cli import exits, output
from orchestrator.cli.exits import say
from orchestrator.cli.output import Stream
from orchestrator.cli.servers_told import ServersTold
from orchestrator.cli.signals import Outcome, until_signal
from orchestrator.cli.watching import discreet, harmless
from orchestrator.config import Settings
from orchestrator.errors import JournalError
from orchestrator.journal import read_records
from orchestrator.prices import pricing
from orchestrator.progress import LiveTree, PlainLines
from orchestrator.readings import Price, summarise
from orchestrator.reins import Reins
from orchestrator.report import Report, report_of
from orchestrator.rundir import RunDir


@dataclass
class Work:
    """A run as it was asked for. ``go``: carries it out, with observers of its records. ``stdout`` is
    kept from the start: meanwhile it is redirected."""

    go: Callable[[Reins, Sequence[Observe]], Awaitable[Report]]
    root: Path
    run_id: str
    settings: Settings
    stdout: TextIO
    reins: Reins = field(default_factory=partial(Reins, socket=True), init=False)
    stream: Stream | None = field(default=None, init=False)

    async def carry_out(self, progress: LiveTree | PlainLines | None) -> Outcome[Report]:
        async def work(scope: anyio.CancelScope) -> Report:
            return await self.go(self.reins, self._observers(progress, scope.cancel))

        def at_once() -> None:
            if progress is not None:
                progress.drop()
            self._say_how_to_go_on()

        return await until_signal(work, self._stop, self._cancel, at_once)

    def _observers(self, progress: Observe | None, gone: Callable[[], None]) -> list[Observe]:
        observers = [] if progress is None else [harmless(discreet(progress))]
        observers.append(harmless(ServersTold(say, quiet=self.settings.quiet)))
        if self.settings.output_format == "stream-json":
            content = self.settings.log_content
            self.stream = Stream(self.stdout, self.run_id, with_content=content, gone=gone)
            observers.append(self.stream)
        return observers

    def _stop(self) -> None:
        self.reins.stop()
        if not self.settings.quiet:
            say("stopping: agents hand back what they have; once more cancels")

    def _cancel(self) -> None:
        if not self.settings.quiet:
            say("cancelling; once more stops on the spot")

    def _say_how_to_go_on(self) -> None:
        say(f"stopped on the spot; {output.going_on(self.run_id, self.root)}")

    def tell(self, outcome: Outcome[Report]) -> int:
        """Print the result, and what a person should know; returns the exit code."""
        if outcome.error is not None:
            exits.explain(outcome.error)
        if outcome.result is None:
            return self._tell_stopped(outcome.signal)
        report = outcome.result
        self._print(report, outcome.signal)
        stopped = report.reason == "cancelled" and outcome.signal is not None
        more = [output.going_on(report.run_id, self.root)] if stopped else []
        if not self.settings.quiet:
            say("\n  ".join([*output.summary(report, self.root), *more]))
        elif more or report.status in ("failed", "empty"):
            say("\n  ".join([output.ending(report), *more]))
        if stopped and outcome.signal is not None:
            return exits.SIGNALLED + outcome.signal
        return exits.code_of(report.status, report.reason)

    def _tell_stopped(self, number: int | None) -> int:
        run_dir = RunDir(self.root, self.run_id)
        report = _report_of_stopped(run_dir, pricing(self.settings.prices))
        if report is not None:
            self._print(report, number)
        is_kept = report is not None and report.agents
        kept = output.kept(run_dir, self.root) if is_kept else ["nothing was run yet"]
        why = "cancelled" if number is not None else "stopped: nobody reads the output any more"
        say("\n  ".join([f"{why}; {kept[0]}", *kept[1:]]))
        return exits.FAILED if number is None else exits.SIGNALLED + number

    def _print(self, report: Report, number: int | None) -> None:
        try:
            if self.stream is not None:
                self.stream.end(report)
            else:
                output.print_report(report, self.settings.output_format)
                self.stdout.flush()
        except OSError:
            if number is None:
                raise
            exits.forget("stdout")  # the terminal has gone away


def _report_of_stopped(run_dir: RunDir, price: Price) -> Report | None:
    """What the journal says of a run that was stopped before it could report."""
    try:
        found = summarise(read_records(run_dir.journal), run_dir.run_id, price)
    except JournalError:
        return None
    return report_of(found, run_dir)
