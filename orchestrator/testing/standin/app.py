"""The stand-in as an ASGI application: routes, and the course of one request."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import resource
import time
from collections.abc import Iterable
from typing import Any

from . import checks
from .answers import Answer, Brain, Reply, clip, finish, seal
from .betas import compaction_block
from .cache import Cache, CacheUse
from .delivery import deliver
from .errors import Rejection
from .faults import Fault, Faults
from .judge import Verdict, judge
from .ledger import Ledger, Row
from .models import MODELS, describe
from .settings import Body, Settings
from .sse import usage_of
from .tokens import blocks_of
from .wire import Receive, Scope, Send, Wire

JSON = (b"content-type", b"application/json")

#: A summary request that has no `x-outrider-purpose` header to say so.
_SUMMARY = re.compile(
    r"\bsummar(?:i[sz]e|y of)\b.{0,80}\b(?:above|conversation|transcript)\b", re.IGNORECASE
)


class Standin:
    """Answers like the Messages API, from a brain, and remembers every request.

    A request whose `x-outrider-purpose` header is `summary` goes to `summarizer`, if there is one.
    """

    def __init__(
        self,
        brain: Brain,
        settings: Settings | None = None,
        faults: Iterable[Fault] = (),
        summarizer: Brain | None = None,
    ) -> None:
        self.brain = brain
        self.settings: Settings = settings or Settings()
        self.faults: Faults = Faults(faults)
        self.summarizer = summarizer
        self.ledger: Ledger = Ledger()
        self.cache: Cache = Cache()
        self.in_flight: int = 0
        self.in_flight_peak: int = 0
        self._started = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = Wire(scope, receive, send)
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight_peak, self.in_flight)
        try:
            await self._route(scope["method"], scope["path"], wire)
        except asyncio.CancelledError:
            # Only `Server.stop` cancels, and uvicorn would log it as a crash of the application.
            return
        finally:
            self.in_flight -= 1

    def stats(self) -> dict[str, Any]:
        """Requests and this process's own cost, so that a benchmark can subtract it."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": len(self.ledger.rows),
            "in_flight": self.in_flight,
            "in_flight_peak": self.in_flight_peak,
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "max_rss_kib": used.ru_maxrss,
            "seconds": time.monotonic() - self._started,
        }

    async def _route(self, method: str, path: str, wire: Wire) -> None:
        if method == "POST" and path == "/v1/messages":
            return await self._messages(wire)
        if method == "POST" and path == "/v1/messages/count_tokens" and self.settings.count_tokens:
            return await self._count(wire)
        if method == "GET" and path == "/_ledger":
            return await _json(wire, self.ledger.as_json())
        if method == "GET" and path == "/_stats":
            return await _json(wire, self.stats())
        if method == "GET" and path.startswith("/v1/models") and self.settings.model_list:
            return await self._models(wire, path.removeprefix("/v1/models").strip("/"))
        return await _refuse(wire, Rejection(f"Not found: {path}", 404), "req_none")

    async def _models(self, wire: Wire, name: str) -> None:
        rejection = checks.check_headers(wire.headers)
        if rejection is None and name:
            model = self.settings.model(name)
            if model is not None:
                return await _json(wire, describe(model))
            rejection = Rejection(f"model: {name}", 404)
        if rejection is not None:
            return await _refuse(wire, rejection, "req_models")
        models = [self.settings.model(name) for name in (*self.settings.models, *MODELS)]
        data = [describe(model) for model in models if model is not None]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
        return await _json(wire, {"data": data, **ends})

    async def _count(self, wire: Wire) -> None:
        row = self._open("count_tokens", wire)
        verdict = await self._judge(wire, row, counting=True)
        if verdict.rejection is not None:
            return await _refuse(wire, verdict.rejection, row.request_id, row)
        row.status = 200
        return await _json(wire, {"input_tokens": verdict.prompt.tokens}, row.request_id)

    async def _messages(self, wire: Wire) -> None:
        row = self._open("messages", wire)
        verdict = await self._judge(wire, row)
        if verdict.rejection is not None:
            return await _refuse(wire, verdict.rejection, row.request_id, row)
        fault = self.faults.choose(row.agent, row.purpose, row.model)
        row.fault = fault.kind if fault else None
        refusal = fault.refusal() if fault else None
        if fault is not None and refusal is not None:
            return await _refuse(wire, refusal, row.request_id, row, fault.sent_headers())
        return await self._answer(wire, row, verdict, fault)

    async def _answer(self, wire: Wire, row: Row, verdict: Verdict, fault: Fault | None) -> None:
        """From the brain to the last byte. The cache is read now, written when the reply begins."""
        use, started = self.cache.plan(verdict.prompt, verdict.model)
        if not self.settings.cache:
            use = CacheUse(verdict.prompt.tokens)
        try:
            answer = await self._think(verdict.body, row.purpose)
            reply = _reply(answer, verdict)
        except Exception as error:  # noqa: BLE001
            # A bug in a test's own brain: say so where the test will see it, and keep serving.
            message = f"the brain raised {type(error).__name__}: {error}"
            return await _refuse(wire, Rejection(message, 500), row.request_id, row)
        usage = usage_of(use, reply, cached=self.settings.cache)
        if fault is not None and fault.kind == "wrong_usage":
            usage |= fault.usage
        await deliver(
            wire,
            row,
            reply,
            usage,
            self.settings,
            fault,
            delay=answer.delay + self.settings.latency,
            begin=lambda: self.cache.begin(use, verdict.model, started),
        )

    async def _think(self, body: Body, purpose: str) -> Answer:
        brain = self.brain
        if self.summarizer is not None and (
            purpose == "summary" or (not purpose and asks_for_summary(body))
        ):
            brain = self.summarizer
        answer = brain(body)
        return await answer if inspect.isawaitable(answer) else answer

    def _open(self, endpoint: str, wire: Wire) -> Row:
        row = self.ledger.open(endpoint)
        row.request_id = f"req_{row.seq:024d}"
        row.agent = wire.headers.get("x-outrider-agent", "")
        row.purpose = wire.headers.get("x-outrider-purpose", "")
        return row

    async def _judge(self, wire: Wire, row: Row, *, counting: bool = False) -> Verdict:
        """The verdict; fills in the row as far as the request can be understood."""
        parsed = await self._parse(wire, row)
        if isinstance(parsed, Rejection):
            verdict = Verdict({}, parsed)
        else:
            verdict = judge(parsed, wire.headers, self.settings, counting=counting)
        _describe(row, verdict, self.settings)
        return verdict

    async def _parse(self, wire: Wire, row: Row) -> Any:
        data = await wire.read(self.settings.body_limit)
        if data is None:
            return Rejection("Request exceeds the maximum size", 413)
        row.body_bytes = len(data)
        row.body_hash = hashlib.blake2b(data, digest_size=16).hexdigest()
        rejection = checks.check_headers(wire.headers)
        if rejection is not None:
            return rejection
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            return Rejection(f"The request body is not valid JSON: {error}")


