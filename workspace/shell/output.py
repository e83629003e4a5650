"""What a command prints, on its way to a file: whole, in order, as text that can be read back."""

import codecs
import hashlib
import os
from dataclasses import dataclass

_HEAD_CHARS = 1_000
_TAIL_CHARS = 4_000


@dataclass(frozen=True)
class Output:
    """What a command printed, errors among the rest, as they came.

    It is whole in the file `path` (from the workspace root) in UTF-8. `chars` and `lines` are
    counted in the text; `head` and `tail` are its ends, at most 1,000 and 4,000 characters;
    `sha256` is of the file's bytes.
    """

    path: str
    chars: int
    lines: int
    head: str
    tail: str
    sha256: str


class Sink:
    """Takes bytes and writes them as text to `descriptor`, at once and in order.

    A byte that is no UTF-8 and a NUL are written as `\\\\xNN`: readers of text, and the models'
    servers, take neither. Blocks; not for several threads at a time.
    """

    def __init__(self, path: str, descriptor: int, most: int) -> None:
        """`most`: bytes that are stored; what comes after them is not taken."""
        self.path = path
        self.is_full: bool = False
        self._descriptor = descriptor
        self._room = most
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._chars = 0
        self._newlines = 0
        self._head = ""
        self._tail = ""
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Raises `OSError` where the file cannot be written."""
        self._take(self._decoder.decode(data))

    def close(self) -> Output:
        """What was printed; nothing can be written any more."""
        try:
            self._take(self._decoder.decode(b"", True))
        finally:
            os.close(self._descriptor)
        unfinished = self._chars > 0 and not self._tail.endswith("\n")
        lines = self._newlines + unfinished
        sha256 = self._hash.hexdigest()
        return Output(self.path, self._chars, lines, self._head, self._tail, sha256)

    def _take(self, text: str) -> None:
        if self.is_full or not text:
            return
        data = text.replace("\0", "\\x00").encode()
        if len(data) > self._room:
            self.is_full = True
            # Whole characters only.
            data = data[: self._room].decode(errors="ignore").encode()
        _write_all(self._descriptor, data)
        self._hash.update(data)
        self._count(data.decode())
        self._room -= len(data)

    def _count(self, text: str) -> None:
        self._chars += len(text)
        self._newlines += text.count("\n")
        self._head += text[: _HEAD_CHARS - len(self._head)]
        self._tail = (self._tail + text[-_TAIL_CHARS:])[-_TAIL_CHARS:]


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
