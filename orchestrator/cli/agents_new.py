"""``outrider agents new``: a definition file to begin with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from orchestrator.errors import ConfigError

FOLDER = ".outrider/agents"
# Names that people and models type without quotes.
_NAME = re.compile(r"[^\W_][\w-]{0,99}")


def write_new(given: str, root: Path) -> tuple[Path, str]:
    """Write a starting file; returns its path and the name of the definition.

    ``given`` is a name, for a file in the project's own folder, or a path.

    Raises `ConfigError` where there is such a file already, and for a name that is none.
    """
    from subagents import starting_file

    path = _path_of(given, root)
    name = path.name.removesuffix(".md").removesuffix(".agent")
    try:
        text = starting_file(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} is there already: choose another name") from None
    return path, name


def next_step(path: Path, name: str, *, is_found: bool) -> str:
    """The commands by which a new definition is looked at, and tried. ``is_found``: it lies where
    definitions are looked for."""
    named = "" if is_found else f" --agents {shlex.quote(str(path))}"
    checked = "" if is_found else f" {shlex.quote(str(path))}"
    tried = f"outrider run TASK --agent {name}{named} --model rehearsal"
    return f"outrider agents check{checked}; {tried}"


def _path_of(given: str, root: Path) -> Path:
    folder, _, last = given.rpartition("/")
    ending = next((e for e in (".agent.md", ".md") if last.endswith(e)), "")
    name = last.removesuffix(ending)
    if not _NAME.fullmatch(name):
        better = re.sub(r"[^\w-]+", "-", re.sub(r"(?<=.)\.\w+$", "", last)).strip("-")
        example = f", for example {better}" if better else ""
        raise ConfigError(
            f"{given!r} is no definition's name or path: write NAME, or a path to NAME.md; a name has "
            f"letters, digits, - and _{example}"
        )
    if name.casefold() == "readme":
        raise ConfigError("a README is no definition: choose another name")
    is_path = bool(folder or ending or given.startswith("/"))
    return (Path(given) if is_path else root / FOLDER / given).with_name(f"{name}{ending or '.md'}")
