"""``log.jsonl``: one JSON line per event, for people and tools, without content and without secrets.

The journal is the truth; the log is a reading of it that `grep` and `jq` understand (fields:
``docs/log.md``, schema: ``docs/log.schema.json``). Lines are made in one pure function, and that is
also where secrets are taken out (`orchestrator.redaction`), with or without content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TextIO, get_args

from orchestrator.errors import JournalError
from orchestrator.events import SCHEMA, AgentStarted, Event, Fact, Record
from orchestrator.ledger import Usage
from orchestrator.redaction import Redact, redact_shapes, redactor, without_secrets

# An agent's parent and type, by its id.
Parents = Mapping[str, tuple[str | None, str]]

# What an agent is taken for before its agent_started: the run's own events come first.
_ORIGIN = (None, "main")


def log_line(
    record: Record,
    run_id: str,
    parents: Parents,
    with_content: bool = False,
    redact: Redact | None = None,
) -> dict[str, Any]:
    """The log's line for ``record``, as JSON.

    ``with_content`` adds what people, models and tools wrote. ``redact`` (from `redactor`) takes
    secrets out; left out, their known shapes still are.
    """
    fact = record.fact
    parent_id, agent_type = parents.get(record.agent_id, _ORIGIN)
    line: dict[str, Any] = {
        "schema": SCHEMA,
        "ts": timestamp(record.ts),
        "seq": record.seq,
        "event": fact.event,
        "run_id": run_id,
        "agent_id": record.agent_id,
        "parent_id": parent_id,
        "agent_type": agent_type,
        "turn": record.turn,
    }
    fields = fact.model_dump(exclude=None if with_content else set(fact.content))
    line = line | {name: value for name, value in fields.items() if name not in line}
    usage = getattr(fact, "usage", None)
    if isinstance(usage, Usage):
        line["usage"] = usage.as_json()
    return {name: without_secrets(value, redact or redact_shapes) for name, value in line.items()}


def log_lines(
    records: Iterable[Record],
    run_id: str,
    parents: MutableMapping[str, tuple[str | None, str]],
    with_content: bool = False,
    redact: Redact | None = None,
    *,
    after: int = 0,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The seq and line of each record behind seq ``after``. ``parents`` is filled from all of them."""
    for record in records:
        if isinstance(record.fact, AgentStarted):
            parents[record.agent_id] = (record.fact.parent_id, record.fact.agent_type)
        if record.seq <= after:
            continue
        yield record.seq, log_line(record, run_id, parents, with_content, redact)


def timestamp(ts: float) -> str:
    """Seconds since the epoch as RFC 3339, UTC, in milliseconds: ``2026-11-30T14:25:01.042Z``."""
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class LogWriter:
    """Writes records to ``log.jsonl`` as they come; call it with each batch, after the commit.

    It continues a log that is there: a line torn by a crash is cut off, and records that the file
    holds already are not written again, so that a resume passes it all records from the first.
    ``environ``: variables whose names look secret; their values never appear in the log. Raises
    `JournalError` when the file cannot be written.
    """

    def __init__(
        self, path: Path, run_id: str, *, environ: Mapping[str, str], with_content: bool = False
    ) -> None:
        self._path = path
        self._run_id = run_id
        self._with_content = with_content
        self._redact = redactor(environ)
        self._parents: dict[str, tuple[str | None, str]] = {}
        try:
            self._last_seq = _repair(path)
            # Line by line: a person may be following the file.
            self._file = path.open("a", encoding="ascii", newline="\n", buffering=1)
        except OSError as error:
            raise self._unwritable(error) from error
        self._write = _structlog_writer(self._file)

    def __call__(self, records: Sequence[Record]) -> None:
        lines = log_lines(
            records,
            self._run_id,
            self._parents,
            self._with_content,
            self._redact,
            after=self._last_seq,
        )
        try:
            for seq, line in lines:
                self._write(**line)
                self._last_seq = seq
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(
            f"cannot write the log {self._path}: {error.strerror or error}; the journal beside it is "
            "whole, and a resumed run writes what the log lacks"
        )


