"""``outrider log``: what happened, line by line, as ``log.jsonl`` holds it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.errors import ConfigError
from orchestrator.ids import named

if TYPE_CHECKING:
    from orchestrator.rundir import RunDir

# Seconds between two looks at a log that is being followed.
_LOOK = 0.2
_HEADER = ("schema", "ts", "seq", "event", "run_id", "agent_id", "parent_id", "agent_type", "turn")
# For programs only: people follow a call by its tool and time.
_NOISE = ("tool_use_id", "index")
_LONGEST = 200

Follow = Annotated[bool, typer.Option("--follow", help="Go on until the run ends.")]
OfAgent = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="ID", help="Only this agent (the beginning of its id will do)."
    ),
]
OfEvent = Annotated[str | None, typer.Option("--event", metavar="NAME", help="Only such events.")]


def log(
    run: opt.NewestRun = "latest",
    follow: Follow = False,
    agent: OfAgent = None,
    event: OfEvent = None,
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """What happened in a run, one line per event; --json prints the lines as they are on disk.

    \b
    Examples:
      outrider log latest --follow
      outrider log latest --event model_failed
      outrider log latest --json | jq 'select(.event == "tool_returned") | .ms'
    """
    from orchestrator.cli.terminal import print_lines
    from orchestrator.rundir import find_run

    _check_event(event)
    place = find_run(root, run)
    if agent is not None and not follow:
        _check_agent(agent, _lines(place, follow))
    for text in _lines(place, follow):
        line = _parsed(text)
        if line is None or not _wanted(line, agent, event):
            continue
        if as_json:
            typer.echo(text)
        else:
            print_lines([pretty(line)])
        if follow:
            sys.stdout.flush()


def _check_agent(text: str, lines: Iterator[str]) -> None:
    """A misspelt agent would look like one that never did anything."""
    parsed = (line for line in map(_parsed, lines) if line is not None)
    known = dict.fromkeys(str(line["agent_id"]) for line in parsed)
    if not named(text, known):
        raise ConfigError(f"{text!r} is no agent of this run; there are: {', '.join(known)}")


def _check_event(name: str | None) -> None:
    """A misspelt event would look like one that never happened."""
    if name is None:
        return
    from difflib import get_close_matches

    from orchestrator.logs import event_types

    known = [kind.model_fields["event"].default for kind in event_types()]
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        raise ConfigError(f"--event {name}: no such event; {hint}")


def _lines(run: RunDir, follow: bool) -> Iterator[str]:
    from orchestrator.journal import is_running

    try:
        file = run.log.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise ConfigError(f"the log {run.log} cannot be read: {error.strerror}") from None
    with file:

        def alive() -> bool:
            return follow and is_running(run.journal)

        yield from whole_lines(file.readline, alive, time.sleep)


def whole_lines(
    read: Callable[[], str], alive: Callable[[], bool], wait: Callable[[float], None]
) -> Iterator[str]:
    """Lines that are written to their end, as long as more may come."""
    pending, ended = "", False
    while True:
        if chunk := read():
            pending += chunk
            if pending.endswith("\n"):
                yield pending[:-1]
                pending = ""
        elif ended:
            return
        elif alive():
            wait(_LOOK)
        else:
            # What was written between that read and the end is still to be read.
            ended = True


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def _wanted(line: Mapping[str, Any], agent: str | None, event: str | None) -> bool:
    if event is not None and line.get("event") != event:
        return False
    found = str(line.get("agent_id", ""))
    # A whole id means that agent alone; `main` is one that others may begin with.
    return agent is None or (found == agent if agent == "main" else found.startswith(agent))


def pretty(line: Mapping[str, Any]) -> str:
    """A line for people: time, agent and turn, event, then its fields."""
    clock = str(line.get("ts", ""))[11:23]
    who = f"{line.get('agent_id')}:{line.get('turn')}"
    fields = (f"{name}={_shown(value)}" for name, value in _fields(line))
    return f"{clock}  {who:<24} {line.get('event')}  {' '.join(fields)}".rstrip()


def _fields(line: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in line.items():
        if name in _HEADER or name in _NOISE or value is None or value is False:
            continue
        if name == "usage" and isinstance(value, Mapping):
            yield from _usage(value)
        else:
            yield name, value


def _usage(usage: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "in", usage.get("input_tokens")
    yield "out", usage.get("output_tokens")
    for name, field in (
        ("read", "cache_read_input_tokens"),
        ("write", "cache_creation_input_tokens"),
    ):
        if usage.get(field):
            yield name, usage[field]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ",".join(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) and " " in text else text
