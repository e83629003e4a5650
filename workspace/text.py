"""Bytes to text and back without loss, or a clear refusal. Pure."""

from workspace.errors import NotText

SNAPSHOT_CHARS = 10_000
"""The most characters of one file that go into a prompt; the rest is cut, visibly."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def decode(path: str, data: bytes) -> str:
    """The text of `data`; encoding it again gives the same bytes. Raises `NotText`."""
    kind = next((kind for start, kind in _SIGNATURES if data.startswith(start)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "a WebP image"
    if kind is not None:
        raise NotText(
            path, f"is {kind} ({len(data):,} bytes), not text that can be shown or edited"
        )
    try:
        # surrogatepass: offloaded results may hold lone surrogates, and must be readable back.
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise NotText(
            path,
            f"is not UTF-8 text: byte 0x{data[error.start]:02x} at byte {error.start:,} of "
            f"{len(data):,}; convert it with the shell, or use grep, which reads around such bytes",
        ) from None


def encode(path: str, text: str) -> bytes:
    """The bytes of `text`. Raises `NotText` for a lone surrogate, which UTF-8 cannot hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise NotText(
            path,
            f"the text has a lone surrogate (U+{ord(text[error.start]):04X}) at character "
            f"{error.start:,}, which UTF-8 cannot hold; nothing was changed",
        ) from None


def bounded(text: str, name: str, most: int = SNAPSHOT_CHARS) -> str:
    """`text`, or its beginning and a note that says what is missing and where it is."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: the first {most:,} of {len(text):,} characters of {name}]\n"
