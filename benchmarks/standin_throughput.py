"""Throughput of the stand-in: requests a second, the server's own CPU apart from the client's.

The server runs as a process of its own; the client is a plain asyncio socket client, so that what
is measured is the stand-in and not an SDK.

    python benchmarks/standin_throughput.py [--requests N] [--connections N] [--stream]

With `--latency` answers overlap, and `in_flight_peak` shows how many did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
import urllib.request
from typing import Any

from orchestrator.testing.standin import standin_process


def _request(host: str, stream: bool) -> bytes:
    tool = {
        "name": "lookup",
        "description": "Look up a record.",
        "input_schema": {"type": "object", "properties": {"key": {"type": "string"}}},
    }
    body = json.dumps(
        {
            "model": "claude-sonnet-5",
            "max_tokens": 1_000,
            "stream": stream,
            "system": [{"type": "text", "text": "Answer briefly. " * 20}],
            "tools": [tool],
            "messages": [{"role": "user", "content": "What is the time?"}],
        }
    ).encode()
    head = (
        f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer test\r\n"
        f"anthropic-version: 2026-10-21\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    if b"transfer-encoding: chunked" in head:
        await reader.readuntil(b"\r\n0\r\n\r\n")
        return
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)


async def _connection(host: str, port: int, request: bytes, count: int) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    for _ in range(count):
        writer.write(request)
        await _answer(reader)
    writer.close()
    await writer.wait_closed()


async def _load(host: str, port: int, request: bytes, connections: int, requests: int) -> None:
    share = requests // connections
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_connection(host, port, request, share))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _stats(base_url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{base_url}/_stats") as response:
        found: dict[str, Any] = json.load(response)
        return found


def measure(base_url: str, *, requests: int, connections: int, stream: bool) -> dict[str, float]:
    """One measurement against a running stand-in."""
    host, _, port = base_url.removeprefix("http://").partition(":")
    request = _request(host, stream)
    before, own, began = _stats(base_url)["cpu_seconds"], _cpu(), time.perf_counter()
    asyncio.run(_load(host, int(port), request, connections, requests))
    seconds = time.perf_counter() - began
    done = requests // connections * connections
    stats = _stats(base_url)
    return {
        "requests": done,
        "requests_per_second": round(done / seconds, 1),
        "server_cpu_ms_per_request": round((stats["cpu_seconds"] - before) / done * 1000, 4),
        "client_cpu_ms_per_request": round((_cpu() - own) / done * 1000, 4),
        "in_flight_peak": stats["in_flight_peak"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    options = parser.parse_args()
    with standin_process("--brain", "echo", "--latency", str(options.latency)) as server:
        figures = measure(
            server.base_url,
            requests=options.requests,
            connections=options.connections,
            stream=options.stream,
        )
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
