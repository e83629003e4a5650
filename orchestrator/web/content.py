"""What came over the wire, as a model can read it: text, Markdown, or an image or PDF. Pure."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from orchestrator.messages import Block
from orchestrator.outputs import outside_line
from orchestrator.web.guard import FetchFailed
from workspace import WorkspaceError, media_blocks, media_type

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_HTML_START = re.compile(
    rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_LOOKED_AT = 8_192  # bytes in which a file that is no text shows a NUL
_META = re.compile(
    rb"<meta\b[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)
_META_WITHIN = 4_096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Charsets by Python's names. Its other codecs are for programmers, and some change bytes to bytes.
_CHARSETS = re.compile(
    r"ascii|utf-(8|16|32)(-[lb]e)?|iso8859-\d+|cp\d+|gb\w+|big5\w*|euc_\w+|shift_\w+|koi8\w*"
    r"|mac-\w+|iso2022_\w+|johab|hz|tis-620|ptcp154|kz1048"
)
# What pages call Latin-1 or ASCII is Windows-1252, as in every browser.
_LATIN = ("ascii", "iso8859-1", "cp1252")


@dataclass(frozen=True)
class Answer:
    """A server's answer. ``media_type`` is empty where it did not say; ``is_cut``: more was to come."""

    url: str
    status: int
    reason: str
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool = False
    redirects: int = 0


@dataclass(frozen=True)
class Text:
    """The text of an answer. ``is_html``: still to be turned into Markdown."""

    text: str
    notes: tuple[str, ...] = ()
    is_html: bool = False


def understood(answer: Answer) -> Text | list[Block]:
    """The text, or the image or PDF, that an answer is. Raises `FetchFailed` for anything else."""
    media = _media(answer)
    if media is not None:
        return media
    _expect_text(answer)
    is_html = _is_html(answer)
    text, notes = decoded(answer.body, answer.charset, is_html=is_html)
    return Text(text, notes, is_html)


def first_line(answer: Answer, notes: tuple[str, ...] = ()) -> str:
    """Where a content is from, and that it is data."""
    kind = answer.media_type or "type unknown"
    facts = [f"{answer.status} {answer.reason}".strip(), kind[:100], f"{len(answer.body):,} bytes"]
    if answer.redirects:
        facts.append(f"after {answer.redirects} redirect{'s' if answer.redirects > 1 else ''}")
    if answer.is_cut:
        facts.append("cut: more was to come")
    return outside_line(f"fetched {_in_brackets(answer.url)}", *facts, *notes)


def _in_brackets(url: str) -> str:
    """The URL without anything that could end the line's brackets, but for those of an IPv6 host."""
    scheme, _, rest = url.partition("//")
    host, slash, path = rest.partition("/")
    path = path.replace("[", "%5B").replace("]", "%5D")
    return f"{scheme}//{host}{slash}{path}"[:1_000]


def _media(answer: Answer) -> list[Block] | None:
    kind = media_type(answer.body)
    if kind is None:
        return None
    if answer.is_cut:
        size = f"{len(answer.body):,} bytes"
        raise FetchFailed(f"{answer.url}: is {kind} of more than {size}, which is not shown")
    try:
        return media_blocks(answer.url, answer.body)
    except WorkspaceError as error:
        raise FetchFailed(str(error)) from None


def _is_html(answer: Answer) -> bool:
    if answer.media_type:
        return answer.media_type in _HTML_TYPES
    return _HTML_START.match(answer.body[:_LOOKED_AT]) is not None


def _expect_text(answer: Answer) -> None:
    wide = (answer.charset or "").lower().startswith(("utf-16", "utf-32", "utf16", "utf32"))
    has_bom = any(answer.body.startswith(bom) for bom, _ in _BOMS)
    if b"\0" in answer.body[:_LOOKED_AT] and not (wide or has_bom):
        size = f"{len(answer.body):,} bytes{' and more' if answer.is_cut else ''}"
        raise FetchFailed(
            f"{answer.url}: is {answer.media_type or 'of no known type'} ({size}), which is neither "
            "text nor an image nor a PDF: it is not shown"
        )


def decoded(
    data: bytes, declared: str | None, *, is_html: bool = False
) -> tuple[str, tuple[str, ...]]:
    """The text of ``data``, and a note where bytes did not fit.

    In this order: a byte order mark, UTF-8 if it is that beyond doubt, the declared charset, the one
    in the page's ``<meta>``, UTF-8, Windows-1252.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _replaced(data.removeprefix(bom) if name == "utf-8" else data, name)
    if not data.isascii() and (text := _tried(data, "utf-8")) is not None:
        return text, ()
    names = [_charset(declared)]
    if is_html and (found := _META.search(data[:_META_WITHIN])):
        names.append(_charset(found[1].decode("ascii")))
    told = [name for name in names if name is not None]
    for name in (*told, "utf-8"):
        if (text := _tried(data, name)) is not None:
            return text, ()
    return _replaced(data, told[0] if told else "cp1252")


def _charset(label: str | None) -> str | None:
    """Python's name for a charset; ``None`` for none that pages are written in."""
    try:
        name = codecs.lookup((label or "").strip()).name
    except (LookupError, ValueError):
        return None
    if name in _LATIN:
        return "cp1252"
    return name if _CHARSETS.fullmatch(name) else None


def _tried(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except (UnicodeDecodeError, LookupError):
        return None


def _replaced(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    text = data.decode(name, "replace")
    lost = text.count("\ufffd")
    return text, (f"{lost:,} characters do not fit charset {name}",) if lost else ()
