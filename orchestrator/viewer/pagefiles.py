"""The files of the page, as they lie in ``page/``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def _all() -> dict[str, tuple[bytes, str]]:
    folder = files("orchestrator.viewer").joinpath("page")
    found = {}
    for entry in folder.iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in _TYPES:
            found[entry.name] = (entry.read_bytes(), _TYPES[suffix])
    return found


def file(name: str) -> tuple[bytes, str] | None:
    """Content and media type; ``None`` for a name that is not one of the page's."""
    return _all().get(name)


def names() -> list[str]:
    return sorted(_all())
