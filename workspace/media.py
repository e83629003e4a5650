"""Images and PDFs as content blocks: known by their first bytes, measured from their headers. Pure.

The limits are the Messages API's. What it would refuse is refused here: a block that was sent once is
part of every later request, so one bad image would end the run.
"""

import base64
import re
import struct
import zlib
from collections.abc import Callable
from itertools import islice
from typing import Any

from workspace.errors import WrongKind, shown

Block = dict[str, Any]

_SIGNATURES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
    ("application/pdf", re.compile(rb"%PDF-")),
)
PDF = "application/pdf"
# An image may have 5 MiB in base64, which is a third more than its bytes.
_IMAGE_BYTES = 5 * 1024 * 1024 // 4 * 3
# A whole request may have 32 MB, again in base64; the rest of the conversation is in it too.
_PDF_BYTES = 22_500_000
_PDF_PAGES = 100
_SIDE_PIXELS = 8_000
# The service scales larger images down to about as many tokens.
_IMAGE_TOKENS = 1_600
_PIXELS_PER_TOKEN = 750
# 1,500 to 3,000 for the text of a page, and its image.
_PAGE_TOKENS = 3_000
_TAIL = 2_048  # bytes at whose end a whole file has its end mark, a little debris allowed
_ENDS = {"image/png": b"IEND", PDF: b"%%EOF"}


def media_type(data: bytes) -> str | None:
    """The media type of an image or a PDF, by its first bytes; None for anything else.

    What a shell printed of a PDF is text, with replacement characters for the bytes it lost.
    """
    found = next((name for name, start in _SIGNATURES if start.match(data)), None)
    return None if found == PDF and _is_mangled(data) else found


def blocks(path: str, data: bytes) -> list[Block] | None:
    """The file as content blocks, a line about it first; None if it is no image and no PDF.

    Raises `WrongKind` for what a model cannot be shown: too large, damaged, encrypted.
    """
    kind = media_type(data)
    if kind is None:
        return None
    size = f"{len(data):,} bytes"
    try:
        extent, tokens = _pdf(data) if kind == PDF else _image(kind, data)
    except _Unfit as unfit:
        raise WrongKind(path, f"is {kind} of {size} and cannot be shown: {unfit}") from None
    line = f"[{shown(path)} · {kind} · {extent} · {size} · about {tokens:,} tokens]"
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    block = {"type": "document" if kind == PDF else "image", "source": source}
    return [{"type": "text", "text": line}, block]


class _Unfit(Exception):
    """Why it cannot be shown, and what to do."""


def _image(kind: str, data: bytes) -> tuple[str, int]:
    """Its extent in words, and its tokens."""
    if len(data) > _IMAGE_BYTES:
        raise _Unfit(f"at most {_IMAGE_BYTES:,} bytes can be; make a smaller copy with the shell")
    width, height = _pixels(kind, data)
    if not (width and height and _has_end(kind, data)):
        raise _Unfit("it is damaged or cut off")
    if max(width, height) > _SIDE_PIXELS:
        raise _Unfit(
            f"it has {width}×{height} pixels, and no side may have over {_SIDE_PIXELS:,}; "
            "make a smaller copy with the shell"
        )
    tokens = min(_IMAGE_TOKENS, -(-width * height // _PIXELS_PER_TOKEN))
    return f"{width}×{height}", tokens


def _pdf(data: bytes) -> tuple[str, int]:
    if len(data) > _PDF_BYTES:
        raise _Unfit(
            f"at most {_PDF_BYTES:,} bytes can be; take pages or text from it by the shell"
        )
    if not _has_end(PDF, data):
        raise _Unfit("it is damaged or cut off")
    if re.search(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)", data):
        raise _Unfit("it is encrypted")
    pages = _pages(data)
    if pages > _PDF_PAGES:
        raise _Unfit(
            f"it has {pages:,} pages, and at most {_PDF_PAGES} can be; "
            "take pages or text from it by the shell"
        )
    words = {0: "pages unknown", 1: "1 page"}.get(pages, f"{pages} pages")
    return words, max(1, pages) * _PAGE_TOKENS


def _has_end(kind: str, data: bytes) -> bool:
    return _ENDS.get(kind, b"") in data[-_TAIL:]


def _is_mangled(data: bytes) -> bool:
    try:
        return "\ufffd" in data.decode()
    except UnicodeDecodeError:
        return False


def _pixels(kind: str, data: bytes) -> tuple[int, int]:
    """Width and height; zeros where the header does not say."""
    try:
        return _HEADERS[kind](data)
    except struct.error:
        return 0, 0


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return (width, height) if data[12:16] == b"IHDR" else (0, 0)


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        lead, marker, length = struct.unpack_from(">BBH", data, at)
        if lead != 0xFF:
            return 0, 0
        if marker == 0xFF:  # fill bytes may stand before a marker
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + length


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", data, 24)
            return (high_w << 16 | low_w) + 1, (high_h << 16 | low_h) + 1
        case b"VP8L":
            (packed,) = struct.unpack_from("<I", data, 21)
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0


_HEADERS: dict[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}

# The root of the page tree has the largest count. Between its type and its count nothing else begins.
_WITHIN = rb"(?:(?!/Type|endobj).){0,8000}?"
_COUNTS = re.compile(
    rb"/Type\s*/Pages\b" + _WITHIN + rb"/Count\s+(\d{1,9})"
    rb"|/Count\s+(\d{1,9})" + _WITHIN + rb"/Type\s*/Pages\b",
    re.DOTALL,
)
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PACKED = re.compile(rb"/ObjStm.{0,300}?stream\r?\n", re.DOTALL)
_MOST_PACKED = 1_000
_UNPACKED_BYTES = 1_000_000  # of each: more is no list of objects


def _pages(data: bytes) -> int:
    """The pages of a PDF; 0 where they are not found. Newer files keep their objects packed."""
    texts = [
        data,
        *(_unpacked(data, m.end()) for m in islice(_PACKED.finditer(data), _MOST_PACKED)),
    ]
    counts = [int(m[1] or m[2]) for text in texts for m in _COUNTS.finditer(text)]
    return max(counts, default=0) or sum(len(_PAGE.findall(text)) for text in texts)


def _unpacked(data: bytes, start: int) -> bytes:
    packed = data[start : data.find(b"endstream", start)]
    try:
        return zlib.decompressobj().decompress(packed, _UNPACKED_BYTES)
    except zlib.error:
        return b""