def _structlog_writer(file: TextIO) -> Callable[..., Any]:
    import structlog  # late: a heavy import

    processors: list[structlog.typing.Processor] = [
        _header_first,
        # ASCII only: control characters, ANSI codes and lone surrogates stay escapes.
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]
    logger = structlog.wrap_logger(
        structlog.WriteLogger(file), processors=processors, wrapper_class=structlog.BoundLogger
    )
    write: Callable[..., Any] = logger.msg
    return write


def _header_first(logger: object, method: str, line: MutableMapping[str, Any]) -> dict[str, Any]:
    """structlog puts ``event`` last; in the log the fields that every line has come first."""
    return {name: line[name] for name in HEADER} | dict(line)


def _dumps(line: Any, **options: Any) -> str:
    return json.dumps(line, separators=(",", ":"))


def _repair(path: Path) -> int:
    """Cut a torn last line off. Returns the seq of the last whole line, 0 if there is none."""
    if not path.is_file():
        return 0
    with path.open("r+b") as file:
        end, last = _whole_lines(file)
        file.truncate(end)
    try:
        return int(json.loads(last)["seq"]) if last else 0
    except (ValueError, TypeError, KeyError):
        raise JournalError(
            f"{path} does not end in a log line: move it away, and a resumed run writes it anew"
        ) from None


def _whole_lines(file: BinaryIO) -> tuple[int, bytes]:
    """Where the last line that was written to its end ends, and that line."""
    end, last = 0, b""
    for line in file:
        if line.endswith(b"}\n"):
            end, last = end + len(line), line
    return end, last


# ── the schema of a line ──

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
HEADER: dict[str, dict[str, Any]] = {
    "schema": {"const": SCHEMA},
    "ts": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
    "seq": {"type": "integer", "minimum": 1},
    "event": _TEXT,
    "run_id": _TEXT,
    "agent_id": _TEXT,
    "parent_id": {"type": ["string", "null"]},
    "agent_type": _TEXT,
    "turn": _COUNT,
}
"""The fields that every line has, with their JSON Schema, in their order."""


def event_types() -> tuple[type[Fact], ...]:
    """Every class of `orchestrator.events.Event`."""
    union, _ = get_args(Event)
    return get_args(union)


def log_schema() -> dict[str, Any]:
    """The JSON Schema of one line; ``docs/log.schema.json`` is its output."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of Outrider's log.jsonl",
        "description": "Fields may be added within a schema version, so unknown ones are allowed.",
        "$ref": "#/$defs/line",
        "oneOf": [_event_schema(kind) for kind in event_types()],
        "$defs": {"line": _object(HEADER), "usage": _counts(Usage().as_json())},
    }


def _event_schema(kind: type[Fact]) -> dict[str, Any]:
    described = kind.model_json_schema(mode="serialization")["properties"]
    name = described.pop("event")["const"]
    fields = {
        field: _field_schema(field, schema, field in kind.content)
        for field, schema in described.items()
        if field not in HEADER
    }
    required = ["event", *(field for field in fields if field not in kind.content)]
    return {"title": name} | _object({"event": {"const": name}} | fields, required)


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    required = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": required}


def _field_schema(name: str, schema: dict[str, Any], is_content: bool) -> dict[str, Any]:
    if name == "usage":
        usage = {"$ref": "#/$defs/usage"}
        return {"anyOf": [usage, {"type": "null"}]} if "anyOf" in schema else usage
    kept = {key: value for key, value in schema.items() if key not in ("title", "default")}
    return kept | {"description": "only with --log-content"} if is_content else kept


def _counts(value: Any) -> dict[str, Any]:
    """Of a `Usage.as_json`: the provider's fields, nested as there."""
    if not isinstance(value, dict):
        return _COUNT
    return _object({name: _counts(part) for name, part in value.items()})
