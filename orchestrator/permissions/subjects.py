"""What a tool call is about: the paths, commands, hosts or names that rules speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from orchestrator.permissions.commands import Part, parts_of
from workspace import READ_ONLY, Parts, Refused, job_words, parse

READERS = READ_ONLY
WRITERS = ("write_file", "edit_file", "delete_file")
_LISTERS = ("ls", "glob", "grep")


@dataclass(frozen=True, slots=True)
class Path:
    """``lists``: its names are shown, each as far as it may be read."""

    parts: Parts
    lists: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    part: Part


@dataclass(frozen=True, slots=True)
class Host:
    name: str


@dataclass(frozen=True, slots=True)
class Itself:
    """The call as such: nothing in its arguments matters."""


Subject: TypeAlias = Path | Command | Host | Itself
Roots = tuple[Parts, ...]


def subjects_of(tool: str, given: Mapping[str, Any], roots: Roots) -> tuple[Subject, ...] | None:
    """What the call is about; all of it has to be allowed. ``None``: more than can be understood.

    A path that does not lie in the workspace is nothing to a rule: the tool itself refuses it.
    """
    if tool == "bash":
        command = given.get("command")
        if isinstance(command, str) and job_words(command) is not None:
            return ()  # of its own jobs, each of which was decided about when it began
        parts = parts_of(command) if isinstance(command, str) else None
        return None if not parts else tuple(map(Command, parts))
    if tool == "fetch":
        host = host_of(given.get("url"))
        return None if host is None else (Host(host),)
    if tool in (*READERS, *WRITERS):
        return _paths(tool, given.get("path", "."), roots)
    return (Itself(),)


def _paths(tool: str, path: object, roots: Roots) -> tuple[Subject, ...]:
    if not isinstance(path, str):
        return ()
    try:
        return (
            (Path(parse(path, roots or ((),)), tool in _LISTERS),) if _is_known(path, roots) else ()
        )
    except Refused:
        return ()


def _is_known(path: str, roots: Roots) -> bool:
    return bool(roots) or not path.startswith("/")


def host_of(url: object) -> str | None:
    """The host that a request for ``url`` goes to; ``None`` where programs read the text differently."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        return None
    if set(url) & set("\\ ") or not url.lower().startswith(("http://", "https://")):
        return None
    try:
        split = urlsplit(url)
        host = split.hostname
        _ = split.port
        if host and ":" in host:
            return str(IPv6Address(host))
    except ValueError:
        return None
    if not host or "@" in split.netloc or "%" in host:
        return None
    return host.rstrip(".").lower() or None
