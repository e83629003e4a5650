"""``outrider view``: a run as a page in the browser, or as one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.errors import ConfigError, JournalError

if TYPE_CHECKING:
    from orchestrator.events import Record
    from orchestrator.rundir import RunDir
    from orchestrator.viewer import Story

Port = Annotated[
    int, typer.Option(metavar="N", help="Port to listen on; 0: a free one.", min=0, max=65535)
]
Export = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html", help="Write one file that opens from disk, and serve nothing."
    ),
]
Texts = Annotated[
    bool | None,
    typer.Option(
        "--log-content",
        help="Show the texts of prompts, tools and replies too.",
        show_default=False,
    ),
]


# Objects made before the youngest are looked through, and how often the older ones (`gc.set_threshold`).
_COLLECTED_AFTER = (20_000, 20, 20)


def view(
    run: opt.NewestRun = "latest",
    port: Port = 0,
    export: Export = None,
    log_content: Texts = None,
    root: opt.Root = Path(),
) -> None:
    """A run as a page in your browser, while it goes on and afterwards.

    Prints an address for this machine only; the token in it is what lets you in. Texts of prompts,
    tools and replies are shown with --log-content only; without it the page has their sizes, and
    where the tokens went. Known shapes of secrets, and the values of variables that look secret, are
    taken out always, in the page and in the file that --export writes. Needs the extra: pip install
    'outrider[view]' (--export does not).

    \b
    Examples:
      outrider view
      outrider view 20261130-14 --log-content --port 8642
      outrider view latest --export .outrider/run.html
    """
    from orchestrator.rundir import find_run

    place = find_run(root, run)
    if export is not None:
        _export(place, export, _story(place, log_content, f" --export {quote(str(export))}"))
    else:
        _serve(place, port, _story(place, log_content, f" --port {port}" if port else ""))


def _story(place: RunDir, log_content: bool | None, more: str) -> Story:
    """The story to fill; ``more``: the command's other options. As everywhere, the setting holds where
    the option is not given."""
    from orchestrator.cli.output import root_option
    from orchestrator.config import load_settings
    from orchestrator.prices import pricing
    from orchestrator.redaction import redactor
    from orchestrator.viewer import Story, cleaner, in_full, length_only

    options = {} if log_content is None else {"log_content": log_content}
    settings = load_settings(place.root, options).settings
    with_texts = settings.log_content
    command = f"outrider view {place.run_id} --log-content{more}{root_option(place.root)}"
    return Story(
        place.run_id,
        pricing(settings.prices),
        tell=in_full if with_texts else length_only,
        clean=cleaner(redactor(os.environ)),
        hint="" if with_texts else command,
    )


def _export(place: RunDir, to: Path, story: Story) -> None:
    from orchestrator.cli.exits import say
    from orchestrator.journal import is_running, read_records
    from orchestrator.rundir import write_text_atomic
    from orchestrator.viewer.export import exported

    story.alive = is_running(place.journal)
    records: list[Record] = []
    try:
        records.extend(read_records(place.journal))
    except JournalError as error:
        # What came before the damage is in the list, and the page says what is wrong.
        if not records:
            raise
        story.problem = str(error)
    story.take_all(records)
    told, details = _replayed(records, story)
    try:
        write_text_atomic(to, "".join(exported(story.whole(), told, details)))
    except OSError as error:
        raise ConfigError(f"cannot write {to}: {error.strerror}") from None
    if story.problem:
        say(story.problem)
    if story.hint:
        say(f"wrote {to}, without texts; with them: {story.hint}")
    else:
        say(f"wrote {to}; it holds what agents read and wrote: look through it before you share it")


def _replayed(records: Sequence[Record], story: Story) -> tuple[Any, list[Any]]:
    """The accounts and each agent's detail, clean. What cannot be told, since the records contradict each
    other, is left out, and the story says why."""
    from orchestrator.viewer import accounts, detail

    by_agent: dict[str, list[Record]] = {}
    for record in records:
        by_agent.setdefault(record.agent_id, []).append(record)

    def told(make: Callable[[], Any]) -> Any:
        try:
            return story.clean(make())
        except JournalError as error:
            story.problem = story.problem or str(error)
            return None

    details = (
        told(partial(detail, by_agent[agent_id], story.run_id, story.tell))
        for agent_id in story.tally.agents
    )
    kept = [each for each in details if each is not None]
    return told(partial(accounts, records, story.price)) or accounts([]), kept


def _serve(place: RunDir, port: int, story: Story) -> None:
    try:
        from orchestrator.viewer.server import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"outrider view needs {error.name}, which is not installed: "
            "pip install 'outrider[view]', or write a file with --export .outrider/run.html"
        ) from None
    import gc

    import anyio

    from orchestrator.viewer.watch import Watch

    # A long run is read in one go, and most of what is made of it stays: looked through as often as is
    # usual, what was read and what was imported would cost as much again.
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    watch = Watch(place.journal, story)
    try:
        anyio.run(serve, watch, place.journal, port, _ready)
    except KeyboardInterrupt:
        return  # how a person ends it


def _ready(address: str) -> None:
    from orchestrator.cli.exits import say

    typer.echo(address)
    say("open this address in a browser on this machine; Ctrl-C ends it")
