"""Where a run's servers are described: a file that the user names, and the project's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.mcp.config import PROJECT_FILE, Found, read_file_value, read_text

Named = str | Path | Mapping[str, Any]
# Larger than any list of servers that a person writes.
_MOST_BYTES = 1_000_000


def find_servers(root: Path, named: Named | None, environ: Mapping[str, str] = os.environ) -> Found:
    """The servers of ``named`` (a file, or its content) and of ``.mcp.json`` in ``root``.

    Raises `ConfigError` for what is wrong with ``named``: it is wanted. What is wrong with the
    project's file is a problem to tell.
    """
    found = Found()
    if named is not None:
        found = _named(named, environ)
        if found.problems:
            raise ConfigError("; ".join(found.problems))
    return found + _project(root, environ)


def _named(named: Named, environ: Mapping[str, str]) -> Found:
    if isinstance(named, Mapping):
        return read_file_value(named, "mcp_config", environ, is_named=True)
    try:
        text = Path(named).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{named}: not UTF-8: save it as UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"{named}: cannot be read: {error.strerror}") from None
    return read_text(text, str(named), environ, is_named=True)


def _project(root: Path, environ: Mapping[str, str]) -> Found:
    path = root / PROJECT_FILE
    try:
        if not path.is_file():
            return Found()
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        return Found(problems=(f"{PROJECT_FILE}: cannot be read: {error.strerror}",))
    if len(data) > _MOST_BYTES:
        return Found(problems=(f"{PROJECT_FILE}: passed over, it has over {_MOST_BYTES:,} bytes",))
    return read_text(data.decode(errors="replace"), PROJECT_FILE, environ)
