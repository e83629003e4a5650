"""The file tools that a model sees. Signatures and docstrings become their JSON schema.

Each returns text, or content blocks for an image or a PDF, and raises `WorkspaceError` whose message
is meant for the model. Docstrings say only what a model cannot guess: they are part of every request.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.from_thread
import anyio.to_thread

from workspace import globs, media, notebooks, pages, search, tree
from workspace.access import Access
from workspace.errors import NotText, shown
from workspace.files import Entry, Files
from workspace.paths import Parts
from workspace.text import decode

READ_ONLY = ("ls", "read_file", "glob", "grep")
"""Names of the tools that change nothing."""
_MOST_ENTRIES = 1_000  # names that ls shows


class FileTools:
    """The file tools of one agent: what it has read decides what it may overwrite.

    `time_limit` is the seconds after which `glob` and `grep` answer with what they have.
    Works under asyncio and trio; the disk is touched in worker threads only.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        access: Access | None = None,
        *,
        time_limit: float = 20.0,
    ) -> None:
        self._files = Files(root, access)
        self._time_limit = time_limit

    @property
    def root(self) -> Path:
        """The real path of the workspace root."""
        return self._files.root.path

    def take_news(self) -> dict[str, str]:
        """Files whose content the agent came to know since the last call: path and digest."""
        return self._files.take_news()

    def recall(self, known: Mapping[str, str]) -> None:
        """Know again what `take_news` told in an earlier life of this agent."""
        self._files.recall(known)

    def functions(self) -> list[Callable[..., Awaitable[str | list[dict[str, Any]]]]]:
        """The tools, in the order in which they are shown."""
        return [
            self.ls,
            self.read_file,
            self.write_file,
            self.edit_file,
            self.delete_file,
            self.glob,
            self.grep,
        ]

    async def ls(self, path: str = ".") -> str:
        """List a folder."""
        entries = await anyio.to_thread.run_sync(self._files.entries, path)
        return _listing(path, entries)

    async def read_file(
        self, path: str, offset: int = 1, limit: int = 200, char_offset: int = 0
    ) -> str | list[dict[str, Any]]:
        """Read a page (at most 5,000 characters) of a file: a header line, then raw text, image or PDF.

        Args:
            offset: First line, from 1.
            limit: Lines.
            char_offset: Characters to skip in line `offset`.
        """

        def show(data: bytes) -> str | list[dict[str, Any]]:
            try:
                text = decode(path, data)
            except NotText:
                blocks = media.blocks(path, data)
                if blocks is None:
                    raise
                return blocks
            cells = notebooks.notebook(path, text)
            if cells is None:
                return pages.show(path, text, offset, limit, char_offset)
            return pages.show(path, cells.text, offset, limit, char_offset, about=cells.about)

        return await anyio.to_thread.run_sync(self._files.look, path, show)

    async def write_file(self, path: str, content: str) -> str:
        """Create a file, or overwrite one that you have read."""
        created = await anyio.to_thread.run_sync(self._files.write, path, content)
        return (
            f"{'created' if created else 'overwrote'} {shown(path)} ({len(content):,} characters)"
        )

    async def edit_file(
        self, path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> str:
        """Replace text in a file that you have read.

        Args:
            old_string: Exact text; must occur once unless replace_all.
        """

        def edit() -> str:
            edited = self._files.edit(path, old_string, new_string, replace_all=replace_all)
            count = "1 passage" if edited.count == 1 else f"{edited.count:,} passages, the first"
            return f"edited {shown(path)}: replaced {count} at line {edited.line}"

        return await anyio.to_thread.run_sync(edit)

    async def delete_file(self, path: str) -> str:
        """Delete a file, or a folder with all in it."""
        count = await anyio.to_thread.run_sync(self._files.delete, path)
        return f"deleted {shown(path)}" + (f" ({count:,} names in all)" if count > 1 else "")

    async def glob(self, pattern: str, path: str = ".") -> str:
        """Find files by name: *.py at any depth, /*.py on top only, src/**/*.{py,md}.

        Args:
            path: Folder that the pattern starts from.
        """
        compiled = globs.glob(pattern)
        hits = await self._search(
            lambda beat: tree.find_paths(self._files, compiled, path, beat),
        )
        return _answer(hits, f"no file matches {shown(pattern)} in {tree.searched(path)}")

    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        output: tree.Output = "files",
        literal: bool = False,
    ) -> str:
        """Search file contents, line by line, for a regular expression.

        Args:
            path: Folder or file.
            glob: Only files that match; !glob excludes.
            literal: Take pattern as plain text.
        """
        regex = search.regex(pattern, literal=literal)
        only = _filter(glob)
        hits = await self._search(
            lambda beat: tree.find_lines(self._files, regex, path, only, output, beat),
        )
        binary = f"; {hits.binary} binary files skipped" if hits.binary else ""
        return _answer(hits, f"no match for {shown(pattern)} in {tree.searched(path)}{binary}")

    async def _search(self, find: Callable[[Callable[[], bool]], tree.Hits]) -> tree.Hits:
        deadline = time.monotonic() + self._time_limit

        def beat() -> bool:
            anyio.from_thread.check_cancelled()
            return time.monotonic() < deadline

        return await anyio.to_thread.run_sync(find, beat)


def _filter(glob: str | None) -> Callable[[Parts], bool]:
    if not glob:
        return lambda parts: True
    compiled = globs.glob(glob.removeprefix("!"), dotfiles=True)
    wanted = not glob.startswith("!")
    return lambda parts: compiled.matches(parts) == wanted


def _answer(hits: tree.Hits, nothing: str) -> str:
    lines = hits.lines or [f"[{nothing}]"]
    return "\n".join([*lines, *(f"[{note}]" for note in hits.notes())])


def _listing(path: str, entries: list[Entry]) -> str:
    lines = [_entry_line(entry) for entry in entries[:_MOST_ENTRIES]]
    if not entries:
        lines = [f"[{shown(path)} is empty]"]
    if len(entries) > _MOST_ENTRIES:
        lines.append(f"[incomplete: {_MOST_ENTRIES:,} of {len(entries):,} names; use glob]")
    return "\n".join(lines)


def _entry_line(entry: Entry) -> str:
    if entry.kind == "folder":
        return f"{entry.name}/"
    return (
        f"{entry.name} ({entry.size:,} bytes)"
        if entry.kind == "file"
        else (f"{entry.name} ({entry.kind})")
    )
