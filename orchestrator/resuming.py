"""Going on from what a run has recorded: `resume` and `fork`, the other two front doors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from typing_extensions import TypedDict, Unpack

from orchestrator.agent import Observe
from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.errors import ConfigError
from orchestrator.events import AgentSpawned
from orchestrator.goingon import check_goes_on
from orchestrator.ids import named
from orchestrator.journal import open_journal, read_records
from orchestrator.kept import Kept
from orchestrator.model import Model
from orchestrator.options import Options
from orchestrator.past import Past, options_in, past_of, up_to
from orchestrator.permissions import Ask, Permissions
from orchestrator.preparing import opened, options_of, own_tools, workspace
from orchestrator.prices import pricing
from orchestrator.readings import Tally
from orchestrator.reins import Reins
from orchestrator.report import Report
from orchestrator.revival import Source
from orchestrator.rundir import MAIN, RunDir, check_run_id, find_run, new_run_id
from orchestrator.session import Asked, Recorded, go_on, start_fork
from orchestrator.tools import Tool

Given = Mapping[str, Any]


class ResumeOptions(TypedDict, total=False):
    """What `resume` and `fork` take beside what they go on with; `resume` says what each means."""

    model: str | Model | None
    base_url: str | None
    fallback_model: str | None
    root: str | Path
    tools: Iterable[Callable[..., Any] | Tool] | None
    agents: Iterable[str | Path] | None
    limits: Limits | Given | None
    context: Context | Given | None
    permissions: Permissions | Given | None
    sandbox: bool | None
    network: bool | None
    ask: Ask | None
    reins: Reins | None
    accept_changes: bool
    observers: Sequence[Observe]


async def resume(
    run_id: str,
    message: str | None = None,
    *,
    agent: str = MAIN,
    **given: Unpack[ResumeOptions],
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
        fallback_model: The model that takes over from now on where an agent's own does not answer.
        root: The workspace that holds the run.
        tools: The functions again, where they cannot be imported by their names.
        agents: Definition files or folders again, where they have moved.
        limits: What the run may use, all that it has used so far included; a mapping changes some of
            them: ``{"max_tokens": 500_000}``.
        context: How contexts are kept small from now on; or some settings of it.
        permissions: What tools may do from now on; a mapping adds rules: ``{"allow": ["bash"]}``.
        sandbox: Whether commands are confined from now on.
        network: Whether confined commands may use the network from now on.
        ask: Asked about calls that the permissions say to ask for.
        reins: By which you stop the run from outside, so that it hands back what it has.
        accept_changes: Go on although a definition has changed or a tool is missing.
        observers: Called with each batch of new records.

    Raises `ConfigError` before anything is run (nothing to go on with, a limit that is still reached, a
    changed definition), `RunInUse` while another process has the run, `JournalError` for a journal that
    is damaged.
    """
    anew = _Anew(**given)
    folder = await run_sync(workspace, anew.root)
    run_dir = await run_sync(find_run, folder, run_id)
    async with open_journal(run_dir.journal) as journal:
        recorded = await run_sync(read_past, run_dir)
        past = recorded.past
        agent_id = agent_of(past, agent)
        kept = anew.on(Kept.of_json(past.options))
        check_goes_on(past, run_dir.run_id, agent_id, message, kept.limits)
        async with _prepared(kept, anew, folder) as options:
            options = replace(options, task=past.summary.task, run_id=run_dir.run_id)
            asked = Asked(agent_id, message, anew.accept_changes)
            return await go_on(options, run_dir, journal, recorded, asked)


async def fork(
    run_id: str,
    at: int,
    task: str | None = None,
    *,
    new_id: str | None = None,
    **given: Unpack[ResumeOptions],
) -> Report:
    """Begin a new run from the end of turn ``at`` of a run's main agent (turns count from 1).

    The new run has its own files and its own account, and reads the other's offloaded files; its to-dos
    are as they were at that turn. The other run stays as it is. Other arguments: see `resume`.

    Args:
        run_id: The run to fork.
        at: The turn after whose results the new run begins.
        task: What to say to the agent; needed where it had concluded in that turn.
        new_id: A name for the new run.

    Raises `ConfigError` before anything is run, `JournalError` for a journal that is damaged.
    """
    anew = _Anew(**given)
    folder = await run_sync(workspace, anew.root)
    run_dir = await run_sync(find_run, folder, run_id)
    past = (await run_sync(read_past, run_dir)).past
    kept = anew.on(Kept.of_json(past.options))
    source = await run_sync(_source, run_dir, past, at, task)
    async with _prepared(kept, anew, folder) as options:
        number = new_run_id(datetime.now(UTC)) if new_id is None else check_run_id(new_id)
        options = replace(options, task=task or past.summary.task, run_id=number)
        return await start_fork(options, source, task, accepts_changes=anew.accept_changes)


