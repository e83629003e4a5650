"""Walking the files below a folder, and searching them. Blocks; see `tools`."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from workspace.access import Access
from workspace.errors import NotFound, WorkspaceError, from_os, shown
from workspace.files import Files
from workspace.globs import Glob, Ignored
from workspace.matching import Matcher, TimeUp, matching
from workspace.paths import Parts, Root, joined
from workspace.search import Regex, excerpt

MOST_LINES = 1_000
"""The most lines that `glob` and `grep` answer with."""
_SHOWN_PROBLEMS = 3
_BEAT_LINES = 2_000  # lines of one file between two looks at the clock

Output = Literal["files", "content", "count"]


@dataclass
class Hits:
    """What a search found, and why it may not be all. `beat` says whether to go on."""

    beat: Callable[[], bool]
    lines: list[str] = field(default_factory=list)
    is_capped: bool = False
    is_out_of_time: bool = False
    problems: list[str] = field(default_factory=list)
    binary: int = 0

    def goes_on(self) -> bool:
        self.is_out_of_time = self.is_out_of_time or not self.beat()
        return not (self.is_out_of_time or self.is_capped)

    def add(self, line: str) -> None:
        if len(self.lines) < MOST_LINES:
            self.lines.append(line)
        else:
            self.is_capped = True

    def notes(self) -> list[str]:
        notes = []
        if self.is_capped:
            notes.append(f"incomplete: only the first {MOST_LINES:,} are shown; narrow the search")
        if self.is_out_of_time:
            notes.append("incomplete: the time limit was reached; narrow the search or give a path")
        if self.problems:
            more = len(self.problems) - _SHOWN_PROBLEMS
            listed = "; ".join(self.problems[:_SHOWN_PROBLEMS])
            notes.append(f"not searched: {listed}" + (f"; and {more} more" if more > 0 else ""))
        return notes


@dataclass(frozen=True)
class Found:
    """A file met on the way: its real path, and its name in a folder that is open just now."""

    parts: Parts
    folder: int
    name: str


def find_paths(files: Files, pattern: Glob, path: str, beat: Callable[[], bool]) -> Hits:
    """The files below `path` that match, ordered folder by folder."""
    hits = Hits(beat)
    for start, found in _walk(files, path, hits, symlinks=True):
        if pattern.matches(found.parts[len(start) :] or (found.name,)):
            hits.add(joined(found.parts))
    return hits


def find_lines(
    files: Files,
    regex: Regex,
    path: str,
    only: Callable[[Parts], bool],
    output: Output,
    beat: Callable[[], bool],
) -> Hits:
    """The files, lines or counts of lines below `path` in which `regex` is found."""
    hits = Hits(beat)
    with matching(regex, beat) as matcher:
        for start, found in _walk(files, path, hits, symlinks=False):
            if only(found.parts[len(start) :] or (found.name,)):
                _search_file(found, matcher, output, hits)
    return hits


def _search_file(found: Found, matcher: Matcher, output: Output, hits: Hits) -> None:
    path = joined(found.parts)
    count = 0
    try:
        for number, line, start in matcher.matches(_text_lines(found, hits)):
            count += 1
            if output == "content":
                hits.add(f"{path}:{number}:{excerpt(line, start)}")
            if output == "files" or hits.is_capped:
                break
    except TimeUp:
        hits.is_out_of_time = True
    except OSError as error:
        hits.problems.append(str(from_os(error, path)))
    if count and output != "content":
        hits.add(path if output == "files" else f"{path}:{count}")


def _text_lines(found: Found, hits: Hits) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file without their ends; of a binary one none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(found.name, flags, dir_fd=found.folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return
        if b"\0" in file.peek():
            hits.binary += 1
            return
        for number, raw in enumerate(file, 1):
            if number % _BEAT_LINES == 0 and not hits.goes_on():
                return
            # Foreign bytes become U+FFFD: this is only shown, never written back.
            line = raw.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
            yield number, line.removeprefix("\ufeff") if number == 1 else line


def _walk(files: Files, path: str, hits: Hits, *, symlinks: bool) -> Iterator[tuple[Parts, Found]]:
    """The real path of `path`, and each file below it (or the file that it is)."""
    with files.root.walk(files.root.parse(path), files.access.check_list) as place:
        if place.mode is None:
            raise NotFound(path)
        if not place.is_folder:
            files.access.check_read(place.parts)
            yield place.parts, Found(place.parts, place.folder, place.name)
            return
        start = place.parts
    for found in _Tree(files.root, files.access, hits, symlinks).below(start):
        yield start, found


@dataclass
class _Tree:
    root: Root
    access: Access
    hits: Hits
    symlinks: bool

    def below(self, start: Parts) -> Iterator[Found]:
        """The files below a folder, real folders only, each folder's files before its folders."""
        pending = [(start, self._ignored_above(start))]
        while pending and self.hits.goes_on():
            parts, ignored = pending.pop()
            folders: list[Parts] = []
            try:
                with (
                    self.root.walk(parts, self.access.check_list, follow=False) as place,
                    place.opened_folder() as folder,
                ):
                    ignored = _with_own(ignored, len(parts), folder)
                    yield from self._files(parts, folder, ignored, folders)
            except WorkspaceError as error:
                # Vanished, or unreadable.
                self.hits.problems.append(str(error))
            pending += [(child, ignored) for child in reversed(folders)]

    def _files(
        self, parts: Parts, folder: int, ignored: Ignored | None, folders: list[Parts]
    ) -> Iterator[Found]:
        """The files right in an open folder; the folders in it go to `folders`."""
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            child = (*parts, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._passes_over(child, is_folder, ignored):
                continue
            if is_folder:
                folders.append(child)
            elif not entry.is_symlink() or (self.symlinks and self._leads_to_file(child)):
                yield Found(child, folder, entry.name)
            if not self.hits.goes_on():
                return

    def _passes_over(self, parts: Parts, is_folder: bool, ignored: Ignored | None) -> bool:
        if parts[-1] == ".git" or self.access.hides(parts, folder=is_folder):
            return True
        return ignored is not None and ignored.covers(parts, folder=is_folder)

    def _leads_to_file(self, parts: Parts) -> bool:
        try:
            with self.root.walk(parts, self.access.check_read) as place:
                return place.mode is not None and stat.S_ISREG(place.mode)
        except WorkspaceError:
            return False

    def _ignored_above(self, start: Parts) -> Ignored | None:
        """What the folders above `start` ignore; None if that is `start`: it was asked for."""
        ignored: Ignored | None = Ignored()
        for depth in range(len(start)):
            with self.root.walk((*start[:depth], ".gitignore"), follow=False) as place:
                ignored = _with_own(ignored, depth, place.folder)
            if ignored is not None and ignored.covers(start[: depth + 1], folder=True):
                return None
        return ignored


def _with_own(ignored: Ignored | None, depth: int, folder: int) -> Ignored | None:
    """`ignored`, and what the `.gitignore` in an open folder of that depth adds."""
    if ignored is None:
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(".gitignore", flags, dir_fd=folder), "rb") as file:
            content = file.read().decode("utf-8", "replace")
    except OSError:
        return ignored
    return ignored.adding(depth, content)


def searched(path: str) -> str:
    """Where a search looked, for an answer that found nothing."""
    return f"{shown(path)} (files that .gitignore names only if path names their folder)"
