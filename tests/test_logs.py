"""The log: documented lines, no content unless asked, no secrets ever."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from orchestrator.errors import JournalError
from orchestrator.events import (
    EVENT,
    AgentStarted,
    Event,
    Fact,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    PermissionDecided,
    Record,
    RunStarted,
    ToolReturned,
)
from orchestrator.ledger import Usage
from orchestrator.logs import (
    HEADER,
    LogWriter,
    event_types,
    log_line,
    log_schema,
    timestamp,
)
from orchestrator.redaction import redactor

DOCS = Path(__file__).parent.parent / "docs"
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def record(fact: Event, seq: int = 1, agent_id: str = "main", turn: int = 0) -> Record:
    return Record(seq=seq, ts=1_796_000_000.042, agent_id=agent_id, turn=turn, fact=fact)


def said(text: str) -> MessageAdded:
    return MessageAdded(text=text, origin="user")


def started(agent_id: str, parent_id: str | None, agent_type: str) -> AgentStarted:
    return AgentStarted(agent_id=agent_id, parent_id=parent_id, agent_type=agent_type,
                        definition="d", model="m", window_tokens=1, output_tokens=1,
                        brief="secret plan")  # fmt: skip


def write(path: Path, records: Sequence[Record], **options: Any) -> list[dict[str, Any]]:
    with LogWriter(path, "r1", environ={}, **options) as log:
        log(records)
    return lines(path)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


# ── a line ──


def test_a_line_has_the_header_then_the_events_fields() -> None:
    """L1: schema version, run, agent, parent, type, turn and time; usage as the provider has it."""
    usage = Usage(1, 2, 3, 4, 4, 0)
    fact = ModelReplied(model="m", blocks=[{"type": "text", "text": "hi"}], stop_reason="end_turn",
                        usage=usage, request_id="req_1", latency_ms=7)  # fmt: skip
    line = log_line(record(fact, 5, "main.t1", 3), "r1", {"main.t1": ("main", "explorer")})
    assert line == {
        "schema": 1,
        "ts": "2026-11-30T00:53:20.042Z",
        "seq": 5,
        "event": "model_replied",
        "run_id": "r1",
        "agent_id": "main.t1",
        "parent_id": "main",
        "agent_type": "explorer",
        "turn": 3,
        "purpose": "agent",
        "model": "m",
        "stop_reason": "end_turn",
        "usage": usage.as_json(),
        "request_id": "req_1",
        "message_id": None,
        "estimate_tokens": 0,
        "context_tokens": 0,
        "truncated": False,
        "latency_ms": 7,
        "request_hash": None,
    }
    assert list(line)[:9] == list(HEADER)


def test_a_call_that_reported_nothing_has_no_usage() -> None:
    """L2: null, not zeros."""
    line = log_line(record(ModelFailed(model="m", kind="timeout", message="x")), "r1", {})
    assert line["usage"] is None


@pytest.mark.parametrize("ts", [0.0, 1_796_000_000.0, 1_796_000_000.9996, 4_000_000_000.5])
def test_a_time_is_rfc_3339_in_utc_with_milliseconds(ts: float) -> None:
    assert re.fullmatch(HEADER["ts"]["pattern"], timestamp(ts))


def canaries() -> dict[str, Fact]:
    """One event of every class, each text field of people and models holding the canary."""
    return {kind.__name__: _filled(kind) for kind in event_types()}


def _filled(kind: type[Fact]) -> Fact:
    schema = log_schema()
    (described,) = (each for each in schema["oneOf"] if each["title"] == _name(kind))
    values = {name: _sample(name, part) for name, part in described["properties"].items()}
    for name in kind.content:
        values[name] = ["canary"] if name in ("facts", "more_facts") else _canary(values[name])
    return EVENT.validate_python(values | {"agent_id": "main"})


def _name(kind: type[Fact]) -> str:
    return str(kind.model_fields["event"].default)


def _sample(name: str, schema: dict[str, Any]) -> Any:
    if "anyOf" in schema:
        return _sample(name, schema["anyOf"][0])
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    samples: dict[str, Any] = {"string": "text", "integer": 3, "number": 2.5, "boolean": True}
    samples |= {"array": [], "object": {}}
    return Usage(1, 2) if "$ref" in schema else samples[schema["type"]]


def _canary(value: Any) -> Any:
    match value:
        case str():
            return "canary"
        case list():
            return [{"text": "canary"}]
        case dict():
            return {"text": "canary"}
        case _:
            return value  # a number says nothing


@pytest.mark.parametrize("fact", canaries().values(), ids=canaries().keys())
def test_content_appears_only_when_asked_for(fact: Event) -> None:
    """L1: without --log-content no line holds what people, models or tools wrote; with it, all."""
    dry = log_line(record(fact), "r1", {})
    full = log_line(record(fact), "r1", {}, with_content=True)
    assert "canary" not in json.dumps(dry)
    texts = [name for name in fact.content if "canary" in json.dumps(full[name])]
    assert len(texts) == json.dumps(full).count("canary") > 0 or not fact.content
    assert full.keys() - dry.keys() == fact.content


# ── the documents ──


SCHEMA = json.loads((DOCS / "log.schema.json").read_text())
LINES = Draft202012Validator(SCHEMA)


def faults(line: Any) -> list[str]:
    """What is wrong with a line of a log, by the schema file and the library that others would check
    theirs with."""
    return [f"{error.json_path}: {error.message[:300]}" for error in LINES.iter_errors(line)]


def test_the_schema_file_is_the_generated_one() -> None:
    """L1: documented; after a change of the events: python docs/make_log_schema.py"""
    assert log_schema() == SCHEMA


@pytest.mark.parametrize("with_content", [False, True])
def test_every_events_line_fits_the_schema_file(tmp_path: Path, with_content: bool) -> None:
    """L1: one line of every event class, as it stands in the file."""
    facts = [EVENT.validate_python(fact) for fact in canaries().values()]
    records = [record(fact, number) for number, fact in enumerate(facts, 1)]
    written = write(tmp_path / "log.jsonl", records, with_content=with_content)
    assert len(written) == len(facts)
    for line in written:
        assert faults(line) == []
        for name in line:
            assert faults({**line, name: object()}) or name in _free(SCHEMA, line)


def _free(schema: dict[str, Any], line: dict[str, Any]) -> set[str]:
    """Fields of any JSON type."""
    (described,) = (each for each in schema["oneOf"] if each["title"] == line["event"])
    return {name for name, part in described["properties"].items() if not part.keys() & {"type", "anyOf", "const", "$ref", "enum"}}  # fmt: skip


def test_the_document_names_every_event_and_field() -> None:
    """L1: docs/log.md has a row for each event, with all its fields, content marked as such."""
    text = (DOCS / "log.md").read_text()
    found = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|$", text, re.MULTILINE)
    rows = {name: (_quoted(plain), _quoted(content)) for name, plain, content in found}
    expected = {}
    for kind in event_types():
        named = {field.alias or name for name, field in kind.model_fields.items()}
        fields = named - HEADER.keys()
        expected[_name(kind)] = (set(fields - kind.content), set(kind.content))
    assert rows == expected
    assert re.findall(r"^\| `(\w+)` \|[^|]*\|$", text, re.MULTILINE) == list(HEADER)


def _quoted(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


# ── secrets ──

SECRETS = [
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789-AA",
    "sk-proj-abcdefghijklmnopqrstuvwx",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefghij0123456789",
    "xoxb-123456789012-abcdefghijkl",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
]
PHRASES = [
    ("Authorization: Bearer {}", "qrs0tuv1wxy2zab3cde4"),
    ("authorization: Basic {}", "dXNlcjpodW50ZXIy"),
    ('{{"Authorization": "{}"}}', "plainvalue"),
    ("curl -H 'Authorization: token {}' x", "0123456789abcdef"),
    ("the bearer {} was sent", "0123456789abcdefghij"),
    ("Set-Cookie: {}", "session=abc123; Path=/"),
    ("password={}", "hunter2"),
    ("export DB_PASSWORD='{}'", "hunter2"),
    ('{{"password": "{}"}}', "hunter2"),
    ('{{\\"api_key\\": \\"{}\\"}}', "hunter2"),
    ("client_secret: {}", "hunter2"),
    ("postgres://user:{}@host/db", "hunter2"),
    ("https://x/y?a=1&token={}&b=2", "hunter2"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKC\nAQEA"),
    ("-----BEGIN PRIVATE KEY-----\\n{}", "MIIEowIBAAKC"),
]


@pytest.mark.parametrize(
    ("phrase", "secret"), [*(("key {} here", each) for each in SECRETS), *PHRASES]
)
@pytest.mark.parametrize("with_content", [False, True])
def test_secrets_never_appear(phrase: str, secret: str, with_content: bool) -> None:
    """L1: known shapes are taken out of every field, nested ones too, with content or without."""
    text = phrase.format(secret)
    facts: list[Event] = [
        said(text),
        PermissionDecided(tool="bash", rule=f"bash({text})", decision="deny", by=text),
        ToolReturned(tool="t", tool_use_id="t", index=0, result=[{"type": "text", "text": text}]),
        ModelReplied(model="m", stop_reason=None, usage=Usage(),
                     blocks=[{"type": "tool_use", "input": {"deep": [{text: text}]}}]),
    ]  # fmt: skip
    for fact in facts:
        line = log_line(record(fact), "r1", {}, with_content)
        assert secret not in str(line)
        if with_content:
            assert "[redacted]" in str(line)


@pytest.mark.parametrize(("phrase", "secret"), [*(("{}", each) for each in SECRETS), *PHRASES])
@pytest.mark.parametrize(
    "escaped",
    [
        lambda text: json.dumps(f"a line\n{text}"),
        lambda text: json.dumps(json.dumps(f"a line\t{text}")),
        lambda text: json.dumps(f"a line\u2028{text}"),
        lambda text: f"x%3D{text}",
        lambda text: f"\x1b[1;31m{text}\x1b[0m",
        lambda text: json.dumps(f"\x1b[m{text}"),
    ],
    ids=["JSON", "JSON in JSON", "an escaped character", "an address", "colour", "colour in JSON"],
)
def test_secrets_behind_an_escape_do_not_appear(
    escaped: Callable[[str], str], phrase: str, secret: str
) -> None:
    """L1: the last letter of an escape is no part of what follows it, as `\\nAKIA…` in a call's input."""
    first = secret.splitlines()[0]
    assert first not in redactor({})(escaped(phrase.format(secret)))


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "x-api-key", "token", "Cookie"])
def test_a_field_named_like_a_secret_is_taken_out(name: str) -> None:
    """L1: a tool's argument called `password` goes, whatever its value looks like."""
    blocks = [{"type": "tool_use", "input": {name: "correct horse", "user": "ann"}}]
    fact = ModelReplied(model="m", blocks=blocks, stop_reason=None, usage=Usage())
    line = log_line(record(fact), "r1", {}, with_content=True)
    assert line["blocks"][0]["input"] == {name: "[redacted]", "user": "ann"}


