"""``outrider resume`` and ``outrider fork``: going on from what a run has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli import options as opt

if TYPE_CHECKING:
    from orchestrator.agent import Observe
    from orchestrator.config import Settings
    from orchestrator.events import Record
    from orchestrator.permissions import Ask
    from orchestrator.reins import Reins
    from orchestrator.report import Report

# The commands' own arguments; all others are settings.
_NO_SETTINGS = ("run", "message", "root", "agent", "accept_changes", "at", "task", "run_id")


@opt.with_settings
def resume(
    context: typer.Context,
    run: opt.Run,
    message: opt.Message = None,
    root: opt.Root = Path(),
    agent: opt.OneAgent = None,
    accept_changes: opt.AcceptChanges = False,
) -> None:
    """Go on with RUN: after a crash or Ctrl-C, past a limit or an error, or with a MESSAGE.

    Finished subagents and tool calls are not run again. Limits count what was used before; options
    that are left out are as they were.

    \b
    Examples:
      outrider resume latest
      outrider resume latest --max-tokens 2000000
      outrider resume latest "Now do the same for the tests"
    """
    from orchestrator.cli.before import read_task
    from orchestrator.cli.running import carried_out
    from orchestrator.journal import read_records
    from orchestrator.rundir import find_run

    given, settings = _given(context)
    run_dir = find_run(root, run)
    past = list(read_records(run_dir.journal))
    text = None if message is None else read_task(message)

    async def go(ask: Ask | None, reins: Reins, observers: Sequence[Observe]) -> Report:
        from orchestrator.resuming import resume
        from orchestrator.rundir import MAIN

        return await resume(
            run_dir.run_id,
            text,
            agent=agent or MAIN,
            root=root,
            tools=_tools(past, root),
            **given,
            ask=ask,
            reins=reins,
            accept_changes=accept_changes,
            observers=observers,
        )

    raise typer.Exit(carried_out(go, root, run_dir.run_id, settings, past))


@opt.with_settings
def fork(
    context: typer.Context,
    run: opt.Run,
    at: opt.At,
    task: opt.ForkTask = None,
    root: opt.Root = Path(),
    accept_changes: opt.AcceptChanges = False,
    run_id: opt.RunId = None,
) -> None:
    """Begin a new run from the end of a turn of RUN's main agent; RUN stays as it is.

    \b
    Examples:
      outrider fork latest --at 12
      outrider fork latest --at 12 "Try it with a recursive descent parser instead"
    """
    from orchestrator.cli.before import new_id, read_task
    from orchestrator.cli.running import carried_out
    from orchestrator.journal import read_records
    from orchestrator.rundir import check_run_id, find_run

    given, settings = _given(context)
    run_dir = find_run(root, run)
    number = new_id() if run_id is None else check_run_id(run_id)
    text = None if task is None else read_task(task)

    async def go(ask: Ask | None, reins: Reins, observers: Sequence[Observe]) -> Report:
        from orchestrator.resuming import fork

        return await fork(
            run_dir.run_id,
            at,
            text,
            new_id=number,
            root=root,
            tools=_tools(list(read_records(run_dir.journal)), root),
            **given,
            ask=ask,
            reins=reins,
            accept_changes=accept_changes,
            observers=observers,
        )

    raise typer.Exit(carried_out(go, root, number, settings))


def _given(context: typer.Context) -> tuple[dict[str, Any], Settings]:
    """What the options change of the run's settings, and the settings of this process."""
    from orchestrator.cli.before import note_variables
    from orchestrator.config import OF_CONTEXT, OF_LIMITS, load_settings

    options = {
        name: value
        for name, value in context.params.items()
        if name not in _NO_SETTINGS and value not in (None, [], ())
    }
    settings = load_settings(context.params["root"], options).settings
    note_variables(settings)

    def changed(names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(settings, name) for name in names if name in options}

    rules = {name: tuple(options.get(name, ())) for name in ("allow", "deny")}
    given: dict[str, Any] = {
        **{
            name: getattr(settings, name)
            for name in ("sandbox", "network", "fallback_model")
            if name in options
        },
        "limits": changed(OF_LIMITS),
        "context": changed(OF_CONTEXT),
        "permissions": rules,
    }
    return given, settings


def _tools(records: Sequence[Record], root: Path) -> list[Any]:
    """The user's functions, where they are found again; the run says which are missing."""
    from orchestrator.cli.usertools import load_tools
    from orchestrator.errors import ConfigError
    from orchestrator.kept import Kept
    from orchestrator.past import options_in

    found = []
    for spec in Kept.of_json(options_in(records)).tools:
        try:
            found += load_tools([spec], root)
        except ConfigError:
            continue
    return found