def _source(run_dir: RunDir, past: Past, at: int, task: str | None) -> Source:
    """What the new run begins with."""
    started = past.started(MAIN)
    if started is None:
        raise ConfigError(f"run {run_dir.run_id} has no turn {at}: it never began")
    if at < 1:
        raise ConfigError(f"no turn {at}: turns count from 1")
    try:
        facts, state = up_to(past.records[MAIN], at)
    except ValueError as error:
        raise ConfigError(f"run {run_dir.run_id} cannot be forked at turn {at}: {error}") from None
    if task is None and state.reply_open:
        raise ConfigError(
            f"the agent had concluded in turn {at}: say what else there is to do, or fork before it"
        )
    readable = [run_dir.shown(run_dir.agent(MAIN).folder)]
    for fact in facts:
        if isinstance(fact, AgentSpawned):
            child = run_dir.agent(fact.child_id)
            files = [child.results, *child.folder.glob("conclusion*.md")]
            readable += map(run_dir.shown, files)
    later = facts[facts.index(started) + 1 :]
    return Source(run_dir.run_id, at, started, later, readable)


def read_past(run_dir: RunDir) -> Recorded:
    """A run's records, and what it has come to at the prices that it was started with."""
    records = list(read_records(run_dir.journal))
    tally = Tally(pricing(Kept.of_json(options_in(records)).prices))
    tally.take_all(records)
    return Recorded(records, past_of(records, tally.summary(run_dir.run_id)), tally)


@dataclass(frozen=True)
class _Anew:
    """What a caller gives anew; ``None``: it is as it was."""

    model: str | Model | None = None
    base_url: str | None = None
    fallback_model: str | None = None
    root: str | Path = "."
    tools: Iterable[Callable[..., Any] | Tool] | None = None
    agents: Iterable[str | Path] | None = None
    limits: Limits | Given | None = None
    context: Context | Given | None = None
    permissions: Permissions | Given | None = None
    sandbox: bool | None = None
    network: bool | None = None
    ask: Ask | None = None
    reins: Reins | None = None
    accept_changes: bool = False
    observers: Sequence[Observe] = ()

    def on(self, kept: Kept) -> Kept:
        """The settings of before, with these. Raises `ConfigError`."""
        given: dict[str, Any] = {
            "base_url": self.base_url,
            "agents": None if self.agents is None else tuple(map(str, self.agents)),
            "permissions": _more_rules(kept.permissions, self.permissions),
            "sandbox": self.sandbox,
            "network": self.network,
            "fallback_model": self.fallback_model,
        }
        try:
            given["limits"] = _changed(kept.limits, self.limits)
            given["context"] = _changed(kept.context, self.context)
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None
        return replace(kept, **{k: v for k, v in given.items() if v is not None})


Group = TypeVar("Group", Limits, Context)


def _changed(before: Group, given: Group | Given | None) -> Group | None:
    return replace(before, **given) if isinstance(given, Mapping) else given


def _more_rules(before: Permissions, given: Permissions | Given | None) -> Permissions | None:
    if not isinstance(given, Mapping):
        return given
    return replace(
        before,
        allow=(*before.allow, *given.get("allow", ())),
        ask=(*before.ask, *given.get("ask", ())),
        deny=(*before.deny, *given.get("deny", ())),
    )


@asynccontextmanager
async def _prepared(kept: Kept, anew: _Anew, folder: Path) -> AsyncIterator[Options]:
    model = kept.model if anew.model is None else anew.model
    if model is None:
        raise ConfigError("the run had a model that is no name: hand it over again, as model=…")
    if anew.tools is None:
        made = await run_sync(_found_again, kept.tools)
    else:
        made = own_tools(anew.tools)
    async with opened(model, kept) as (chosen, name):
        options = await options_of(kept, chosen, name, folder, made, anew.observers)
        yield replace(options, ask=anew.ask, reins=anew.reins)


def agent_of(past: Past, text: str) -> str:
    """The agent that ``text`` names: its id, or the only one that begins so."""
    begun = [agent for agent in past.facts if past.has_begun(agent)]
    found = named(text, begun)
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{text!r} fits {len(found)} agents of this run: {', '.join(found)}")
    raise ConfigError(
        f"no agent {text!r} in this run; there are: {', '.join(begun) or 'none, it never began'}"
    )


def _found_again(specs: Sequence[str]) -> dict[str, Tool]:
    """The functions of before, by where they were; what is not there any more is left out."""
    found = []
    for spec in specs:
        module, _, name = spec.partition(":")
        with suppress(Exception):  # somebody's code: anything can come out of importing it
            found.append(getattr(import_module(module), name))
    return own_tools(found)
