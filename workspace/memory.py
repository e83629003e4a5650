"""What people wrote for the agents: the memory file and the project's instructions."""

import os

from workspace.atomic import read_bytes
from workspace.errors import NotFound, WorkspaceError
from workspace.paths import Root

MEMORY_FILE = ".outrider/MEMORY.md"
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
MOST_CHARS = 10_000
"""The most characters of one file that go into a prompt; the rest is cut, visibly."""


def read_memory(root: str | os.PathLike[str]) -> str:
    """The memory file of the workspace, bounded; empty if there is none."""
    return bounded(_read(Root(root), MEMORY_FILE), MEMORY_FILE)


def project_instructions(root: str | os.PathLike[str]) -> str:
    """`AGENTS.md` and `CLAUDE.md` of the workspace under headings, bounded; empty if none.

    Files with the same text, or of which one only names the other (`@AGENTS.md`), come once.
    """
    texts = {name: _read(Root(root), name) for name in INSTRUCTION_FILES}
    sections = []
    shown: set[str] = set()
    for name, text in texts.items():
        others = {f"@{other}" for other in texts if other != name and texts[other].strip()}
        reference = text.strip().removeprefix("@./").removeprefix("@")
        body = text.strip()
        if body and body not in shown and f"@{reference}" not in others:
            shown.add(body)
            sections.append(f"## {name}\n\n{bounded(text, name).strip()}\n")
    return "\n".join(sections)


def bounded(text: str, name: str) -> str:
    """`text`, or its beginning and a note that says what is missing and where it is."""
    if len(text) <= MOST_CHARS:
        return text
    note = f"\n[cut: the first {MOST_CHARS:,} of {len(text):,} characters of {name}]\n"
    return text[:MOST_CHARS] + note


def _read(root: Root, path: str) -> str:
    """The text of a file, a visible note if it cannot be read, empty if it is not there."""
    try:
        with root.walk(root.parse(path)) as place:
            # Foreign bytes become U+FFFD: better than leaving a person's notes out.
            return read_bytes(place).decode("utf-8", "replace")
    except NotFound:
        return ""
    except WorkspaceError as error:
        return f"[not read: {error}]\n"
