"""What is looked at before a run: its task, its model, and what the project brings with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import typer

from orchestrator.cli.exits import say
from orchestrator.config import PROJECT_FILE, Configured, Settings, unknown_variables
from orchestrator.errors import ConfigError
from orchestrator.places import user_agent_folders, user_skill_folders
from orchestrator.progress import inert
from orchestrator.rundir import new_run_id
from orchestrator.skills import find_skills
from subagents import Problem, discover, load
from workspace import why_no_sandbox

# Problems of definition files that are shown before a run; `agents check` shows all of them.
_SHOWN_PROBLEMS = 10
# Settings with which a project's own file decides what code runs, with what, or who gets the key.
_TRUSTING = ("base_url", "tools", "allow", "sandbox", "network")


def read_task(text: str) -> str:
    """The task; ``-`` stands for standard input."""
    return sys.stdin.buffer.read().decode(errors="replace") if text == "-" else text


def new_id() -> str:
    return new_run_id(datetime.now(UTC))


def look_around(root: Path, configured: Configured) -> None:
    """Say what a person should know before the run. Raises `ConfigError` where it cannot be begun."""
    settings = configured.settings
    check_definitions(root, settings)
    note_elsewhere(root, settings)
    note_trust(configured)
    note_rules(settings)
    note_variables(settings)
    note_shell(settings)


def check_definitions(root: Path, settings: Settings) -> None:
    """Say what is wrong with definition files and with skills.

    Raises `ConfigError` for errors in those that were named: they are wanted.
    """
    named = [p for p in load(*settings.agents).problems if p.severity == "error"]
    if named or not settings.quiet:
        _show(discover(root, settings.agents, user_agent_folders()).problems, "agents check")
        _show(find_skills(root, user_skill_folders()).problems, "skills")
    if named:
        raise ConfigError(f"{named[0].path} gives no definition; nothing was run")


def _show(problems: Sequence[Problem], command: str) -> None:
    worth = [problem for problem in problems if problem.severity != "info"]
    for problem in worth[:_SHOWN_PROBLEMS]:
        typer.echo(inert(str(problem)), err=True)
    if len(worth) > _SHOWN_PROBLEMS:
        typer.echo(f"… and {len(worth) - _SHOWN_PROBLEMS} more: outrider {command}", err=True)


def note_trust(configured: Configured) -> None:
    """A folder from elsewhere may bring settings that run its code or receive the key: say so, also
    where the same file asks for quiet."""
    for name in _TRUSTING:
        if PROJECT_FILE in configured.origin(name).split(", "):
            value = getattr(configured.settings, name)
            say(f"{name} is set by {PROJECT_FILE}: {_shown(value)}")


def note_variables(settings: Settings) -> None:
    """A misspelt setting in the environment changes nothing, and nothing else would say so."""
    if not settings.quiet:
        for text in unknown_variables():
            say(text)


def note_elsewhere(root: Path, settings: Settings) -> None:
    """Settings of a folder above are not read, and rules in them not kept: that is no surprise to find
    out afterwards."""
    above = next((f for f in root.absolute().parents if _is_file(f / PROJECT_FILE)), None)
    if above is not None and not settings.quiet and not _is_file(root / PROJECT_FILE):
        say(
            f"the workspace is {root.absolute()}: {above / PROJECT_FILE} is not read; "
            f"to work there: --root {os.path.relpath(above)}"
        )


def _is_file(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file()
    return False


def note_rules(settings: Settings) -> None:
    """A misspelt rule protects nothing, and may yet be right: tools of servers have names of their own."""
    from difflib import get_close_matches

    from orchestrator.permissions import OPTIONAL, rule
    from orchestrator.toolbox import BUILT_IN

    tools = {*OPTIONAL, *BUILT_IN}
    for text in (*settings.allow, *settings.ask, *settings.deny):
        unknown = [name for name in rule(text).tools if name not in tools]
        for near in (get_close_matches(n, {"read", "write", *tools}, 1, 0.75) for n in unknown):
            if near:
                say(f"the rule {text}: Outrider has no such tool; did you mean {near[0]}?")


def _shown(value: str | bool | Sequence[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else ", ".join(value)


def note_shell(settings: Settings) -> None:
    """A shell that is asked for and cannot be had is told at once, not by the first command."""
    if settings.quiet or not settings.sandbox or not settings.permissions().enables("bash"):
        return
    if (why := why_no_sandbox()) is not None:
        say(f"commands will be refused: {why}")
