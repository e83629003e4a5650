"""``outrider audit``: are the figures right, and is everything still there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.cli import exits
from orchestrator.cli import options as opt

if TYPE_CHECKING:
    from orchestrator.audit import Audit, Check

# Of one check, and of calls without figures: all of them are in --json.
_SHOWN = 10


def audit(
    run: opt.NewestRun = "latest", root: opt.Root = Path(), as_json: opt.Json = False
) -> None:
    """Prove that a run's figures are right and that everything it recorded is whole.

    Every record of the journal is checked by its digest; tokens are added up once more, call by call;
    each offloaded file, archive and conclusion is read; each line of the log is held against the
    journal. Calls of which the provider reported no tokens are named: they are in no sum.

    Exit codes: 0 all is right, 1 something is not (the first broken place is named last), 2 there is
    no such run.

    \b
    Examples:
      outrider audit latest
      outrider audit latest --json | jq .first
    """
    from orchestrator.audit import audit as audited
    from orchestrator.cli.output import clean, print_json
    from orchestrator.cli.terminal import print_lines
    from orchestrator.rundir import find_run

    done = audited(find_run(root, run))
    if as_json:
        print_json(clean(done.as_json()))
    else:
        print_lines(clean(described(done)))
    if done.first is not None:
        exits.say(f"audit of {done.run_id}: first broken place: {done.first}")
        raise typer.Exit(exits.FAILED)


def described(done: Audit) -> list[str]:
    """The audit for people."""
    lines = [
        f"run {done.run_id} · {done.status} · {done.agents:,} agents · {done.calls:,} model calls · "
        f"{done.usage.total_tokens:,} tokens",
        "",
    ]
    for check in done.checks:
        lines += _check(check)
    if done.unreported:
        lines += ["", f"Of {len(done.unreported):,} calls the provider reported no tokens:"]
        for call in done.unreported[:_SHOWN]:
            known = [call.kind or call.event, call.request_id or "no request id"]
            lines.append(f"  {call.agent_id} turn {call.turn}: {', '.join(known)}")
        lines += _more(len(done.unreported))
    return lines


def _check(check: Check) -> list[str]:
    lines = [f"{'ok' if check.ok else 'BROKEN':8}{check.name:13}{_said(check)}"]
    lines += [f"{'':21}{problem}" for problem in check.problems[:_SHOWN]]
    lines += _more(len(check.problems))
    return lines + [f"{'':21}({note})" for note in check.notes[:_SHOWN]]


def _said(check: Check) -> str:
    if check.ok:
        return check.said
    places = len(check.problems)
    return f"{places:,} broken place{'' if places == 1 else 's'}, {check.checked:,} looked at"


def _more(count: int) -> list[str]:
    return [f"{'':21}… and {count - _SHOWN:,} more: --json"] if count > _SHOWN else []
