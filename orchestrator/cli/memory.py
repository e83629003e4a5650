"""``outrider memory``: what agents and people keep for later sessions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import say
from orchestrator.errors import ConfigError, OutriderError

if TYPE_CHECKING:
    from orchestrator.cli.memory_shown import Reviewed
    from workspace import Memory

app: typer.Typer = typer.Typer(rich_markup_mode=None)

Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to keep, on one line.")]
Entry = Annotated[str, typer.Argument(metavar="ENTRY", help="An entry's id, or its whole text.")]
Agent = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The memory of this type of agent, not the project's."),
]


@app.callback()
def _memory() -> None:
    """What agents and people keep for later sessions, one entry a line.

    The project's memory is .outrider/MEMORY.md; a type of agent with memory: agent in its definition
    has one of its own in .outrider/memory.

    \b
    Examples:
      outrider memory show
      outrider memory add "Releases are cut from main"
    """


@app.command("show")
def show(agent: Agent = None, root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """The entries, with their ids and the days on which they were written.

    What people wrote has no day, and an id that changes with its text.

    \b
    Examples:
      outrider memory show
      outrider memory show --agent reviewer --json
    """
    from orchestrator.cli.memory_shown import as_table, entry_json, shortened
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width
    from workspace import SNAPSHOT_CHARS

    with _told():
        memory = _memory_of(root, agent)
        entries, chars = memory.entries(), memory.size()
    if as_json:
        facts = {"schema": 1, "path": memory.path, "agent": agent}
        sizes = {"chars": chars, "limit_chars": SNAPSHOT_CHARS}
        print_json({**facts, **sizes, "entries": [entry_json(entry) for entry in entries]})
        return
    if entries:
        print_lines(as_table(entries, width()))
    else:
        say(f"no entries in {memory.path}")
    if chars > SNAPSHOT_CHARS:
        say(shortened(memory.path, chars))


@app.command("add")
def add(text: Text, agent: Agent = None, root: opt.Root = Path()) -> None:
    """Keep TEXT. What is there already is not added again.

    \b
    Examples:
      outrider memory add "Releases are cut from main, on Fridays"
      outrider memory add "Check the changelog too" --agent reviewer
    """
    with _told():
        _check(text)
        memory = _memory_of(root, agent)
        entry, is_new = memory.add(text, date.today())
    said = "kept in" if is_new else "is already in"
    typer.echo(f"{entry.id} {said} {memory.path}")


@app.command("update")
def update(entry: Entry, text: Text, agent: Agent = None, root: opt.Root = Path()) -> None:
    """Give ENTRY another text, and today's date.

    \b
    Examples:
      outrider memory update 3fa81c "Releases are cut from main, on Mondays"
    """
    with _told():
        _check(text)
        memory = _memory_of(root, agent)
        changed = memory.update(entry, text, date.today())
    typer.echo(f"{changed.id} changed in {memory.path}")


@app.command("forget")
def forget(entry: Entry, agent: Agent = None, root: opt.Root = Path()) -> None:
    """Delete ENTRY.

    \b
    Examples:
      outrider memory forget 3fa81c
    """
    with _told():
        memory = _memory_of(root, agent)
        gone = memory.forget(entry)
    typer.echo(f"{gone.id} deleted from {memory.path}")


@app.command("review")
def review(agent: Agent = None, root: opt.Root = Path()) -> None:
    """Go through the entries, the oldest first; those said twice and very old ones are marked.

    On a terminal each is asked about: keep it or forget it. Elsewhere they are only listed.

    \b
    Examples:
      outrider memory review
      outrider memory review --agent reviewer | less
    """
    from orchestrator.cli.memory_shown import review_table, reviewed
    from orchestrator.cli.terminal import print_lines, width

    with _told():
        memory = _memory_of(root, agent)
        found = reviewed(memory.entries(), date.today())
    if not found:
        say(f"no entries in {memory.path}")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        _ask_about(memory, found)
    else:
        print_lines(review_table(found, width()))


def _ask_about(memory: Memory, found: list[Reviewed]) -> None:
    """Each decision is carried out at once, so that whatever ends the review undoes none."""
    from orchestrator.cli.memory_shown import question
    from orchestrator.cli.terminal import print_lines

    forgotten = 0
    for number, each in enumerate(found, 1):
        print_lines(question(each, number, len(found)))
        answer = _answer()
        if answer == "q":
            break
        if answer == "f":
            with _told():
                memory.forget(each.entry.id)
            forgotten += 1
    typer.echo(f"{forgotten} of {len(found)} entries deleted from {memory.path}")


def _answer() -> str:
    """``k``, ``f`` or ``q``; nothing is ``k``, the end of the input ``q``."""
    while True:
        typer.echo("[k]eep, [f]orget, [q]uit (k): ", nl=False)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1] or ("k" if line else "q")
        if answer in "kfq":
            return answer


def _memory_of(root: Path, agent: str | None) -> Memory:
    """The memory that is meant. Raises `ConfigError` for a type of agent that nobody knows."""
    from orchestrator.config import load_settings
    from orchestrator.places import user_agent_folders
    from subagents import discover
    from workspace import Memory

    memory = Memory(root, agent)
    if agent is not None and not memory.size():
        found = discover(root, load_settings(root).settings.agents, user_agent_folders())
        if found.get(agent) is None:
            names = ", ".join(sorted(found.definitions))
            raise ConfigError(f"no definition is called {agent!r}; there are: {names}")
    return memory


def _check(text: str) -> None:
    from orchestrator.memories import refuser

    if (why := refuser(os.environ)(text)) is not None:
        raise ConfigError(why)


@contextmanager
def _told() -> Iterator[None]:
    """What a memory cannot do, as an error of the command line."""
    from workspace import BadEntry, WorkspaceError

    try:
        yield
    except BadEntry as error:
        raise ConfigError(str(error)) from None
    except WorkspaceError as error:
        raise OutriderError(str(error)) from None
