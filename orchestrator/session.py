"""One process at work on a run: a new one from its first event, or one that goes on where it ended."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.to_thread import run_sync

from orchestrator.agent import Agent, Observe, Seams
from orchestrator.errors import ConfigError, JournalError
from orchestrator.events import Record, RunEnded
from orchestrator.journal import Journal, open_journal, read_records
from orchestrator.logs import LogWriter
from orchestrator.model import Model
from orchestrator.options import Options
from orchestrator.past import Past
from orchestrator.permissions import Asking
from orchestrator.prices import cost_usd, pricing
from orchestrator.readings import Tally
from orchestrator.reins import Reins
from orchestrator.report import Report, report_of
from orchestrator.revival import Source
from orchestrator.rundir import MAIN, RunDir
from orchestrator.steering import Steering
from orchestrator.steersocket import serve
from orchestrator.team import Team

Begin = Callable[[Team], Awaitable[Agent]]


@dataclass(frozen=True, slots=True)
class Asked:
    """How to go on. ``agent_id``: any but the main agent goes on alone, without its parents.
    ``message``: what a person says to it. ``accepts_changes``: of definitions and tools."""

    agent_id: str = MAIN
    message: str | None = None
    accepts_changes: bool = False


async def start(options: Options) -> Report:
    """Start a new run and see it through."""
    return await _start(options, Team.main)


async def _start(options: Options, begin: Begin) -> Report:
    run_dir = RunDir(options.root, options.run_id)
    await run_sync(run_dir.create)
    tally = Tally(pricing(options.prices))
    try:
        async with (
            open_journal(run_dir.journal) as journal,
            _recording(options, run_dir, journal, tally) as seams,
        ):
            agent = await _carry_out(options, run_dir, seams, tally, begin)
    except ConfigError:
        # Refused before it began, it is no run.
        with suppress(JournalError):
            if next(read_records(run_dir.journal), None) is None:
                await run_sync(run_dir.discard)
        raise
    return report_of(tally.summary(options.run_id), run_dir, agent.state)


async def start_fork(
    options: Options, source: Source, task: str | None, *, accepts_changes: bool
) -> Report:
    """Start a run as the copy of another and see it through."""

    async def begin(team: Team) -> Agent:
        if not accepts_changes:
            _refuse(team.revival.changes_of(MAIN, source.started))
        return await team.revival.fork(source, task)

    return await _start(options, begin)


def _refuse(changes: Sequence[str]) -> None:
    if changes:
        raise ConfigError(
            f"since the run began, {'; '.join(changes)}: put it back, or accept it with "
            "--accept-changes (accept_changes=True)"
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """All of a run's records, what they say, and their figures so far."""

    records: Sequence[Record]
    past: Past
    tally: Tally


async def go_on(
    options: Options, run_dir: RunDir, journal: Journal, recorded: Recorded, asked: Asked
) -> Report:
    """Go on with a run that has ended or was stopped.

    Raises `ConfigError` for what has changed since, if that is not accepted.
    """
    past, tally = recorded.past, recorded.tally

    async def begin(team: Team) -> Agent:
        if not asked.accepts_changes:
            _refuse(team.revival.changes())
        return await team.revival.go_on(asked.agent_id, asked.message)

    async with _recording(options, run_dir, journal, tally, recorded.records) as seams:
        agent = await _carry_out(options, run_dir, seams, tally, begin, past)
    return report_of(tally.summary(options.run_id), run_dir, agent.state)


async def _carry_out(
    options: Options,
    run_dir: RunDir,
    seams: Seams,
    tally: Tally,
    begin: Begin,
    past: Past | None = None,
) -> Agent:
    """Run an agent, and what goes on beside it, to the end. Raises `JournalError`."""
    agent: Agent | None = None
    team: Team | None = None
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            team = Team(options, run_dir, seams, group, past)
            try:
                await team.open()
                agent = await begin(team)
                if seams.reins.socket:
                    steering = Steering(team, seams, lambda: tally.summary("").cost_usd)
                    await group.start(serve, run_dir.folder, steering.answer)
                await team.see_alone(agent)
            # Carried past the group, which would wrap it in an exception group.
            except Exception as error:  # noqa: BLE001
                failure = error
                group.cancel_scope.cancel()
        failure = failure or (team.failure if team is not None else None)
        if failure is not None:
            raise failure
    finally:
        if team is not None and team.lead is not None:
            with anyio.CancelScope(shield=True):
                await team.lead.record(_end_of(team.lead, tally))
    assert agent is not None, "without a failure there is an agent"
    return agent


@asynccontextmanager
async def _recording(
    options: Options,
    run_dir: RunDir,
    journal: Journal,
    tally: Tally,
    records: Sequence[Record] = (),
) -> AsyncIterator[Seams]:
    """The seams of a run: its journal, and what reads along once they are recorded."""
    limits = options.limits
    slots = (
        nullcontext() if limits.concurrency is None else anyio.CapacityLimiter(limits.concurrency)
    )
    # Behind the run's lock: the writer cuts a torn last line off.
    log = LogWriter(
        run_dir.log, options.run_id, environ=os.environ, with_content=options.log_content
    )
    with closing(log), _traced(options, records) as (model, tracing):
        log(records)  # those that a crash kept from the log
        readers: tuple[Observe, ...] = (tally.take_all, log, *tracing, *options.observers)

        def observe(records: Sequence[Record]) -> None:
            for read in readers:
                read(records)

        yield Seams(
            run_id=options.run_id,
            model=model,
            journal=journal,
            observe=observe,
            slots=slots,
            price=partial(cost_usd, overrides=options.prices),
            asking=Asking(options.ask),
            reins=options.reins or Reins(),
            fallback=options.fallback,
            root=options.root,
        )


@contextmanager
def _traced(
    options: Options, records: Sequence[Record]
) -> Iterator[tuple[Model, tuple[Observe, ...]]]:
    """The model, and the observer that makes spans, where they are switched on."""
    if not options.telemetry:
        yield options.model, ()
        return
    from orchestrator.telemetry import Telemetry

    telemetry = Telemetry(options.run_id)
    telemetry.recall(records)
    with closing(telemetry):
        yield telemetry.around(options.model), (telemetry,)


def _end_of(main: Agent, tally: Tally) -> RunEnded:
    """How the run ended; without the main agent's end it was stopped from outside."""
    ended, summary = main.state.ended, tally.summary("")
    return RunEnded(
        status="cancelled" if ended is None else ended.status,
        reason="cancelled" if ended is None else ended.reason,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
    )
