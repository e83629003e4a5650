"""Going on with a run: `resume`, the second front door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync

from orchestrator.agent import Observe
from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.errors import ConfigError
from orchestrator.events import Record
from orchestrator.goingon import check_goes_on
from orchestrator.journal import open_journal, read_records
from orchestrator.kept import Kept
from orchestrator.model import Model
from orchestrator.past import MAIN, Past, past_of
from orchestrator.permissions import Permissions
from orchestrator.preparing import opened, options_of, own_tools, workspace
from orchestrator.prices import pricing
from orchestrator.readings import summarise
from orchestrator.report import Report
from orchestrator.rundir import find_run
from orchestrator.session import Asked, go_on
from orchestrator.tools import Tool


async def resume(
    run_id: str,
    message: str | None = None,
    *,
    agent: str = MAIN,
    model: str | Model | None = None,
    base_url: str | None = None,
    root: str | Path = ".",
    tools: Iterable[Callable[..., Any] | Tool] | None = None,
    agents: Iterable[str | Path] | None = None,
    limits: Limits | None = None,
    context: Context | None = None,
    permissions: Permissions | None = None,
    sandbox: bool | None = None,
    network: bool | None = None,
    accept_changes: bool = False,
    observers: Sequence[Observe] = (),
) -> Report:
    """Go on with a run that crashed, was stopped, or ended at a limit or an error.

    What has finished is not done again: children, tool calls, replies. A call that was under way and may
    have had effects comes back to its agent as interrupted. What is left out is as it was before.

    Args:
        run_id: The run: its id, the beginning of one, or ``"latest"``.
        message: What to say to the agent, after it has ended or while it is in the middle.
        agent: The agent that goes on; any but the main one goes on alone, without its parents.
        model: A `Model`, where the run had one that was no name.
        base_url: Another server.
        root: The workspace that holds the run.
        tools: The functions again, where they cannot be imported by their names.
        agents: Definition files or folders again, where they have moved.
        limits: What the run may use, all that it has used so far included.
        context: How contexts are kept small from now on.
        permissions: What tools may touch from now on.
        sandbox: Whether commands are confined from now on.
        network: Whether confined commands may use the network from now on.
        accept_changes: Go on although a definition has changed or a tool is missing.
        observers: Called with each batch of new records.

    Raises `ConfigError` before anything is run (nothing to go on with, a limit that is still reached, a
    changed definition), `RunInUse` while another process has the run, `JournalError` for a journal that
    is damaged.
    """
    folder = await run_sync(workspace, root)
    run_dir = await run_sync(find_run, folder, run_id)
    async with open_journal(run_dir.journal) as journal:
        records = await run_sync(lambda: list(read_records(run_dir.journal)))
        past = _past(records, run_dir.run_id)
        agent_id = _agent_of(past, agent)
        kept = _kept_now(
            Kept.of_json(past.options),
            base_url=base_url,
            agents=None if agents is None else tuple(map(str, agents)),
            limits=limits,
            context=context,
            permissions=permissions,
            sandbox=sandbox,
            network=network,
        )
        check_goes_on(past, run_dir.run_id, agent_id, message, kept.limits)
        made = own_tools(tools) if tools is not None else await run_sync(_found_again, kept.tools)
        async with opened(_model_of(model, kept), kept) as (chosen, name):
            options = await options_of(kept, chosen, name, folder, made, observers)
            options = replace(options, task=past.summary.task, run_id=run_dir.run_id)
            return await go_on(
                options,
                run_dir,
                journal,
                past,
                records,
                Asked(agent_id, message, accept_changes),
            )


def _past(records: Sequence[Record], run_id: str) -> Past:
    """What the run has come to, at the prices that it was started with."""
    past = past_of(records, summarise(records, run_id, pricing(None)))
    prices = Kept.of_json(past.options).prices
    return past_of(records, summarise(records, run_id, pricing(prices))) if prices else past


def _kept_now(kept: Kept, **given: Any) -> Kept:
    return replace(kept, **{name: value for name, value in given.items() if value is not None})


def _model_of(model: str | Model | None, kept: Kept) -> str | Model:
    if model is not None:
        return model
    if kept.model is None:
        raise ConfigError("the run had a model that is no name: hand it over again, as model=…")
    return kept.model


def _agent_of(past: Past, text: str) -> str:
    """The agent that ``text`` names: its id, or the only one that begins so."""
    if past.has_begun(text):
        return text
    found = [a for a in past.facts if a.startswith(text) and past.has_begun(a)] if text else []
    if len(found) == 1:
        return found[0]
    names = ", ".join(a for a in past.facts if past.has_begun(a))
    raise ConfigError(
        f"no agent {text!r} in this run; there are: {names or 'none, it never began'}"
    )


def _found_again(specs: Sequence[str]) -> dict[str, Tool]:
    """The functions of before, by where they were; what is not there any more is left out."""
    found = []
    for spec in specs:
        module, _, name = spec.partition(":")
        with suppress(Exception):  # somebody's code: anything can come out of importing it
            found.append(getattr(import_module(module), name))
    return own_tools(found)
