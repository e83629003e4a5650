"""An MCP server over HTTP that does everything wrong: `hostile_http.py PORT`. Without the SDK."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PLAIN = {"type": "object", "properties": {}}
NAMES = ("echo", "flood", "events", "bomb", "hang", "die", "forget", "elsewhere", "page")


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session = "one"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, to = message.get("method"), message.get("id")
        if method == "initialize":
            about = {"name": "hostile", "version": "0"}
            said = {"capabilities": {"tools": {}}, "serverInfo": about}
            self.answer(to, {"protocolVersion": "2025-06-18", **said})
        elif method == "server/discover":
            self.answer(to, None, error={"code": -32601, "message": "no such method"})
        elif self.headers.get("mcp-session-id") != Answering.session:
            self.plain(404, b"no such session")
        elif to is None:
            self.plain(202, b"")
        elif method == "tools/list":
            self.answer(to, {"tools": [{"name": name, "inputSchema": PLAIN} for name in NAMES]})
        else:
            self.call(to, message["params"]["name"])

    def do_GET(self) -> None:
        self.plain(405, b"")

    def do_DELETE(self) -> None:
        self.plain(200, b"")

    def call(self, to: Any, name: str) -> None:
        if name == "flood":
            self.begin("application/json", 200_000_000)
            for _ in range(200):
                self.wfile.write(b" " * 1_000_000)
        elif name == "events":
            self.begin("text/event-stream", 200_000_000)
            self.wfile.write(b"data: ")
            for _ in range(199):
                self.wfile.write(b" " * 1_000_000)
        elif name == "bomb":
            packed = gzip.compress(b" " * 50_000_000)
            self.begin("application/json", len(packed), ("content-encoding", "gzip"))
            self.wfile.write(packed)
        elif name == "hang":
            time.sleep(600)
        elif name == "die":
            os._exit(1)
        elif name == "forget":
            Answering.session = "two"
            self.plain(404, b"no such session")
        elif name == "elsewhere":
            self.begin("text/plain", 0, ("location", "http://127.0.0.1:9/mcp"), status=307)
        elif name == "page":
            self.plain(200, b"<html>a login page</html>")
        else:
            self.answer(to, {"content": [{"type": "text", "text": "here"}]})

    def answer(self, to: Any, result: Any, **more: Any) -> None:
        reply = {"jsonrpc": "2.0", "id": to, **(more or {"result": result})}
        data = json.dumps(reply).encode()
        self.begin("application/json", len(data))
        self.wfile.write(data)

    def plain(self, status: int, data: bytes) -> None:
        self.begin("text/html", len(data), status=status)
        self.wfile.write(data)

    def begin(self, kind: str, size: int, *more: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (("content-type", kind), ("content-length", str(size)), *more):
            self.send_header(name, value)
        self.send_header("mcp-session-id", Answering.session)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answering).serve_forever()
