"""The examples run as their pages say, and their definitions are read without a problem."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from orchestrator.journal import read_records
from orchestrator.rundir import find_run
from subagents import builtin, discover
from tests.test_cli_process import Cli, cli, root
from tests.test_docs import ROOT, blocks
from tests.test_docs_commands import commands_in

__all__ = ["cli", "root"]
EXAMPLES = ROOT / "examples"
FOLDERS = {
    "research": ("Totals", "documents/2023-survey.md:6"),
    "migration": ("Totals", "shop/invoices.py:7"),
    "log_triage": ("Totals", "logs/orders.log:182"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_an_example_runs_by_the_commands_of_its_page(
    name: str, cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first as it is written, the one for a model with the rehearsal in its place."""
    shutil.copytree(EXAMPLES / name, root, dirs_exist_ok=True)
    monkeypatch.setenv("OUTRIDER_MODEL", "rehearsal")
    lines = commands_in("".join(blocks(EXAMPLES / name / "README.md", "sh")))
    assert len(lines) == 2
    for line in lines:
        ran = cli(*shlex.split(line)[1:])
        assert ran.code == 0, ran.err
        assert "--model" in line or "Totals" in ran.out
    first = cli(*shlex.split(lines[0])[1:])
    for said in FOLDERS[name]:
        assert said in first.out


@pytest.mark.parametrize("name", FOLDERS)
def test_the_definitions_of_an_example_have_no_problem(name: str) -> None:
    found = discover(EXAMPLES / name, (), ())
    assert found.problems == []
    assert found.definitions.keys() > builtin().definitions.keys()


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    shown = [p for p in EXAMPLES.iterdir() if p.name not in ("README.md", "__init__.py")]
    for path in shown:
        assert path.name.startswith("__") or f"[{path.name}]" in listed


# ── the service ──


@pytest.fixture
def service(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return app_of("service", root, monkeypatch)


def app_of(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("ROOT", str(root))
    monkeypatch.delenv("OUTRIDER_MODEL", raising=False)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # FastAPI looks a handler's types up in its module.
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module.app


async def asked(app: Any, body: bytes, leaves_at: str | None = None) -> list[Any]:
    """The parts of the answer to a request, as the server is handed them; at ``leaves_at`` the
    client goes."""
    parts: list[Any] = []
    gone, requests = anyio.Event(), iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        for request in requests:
            return request
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(part: Any) -> None:
        parts.append(part)
        if leaves_at and leaves_at.encode() in part.get("body", b""):
            gone.set()
            await anyio.sleep_forever()

    scope = {"type": "http", "method": "POST", "path": "/runs", "headers": [], "query_string": b""}
    with anyio.fail_after(60):
        await app({**scope, "root_path": ""}, receive, send)
    return parts


@pytest.mark.anyio
async def test_the_service_sends_events_as_lines_and_the_report_last(service: Any) -> None:
    first, *parts = await asked(service, b'{"task": "Survey this folder"}')
    lines = [json.loads(part["body"]) for part in parts]
    assert first["status"] == 200
    assert lines[0] == {"event": "run_started", "agent_id": "main"}
    assert lines[-1]["status"] == "finished"
    assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]


@pytest.mark.anyio
async def test_a_client_that_leaves_ends_its_run(service: Any, root: Path) -> None:
    await asked(service, b'{"task": "Survey this folder"}', leaves_at="agent_spawned")
    facts = [record.fact for record in read_records(find_run(root, "latest").journal)]
    assert "agent_spawned" in [fact.event for fact in facts]
    assert not [f for f in facts if f.event == "run_ended" and f.status == "finished"]


@pytest.mark.anyio
async def test_the_service_says_what_is_wrong_with_a_request(service: Any) -> None:
    assert (await asked(service, b"{}"))[0]["status"] == 400
    assert b"the task is empty" in (await asked(service, b'{"task": " "}'))[-1]["body"]


# ── the FastAPI application ──


@asynccontextmanager
async def client_of(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who asks an application that is started for it, and ended after."""
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        yield client


async def until_ended(client: httpx2.AsyncClient, run_id: str) -> Any:
    with anyio.fail_after(60):
        answer = await client.get(f"/runs/{run_id}")
        while answer.json().get("status") == "running":  # as clients of HTTP do
            await anyio.sleep(0.01)
            answer = await client.get(f"/runs/{run_id}")
    return answer


@pytest.fixture
def fastapi_app(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("fastapi")
    return app_of("fastapi_app", root, monkeypatch)


@pytest.mark.anyio
async def test_a_run_outlives_its_request_and_is_looked_at(fastapi_app: Any) -> None:
    async with client_of(fastapi_app) as client:
        begun = await client.post("/runs", json={"task": "Survey this folder"})
        assert begun.status_code == 202
        answer = await until_ended(client, begun.json()["run_id"])
        assert answer.json()["status"] == "finished"
        assert (await client.get("/runs/none")).status_code == 404
        assert (await client.post("/runs", json={})).status_code == 422
        empty = await client.post("/runs", json={"task": " "})
        refused = await until_ended(client, empty.json()["run_id"])
        assert (refused.status_code, refused.json()["detail"][:17]) == (422, "the task is empty")


@pytest.mark.anyio
async def test_a_run_is_stopped_and_hands_back(fastapi_app: Any) -> None:
    async with client_of(fastapi_app) as client:
        begun = await client.post("/runs", json={"task": "Survey this folder"})
        run_id = begun.json()["run_id"]
        assert (await client.delete(f"/runs/{run_id}")).status_code == 202
        answer = await until_ended(client, run_id)
        assert (answer.json()["status"], answer.json()["reason"]) == ("partial", "cancelled")


@pytest.mark.anyio
async def test_what_the_end_of_the_application_cut_off_goes_on_after_a_restart(
    fastapi_app: Any, root: Path
) -> None:
    async with client_of(fastapi_app) as client:
        run_id = (await client.post("/runs", json={"task": "Survey"})).json()["run_id"]
        with anyio.fail_after(60):
            log = root / f".outrider/runs/{run_id}/log.jsonl"
            while not log.exists():  # noqa: ASYNC110  # somebody else's file
                await anyio.sleep(0.01)
    async with client_of(fastapi_app) as client:
        assert (await client.get(f"/runs/{run_id}")).status_code == 404
        assert (await client.post(f"/runs/{run_id}/resume", json={})).status_code == 202
        assert (await until_ended(client, run_id)).json()["status"] == "finished"