def asks_for_summary(body: Body) -> bool:
    """Whether the last thing said asks for a summary of the conversation."""
    last = blocks_of(body["messages"][-1].get("content"))[-1:]
    return bool(last) and bool(_SUMMARY.search(str(last[0].get("text", ""))[:2_000]))


def _reply(answer: Answer, verdict: Verdict) -> Reply:
    body, model, prefix = verdict.body, verdict.model, verdict.prefix
    if body["max_tokens"] == 0:
        return Reply([], "max_tokens", output_tokens=0)
    if body.get("compaction") is not None:
        summary = "".join(str(block.get("text", "")) for block in answer.content)
        block = compaction_block(model.name, prefix, summary)
        return finish(Answer([block], "compaction"), body, model, prefix)
    reply = finish(answer, body, model, prefix)
    reply.transformations.extend(verdict.dropped)
    room = model.window - verdict.prompt.tokens
    if room < body["max_tokens"]:
        reply = clip(reply, room, "model_context_window_exceeded")
    else:
        reply = clip(reply, body["max_tokens"], "max_tokens")
    seal(reply.content, body, model, prefix)
    return reply


def _describe(row: Row, verdict: Verdict, settings: Settings) -> None:
    body = verdict.body
    messages = body.get("messages")
    asked = body.get("max_tokens")
    row.valid = verdict.rejection is None
    row.context_tokens = verdict.prompt.tokens
    row.model = str(body.get("model", ""))
    row.stream = bool(body.get("stream"))
    row.messages = len(messages) if isinstance(messages, list) else 0
    row.max_tokens = asked if isinstance(asked, int) else 0
    if not row.agent and row.messages:
        row.agent = settings.agent_of(body)


async def _json(wire: Wire, value: Any, request_id: str = "req_none") -> None:
    data = json.dumps(value).encode()
    length = (b"content-length", str(len(data)).encode())
    await wire.head(200, [JSON, length, (b"request-id", request_id.encode())])
    await wire.write(data, more=False)


async def _refuse(
    wire: Wire,
    rejection: Rejection,
    request_id: str,
    row: Row | None = None,
    headers: dict[str, str] | None = None,
) -> None:
    if row is not None:
        row.status = rejection.status
        row.error = rejection.message
    data = rejection.body(request_id)
    extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    length = (b"content-length", str(len(data)).encode())
    ident = (b"request-id", request_id.encode())
    await wire.head(rejection.status, [JSON, length, ident, *extra])
    await wire.write(data, more=False)
