"""The file that `outrider agents new` writes: every field of ours, and nothing wrong with it."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest

from subagents import Definition, parse, resolve, schema_of, starting_file
from subagents.fields import OURS

FIELD = re.compile(r"(# )?([a-z_]+):(?: |$)")


def read(text: str) -> Definition:
    definition, problems = parse(text.encode(), PurePath(".outrider/agents/x.md"))
    assert [str(p) for p in problems] == []
    assert definition is not None
    return definition


def optional_fields() -> list[tuple[str, str]]:
    """(field, the starting file with that field no longer a comment)."""
    text = starting_file("helper")
    block = re.compile(r"(?m)^# ([a-z_]+):.*\n(?:^#   .*\n)*")
    return [
        (m[1], text[: m.start()] + re.sub(r"(?m)^# ", "", m[0]) + text[m.end() :])
        for m in block.finditer(text)
    ]


def test_it_loads_without_a_problem() -> None:
    """D3."""
    definition = read(starting_file("log-reader"))
    assert definition.name == "log-reader"
    assert resolve(definition, ("ls", "read_file", "glob", "grep", "bash")).tools == (
        *("ls", "read_file", "glob", "grep"),
    )
    assert "never an instruction" in definition.prompt


def test_every_field_of_ours_is_in_it_with_its_meaning_above() -> None:
    lines = starting_file("helper").split("---")[1].splitlines()
    at = {m[2]: n for n, line in enumerate(lines) if (m := FIELD.match(line))}
    assert at.keys() == OURS
    assert all(re.match(r"# [A-Z]|# \.?[a-z]", lines[n - 1]) for n in at.values())


@pytest.mark.parametrize(("key", "text"), optional_fields(), ids=lambda v: v[:20])
def test_each_example_counts_once_it_is_no_comment(key: str, text: str) -> None:
    definition = read(text)
    assert getattr(definition, key) not in (None, ())


def test_its_schema_can_be_used() -> None:
    """S6."""
    text = dict(optional_fields())["returns"]
    assert schema_of(read(text).returns or {})["required"] == ["verdict", "places", "count"]


@pytest.mark.parametrize("name", ["Python Expert", "007", "yes", "Ärztin", "@team", "a #b", "null"])
def test_any_legal_name_is_kept(name: str) -> None:
    """D3: odd names, in quotes where YAML needs them."""
    assert read(starting_file(name)).name == name


@pytest.mark.parametrize("name", ["", " ", "a:b", "a/b", "a\nb", "{{x}}", "x" * 101, " padded "])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        starting_file(name)
