"""Outrider inside a web service: a run's events as they come, then its report, one JSON object a line.

    pip install 'outrider[view]'
    uvicorn service:app
    curl -N localhost:8000/runs -d '{"task": "Survey this folder"}'

A client that leaves ends its run; `outrider resume` goes on with it. Give a service that others can
reach its own authentication, and each of them a workspace of their own.
"""

from __future__ import annotations

import json
import os
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator import ConfigError, Limits, stream

LIMITS = Limits(max_tokens=500_000, max_seconds=600)


class Followed:
    """A response that is a run. It is no async generator, since a run must end with its request."""

    def __init__(self, task: str) -> None:
        self.task = task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as group:
            group.start_soon(cancelled_when_left, receive, group.cancel_scope)
            await self.follow(send)
            group.cancel_scope.cancel()

    async def follow(self, send: Send) -> None:
        async def line(value: dict[str, Any], more: bool = True) -> None:
            body = json.dumps(value).encode() + b"\n"
            await send({"type": "http.response.body", "body": body, "more_body": more})

        model, root = os.environ.get("OUTRIDER_MODEL", "rehearsal"), os.environ.get("ROOT", ".")
        try:
            async with stream(self.task, model=model, root=root, limits=LIMITS) as events:
                async for record in events:
                    await line({"event": record.fact.event, "agent_id": record.agent_id})
            await line(events.report.as_json(), more=False)
        except ConfigError as error:
            await line({"error": str(error)}, more=False)


async def cancelled_when_left(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def start_run(request: Request) -> ASGIApp:
    try:
        task = (await request.json())["task"]
    except (ValueError, KeyError, TypeError):
        return JSONResponse({"error": 'send {"task": "…"}'}, status_code=400)
    return Followed(str(task))


app = Starlette(routes=[Route("/runs", start_run, methods=["POST"])])
