"""``outrider agents new``: a definition file to begin with."""

from __future__ import annotations

from pathlib import Path

from orchestrator.errors import ConfigError

FOLDER = ".outrider/agents"


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


def _path_of(given: str, root: Path) -> Path:
    last = Path(given).name
    is_path = "/" in given or given.endswith(".md")
    if (
        last in ("", "..")
        or given.endswith("/")
        or (is_path and "." in last and last[-3:] != ".md")
    ):
        raise ConfigError(
            f"{given!r} is no definition's name or path: write NAME, or a path to NAME.md"
        )
    if last.casefold().removesuffix(".md") == "readme":
        raise ConfigError("a README is no definition: choose another name")
    path = Path(given) if is_path else root / FOLDER / given
    return path if last.endswith(".md") else path.with_name(f"{last}.md")
