"""Front matter on its own, for files that are no definitions but are written in the same way."""

from collections.abc import Mapping
from dataclasses import dataclass

from subagents import frontmatter
from subagents.block import Entry, Notes
from subagents.definition import Problem, Rejected
from subagents.fields import spelled


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields by name, in snake case; of a field that is written twice the last. Then the text."""

    fields: Mapping[str, Entry]
    body: str


def front_matter(data: bytes, source: str) -> tuple[FrontMatter | None, list[Problem]]:
    """What the bytes of a file hold, read as tolerantly as a definition, and the problems found.
    `source` is its path in the problems."""
    notes = Notes(source)
    try:
        block = frontmatter.split(frontmatter.decode(data, notes), notes)
        entries = frontmatter.read(block, notes)
    except Rejected as rejected:
        return None, [*notes.problems, rejected.problem(source)]
    fields: dict[str, Entry] = {}
    for entry in entries:
        if spelled(entry.key) in fields:
            notes.add(entry.line, entry.key, "is written twice, the last one is kept – keep one")
        fields[spelled(entry.key)] = entry
    return FrontMatter(fields, block.body), notes.problems
