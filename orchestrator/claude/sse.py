"""Server-sent events, from bytes in pieces of any size to parsed JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]


class EventDecoder:
    """Each event's JSON is parsed once, when its closing blank line has come.

    A trailing event without that line is dropped, as the standard says: it may have been cut.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that ``chunk`` completes, each with its ``type``.

        Raises `json.JSONDecodeError` for data that is not a JSON object.
        """
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif line.startswith(b"event:"):
                self._name = line[6:]
            elif not line:
                if self._data:
                    yield _parsed(self._name, b"\n".join(self._data))
                self._name, self._data = b"", []


def _parsed(raw_name: bytes, data: bytes) -> Event:
    try:
        event = json.loads(data.decode())
    except (ValueError, RecursionError):
        event = None
    if isinstance(event, dict) and "type" in event:
        return event
    name = raw_name.decode(errors="replace").strip()
    if isinstance(event, dict):
        # A gateway that says the type only in the event's name.
        return {"type": name, **event}
    text = data.decode(errors="replace").strip()
    if name != "error":
        raise json.JSONDecodeError(f"a {name or 'nameless'} event is no JSON object", text, 0)
    # A gateway's own error, in plain text.
    return {"type": name, "error": {"message": text}}
