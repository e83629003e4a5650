"""``outrider doctor``: whether what a run needs is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FINISHED, WRONG_USAGE
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.config import Settings

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
# A local server answers at once; a person is waiting.
_PATIENCE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. Only an ``error`` keeps every run from working."""

    name: str
    state: Literal["ok", "note", "error"]
    text: str


def doctor(root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """Look at what a run needs here, and say what is missing. Exit code 2 if something is.

    Nothing is changed and no model is called; keys are never shown.

    \b
    Examples:
      outrider doctor
      outrider doctor --json | jq '.findings[] | select(.state == "error")'
    """
    from dataclasses import asdict

    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines

    found = list(findings(root))
    if as_json:
        print_json({"schema": 1, "ok": _all_well(found), "findings": [asdict(f) for f in found]})
    else:
        print_lines(f"{f.state:<5}  {f.name:<11}  {f.text}" for f in found)
    raise typer.Exit(FINISHED if _all_well(found) else WRONG_USAGE)


def _all_well(found: list[Finding]) -> bool:
    return all(finding.state != "error" for finding in found)


def findings(root: Path) -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it matters."""
    import platform
    from importlib.metadata import version

    yield Finding("outrider", "ok", version("outrider"))
    yield Finding("python", "ok", f"{platform.python_version()} ({platform.system()})")
    yield _workspace(root)
    settings, finding = _settings(root)
    yield finding
    yield from _variables()
    yield _key(settings)
    yield _server(settings)
    yield _definitions(root, settings)
    yield _shell(settings)
    yield from _extras()


def _workspace(root: Path) -> Finding:
    if not root.is_dir():
        return Finding("workspace", "error", f"no such folder: {root.absolute()}")
    # The nearest folder that exists is where the first run would create the rest.
    places = (root / ".outrider/runs", root / ".outrider", root)
    place = next(place for place in places if place.exists())
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return Finding("workspace", "ok", f"{root.absolute()} (runs can be recorded)")
    return Finding("workspace", "error", f"{place.absolute()} is not writable: runs are kept there")


def _settings(root: Path) -> tuple[Settings | None, Finding]:
    from orchestrator.config import load_settings

    try:
        configured = load_settings(root)
    except ConfigError as error:
        return None, Finding("settings", "error", str(error))
    places = sorted({place for text in configured.origins.values() for place in text.split(", ")})
    said = f"from {', '.join(places)}" if places else "all defaults"
    return configured.settings, Finding("settings", "ok", said)


def _variables() -> Iterator[Finding]:
    from orchestrator.config import unknown_variables

    for text in unknown_variables():
        yield Finding("settings", "note", text)


def _key(settings: Settings | None) -> Finding:
    present = [name for name in _KEYS if os.environ.get(name)]
    if present:
        return Finding("key", "ok", f"{', '.join(present)} is set")
    if settings is not None and settings.base_url:
        return Finding("key", "note", "none is set: fine for a server that asks for none")
    return Finding("key", "note", "none: set ANTHROPIC_API_KEY, or use --model rehearsal")


def _server(settings: Settings | None) -> Finding:
    address = settings.base_url if settings else None
    if not address:
        return Finding("server", "ok", "the provider's own")
    address = _without_password(address)
    if not address.startswith(("http://", "https://")):
        return Finding("server", "error", f"{address}: must begin with http:// or https://")
    if (failure := _no_answer(address)) is not None:
        return Finding("server", "error", f"{address} does not answer: {failure}")
    return Finding("server", "ok", f"{address} answers")


def _no_answer(address: str) -> str | None:
    """Why ``address`` does not answer; any HTTP status is an answer. No key is sent."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(address, method="HEAD"), timeout=_PATIENCE_SECONDS):
            return None
    except HTTPError:
        return None
    except URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, HTTPException, ValueError) as error:
        return str(error) or type(error).__name__


def _without_password(address: str) -> str:
    return re.sub(r"(://)[^/@]*@", r"\1", address)


def _definitions(root: Path, settings: Settings | None) -> Finding:
    from orchestrator.places import user_agent_folders
    from subagents import discover

    found = discover(root, settings.agents if settings else (), user_agent_folders())
    worth = [problem for problem in found.problems if problem.severity != "info"]
    said = f"{len(found.definitions)} definitions"
    if not worth:
        return Finding("definitions", "ok", said)
    problems = "1 problem" if len(worth) == 1 else f"{len(worth)} problems"
    return Finding("definitions", "note", f"{said}, {problems}: outrider agents check")


def _shell(settings: Settings | None) -> Finding:
    """Whether commands of agents can be confined here, found out by trying."""
    from workspace import why_no_sandbox

    if settings is not None and not settings.sandbox:
        return Finding("shell", "note", "sandbox is off: commands may do whatever you may")
    if (why := why_no_sandbox()) is not None:
        return Finding("shell", "note", why)
    return Finding(
        "shell", "ok", "the sandbox (bubblewrap) works; agents get bash with --allow bash"
    )


def _extras() -> Iterator[Finding]:
    """Optional parts of the distribution, and whether what they need is installed."""
    from importlib.metadata import metadata

    for extra in metadata("outrider").get_all("Provides-Extra") or ():
        missing = list(_missing(extra))
        if missing:
            text = f"not installed ({', '.join(missing)}): pip install 'outrider[{extra}]'"
            yield Finding(f"[{extra}]", "note", text)
        else:
            yield Finding(f"[{extra}]", "ok", "installed")


def _missing(extra: str) -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, requires, version

    wanted = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    for requirement in requires("outrider") or ():
        if wanted.search(requirement) and (name := re.match(r"[\w.-]+", requirement)):
            try:
                version(name[0])
            except PackageNotFoundError:
                yield name[0]
