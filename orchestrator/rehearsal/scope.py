"""The paths that a brief names, and how tools are pointed at all of them with one call each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

HEADING = "Paths:"
_LISTED = re.compile(r"- `([^`]+)`")
_QUOTED = re.compile(r"`([^`\s]+)`")
# A path in running text: with a slash inside or at its end, or with an extension.
_BARE = re.compile(
    r"(?<![\w`/:.~-])((?:[\w.@+-]+/)+(?:[\w.@+-]*\w)?|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9})(?![\w/])"
)
_TARGET = re.compile(
    r"\b(?:write|save|put|store)\b[^.\n]{0,80}?\b(?:to|into|in|as)\s+`?((?:[\w.-]+/)*[\w-]+\.\w+)`?",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(r"(?:^|/)(?:\.|(?:__pycache__|node_modules)/)")
_NEGATED = re.compile(r"\b(?:not|never|n't|without)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scope:
    """Folders (with a final slash, where that is known) and files; no path at all is everything.

    ``exact``: a list of paths. Otherwise words of a running text, which merely look like paths.
    """

    paths: tuple[str, ...]
    exact: bool = True

    def holds(self, path: str) -> bool:
        """Whether the path is in it. What is left out otherwise is in it where it is named."""
        if path in self.paths:
            return True
        return any(
            path.startswith(folder) and not is_left_out(path[len(folder) :])
            for folder in self._folders
        )

    @property
    def _folders(self) -> list[str]:
        return [f"{path.rstrip('/')}/" for path in self.paths] if self.paths else [""]

    def confirmed(self, files: Collection[str]) -> Scope:
        """The scope without words that were no paths after all, as the known files tell."""
        if self.exact or not files:
            return self
        real = (path for path in self.paths if any(Scope((path,)).holds(file) for file in files))
        return Scope(tuple(real), exact=False)

    @property
    def listed(self) -> bool:
        """Whether a list of paths was given."""
        return self.exact and bool(self.paths)

    @property
    def base(self) -> str:
        """The folder (a single path: itself) from which `glob` and `grep` reach everything."""
        if not self.exact:
            return "."
        if len(self.paths) == 1:
            return self.paths[0].rstrip("/")
        parents = [posixpath.dirname(path.rstrip("/")) for path in self.paths]
        return (posixpath.commonpath(parents) if parents else "") or "."

    def pattern(self, extensions: Collection[str] = ()) -> str | None:
        """The glob, from ``base``, for the files of the scope; ``None`` where none is needed.

        With ``extensions`` only for such files; empty where the scope can hold none.
        """
        any_name = f"*.{{{','.join(extensions)}}}" if extensions else None
        if not self.paths or (self.exact and len(self.paths) == 1):
            return any_name
        start = 0 if self.base == "." else len(self.base) + 1
        tails = [t for p in self.paths for t in _tails(p[start:], extensions, any_name or "*")]
        return f"{{{','.join(tails)}}}" if tails else ""


def _tails(path: str, extensions: Collection[str], any_name: str) -> list[str]:
    name = re.sub(r"([\\*?\[\]{},!])", r"\\\1", path.rstrip("/"))
    folder = f"/{name}/**/{any_name}"
    if path.endswith("/"):
        return [folder]
    _, dot, extension = posixpath.basename(path).lstrip(".").rpartition(".")
    if extensions:
        return [f"/{name}"] if extension.lower() in extensions else [] if dot else [folder]
    return [f"/{name}"] if dot else [f"/{name}", folder]


def is_left_out(path: str) -> bool:
    """Whether the path is hidden, or in a folder that tools of some languages fill by themselves."""
    return _LEFT_OUT.search(path) is not None


def scope_of(brief: str) -> Scope:
    """The paths under the brief's heading for them; else those that its text names; else all."""
    _, heading, after = brief.partition(f"{HEADING}\n")
    if heading:
        return _scope(_LISTED.findall(after.partition("\n\n")[0]), exact=True)
    return _scope(_QUOTED.findall(brief) + _BARE.findall(brief), exact=False)


def _scope(named: Iterable[str], *, exact: bool) -> Scope:
    paths = {posixpath.normpath(p) + "/" * (p.endswith("/")): None for p in named if _is_path(p)}
    return Scope(() if {".", "./"} & paths.keys() else tuple(paths), exact)


def target_of(brief: str) -> str | None:
    """The file that a brief asks to write to. Quoted lines are somebody else's task."""
    for line in brief.splitlines():
        match = None if line.startswith(">") else _TARGET.search(line)
        if match and not _NEGATED.search(line[: match.start()]):
            return match[1]
    return None


def _is_path(text: str) -> bool:
    return not text.startswith(("/", "~", "-")) and ".." not in text.split("/") and "(" not in text
