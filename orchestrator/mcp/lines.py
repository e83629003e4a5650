"""Lines out of a stream of bytes, within bounds: what is too long is counted, not kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# One message. The largest thing that a model can be shown is an image of 5 MiB in base64.
MOST_BYTES = 10_000_000
# Enough of a message's beginning and end to find its id, wherever the server writes it.
_END_BYTES = 400
# Blank lines between others are no lines.
_ENDS = re.compile(rb"\n+")
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,80}")'
_FIRST_ID = re.compile(rb"\A\s*\{[^{\[]*?" + _ID)
_LAST_ID = re.compile(_ID + rb'(?:\s*,\s*"jsonrpc"\s*:\s*"2\.0")?\s*\}\s*\Z')


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line over the limit: how long it was, and which request it answered, if that shows."""

    size: int
    answers: int | str | None


@dataclass
class Lines:
    """Puts chunks together to lines."""

    most: int = MOST_BYTES
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0
    _head: bytes = b""
    _tail: bytes = b""

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun."""
        return self._size

    def take(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines that ``chunk`` completes, without their ends. Blank ones are left out."""
        *complete, rest = _ENDS.split(chunk)
        for part in complete:
            self._add(part)
            line = self._line()
            if isinstance(line, TooLong) or line.strip():
                yield line
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if not self._size:
            self._head, self._tail = b"", b""
        self._size += len(part)
        if len(self._head) < _END_BYTES:
            self._head += part[: _END_BYTES - len(self._head)]
        self._tail = (self._tail + part[-_END_BYTES:])[-_END_BYTES:]
        if self._size > self.most:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self) -> bytes | TooLong:
        size, self._size = self._size, 0
        if size > self.most:
            return TooLong(size, id_of(self._head, self._tail))
        line = b"".join(self._parts)
        self._parts.clear()
        return line


def id_of(head: bytes, tail: bytes) -> int | str | None:
    """The id of a message that was not read, from its beginning and end."""
    found = _FIRST_ID.search(head) or _LAST_ID.search(tail)
    if found is None:
        return None
    text = found[1].decode(errors="replace")
    return text.strip('"') if text.startswith('"') else int(text)
