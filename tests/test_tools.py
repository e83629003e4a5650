"""Tools from plain functions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field, ValidationError

from orchestrator import ConfigError, ToolError, tool
from orchestrator.tools import Tool, as_output, by_name, explain

pytestmark = pytest.mark.anyio


async def search(
    pattern: str,
    path: str = ".",
    kind: Literal["files", "lines"] = "files",
    most: int | None = None,
) -> str:
    """Search files.

    More words for the model.

    Args:
        pattern: What to look for.
        most: At most so many.
    """
    return f"{pattern} {path} {kind} {most}"


class Point(BaseModel):
    x: int


def test_the_schema_comes_from_signature_and_docstring() -> None:
    made = tool(search)
    assert made.schema == {
        "name": "search",
        "description": "Search files.\nMore words for the model.",
        "input_schema": {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "What to look for."},
                "path": {"type": "string", "default": "."},
                "kind": {"type": "string", "enum": ["files", "lines"], "default": "files"},
                "most": {"type": "integer", "description": "At most so many."},
            },
            "required": ["pattern"],
        },
    }


async def test_a_tool_runs_with_a_models_arguments() -> None:
    assert await tool(search).run({"pattern": "x", "most": 3}) == "x . files 3"


async def test_a_plain_function_runs_in_a_thread() -> None:
    def add(one: int, other: int) -> int:
        """Add."""
        anyio.from_thread.run_sync(anyio.get_cancelled_exc_class)  # only works in a worker thread
        return one + other

    assert await tool(add).run({"one": 1, "other": 2}) == "3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "pattern: Field required"),
        ({"pattern": "x", "colour": 1}, "colour: unknown argument"),
        ({"pattern": "x", "kind": "words"}, "kind: Input should be 'files' or 'lines'"),
        ({"pattern": []}, "pattern: Input should be a valid string"),
    ],
)
async def test_s9_bad_arguments_are_named_with_what_there_is(
    given: dict[str, Any], said: str
) -> None:
    """S9: an unknown argument is an error that names it; nothing is run."""
    made = tool(search)
    with pytest.raises(ValidationError) as caught:
        await made.run(given)
    text = explain(caught.value, made)
    assert text.startswith(f"[error] search: {said}")
    assert text.endswith("Its arguments are: pattern, path, kind, most.")


def test_an_expected_error_speaks_for_itself_and_another_with_its_type() -> None:
    made = tool(search)
    assert explain(ToolError("no such colour"), made) == "[error] no such colour"
    assert explain(KeyError("x"), made) == "[error] KeyError: 'x'"
    assert len(explain(ToolError("x" * 100_000), made)) < 2_100


def test_a_denial_names_its_rule() -> None:
    class Denied(Exception):
        rule = "read(secret/**)"

    assert explain(Denied("secret/a"), tool(search)).startswith("[denied by read(secret/**)] ")


def test_decorating_gives_a_tool_that_is_still_the_function() -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    @tool(name="triple", bounded=True)
    def threefold(n: int) -> int:
        """Triple."""
        return 3 * n

    assert isinstance(double, Tool)
    assert double(4) == 8
    assert (threefold.name, threefold.bounded, threefold(2)) == ("triple", True, 6)
    assert by_name([double, threefold]).keys() == {"double", "triple"}


def test_methods_nested_models_and_annotated_fields_work() -> None:
    class Box:
        def put(self, at: Point, label: Annotated[str, Field(max_length=3)] = "a") -> str:
            """Put."""
            return f"{at.x}{label}"

    made = tool(Box().put)
    assert "at" in made.input_schema["properties"]
    assert made(Point(x=1)) == "1a"


def test_a_type_that_cannot_be_found_is_named() -> None:
    class Local:
        pass

    def takes(it: Local) -> str:
        """Take."""
        return ""

    with pytest.raises(ConfigError, match="tool takes: name 'Local' is not defined"):
        tool(takes)


@pytest.mark.parametrize("bad", [lambda x: x, lambda *x: x])
def test_a_function_that_cannot_be_described_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"tool <lambda>"):
        tool(bad)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tools are named search"):
        by_name([search, search])


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, "(no output)"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
        ([{"a": 1}], '[{"a":1}]'),
    ],
)
def test_return_values_become_results(value: Any, output: Any) -> None:
    assert as_output(value) == output
