"""Tools from plain functions."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field, ValidationError

from orchestrator import ConfigError, ToolError, run, this_call, tool
from orchestrator.messages import text_block
from orchestrator.outputs import as_output
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.tools import Tool, by_name, explain
from tests.pictures import bytes_of, document, image, pdf, png

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


class Adder:
    """Adds to a number."""

    def __init__(self, one: int) -> None:
        self.one = one

    async def __call__(self, other: int) -> int:
        return self.one + other


async def add(one: int, other: int) -> int:
    """Add."""
    return one + other


@functools.wraps(add)
def logged(*args: Any, **kwargs: Any) -> Any:
    return add(*args, **kwargs)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (tool(name="adder")(Adder(2)), {"other": 3}),
        (tool(functools.partial(add, 2)), {"other": 3}),
        (tool(functools.partial(add, other=3)), {"one": 2}),
        (tool(logged), {"one": 2, "other": 3}),
    ],
)
async def test_whatever_can_be_called_becomes_a_tool_and_is_awaited_if_it_must_be(
    made: Tool, given: dict[str, Any]
) -> None:
    assert await made.run(given) == "5"


def yields(n: int) -> Iterator[int]:
    """Yield."""
    yield n


@pytest.mark.parametrize(
    ("bad", "why"), [(yields, "tool yields: it yields"), (Adder(1), r"use tool\(name=…\)")]
)
def test_what_cannot_be_called_by_a_model_is_refused(bad: Callable[..., Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        tool(bad)


async def test_exit_in_a_tool_ends_the_call_and_not_the_run(tmp_path: Path) -> None:
    def leaves() -> None:
        """Leave."""
        sys.exit(3)

    async def leaves_too() -> None:
        """Leave."""
        raise SystemExit("bye")

    def script(request: Any) -> Any:
        return "\n".join(results(request)) or [call("leaves"), call("leaves_too")]

    report = await run("go", model=ScriptedModel(script), root=tmp_path, tools=[leaves, leaves_too])
    assert report.conclusion == (
        "[error] leaves ended with exit(3)\n[error] leaves_too ended with exit('bye')"
    )


async def test_an_error_in_a_task_group_is_told_by_itself() -> None:
    async def fails() -> None:
        """Fail."""

        async def inside() -> None:
            raise ToolError("no such colour")

        async with anyio.create_task_group() as group:
            group.start_soon(inside)

    made = tool(fails)
    with pytest.raises(ExceptionGroup) as caught:
        await made.run({})
    assert explain(caught.value, made) == "[error] no such colour"


async def test_a_call_that_takes_longer_than_its_time_is_an_error() -> None:
    """Also one in a thread, which cannot be stopped: nobody waits for it."""
    stopped, over = [], threading.Event()

    @tool(seconds=0.05)
    async def sleeps() -> None:
        """Sleep."""
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    @tool(seconds=0.05)
    def hangs() -> None:
        """Hang."""
        over.wait(30)

    for made in (sleeps, hangs):
        with pytest.raises(ToolError, match=rf"{made.name}: stopped after 0.05 seconds"):
            await made.run({})
    assert stopped == [True]
    over.set()


async def test_a_call_within_its_time_is_answered() -> None:
    assert await tool(seconds=60)(add).run({"one": 1, "other": 1}) == "2"


def shown(value: Any) -> Any:
    """A result with the bytes of its media."""
    output = as_output(value)
    if isinstance(output, str):
        return output
    return [b.get("text") or (b["type"], bytes_of(b)) for b in output]


LINE = f"[result · image/png · 4×3 · {len(png(4, 3))} bytes · about 1 tokens]"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (png(4, 3), [LINE, ("image", png(4, 3))]),
        (b"caf\xc3\xa9", "café"),
        (["before", png(4, 3), "after"], ["before", LINE, ("image", png(4, 3)), "after"]),
        (["page", pdf(1)], ["page", shown(pdf(1))[0], ("document", pdf(1))]),
        ((text_block("x"), "y"), ["x", "y"]),
        (image(png(4, 3)), None),
        ([image(png(4, 3))], [("image", png(4, 3))]),
        ([document(png(4, 3))], [("image", png(4, 3))]),
        (["a", "b"], '["a","b"]'),
        (["a", 1, png()], None),
    ],
)
def test_images_pdfs_and_bytes_become_parts_of_a_result(value: Any, output: Any) -> None:
    """A block says what its bytes are, whatever the function said: a wrong type would be refused with
    every later request."""
    if output is None:
        assert isinstance(as_output_or_error(value), str)
    else:
        assert shown(value) == output


def as_output_or_error(value: Any) -> Any:
    try:
        return as_output(value)
    except ValueError as error:  # bytes that are no text, inside of JSON
        return str(error)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff\xfe\0", "3 bytes that are neither text nor an image nor a PDF"),
        (png()[:-20], "cannot be shown: result: is image/png of .* damaged"),
        ([image(b"text")], "an image whose bytes are neither image nor PDF"),
        (
            [{"type": "image", "source": {"type": "base64", "data": "not base64!"}}],
            "an image that is no base64",
        ),
    ],
)
async def test_what_a_model_cannot_be_shown_is_an_error_and_not_part_of_the_history(
    value: Any, why: str
) -> None:
    def gives() -> Any:
        """Give."""
        return value

    with pytest.raises(ToolError, match=why):
        await tool(gives).run({})


async def test_a_tool_can_ask_whose_call_it_is(tmp_path: Path) -> None:
    """In a thread as well; the key is another for each call, and outside of a call there is none."""
    keys = []

    async def where() -> str:
        """Where."""
        keys.append(this_call().key)
        return f"{this_call().root} {this_call().agent_id}"

    def where_in_thread() -> str:
        """Where."""
        keys.append(this_call().key)
        return f"{this_call().root} {this_call().run_id}"

    def script(request: Any) -> Any:
        calls = [call("where"), call("where"), call("where_in_thread")]
        return "\n".join(results(request)) or calls

    report = await run(
        "go",
        model=ScriptedModel(script),
        root=tmp_path,
        tools=[where, where_in_thread],
        run_id="r",
    )
    assert report.conclusion == f"{tmp_path} main\n{tmp_path} main\n{tmp_path} r"
    assert len(set(keys)) == 3
    assert all(key.startswith("r/main/1.") for key in keys)
    with pytest.raises(LookupError):
        this_call()
