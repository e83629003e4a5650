"""The file that a new definition begins as."""

import json
from importlib import resources
from pathlib import PurePath

from subagents.loader import parse

_NAME = "name: my-agent"


def starting_file(name: str) -> str:
    """A definition file with every field of ours, each with its meaning; what is optional is
    commented out. Raises `ValueError` for what is no legal name."""
    text = resources.files("subagents").joinpath("starting.md").read_text(encoding="utf-8")
    # In quotes only where YAML would take it for something else.
    for written in (name, json.dumps(name, ensure_ascii=False)):
        made = text.replace(_NAME, f"name: {written}", 1)
        definition, problems = parse(made.encode("utf-8", "replace"), PurePath("agent.md"))
        if definition is not None and definition.name == name and not problems:
            return made
    raise ValueError(f"{name!r:.60} is no name: take up to 100 characters, none of : / \\")
