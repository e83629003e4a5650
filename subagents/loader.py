"""Definition files on disk: read them all, whatever state they are in, and say what is wrong."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path, PurePath

from subagents import codex, dialects, frontmatter
from subagents.block import Notes
from subagents.definition import Definition, Problem, Rejected

StrPath = str | os.PathLike[str]

# Nearest to us first: where the same name stands in several, the first one holds.
FOLDERS = (
    *(".outrider/agents", ".claude/agents", ".github/agents", ".opencode/agents"),
    *(".opencode/agent", ".gemini/agents", ".codex/agents"),
)
_LARGEST = 1_000_000  # bytes
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


@dataclass(slots=True)
class Loaded:
    """Definitions by name, as written, and everything that is to be said about their files."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def get(self, name: str) -> Definition | None:
        """By name, in any case."""
        if name in self.definitions:
            return self.definitions[name]
        folded = name.casefold()
        return next((d for key, d in self.definitions.items() if key.casefold() == folded), None)


def load(*paths: StrPath) -> Loaded:
    """Read files and folders (`**/*.md`, `**/*.toml`); of equal names the first one holds.

    Nothing is raised for what a file holds or for its state: that is in `problems`.
    """
    loaded, done = Loaded(), set[str]()
    for path in map(Path, paths):
        for file in _files(path, loaded.problems):
            if (real := os.path.realpath(file)) not in done:
                done.add(real)
                _add(loaded, *_read(file))
    return loaded


def discover(root: StrPath, extra: Iterable[StrPath] = (), user: Iterable[StrPath] = ()) -> Loaded:
    """All definitions in force: `extra` > the project, nearest folder first > the folders of `user`
    in their order > built-in. Folders of the project and of the user that are not there are no
    problem."""
    paths = [Path(path) for path in extra]
    for folder in project_folders(root):
        paths += [path for name in FOLDERS if os.path.isdir(path := folder / name)]
    paths += [path for path in map(Path, user) if os.path.isdir(path)]
    loaded = load(*paths)
    for definition in builtin().definitions.values():
        _add(loaded, definition, [])
    return loaded


def builtin() -> Loaded:
    """The definitions that come with Outrider."""
    loaded = Loaded()
    for file in sorted((resources.files("subagents") / "builtin").iterdir(), key=lambda f: f.name):
        source = f"built-in:{file.name.removesuffix('.md')}"
        _add(loaded, *parse(file.read_bytes(), PurePath(file.name), source))
    return loaded


def parse(
    data: bytes, path: PurePath, source: str | None = None
) -> tuple[Definition | None, list[Problem]]:
    """The definition that the bytes of one file give, if they do, and the problems found."""
    notes = Notes(source or str(path))
    try:
        return _parse(data, path, notes), notes.problems
    except Rejected as rejected:
        return None, [*notes.problems, rejected.problem(notes.path)]


def _parse(data: bytes, path: PurePath, notes: Notes) -> Definition:
    if path.stem.casefold() == "readme":
        raise Rejected(1, "file", "is a README – not a definition", "info")
    text = frontmatter.decode(data, notes)
    if path.suffix == ".toml":
        return dialects.define(codex.entries(text), "", path, notes)
    block = frontmatter.split(text, notes)
    definition = dialects.define(frontmatter.read(block, notes), block.body, path, notes)
    if not definition.prompt:
        notes.add(block.end_line, "prompt", "is empty – write the instructions below the fence")
    return definition


def _add(loaded: Loaded, definition: Definition | None, problems: list[Problem]) -> None:
    loaded.problems += problems
    if definition is None:
        return
    if (other := loaded.get(definition.name)) is None:
        loaded.definitions[definition.name] = definition
        return
    message = f"{definition.name!r} of {definition.source} is hidden by {other.source} – rename one"
    loaded.problems.append(Problem(definition.source, 1, "name", "warning", message))


def _read(file: Path) -> tuple[Definition | None, list[Problem]]:
    try:
        # The kind first: opening a pipe would wait for a writer for ever.
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return None, [_unread(file, "is no regular file – remove it")]
        if status.st_size > _LARGEST:
            return None, [_unread(file, f"is larger than {_LARGEST:,} bytes – shorten it")]
        return parse(file.read_bytes()[: _LARGEST + 1], file)
    except OSError as error:
        return None, [_unread(file, f"cannot be read ({error.strerror or error}) – check the path")]


def _unread(path: Path, message: str) -> Problem:
    return Problem(str(path), 1, "file", "error", message)


def _files(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if not os.path.isdir(path):
        yield path
        return

    def unreadable(error: OSError) -> None:
        problems.append(
            _unread(Path(error.filename), f"cannot be read ({error.strerror}) – skip it")
        )

    for folder, folders, names in os.walk(path, onerror=unreadable):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(names):
            if name.endswith((".md", ".toml")):
                yield Path(folder, name)


def project_folders(root: StrPath) -> list[Path]:
    """The root and the folders above it up to the one under version control, nearest first."""
    nearest = Path(os.path.abspath(root))
    folders = [nearest, *nearest.parents]
    for index, folder in enumerate(folders):
        if os.path.exists(folder / ".git"):
            return folders[: index + 1]
    return [nearest]
