"""The examples run as their pages say, and their definitions are read without a problem."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import anyio
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
    monkeypatch.setenv("ROOT", str(root))
    monkeypatch.delenv("OUTRIDER_MODEL", raising=False)
    spec = importlib.util.spec_from_file_location("service", EXAMPLES / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
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
