"""Images and PDFs as content blocks."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pictures import bytes_of, pdf, png
from workspace import WrongKind, media

GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + b"\0\0\0;"
JPEG_START = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
JPEG = JPEG_START + b"\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 200, 320) + b"\x01\x01\x11\0"
WEBP = {
    "VP8 ": b"\0\0\0\0" + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 320 | 0x4000, 200),
    "VP8L": b"\0\0\0\0" + b"\x2f" + struct.pack("<I", 319 | 199 << 14 | 1 << 28),
    "VP8X": b"\0\0\0\0" + b"\x10\0\0\0" + b"\x3f\x01\0" + b"\xc7\0\0",
}


def webp(chunk: str) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + chunk.encode() + WEBP[chunk]


def line_and_block(data: bytes) -> tuple[str, dict[str, object]]:
    made = media.blocks("shown.bin", data)
    assert made is not None
    text, block = made
    assert text["type"] == "text"
    assert bytes_of(block) == data
    return text["text"], block


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(320, 200), "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (GIF.replace(b"89a", b"87a"), "image/gif"),
        (webp("VP8 "), "image/webp"),
        (webp("VP8L"), "image/webp"),
        (webp("VP8X"), "image/webp"),
    ],
)
def test_r7_an_image_is_known_by_its_bytes_and_measured_from_its_header(
    data: bytes, media_type: str
) -> None:
    """R7: a line with kind, pixels, bytes and tokens, then the image."""
    line, block = line_and_block(data)
    assert line == f"[shown.bin · {media_type} · 320×200 · {len(data):,} bytes · about 86 tokens]"
    assert block["type"] == "image"
    assert block["source"] == {
        "type": "base64",
        "media_type": media_type,
        "data": base64.b64encode(data).decode(),
    }


@given(st.integers(1, 8_000), st.integers(1, 8_000))
def test_r7_an_image_has_a_token_for_750_pixels_and_at_most_1600(width: int, height: int) -> None:
    """R7: the service scales down what is larger."""
    line, _ = line_and_block(b"GIF89a" + struct.pack("<HH", width, height))
    tokens = int(line.rsplit("about ")[1].split(" ")[0].replace(",", ""))
    assert tokens == min(1_600, (width * height + 749) // 750)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("pages", "words"), [(1, "1 page"), (2, "2 pages"), (100, "100 pages")])
def test_r7_a_pdf_is_a_document_with_its_pages(pages: int, words: str, packed: bool) -> None:
    """R7: also where its objects are packed, as TeX writes them."""
    data = pdf(pages, packed=packed)
    line, block = line_and_block(data)
    size = f"{len(data):,} bytes · about {pages * 3_000:,} tokens"
    assert line == f"[shown.bin · application/pdf · {words} · {size}]"
    assert block["type"] == "document"


def test_a_pdf_that_hides_its_pages_is_shown_all_the_same() -> None:
    line, _ = line_and_block(b"%PDF-1.4\n%%EOF")
    assert "pages unknown" in line


def test_pages_that_were_written_again_count_once() -> None:
    """A note added in a viewer appends its page anew."""
    data = pdf(60)
    again = data + b"".join(b"3 0 obj\n<</Type /Page>>\nendobj\n" for _ in range(60)) + b"%%EOF"
    assert "60 pages" in line_and_block(again)[0]


LARGEST_IMAGE = 5 * 1024 * 1024 // 4 * 3  # 5 MiB in base64, as the service counts


def test_r7_an_image_at_the_limit_is_shown_and_one_byte_more_is_an_error_with_its_size() -> None:
    """R7: the limit is that of the base64, which is a third more."""
    rest = len(png(padding=1)) - 1
    line_and_block(png(padding=LARGEST_IMAGE - rest))
    with pytest.raises(WrongKind, match=r"a\.png: is image/png of 3,932,161 bytes and cannot be"):
        media.blocks("a.png", png(padding=LARGEST_IMAGE - rest + 1))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GIF89a" + struct.pack("<HH", 8_001, 1), "it has 8001×1 pixels"),
        (b"GIF89a" + struct.pack("<HH", 0, 1), "damaged or cut off"),
        (b"GIF89a", "damaged or cut off"),
        (png()[:20], "damaged or cut off"),
        (png(9, 9)[:-30], "damaged or cut off"),
        (JPEG_START, "damaged or cut off"),
        (JPEG_START + b"\0\0\0\0\0\0", "damaged or cut off"),
        (b"RIFF\0\0\0\0WEBPVP9 ", "damaged or cut off"),
        (pdf(1)[:-20], "damaged or cut off"),
        (pdf(101), "it has 101 pages, and at most 100 can be"),
        (pdf(101, packed=True), "it has 101 pages, and at most 100 can be"),
        (pdf(1, trailer=b"trailer <</Encrypt 9 0 R>>"), "it is encrypted"),
        (b"%PDF-" + b"\xff" * 22_500_000, "at most 22,500,000 bytes can be"),
    ],
)
def test_r7_what_the_service_would_refuse_is_an_error_that_says_why(data: bytes, why: str) -> None:
    """R7: once in the history, it would be refused with every later request."""
    with pytest.raises(WrongKind) as caught:
        media.blocks("a", data)
    assert f"{len(data):,} bytes" in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain text",
        b"GIF8 is how such files begin",
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        json.dumps({"cells": [], "nbformat": 4}).encode(),
        b"RIFF\0\0\0\0WAVEfmt ",
        b"BM\0\0\0\0",
        "%PDF-1.4\n%\ufffd\ufffd printed by a shell\n%%EOF".encode(),
    ],
)
def test_anything_else_is_none_of_them(data: bytes) -> None:
    """R7: SVG and notebooks are text, and so is what a shell printed of a PDF."""
    assert media.blocks("a", data) is None


STARTS = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBPVP8 ", b"%PDF-", b""]


@given(st.sampled_from(STARTS), st.binary(max_size=200), st.sampled_from([b"", b"IEND", b"%%EOF"]))
def test_no_bytes_make_it_crash(start: bytes, middle: bytes, end: bytes) -> None:
    data = start + middle + end
    try:
        made = media.blocks("a", data)
    except WrongKind:
        return
    assert made is None or bytes_of(made[1]) == data
