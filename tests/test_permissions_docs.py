"""docs/permissions.md: what it says of rules is what they do."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Permissions
from orchestrator.permissions import rule
from orchestrator.state.fold import MOST_DENIED_TURNS
from subagents import FOLDERS

TEXT = Path(__file__).parents[1].joinpath("docs/permissions.md").read_text()
ARGUMENT = {"bash": "command", "fetch": "url"}


def table(first: str) -> list[list[str]]:
    """The rows of the table whose head begins with ``first``."""
    lines = TEXT.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\|) \| (?!\|)", line.strip().removeprefix("|").removesuffix("|"))
        rows.append([cell.strip() for cell in cells])
    return rows


def permissions_of(options: str) -> Permissions:
    words = shlex.split(options.strip("`"))
    given: dict[str, list[str]] = {"--allow": [], "--deny": []}
    for option, value in zip(words[::2], words[1::2], strict=True):
        given[option].append(value)
    return Permissions(allow=tuple(given["--allow"]), deny=tuple(given["--deny"]))


def test_there_are_examples() -> None:
    assert len(table("options")) > 20
    assert {row[2] for row in table("options")} == {"allow", "ask", "deny"}


@pytest.mark.parametrize("row", table("options"), ids=lambda row: f"{row[0]} {row[1]}")
def test_each_example_is_decided_as_it_says(row: list[str]) -> None:
    options, call, expected = row
    tool, _, value = call.strip("`").partition(": ")
    given: dict[str, Any] = {ARGUMENT.get(tool, "path"): value}
    assert permissions_of(options).decide(tool, given).verdict == expected


def test_each_form_of_a_rule_can_be_read() -> None:
    texts = [text for row in table("rule") for text in re.findall(r"`([^`]+)`", row[0])]
    assert len(texts) > 8
    for text in (*texts, *re.findall(r"`((?:Bash|Read|Edit|WebFetch)\([^`]+\))`", TEXT)):
        rule(text)


def test_the_example_settings_are_rules() -> None:
    settings = tomllib.loads(TEXT.split("```toml")[1].split("```")[0])
    assert Permissions(**settings).enables("bash")


def test_the_example_of_a_refusal_is_the_text_of_one() -> None:
    from orchestrator.permissions import refusal

    shown = TEXT.split("```text\n")[1].split("\n```")[0]
    decision = Permissions(ask=("bash(rm:*)",)).decide("bash", {"command": "rm -rf build"})
    assert refusal(decision, None) == shown


def test_figures_and_places_are_those_of_the_code() -> None:
    assert MOST_DENIED_TURNS == 5
    assert "five turns in a row" in " ".join(TEXT.split())
    for place in (*FOLDERS, ".claude/settings.local.json", ".mcp.json"):
        decision = Permissions().decide(
            "write_file", {"path": f"{place}/x" if "agent" in place else place}
        )
        assert decision.verdict == "deny"
