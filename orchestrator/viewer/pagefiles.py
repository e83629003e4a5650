"""The files of the page, as they lie in ``page/``; its modules leave as one."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_ENTRY = "app.js"


@cache
def _all() -> dict[str, bytes]:
    folder = files("orchestrator.viewer").joinpath("page")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name[entry.name.rfind(".") :] in _TYPES
    }


def text(name: str) -> str:
    """One of the page's files as it is. Raises ``KeyError``."""
    return _all()[name].decode()


def names() -> list[str]:
    return sorted(_all())


def served(name: str) -> tuple[bytes, str] | None:
    """What a browser gets: content and media type; ``None`` for a name that is not one of the page's.
    Modules are not: the script is their `bundle`, one request in place of a dozen."""
    suffix = name[name.rfind(".") :]
    if name == _ENTRY:
        return bundle().encode(), _TYPES[suffix]
    if name not in _all() or suffix == ".js":
        return None
    return _all()[name], _TYPES[suffix]


@cache
def bundle() -> str:
    """The page's modules as one, each after what it imports."""
    joined: dict[str, str] = {}

    def add(name: str) -> None:
        if name in joined:
            return
        joined[name] = ""
        module = text(name)
        for wanted in _IMPORT.findall(module):
            add(wanted)
        # Joined again at its end: behind what it needs.
        del joined[name]
        joined[name] = _EXPORT.sub("", _IMPORT.sub("", module))

    add(_ENTRY)
    return "\n".join(joined.values())
