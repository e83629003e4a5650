"""The project's instructions for agents, as people wrote them: `AGENTS.md` and `CLAUDE.md`."""

import os

from workspace.atomic import read_bytes
from workspace.errors import NotFound, WorkspaceError
from workspace.paths import Root
from workspace.text import bounded

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")


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
