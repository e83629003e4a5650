"""What a person records in a run that stands still, to hold when it goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from anyio.to_thread import run_sync

from orchestrator.context.room import plan_cut
from orchestrator.errors import ConfigError, RunInUse
from orchestrator.events import Record, Steered
from orchestrator.journal import open_journal
from orchestrator.logs import LogWriter
from orchestrator.resuming import agent_of, read_past
from orchestrator.rundir import MAIN, find_run
from orchestrator.steps import situation_of


async def compact_next(run_id: str, *, agent: str = MAIN, root: str | Path = ".") -> str:
    """Let an agent of a run that stands still be compacted before its next turn, at any level.

    Returns the agent's id. Raises `ConfigError` where there is nothing to compact, `RunInUse` while the
    run is going on, and `JournalError` for a journal that is damaged.
    """
    run_dir = await run_sync(find_run, Path(root), run_id)
    try:
        async with open_journal(run_dir.journal) as journal:
            recorded = await run_sync(read_past, run_dir)
            past, records = recorded.past, list(recorded.records)
            agent_id = agent_of(past, agent)
            state = past.state(agent_id)
            if state.compact_asked:
                return agent_id
            if plan_cut(situation_of(state), forced=True) is None:
                raise ConfigError(
                    f"there is nothing to compact: the history of {agent_id} is too short"
                )

            def applied(more: Sequence[Record]) -> None:
                log = LogWriter(run_dir.log, run_dir.run_id, environ=os.environ)
                with closing(log):
                    log([*records, *more])

            await journal.append([(agent_id, state.turn, Steered(command="compact"))], applied)
    except RunInUse as error:
        raise RunInUse(
            f"{error}; for one that is going on: outrider steer {run_dir.run_id} compact"
        ) from None
    return agent_id
