"""A web server for tests, honest and hostile, as a process of its own.

Prints its port as the first line. Plain HTTP; with ``--certificate FILE``, HTTPS. ``/files/<name>``
comes from ``--files FOLDER``; ``/waiting`` says how many connections stand still. What another path
answers is in `PAGES`, or a function `do_<path>`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = b"""<!doctype html><html><head><title>A page</title></head><body>
<h1>Heading</h1><p>Some <b>bold</b> text, a <a href="../other?a=1&amp;b=2">link</a>.</p>
<script>steal()</script><table><tr><th>a</th></tr><tr><td>1</td></tr></table></body></html>"""
JSON = b'{"a": [1,2],\r\n "b": "\xc3\xa4"}'
LATIN = "<p>Größe: 5 € – naïve</p>".encode("cp1252")


def answer(body: bytes, kind: str = "", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    if kind:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join((*lines, "", "")).encode() + body


def moved(to: str) -> bytes:
    return answer(b"", "", f"Location: {to}", status="302 Found")


PAGES = {
    "page": answer(PAGE, "text/html; charset=utf-8"),
    "untyped": answer(PAGE),
    "json": answer(JSON, "application/json"),
    "text": answer(b"a\r\nb\xff\n", "text/plain"),
    "latin": answer(LATIN, "text/html"),
    "latin-said-utf8": answer(LATIN, "text/html; charset=utf-8"),
    "utf8-said-latin": answer("<p>Größe €</p>".encode(), "text/html; charset=iso-8859-1"),
    "meta": answer("<meta charset=shift_jis><p>日本語</p>".encode("shift_jis"), "text/html"),
    "undecodable": answer("日".encode("shift_jis") + b"\xff", "text/plain; charset=shift_jis"),
    "deep": answer(b"<div>" * 5_000 + b"the bottom", "text/html"),
    "base-bomb": answer(
        b"<base href=http://h/" + b"A" * 60_000 + b"/>" + b"<a href=x>y</a>" * 100_000, "text/html"
    ),
    "half-deep": answer(b"<p>the top</p>" + b"<div>" * 5_000 + b"the bottom", "text/html"),
    "html-zip": answer(b"PK\3\4" + bytes(100), "text/html"),
    "utf16": answer("text, größer".encode("utf-16"), "text/plain"),
    "rot13": answer(b"<p>caf\xe9</p>", "text/html; charset=rot13"),
    "zip": answer(b"PK\3\4" + bytes(100), "application/zip"),
    "pretends": answer(b"\x7fELF" + bytes(100), "text/plain"),
    "gzip": answer(gzip.compress(b"packed " * 1_000), "text/plain", "Content-Encoding: gzip"),
    "bomb": answer(
        zlib.compress(bytes([65]) * 50_000_000, 9), "text/plain", "Content-Encoding: deflate"
    ),
    "not-gzip": answer(b"plain", "text/plain", "Content-Encoding: gzip"),
    "brotli": answer(b"?", "text/plain", "Content-Encoding: br"),
    "missing": answer(b"<h1>Nothing here</h1>", "text/html", status="404 Not Found"),
    "empty": answer(b"", "text/plain"),
    "search": answer(
        b'{"results": [{"title": "Owls", "url": "http://owls.test/", "content": "They hoot."}]}',
        "application/json",
    ),
    "broken": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "no-http": b"220 mail.example.org ESMTP\r\n",
    "silent-close": b"",
    "loop": moved("/loop"),
    "to-page": moved("/page"),
    "to-private": moved("http://10.1.2.3/"),
    "to-metadata": moved("http://169.254.169.254/latest/meta-data/"),
    "to-file": moved("file:///etc/passwd"),
    "to-other": moved("http://other.test:{port}/page"),
    "to-second": moved("http://127.0.0.2:{port}/page"),
    "to-nonsense": moved("http://a:b/"),
    "splits": answer(b"x", "text/plain\tx]\x1b[31m \xb7 [y"),
}


class Server:
    def __init__(self, certificate: str | None, files: str | None) -> None:
        self.files = Path(files or "/nowhere")
        self.waiting = 0
        self.lock = threading.Lock()
        self.port = 0
        self.context: ssl.SSLContext | None = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)

    def serve(self) -> None:
        """On two addresses of the machine, so that one can be reached by way of the other."""
        with (
            socket.create_server(("127.0.0.1", 0), backlog=512) as first,
            socket.create_server(("127.0.0.2", first.getsockname()[1]), backlog=512) as second,
        ):
            self.port = first.getsockname()[1]
            print(self.port, flush=True)  # noqa: T201
            threading.Thread(target=self.accept, args=(second,), daemon=True).start()
            self.accept(first)

    def accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.handle, args=(connection,), daemon=True).start()

    def handle(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            request = b""
            with self.standing_still():
                while b"\r\n\r\n" not in request:
                    if not (piece := connection.recv(65_536)):
                        return
                    request += piece
            path = request.split(b" ")[1].decode().strip("/").partition("?")[0]
            if path.startswith("files/"):
                connection.sendall(answer((self.files / path[6:]).read_bytes()))
                return
            made: Any = getattr(self, f"do_{path.replace('-', '_')}", None)
            if made is not None:
                made(connection, request)
            else:
                body = PAGES.get(path, PAGES["missing"])
                connection.sendall(body.replace(b"{port}", str(self.port).encode()))
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        with self.lock:
            self.waiting += 1
        try:
            yield
        finally:
            with self.lock:
                self.waiting -= 1

    def do_waiting(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer(str(self.waiting).encode(), "text/plain"))

    def do_echo(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer(request, "text/plain"))

    def do_hang(self, connection: socket.socket, request: bytes) -> None:
        """Headers never come."""
        with self.standing_still():
            connection.recv(1)

    def do_half(self, connection: socket.socket, request: bytes) -> None:
        """Half a body, then nothing."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        with self.standing_still():
            connection.recv(1)

    def do_endless(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            connection.sendall(b"more and more\n" * 4_000)

    def do_endless_headers(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"X-More: and more\r\n" * 1_000)

    def do_slowly(self, connection: socket.socket, request: bytes) -> None:
        """A byte now and then: never silent for long, never done. It counts as standing still."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        with self.standing_still():
            while True:
                connection.sendall(b".")
                time.sleep(0.02)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate")
    parser.add_argument("--files")
    given = parser.parse_args()
    Server(given.certificate, given.files).serve()
