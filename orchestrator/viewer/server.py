"""The local web server behind the page: a few files, one stream of what is new, one agent's detail."""

from __future__ import annotations

import json
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.errors import ConfigError, JournalError
from orchestrator.journal import read_records
from orchestrator.viewer import pagefiles
from orchestrator.viewer.accounting import accounts
from orchestrator.viewer.security import HEADERS, HOST, cookie_name, refusal
from orchestrator.viewer.story import Story
from orchestrator.viewer.turns import detail
from orchestrator.viewer.watch import Watch

# A line for proxies and browsers that nothing is wrong while nothing happens.
_HEARTBEAT_SECONDS = 15.0
# Sent at most this often, so that a busy run does not keep the page redrawing.
_PAUSE_SECONDS = 0.2


class Guard:
    """Around the application: refuses who may not ask, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app = app
        self._port = port
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        in_address = request.query_params.get("token")
        given = (in_address, request.cookies.get(cookie_name(self._port)))
        refused = refusal(request.method, request.headers, given, self._port, self._token)
        app = self._app if refused is None else _refused(*refused)
        shows_token = refused is None and in_address is not None

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if shows_token:
                    name = cookie_name(self._port)
                    headers["set-cookie"] = (
                        f"{name}={self._token}; Path=/; HttpOnly; SameSite=Strict"
                    )
            await send(message)

        await app(scope, receive, send_guarded)


def _refused(status: int, words: str) -> Response:
    return PlainTextResponse(f"{words}\n", status)


def application(watch: Watch, journal: Path, port: int, token: str) -> ASGIApp:
    """The viewer of one run as an ASGI application; ``watch`` is kept up to date elsewhere."""

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        found = pagefiles.served(name)
        if found is None:
            return _refused(404, "no such file")
        return Response(found[0], media_type=found[1])

    async def stream(request: Request) -> Response:
        known = request.headers.get("last-event-id", "0")
        after = int(known) if known.isdecimal() else 0
        return StreamingResponse(patches(watch, after), media_type="text/event-stream")

    async def agent(request: Request) -> Response:
        try:
            wanted = request.query_params.get("id", "")
            return await run_sync(_detail, journal, wanted, watch.story)
        except JournalError as error:
            return _refused(500, str(error))

    async def whole(request: Request) -> Response:
        async with replaying:
            seq = watch.story.seq
            if seq not in replayed:
                replayed.clear()
                replayed[seq] = await run_sync(_accounts, journal, watch.story)
        return JSONResponse(replayed[seq])

    # One at a time, and kept while nothing new has happened: it takes seconds for a large run.
    replaying, replayed = anyio.Lock(), dict[int, Any]()
    routes = [
        Route("/", page),
        Route("/stream", stream),
        Route("/agent", agent),
        Route("/accounts", whole),
        Route("/{name}", page),
    ]
    return Guard(Starlette(routes=routes), port, token)


def _accounts(journal: Path, story: Story) -> Any:
    try:
        return story.clean(accounts(list(read_records(journal)), story.price))
    except JournalError:
        return accounts([])  # the page says what is wrong with the journal


def _detail(journal: Path, agent_id: str, story: Story) -> Response:
    found = detail(read_records(journal, agent=agent_id), journal.parent.name, story.tell)
    return JSONResponse(story.clean(found)) if found["id"] else _refused(404, "no such agent")


async def patches(watch: Watch, after: int) -> AsyncIterator[str]:
    """Server-sent events: what came after record ``after``, then what comes. The event's id is the
    record that it goes up to, so that a connection that broke goes on from there."""
    rows, lists, sent = (after if after else -1), after, 0
    while True:
        if sent != watch.version or lists < watch.story.seq:
            sent = watch.version
            patch = watch.story.since(rows, lists)
            rows, lists = patch["last"], patch["seq"]
            yield f"id: {lists}\ndata: {_json(patch)}\n\n"
            await anyio.sleep(0 if lists < watch.story.seq else _PAUSE_SECONDS)
            continue
        with anyio.move_on_after(_HEARTBEAT_SECONDS) as waited:
            await watch.grown()
        if waited.cancelled_caught:
            yield ":\n\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


async def serve(watch: Watch, journal: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted. ``ready`` is told the address, token included, once it answers.

    Needs asyncio, as uvicorn does. Raises `ConfigError` where the port cannot be had.
    """
    # Its messages are for who runs a server; here the command says what there is to say.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    token = secrets.token_urlsafe(24)
    with _listening(port) as listener:
        number = listener.getsockname()[1]
        app = application(watch, journal, number, token)
        server = _Server(uvicorn.Config(app, **_QUIET))
        server.on_start = lambda: ready(f"http://{HOST}:{number}/?token={token}")
        async with anyio.create_task_group() as group:
            group.start_soon(watch.follow)
            await server.serve(sockets=[listener])
            group.cancel_scope.cancel()


_QUIET: Mapping[str, Any] = {
    "interface": "asgi3",
    "lifespan": "off",
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "proxy_headers": False,
    "server_header": False,
    # A page that is open holds a stream open.
    "timeout_graceful_shutdown": 0,
}


class _Server(uvicorn.Server):
    on_start: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_start()


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot listen on port {port}: {why}; choose another --port") from None
    return listener
