"""``outrider runs prune``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FAILED, say

if TYPE_CHECKING:
    from orchestrator.pruning import Doomed

OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="AGE", help="Not written to for so long: 30d, 12h, 2w, 90m."
    ),
]
Keep = Annotated[int, typer.Option(metavar="N", min=0, help="Leave the N newest runs alone.")]
Yes = Annotated[bool, typer.Option("--yes", help="Delete without asking.")]
_DEFAULT_AGE = "30d"


def prune(
    root: opt.Root = Path(), older_than: OlderThan = None, keep: Keep = 0, yes: Yes = False
) -> None:
    """Delete old runs, after asking: those not written to for 30 days, or what the options say.

    With --keep alone all but the N newest go, whatever their age. A run that is going on stays, and so
    does one whose files a fork of it may still read.

    \b
    Examples:
      outrider runs prune
      outrider runs prune --older-than 7d --keep 20 --yes
    """
    from orchestrator.cli.terminal import print_lines
    from orchestrator.pruning import age_of, delete_leftovers, doomed

    if older_than is None and not keep:
        older_than = _DEFAULT_AGE
    age = None if older_than is None else age_of(older_than)
    found = doomed(root, age, keep, now=time.time())
    going = [each for each in found if each.why_kept is None]
    print_lines(map(_line, found))
    if not going:
        delete_leftovers(root)
        say("no run to delete")
        return
    _agreed(going, yes)
    delete_leftovers(root)
    raise typer.Exit(_deleted(going))


def _agreed(going: Sequence[Doomed], yes: bool) -> None:
    """Return if they may be deleted."""
    from orchestrator.errors import ConfigError

    what = f"{len(going)} run{'' if len(going) == 1 else 's'}, {_sum(going)}"
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(f"nothing was deleted ({what}): nobody can be asked here; give --yes")
    typer.confirm(f"Delete {what}?", abort=True, err=True)


def _deleted(going: Sequence[Doomed]) -> int:
    """Delete them; the exit code."""
    from orchestrator.errors import JournalError
    from orchestrator.pruning import delete

    done: list[Doomed] = []
    for each in going:
        try:
            delete(each.run)
            done.append(each)
        except (JournalError, OSError) as error:
            say(f"{each.run.run_id} is kept: {error}")
    say(f"deleted {len(done)} of {len(going)} runs, {_sum(done)}")
    return 0 if len(done) == len(going) else FAILED


def _line(each: Doomed) -> str:
    from orchestrator.cli.table import size
    from orchestrator.pruning import ages

    kept = "" if each.why_kept is None else f" · kept: {each.why_kept}"
    return f"{each.run.run_id} · {size(each.size)} · {ages(each.age)} old{kept}"


def _sum(runs: Sequence[Doomed]) -> str:
    from orchestrator.cli.table import size

    return size(sum(each.size for each in runs))
