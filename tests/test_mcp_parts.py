"""The parts of the MCP client that decide: configurations, names, schemas, lines, lists."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ToolError
from orchestrator.mcp import schemas
from orchestrator.mcp.config import Found, ServerConfig, read_file_value, read_text
from orchestrator.mcp.lines import Lines, TooLong
from orchestrator.mcp.listing import MOST_TOOLS, read_listing
from orchestrator.mcp.names import server_key, tool_names
from orchestrator.mcp.schemas import SchemaArguments

pytest.importorskip("mcp")

# ── configurations ──


def servers(value: Any, **environ: str) -> Found:
    return read_file_value({"mcpServers": value}, "f.json", environ)


def only(entry: dict[str, Any], **environ: str) -> ServerConfig:
    found = servers({"s": entry}, **environ)
    assert found.problems == ()
    (server,) = found.servers
    return server


def problem(entry: Any, **environ: str) -> str:
    found = servers({"s": entry}, **environ)
    assert found.servers == ()
    (said,) = found.problems
    assert said.startswith("f.json: server 's': ")
    return said.removeprefix("f.json: server 's': ")


def test_both_transports_are_read_with_variables_and_times() -> None:
    local = only(
        {
            "command": "${HOME}/bin/x",
            "args": ["--token=${TOKEN}", "${MISSING:-otherwise}", "$HOME", 7],
            "env": {"A": "${TOKEN}", "B": 1},
            "timeout": 1500,
            "startupTimeout": 90_000,
            "unknown": "is passed over",
        },
        HOME="/h",
        TOKEN="t",
    )
    assert (local.transport, local.command) == ("stdio", "/h/bin/x")
    assert local.args == ("--token=t", "otherwise", "$HOME", "7")
    assert local.env == {"A": "t", "B": "1"}
    assert (local.call_seconds, local.start_seconds) == (1.5, 90)
    remote = only({"url": "https://h/mcp?key=${K}", "headers": {"Authorization": "B ${K}"}}, K="k")
    assert (remote.transport, remote.url) == ("http", "https://h/mcp?key=k")
    assert remote.headers == {"Authorization": "B k"}
    assert only({"type": "sse", "url": "http://h"}).transport == "sse"
    assert only({"type": "streamable-http", "url": "http://h"}).transport == "http"


def test_secrets_are_in_no_representation() -> None:
    remote = only({"url": "https://h/mcp?key=secret", "headers": {"A": "secret"}})
    assert remote.address == "https://h/mcp"
    local = only({"command": "x", "args": ["ok"], "env": {"A": "secret"}})
    assert "secret" not in repr(local)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("npx", 'write {"command"'),
        ({}, "command is missing"),
        ({"command": " "}, "command is missing"),
        ({"command": 7}, "command is missing"),
        ({"command": "x", "args": "y"}, "args is no list"),
        ({"command": "x", "env": ["y"]}, "env is no table"),
        ({"command": "x\0y"}, "NUL"),
        ({"command": "${NOWHERE}"}, "the variable NOWHERE is not set"),
        ({"type": "ws", "url": "ws://x"}, "type 'ws' is not known"),
        ({"type": "http"}, "url is missing"),
        ({"url": "file:///etc/passwd"}, "no http or https address"),
        ({"command": "x", "timeout": -1}, "no time in milliseconds"),
        ({"command": "x", "timeout": True}, "no time in milliseconds"),
        ({"command": "x", "env": {"K": "${ANTHROPIC_API_KEY}"}}, "a project's file is not given"),
    ],
)
def test_what_cannot_be_used_is_said(entry: Any, said: str) -> None:
    assert said in problem(entry, ANTHROPIC_API_KEY="sk")


def test_one_bad_server_does_not_cost_the_others_and_one_that_is_off_says_nothing() -> None:
    found = servers({"bad": 1, "off": {"disabled": True}, "good": {"command": "x"}})
    assert [server.name for server in found.servers] == ["good"]
    assert len(found.problems) == 1


def test_of_two_files_the_first_describes_a_server() -> None:
    named = read_text('{"mcpServers": {"a.b": {"command": "mine"}}}', "mine", {}, is_named=True)
    found = named + servers({"a_b": {"command": "theirs"}, "c": {"command": "c"}})
    assert [server.command for server in found.servers] == ["mine", "c"]
    assert found.problems == ("f.json: server 'a_b': passed over, mine describes 'a.b' too",)


@given(st.text(max_size=200) | st.sampled_from(["[" * 100_000, "null", '{"mcpServers": []}']))
def test_any_text_is_servers_or_problems(text: str) -> None:
    found = read_text(text, "f", {})
    assert found.servers or found.problems or "mcpServers" in text


# ── names ──


@pytest.mark.parametrize("name", ["", "_", "a__b", "_a", "a_", "a" * 33, "сервер", "//"])
def test_a_servers_name_that_could_be_taken_for_another_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="its name"):
        server_key(name)


@pytest.mark.parametrize(("name", "key"), [("a", "a"), ("my.server", "my_server"), ("A-1", "A-1")])
def test_a_servers_key_is_its_name_in_legal_characters(name: str, key: str) -> None:
    assert server_key(name) == key


@given(st.lists(st.text(min_size=1, max_size=90) | st.sampled_from(["a.b", "a_b", "a b"])))
def test_tools_names_are_legal_different_and_stable(tools: list[str]) -> None:
    names = tool_names("server", tools)
    assert set(names) == set(tools)
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"mcp__server__[A-Za-z0-9_-]{1,51}", name) for name in names.values())
    assert tool_names("server", tools[::-1]).keys() == names.keys()
    for tool in tools:
        if re.fullmatch(r"[A-Za-z0-9_-]{1,51}", tool):
            assert names[tool] == f"mcp__server__{tool}"


# ── schemas ──


def a_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def fits(schema: dict[str, Any], **arguments: Any) -> str | None:
    try:
        assert SchemaArguments("t", schema).checked(arguments) == arguments
    except ToolError as error:
        return str(error)
    return None


def test_arguments_that_do_not_fit_are_named() -> None:
    schema = {
        **a_schema(a={"type": "integer"}, b={"enum": ["x", "y"]}),
        "additionalProperties": False,
    }
    assert fits(schema, a=1, b="x") is None
    assert fits(schema, a="1", b="x") == (
        "t: a: '1' is not of type 'integer'. Its arguments are: a, b."
    )
    assert "'b' is a required property" in str(fits(schema, a=1))
    assert "'c' was unexpected" in str(fits(schema, a=1, b="x", c=2))


def test_a_servers_regular_expressions_and_references_are_not_run_here() -> None:
    schema = a_schema(
        slow={"type": "string", "pattern": "^(a+)+$"},
        again={"$ref": "#/$defs/again", "additionalProperties": False},
    )
    assert schemas.problem_of(schema) is None
    assert fits(schema, slow="a" * 5_000 + "!", again={"anything": 1}) is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "no object schema"),
        ({}, "no object schema"),
        ({"type": "string"}, "no object schema"),
        ({"type": "object", "oneOf": []}, "oneOf at the top"),
        ({"type": "object", "properties": {"a b": {}}}, "'a b'"),
        ({"type": "object", "properties": []}, "is no JSON Schema"),
        ({"type": "object", "required": "a"}, "is no JSON Schema"),
        (a_schema(a={"$ref": "https://example.org/s.json"}), "refers to another document"),
        (a_schema(a={"description": "x" * 20_000}), "over 20,000 characters"),
    ],
)
def test_a_schema_that_would_cost_every_request_is_refused(schema: Any, said: str) -> None:
    assert said in str(schemas.problem_of(schema))


def test_a_deep_schema_is_refused_before_anything_walks_it() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"items": deep}
    assert schemas.problem_of(a_schema(a=deep)) == "its input schema is nested too deeply"
    while deep:  # taken apart bit by bit: freeing it at once would go as deep
        deep = deep.pop("items")


# ── lists ──


def test_a_long_list_is_cut_and_says_so() -> None:
    entries = [{"name": f"t{n}", "inputSchema": a_schema()} for n in range(MOST_TOOLS + 2)]
    listing = read_listing("s", entries)
    assert len(listing.tools) == MOST_TOOLS
    assert len(listing.left_out) == 2
    wide = [{"name": f"t{n}", "inputSchema": a_schema(a={"title": "x" * 15_000})} for n in range(9)]
    listing = read_listing("s", [*wide, {"name": "small", "inputSchema": a_schema()}])
    # What is too much is left out; what comes after it and still fits is not.
    assert [offered.tool for offered in listing.tools.values()] == [
        "t0",
        "t1",
        "t2",
        "t3",
        "t4",
        "t5",
        "small",
    ]
    assert all("100,000 characters" in said for said in listing.left_out)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)
ENTRIES = st.fixed_dictionaries(
    {}, optional={"name": JSON, "description": JSON, "annotations": JSON, "inputSchema": JSON | st.just(a_schema())}
)  # fmt: skip


@given(st.lists(ENTRIES | JSON, max_size=6))
def test_any_list_is_read_and_what_is_offered_can_be_sent(entries: list[Any]) -> None:
    listing = read_listing("s", entries)
    assert len(listing.tools) + len(listing.left_out) == len(entries)
    for name, offered in listing.tools.items():
        assert name == offered.name
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert offered.input_schema["type"] == "object"
        json.dumps([offered.description, offered.input_schema]).encode()


# ── lines ──


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7), st.integers(1, 30))
def test_lines_are_the_same_however_they_arrive(parts: list[bytes], step: int, most: int) -> None:
    data = b"".join(part.replace(b"\n", b"") + b"\n" for part in parts)
    lines = Lines(most)
    got = [line for i in range(0, len(data), step) for line in lines.take(data[i : i + step])]
    expected: list[bytes | int] = [
        len(line) if len(line) > most else line
        for line in data.split(b"\n")
        if line.strip() or len(line) > most
    ]
    assert [line.size if isinstance(line, TooLong) else line for line in got] == expected
    assert lines.pending == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":42,"result":{"id":7,"x":"%s"}}',
        b'{"result":{"id":7,"x":"%s"},"jsonrpc":"2.0","id":42}',
        b'{"result": {"id": 7, "x": "%s"}, "id": 42, "jsonrpc": "2.0"}',
    ],
)
def test_whom_a_line_that_is_not_kept_answers_is_found_wherever_its_id_stands(line: bytes) -> None:
    (found,) = Lines(1_000).take(line % (b"x" * 5_000) + b"\n")
    assert isinstance(found, TooLong)
    assert found.answers == 42
