"""Sending a reply, whole or broken as a fault demands, and noting what the client was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .answers import Reply
from .errors import Rejection
from .faults import GARBAGE, HTML, Fault
from .ledger import Row
from .settings import Settings
from .sse import Event, Usage, events, message
from .tokens import encode
from .wire import Wire

_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


async def deliver(
    wire: Wire,
    row: Row,
    reply: Reply,
    usage: Usage,
    settings: Settings,
    fault: Fault | None,
    *,
    delay: float,
    begin: Callable[[], None],
) -> None:
    """Sends the reply. `begin` is called when its first byte is due."""
    if delay:
        await asyncio.sleep(delay)
    if wire.gone:
        row.error = "the client left"
        return
    if fault is not None and await _instead(wire, row, fault):
        return
    begin()
    row.status = 200
    row.stop_reason = reply.stop_reason
    ident = (b"request-id", row.request_id.encode())
    message_id = f"msg_{row.seq:024d}"
    if row.stream:
        stream = events(message_id, row.model, reply, usage, settings)
        await wire.head(200, [*_STREAM, ident])
        await _send_stream(wire, row, stream, fault)
    else:
        whole = message(message_id, row.model, reply, usage)
        await _send_json(wire, row, whole, ident, fault)


async def _instead(wire: Wire, row: Row, fault: Fault) -> bool:
    """Faults that leave no room for an answer."""
    if fault.kind == "reset":
        await wire.reset()
    elif fault.kind == "html":
        row.status = fault.status or 502
        await wire.head(row.status, [(b"content-type", b"text/html")])
        await wire.write(HTML, more=False)
    else:
        return False
    row.error = fault.kind
    return True


async def _send_json(
    wire: Wire, row: Row, whole: dict[str, Any], ident: tuple[bytes, bytes], fault: Fault | None
) -> None:
    data = encode(whole)
    length = (b"content-length", str(len(data)).encode())
    kind = fault.kind if fault is not None else None
    garbage = GARBAGE.get(kind or "")
    if garbage is not None:
        length = (b"content-length", str(len(garbage)).encode())
    await wire.head(200, [(b"content-type", b"application/json"), length, ident])
    if kind in ("stall", "slow") and fault is not None:
        await _wait(wire, fault.seconds)
        if kind == "stall":
            return await wire.cut()
    if kind == "reset_after_headers":
        await _flushed()
        return await wire.reset()
    if kind in ("cut", "silent_eof", "error_event"):
        await wire.write(data[: len(data) // 2])
        return await wire.cut()
    if garbage is not None:
        return await wire.write(garbage, more=False)
    row.told(whole["usage"])
    await wire.write(data, more=False)


async def _send_stream(wire: Wire, row: Row, stream: Sequence[Event], fault: Fault | None) -> None:
    if fault is None or fault.kind == "wrong_usage":
        return await _write(wire, row, stream, more=False)
    if fault.kind == "slow":
        return await _trickle(wire, row, stream, fault.seconds or 0.05)
    row.stop_reason = None
    if fault.kind == "reset_after_headers":
        await _flushed()
        return await wire.reset()
    # What ends early never says that it has ended.
    told = [event for event in stream if event.name not in _ENDINGS][: fault.after_events]
    await _write(wire, row, told, more=True)
    await _BREAKS[fault.kind](wire, fault)


_ENDINGS = frozenset({"message_delta", "message_stop"})


async def _write(wire: Wire, row: Row, stream: Sequence[Event], *, more: bool) -> None:
    """All at once: one write of many events is what makes a small answer cheap."""
    for event in stream:
        if event.usage is not None:
            row.told(event.usage)
    await wire.write(b"".join(event.encode() for event in stream), more=more)


async def _trickle(wire: Wire, row: Row, stream: Sequence[Event], seconds: float) -> None:
    for event in stream:
        if wire.gone:
            return
        await _write(wire, row, [event], more=True)
        await asyncio.sleep(seconds)
    await wire.write(b"", more=False)


async def _cut(wire: Wire, fault: Fault) -> None:
    await wire.cut()


async def _silent_eof(wire: Wire, fault: Fault) -> None:
    await wire.write(b"", more=False)


async def _error_event(wire: Wire, fault: Fault) -> None:
    rejection = Rejection(fault.message or "Overloaded", fault.status or 529)
    error = {"type": "error", "error": {"type": rejection.type, "message": rejection.message}}
    await wire.write(b"event: error\ndata: %b\n\n" % encode(error), more=False)


async def _garbage(wire: Wire, fault: Fault) -> None:
    await wire.write(GARBAGE[fault.kind], more=False)


async def _stall(wire: Wire, fault: Fault) -> None:
    await _wait(wire, fault.seconds)
    await wire.cut()


_BREAKS: Mapping[str, Callable[[Wire, Fault], Any]] = {
    "cut": _cut,
    "silent_eof": _silent_eof,
    "error_event": _error_event,
    "garbage": _garbage,
    "garbage_bytes": _garbage,
    "stall": _stall,
}


async def _wait(wire: Wire, seconds: float | None) -> None:
    """Says nothing for a while, or until the client gives up."""
    try:
        async with asyncio.timeout(seconds):
            await wire.left()
    except TimeoutError:
        return


async def _flushed() -> None:
    """One turn of the loop: the headers are on their way before the reset overtakes them."""
    await asyncio.sleep(0)
