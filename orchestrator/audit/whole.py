"""A whole run, audited: its journal first, then what stands on it."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator import events as ev
from orchestrator.audit import files, lines, sums
from orchestrator.audit.finding import Audit, Check
from orchestrator.journal import Salvage, Whole, is_running, salvage, spelled
from orchestrator.ledger import Usage
from orchestrator.rundir import RunDir


def audit(run: RunDir) -> Audit:
    """Audit ``run``, also while it goes on: then as far as it has come. Writes nothing."""
    is_live = is_running(run.journal)
    # Before the journal: a line is written after its record, so it then has one.
    log, said = _read_log(run)
    found = salvage(run.journal, known=lines.last_seq(log))
    whole = found.whole
    status = _status(whole, is_live=is_live)
    done = Audit(run.run_id, status, whole=found.ranges())
    done.lost = [(lost.first, lost.last, lost.why) for lost in found.lost]
    is_whole = not found.lost and found.unreadable is None
    done.checks.append(_check_journal(found))
    calls = sums.calls_of(whole)
    done.calls, done.unreported = len(calls), list(sums.unreported(calls))
    done.agents = sum(isinstance(each.record.fact, ev.AgentStarted) for each in whole)
    done.checks.append(sums.check_responses(calls))
    follows = is_whole
    if is_whole:
        added, done.usage = sums.check_sums(whole)
        states, follows = sums.check_states(whole)
        done.checks += [added, states]
    else:
        done.usage = sum((_usage(each) for each in calls), start=done.usage)
        note = "not checked: the journal is not whole"
        done.checks += [Check("sums", note), Check("states", note)]
    workspace = files.Workspace(run.root)
    done.checks += [
        files.check_offloaded(whole, workspace),
        files.check_archives(whole, workspace, is_complete=follows),
        files.check_conclusions(whole, workspace),
    ]
    has_ended = not is_live and status not in ("running", "crashed")
    checked = lines.check_log(log, whole, run.run_id, is_complete=has_ended)
    if said is not None:
        checked.wrong(run.shown(run.log), said)
    done.checks.append(checked)
    return done


def _read_log(run: RunDir) -> tuple[list[lines.Line], str | None]:
    """The log's lines; or why there are none."""
    try:
        return lines.parse(run.log.read_bytes()), None
    except FileNotFoundError:
        return [], "it is missing"
    except OSError as error:
        return [], f"it cannot be read: {error.strerror}"


def _check_journal(found: Salvage) -> Check:
    check = Check("journal", checked=len(found.whole))
    if found.unreadable is not None:
        check.wrong("the file", found.unreadable)
    elif not found.whole and not found.lost:
        check.wrong("the file", "it holds no record")
    for lost in found.lost:
        check.wrong(str(lost).partition(":")[0], lost.why)
    for said in found.structure:
        check.wrong("the file's structure", said)
    check.said = f"{len(found.whole):,} records, each as it was written, none missing"
    if found.lost or found.unreadable is not None:
        count = sum(each.last - each.first + 1 for each in found.lost)
        check.notes.append(
            f"whole, and still to be read: {spelled(found.ranges())} ({len(found.whole):,} records); "
            f"lost: {spelled([(each.first, each.last) for each in found.lost])} ({count:,})"
        )
    return check


def _status(whole: Sequence[Whole], *, is_live: bool) -> str:
    """How the run stands, as ``outrider runs`` says it."""
    status = None
    for each in whole:
        match each.record.fact:
            case ev.RunEnded(status=ended):
                status = ended
            case ev.RunStarted() | ev.RunResumed():
                status = None
    return status or ("running" if is_live else "crashed")


def _usage(each: Whole) -> Usage:
    return getattr(each.record.fact, "usage", None) or Usage()
