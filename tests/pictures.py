"""Small images and PDFs made on the spot, and what the service counts for a request that has some."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import Any

from orchestrator import Request
from orchestrator.messages import Block, encode


def png(width: int = 1, height: int = 1, *, seed: int = 0, padding: int = 0) -> bytes:
    """A real PNG of noise; ``padding`` bytes more that no viewer shows."""
    noise = random.Random(seed)
    rows = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    extra = _chunk(b"paDd", bytes(padding)) if padding else b""
    body = _chunk(b"IHDR", header) + extra + _chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def pdf(pages: int = 1, *, packed: bool = False, trailer: bytes = b"") -> bytes:
    """A PDF of empty pages; ``packed``: its objects are in a compressed stream, as TeX writes them."""
    kids = b" ".join(b"%d 0 R" % (n + 3) for n in range(pages))
    tree = b"<</Type /Pages /Kids [" + kids + b"] /Count %d>>" % pages
    objects = [b"<</Type /Catalog /Pages 2 0 R>>", tree]
    objects += [b"<</Type /Page /Parent 2 0 R>>"] * pages
    if packed:
        stream = zlib.compress(b" ".join(objects))
        head = b"<</Type /ObjStm /N %d /Filter /FlateDecode>>" % len(objects)
        objects = [head + b"\nstream\n" + stream + b"\nendstream"]
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, o) for n, o in enumerate(objects, 1))
    return b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n" + body + trailer + b"\nstartxref\n0\n%%EOF\n"


def image(data: bytes) -> Block:
    return _block("image", "image/png", data)


def document(data: bytes) -> Block:
    return _block("document", "application/pdf", data)


def _block(kind: str, media_type: str, data: bytes) -> Block:
    encoded = base64.b64encode(data).decode()
    return {
        "type": kind,
        "source": {"type": "base64", "media_type": media_type, "data": encoded},
    }


def bytes_of(block: Block) -> bytes:
    return base64.b64decode(block["source"]["data"], validate=True)


def shown_in(request: Request) -> list[Block]:
    """The images and documents in a request, oldest first."""
    found: list[Block] = []
    for message in request.messages:
        for block in message["content"]:
            content: Any = block.get("content")
            inner = content if isinstance(content, list) else []
            found += [b for b in (block, *inner) if b["type"] in ("image", "document")]
    return found


def tokens_of(request: Request) -> int:
    """Four bytes a token, and 1,600 for each image."""
    media = shown_in(request)
    return (len(request.body) - sum(len(encode(b)) for b in media)) // 4 + 1_600 * len(media)