def test_values_of_secret_variables_are_taken_out() -> None:
    """L1: what stands in variables named like secrets never appears, also inside other text."""
    environ = {"MY_API_KEY": "tuesday-afternoon", "STRIPE_TOKEN_OLD": "tuesday-afternoon-tea",
               "DEPLOY_PASSWORD": 'a "quoted"\nvalue', "HOME": "/home/someone", "KEY": "1"}  # fmt: skip
    redact = redactor(environ)
    assert redact("xtuesday-afternoon-teax tuesday-afternoon.") == "x[redacted]x [redacted]."
    assert redact('a "quoted"\nvalue') == "[redacted]"
    assert redact(json.dumps('a "quoted"\nvalue')) == '"[redacted]"'
    assert "value" not in redact(json.dumps(json.dumps('a "quoted"\nvalue')))
    assert redact("/home/someone 1") == "/home/someone 1"


@pytest.mark.parametrize(
    "text",
    [
        "a basic understanding of the bearer of bad news",
        "input_tokens=12 output_tokens: 9, max_tokens",
        "main.toolu_01A09q90qw90lq917835lq9 /srv/keys/readme.md",
        "https://example.org:8080/a@b?page=2",
        "the key idea is a token of thanks: skip, risk-free",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """Redaction leaves alone what is no secret."""
    assert redactor({})(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "eyJ-",
        "sk-",
        "://",
        "-----BEGIN PRIVATE KEY-----",
        "password",
        "bearer ",
        "cookie:",
        "xoxb-",
        "\\nsk-",
        "%3DeyJ-",
        "\x1b[31mcookie:",
        "\\nauthorization: x ",
    ],
)
def test_redaction_is_linear(text: str) -> None:
    """A hostile text of many beginnings of secrets does not stall the writer."""
    redact = redactor({})

    def seconds(times: int) -> float:
        began = time.process_time()
        redact(text * times)
        return time.process_time() - began

    assert seconds(40_000) < 12 * (seconds(10_000) + 0.02)


@given(ANY_TEXT)
def test_any_text_makes_one_ascii_line(text: str) -> None:
    """L1: control characters, ANSI codes, U+2028 and lone surrogates stay inside their line."""
    line = json.dumps(log_line(record(said(text)), "r1", {}, with_content=True))
    assert line.isascii()
    assert line.isprintable()


# ── the file ──


def test_lines_are_there_as_soon_as_they_are_written(tmp_path: Path) -> None:
    """L1: a person who follows the file sees each line at once; parents are known from the records."""
    path = tmp_path / "log.jsonl"
    with LogWriter(path, "r1", environ={}) as log:
        log([record(started("main", None, "main"))])
        log([record(started("main.t1", "main", "explorer"), 2, "main.t1")])
        log([record(said("x"), 3, "main.t1")])
        assert [(line["seq"], line["parent_id"], line["agent_type"]) for line in lines(path)] == [
            (1, None, "main"),
            (2, "main", "explorer"),
            (3, "main", "explorer"),
        ]
    header = list(HEADER)
    assert [list(line)[: len(header)] for line in lines(path)] == [header] * 3


def test_a_resumed_run_continues_its_log(tmp_path: Path) -> None:
    """L4: fed with all records again, the log takes those that it lacks, each once."""
    path = tmp_path / "log.jsonl"
    records = [record(said("x"), seq) for seq in range(1, 6)]
    write(path, records[:3])
    assert [line["seq"] for line in write(path, records)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("lost", [1, 2, 40, 10_000])
def test_a_torn_log_is_made_whole(tmp_path: Path, lost: int) -> None:
    """L5: a torn last line is cut off and written again from the journal."""
    path = tmp_path / "log.jsonl"
    records = [record(said("x"), seq) for seq in range(1, 6)]
    write(path, records)
    whole = path.read_bytes()
    os.truncate(path, max(0, len(whole) - lost))
    write(path, records)
    assert path.read_bytes() == whole


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path) -> None:
    """L5: a foreign file in the log's place is named and not written to."""
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(JournalError, match="does not end in a log line: move it away"):
        LogWriter(path, "r1", environ={})
    assert path.read_text() == '{"a": 1}\n'


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """L5: a folder in its place, or a full disk; the journal is whole all the same."""
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(JournalError, match=r"cannot write the log .*: Is a directory; the journal"):
        LogWriter(tmp_path / "log.jsonl", "r1", environ={})
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    log = LogWriter(tmp_path / "full.jsonl", "r1", environ={})
    with pytest.raises(JournalError, match="No space left on device"):
        log([record(said("x"))])
    with pytest.raises(JournalError, match="No space left on device"):
        log.close()


def test_structlog_is_loaded_late() -> None:
    """Importing the module costs no structlog."""
    check = "import sys, orchestrator.logs; sys.exit('structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_the_runs_first_events_belong_to_the_main_agent() -> None:
    """L1: run_started comes before any agent is known; its line has every field all the same."""
    fact = RunStarted(task="t", task_chars=1, model="m", version="0", root="/w")
    line = log_line(record(fact), "r1", {})
    assert (line["agent_id"], line["parent_id"], line["agent_type"]) == ("main", None, "main")
