"""Imports in instruction files, as Claude Code writes them: `@docs/style.md`. Pure."""

import os
import re
from collections.abc import Iterator, Sequence

from workspace.paths import Parts, below

_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(`{1,9})(?!`)[^`]+\1(?!`)")
_IMPORT = re.compile(r"(?<!\S)@((?:\\ |\S)+)")
_END_OF_SENTENCE = ".,;:!?)\"'"


def imports(text: str) -> Iterator[str]:
    """What may be paths of imports: each word behind an `@`, outside of code. People and packages
    are written so too: what names no file is none."""
    plain = _CODE.sub("", _FENCED.sub("", text))
    for match in _IMPORT.finditer(plain):
        yield match[1].replace("\\ ", " ")


def is_only_imports(text: str) -> bool:
    """Whether there is nothing in `text` but imports."""
    return not _IMPORT.sub("", text).strip()


def candidates(path: str, folder: Parts, roots: Sequence[Parts]) -> list[Parts]:
    """Where `path` in a file of `folder` (names from `/`) may lead: names from the root, the best
    first. Empty if that is outside of it."""
    spellings = dict.fromkeys((path, path.rstrip(_END_OF_SENTENCE)))
    found = (_target(spelling, folder, roots) for spelling in spellings)
    return [parts for parts in found if parts]


def _target(path: str, folder: Parts, roots: Sequence[Parts]) -> Parts | None:
    if path.startswith("~") or "\0" in path:
        return None
    whole = os.path.normpath(os.path.join("/", *folder, path))
    return below(tuple(name for name in whole.split("/") if name), roots)
