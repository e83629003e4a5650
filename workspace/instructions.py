"""The project's instructions for agents, as people wrote them: `AGENTS.md` and `CLAUDE.md`.

They are read from the folder under version control down to the workspace, each text once, with the
files that they import. What is left out is named.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workspace.atomic import read_bytes
from workspace.errors import NotFound, NotText, Refused, WorkspaceError, WrongKind
from workspace.imports import candidates, imports, is_only_imports
from workspace.paths import Parts, Root
from workspace.text import SNAPSHOT_CHARS, bounded

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
ALL_CHARS = 20_000
"""The most characters of all instructions together that go into a prompt."""
DEEPEST_IMPORT = 5  # as deep as Claude Code follows them
_MOST_FILES = 100
_NAMED = 10  # things left out that notes name; others are counted
_LEAST_CHARS = 500  # of a file that it is worth beginning

Check = Callable[[Parts], None]


def project_instructions(root: str | os.PathLike[str], check: Check = lambda parts: None) -> str:
    """The instructions for work in `root` under headings, bounded; empty if there are none.

    `check` sees the path of every file in the workspace, from its root, and raises a
    `WorkspaceError` for what may not be read. Imports lead to files of the workspace only.
    """
    return "\n".join(_fitting(list(_Reading(Root(root), check).sections())))


@dataclass(frozen=True, slots=True)
class _Section:
    """One file's share. Where there is no room for all, the smallest `rank` is kept."""

    name: str
    text: str
    rank: tuple[int, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """A file that was read: its real names from the outermost folder, and what it says."""

    named: Parts
    parts: Parts
    text: str


@dataclass
class _Reading:
    """One reading of all instructions, and what has come so far."""

    root: Root
    check: Check
    _chain: set[Parts] = field(default_factory=set)
    _seen: set[Parts] = field(default_factory=set)
    _texts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        top = _outermost(self.root.path)
        self._top = Root(top)
        self._inside = self.root.path.relative_to(top).parts

    def sections(self) -> Iterator[_Section]:
        """The files from the outermost folder inwards, each followed by what it imports."""
        found: list[tuple[tuple[int, int], _File | _Section]] = []
        for depth in range(len(self._inside) + 1):
            rank = (0, len(self._inside) - depth)
            for name in INSTRUCTION_FILES:
                found += [(rank, each) for each in self._tried((*self._inside[:depth], name), rank)]
        files = [file for _, file in found if isinstance(file, _File)]
        self._chain = {file.parts for file in files if file.text.strip()}
        for rank, each in found:
            yield from [each] if isinstance(each, _Section) else self._shown(each, rank)

    def _tried(self, named: Parts, rank: tuple[int, int]) -> Iterator[_File | _Section]:
        """The file, a note if it cannot be read, nothing if it is not there."""
        try:
            yield self._read(named)
        except NotFound:
            return
        except WorkspaceError as error:
            yield _Section(self._name(named), f"[not read: {error}]", rank)

    def _shown(self, file: _File, rank: tuple[int, int]) -> Iterator[_Section]:
        """The section of a file that has not come yet, and those of its imports."""
        body = file.text.strip()
        if not body or file.parts in self._seen or body in self._texts:
            return
        self._seen.add(file.parts)
        self._texts.add(body)
        notes: list[str] = []
        imported = list(self._imported(file, rank, notes))
        # A file that only leads to others has nothing to say itself.
        if notes or not (is_only_imports(body) or self._is_a_name(file, body)):
            yield _Section(self._name(file.named), body, rank, tuple(notes))
        yield from imported

    def _imported(self, file: _File, rank: tuple[int, int], notes: list[str]) -> Iterator[_Section]:
        """What the file imports, and what that imports. `notes` gets what is left out, and why."""
        deeper = (rank[0] + 1, rank[1])
        for path in dict.fromkeys(imports(file.text)):
            target = self._target(path, file, notes)
            # A file of the chain comes in its own place.
            if target is None or target.parts in self._chain:
                continue
            if deeper[0] > DEEPEST_IMPORT:
                notes.append(_not_imported(path, f"more than {DEEPEST_IMPORT} imports deep"))
            elif len(self._seen) >= _MOST_FILES:
                notes.append(_not_imported(path, f"more than {_MOST_FILES} files"))
            else:
                yield from self._shown(target, deeper)

    def _target(self, path: str, file: _File, notes: list[str]) -> _File | None:
        """The file that an import names, if it names one that may be read."""
        folder = (*self._top.path.parts[1:], *file.parts[:-1])
        places = candidates(path, folder, self._top.spellings)
        for parts in places:
            try:
                return self._read(parts, inside=parts not in self._chain)
            except (NotFound, WrongKind):  # a person, a package, a folder
                continue
            except WorkspaceError as error:
                notes.append(_not_imported(path, str(error)))
                return None
        if not places and path.startswith(("~", "/", "..")):
            notes.append(_not_imported(path, "outside the project"))
        elif is_only_imports(file.text):
            notes.append(_not_imported(path, "not found"))
        return None

    def _is_a_name(self, file: _File, body: str) -> bool:
        """Whether the file is a symlink that was checked out as text: the other file's name."""
        return (*file.parts[:-1], body.removeprefix("./")) in self._chain

    def _read(self, named: Parts, *, inside: bool = False) -> _File:
        """`inside`: only if it is in the workspace itself. Raises `WorkspaceError`."""
        depth = len(self._inside)

        def check(parts: Parts) -> None:
            if parts[:depth] == self._inside:
                self.check(parts[depth:])
            elif inside:
                raise Refused(self._name(parts), "outside the workspace")

        with self._top.walk(named, check) as place:
            # Foreign bytes become U+FFFD: better than leaving a person's words out.
            text = read_bytes(place).decode("utf-8", "replace")
            if "\0" in text:
                raise NotText(self._name(named), "is not text")
            return _File(named, place.parts, text)

    def _name(self, parts: Parts) -> str:
        """The path of names from the outermost folder, as seen from the workspace."""
        return os.path.relpath(os.path.join("/", *parts), os.path.join("/", *self._inside))


def _fitting(sections: Sequence[_Section]) -> Iterator[str]:
    """The sections that there is room for, in their order, then what is left out."""
    room = ALL_CHARS
    shown: dict[int, str] = {}
    left_out = []
    for index, each in sorted(enumerate(sections), key=lambda pair: (pair[1].rank, pair[0])):
        if len(each.text) > room < _LEAST_CHARS:
            left_out.append(f"{each.name} ({len(each.text):,} characters)")
            continue
        text = bounded(each.text, each.name, min(room, SNAPSHOT_CHARS)).rstrip()
        notes = [*each.notes[:_NAMED], *_more(len(each.notes), "imports left out")]
        shown[index] = "\n".join([f"## {each.name}", "", text, *notes, ""])
        room = max(room - len(text) - sum(map(len, notes)), 0)
    yield from (shown[index] for index in sorted(shown))
    if left_out:
        named = f"[left out for want of room: {', '.join(left_out[:_NAMED])}]"
        yield "\n".join([named, *_more(len(left_out), "files left out"), ""])


def _more(count: int, what: str) -> list[str]:
    return [f"[{count - _NAMED:,} more {what}]"] if count > _NAMED else []


def _not_imported(path: str, why: str) -> str:
    return f"[not imported: @{path[:200]}: {why}]"


def _outermost(root: Path) -> Path:
    """The folder under version control that `root` is in; else `root` itself."""
    return next((f for f in (root, *root.parents) if os.path.exists(f / ".git")), root)
