"""The table and its rows: how an entry becomes one, and a record again. Pure."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any

from orchestrator.errors import JournalError
from orchestrator.events import Record, from_json, to_json
from orchestrator.journal.seam import Entry
from orchestrator.journal.wording import damaged

# Kept in the file's user_version. Readers refuse a higher one.
SCHEMA_VERSION = 1

# Bodies above this many bytes are compressed: below it zlib gains nothing that matters.
_COMPRESS_ABOVE = 400

CREATE = f"""
CREATE TABLE records (
    seq INTEGER PRIMARY KEY,
    ts REAL NOT NULL,
    agent_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    event TEXT NOT NULL,
    packed INTEGER NOT NULL,
    body BLOB NOT NULL,
    digest BLOB NOT NULL
);
PRAGMA user_version = {SCHEMA_VERSION};
"""
_COLUMNS = "seq, ts, agent_id, turn, event, packed, body, digest"
INSERT = f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SELECT = (
    f"SELECT {_COLUMNS} FROM records WHERE seq > ? AND (? IS NULL OR agent_id = ?) ORDER BY seq"
)
SELECT_SOME = f"SELECT {_COLUMNS} FROM records WHERE seq > ? ORDER BY seq LIMIT ?"
SELECT_ONE = f"SELECT {_COLUMNS} FROM records WHERE seq = ?"

Row = tuple[int, float, str, int, str, int, bytes, bytes]
# An entry to be written: when it happened, what, and the event's JSON.
Encoded = tuple[float, Entry, bytes]


def encoded(ts: float, entry: Entry) -> Encoded:
    """Made before anything is written: what cannot be encoded fails by itself."""
    entry.agent_id.encode()
    return ts, entry, to_json(entry.fact)


def row_of(seq: int, ts: float, entry: Entry, data: bytes) -> Row:
    """The row of ``entry``; ``data`` is its event's JSON."""
    packed = len(data) > _COMPRESS_ABOVE
    body = zlib.compress(data) if packed else data
    event: str = entry.fact.event  # type: ignore[attr-defined]  # every subclass has it
    head = (seq, ts, entry.agent_id, entry.turn, event, int(packed))
    return (*head, body, _digest(head, body))


def record_of(seq: int, ts: float, entry: Entry) -> Record:
    """The record that `decode` would give back."""
    # Constructed, not validated: the fact is an event already.
    agent_id, turn, fact = entry
    return Record.model_construct(seq=seq, ts=ts, agent_id=agent_id, turn=turn, fact=fact)


def _digest(head: tuple[Any, ...], body: bytes) -> bytes:
    """16 bytes over the whole row, its place included: a changed or moved row does not match."""
    return hashlib.blake2b(repr(head).encode() + body, digest_size=16).digest()


def is_whole(row: Row) -> bool:
    """Whether the row is as it was written."""
    body, digest = row[6:]
    return isinstance(body, bytes) and _digest(row[:6], body) == digest


def text_of(row: Row) -> bytes:
    """The event's JSON, as it was written. Raises ``zlib.error``."""
    packed, body = row[5:7]
    return zlib.decompress(body) if packed else body


def decode(path: Path, row: Row, last: int) -> Record:
    """The record of a row that was read after record ``last``. Raises `JournalError`."""
    seq, ts, agent_id, turn, event = row[:5]
    if not is_whole(row):
        raise JournalError(damaged(path, last, f"record {seq} is not as it was written"))
    try:
        fact = from_json(text_of(row))
    except (ValueError, zlib.error):  # pydantic's ValidationError is a ValueError
        raise JournalError(
            f"the journal {path} holds a {event} record ({seq}) that this version of Outrider does "
            "not understand: read it with the version that wrote it"
        ) from None
    return Record(seq=seq, ts=ts, agent_id=agent_id, turn=turn, fact=fact)
