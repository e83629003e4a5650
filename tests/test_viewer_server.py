"""`outrider view` as a server: who is let in, what answers carry, the live stream."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.errors import RequestRejected
from orchestrator.testing import call, results
from orchestrator.viewer import pagefiles
from orchestrator.viewer.security import HEADERS, refusal
from tests.test_cli_process import Cli, cli, root
from tests.viewing import (
    HOSTILE,
    LONG_LINE,
    Viewer,
    crowd,
    record_run,
    two_children,
    viewer,
    write_journal,
)
from tests.viewing import hostile as hostile_script

__all__ = ["cli", "root"]

SECRET = "canary-of-the-environment"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A finished run of two children, served."""
    workspace = tmp_path_factory.mktemp("served") / "ws"
    workspace.mkdir()
    record_run(workspace, two_children)
    with viewer(workspace, "first", DEPLOY_TOKEN=SECRET) as running:
        yield running


# ── who is let in ──


def test_the_printed_address_lets_in_and_leaves_a_cookie_that_scripts_cannot_read(
    served: Viewer,
) -> None:
    assert served.address.startswith(f"http://127.0.0.1:{served.port}/?token=")
    answer = served.get(f"/?token={served.token}", token=False)
    assert answer.status == 200
    assert answer.headers["set-cookie"] == (
        f"outrider-view-{served.port}={served.token}; Path=/; HttpOnly; SameSite=Strict"
    )
    assert "set-cookie" not in served.get("/").headers


@pytest.mark.parametrize("path", ["/", "/app.js", "/stream", "/agent?id=main", "/nothing"])
@pytest.mark.parametrize("token", ["", "?token=", "?token=wrong", "?token=é"])
def test_without_the_token_there_is_no_answer(served: Viewer, path: str, token: str) -> None:
    from urllib.parse import quote

    answer = served.get(path + quote(token, safe="?="), token=False)
    assert answer.status == 403
    assert "outrider view printed" in answer.body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "[::1]:80", ""])
def test_another_host_is_refused(served: Viewer, host: str) -> None:
    """A name that somebody pointed at loopback (DNS rebinding) is not ours."""
    assert served.get("/", Host=host).status == 421


def test_localhost_is_this_host_too(served: Viewer) -> None:
    assert served.get("/", Host=f"localhost:{served.port}").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_another_pages_request_is_refused(served: Viewer, origin: str) -> None:
    assert served.get("/agent?id=main", Origin=origin).status == 403
    assert served.get("/agent?id=main", Sec_Fetch_Site="cross-site").status == 403
    own = f"http://127.0.0.1:{served.port}"
    assert served.get("/agent?id=main", Origin=own).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(served: Viewer, method: str) -> None:
    assert served.get("/", method=method).status == 405


def test_every_answer_carries_the_headers_refusals_too(served: Viewer) -> None:
    answers = [
        *(served.get(path) for path in ("/", "/app.js", "/style.css", "/agent?id=main")),
        *(served.get("/nothing"), served.get("/", token=False), served.get("/", Host="evil")),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "server" not in answer.headers
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert HEADERS["referrer-policy"] == "no-referrer"
    assert HEADERS["cache-control"] == "no-store"


def test_only_loopback_is_listened_on(served: Viewer) -> None:
    """As the kernel tells it: one listener on this port, at 127.0.0.1."""
    port = f"{served.port:04X}"
    rows = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).is_file()
        for line in Path(table).read_text().splitlines()[1:]
    ]
    listening = [row[1] for row in rows if row[1].endswith(f":{port}") and row[3] == "0A"]
    assert listening == [f"0100007F:{port}"]


@pytest.mark.parametrize(
    "path",
    ["/..%2fserver.py", "/%2e%2e/server.py", "/__init__.py", "/page/app.js", "/app.js/", "/dom.js"],
)
def test_only_the_pages_own_files_are_served(served: Viewer, path: str) -> None:
    assert served.get(path).status in (404, 307)
    assert "import" not in served.get(path).body


def test_a_token_of_the_same_length_is_no_token() -> None:
    headers = {"host": "127.0.0.1:80"}
    assert refusal("GET", headers, ("x" * 32, None), 80, "y" * 32) is not None
    assert refusal("GET", headers, (None, "y" * 32), 80, "y" * 32) is None


# ── the page ──


def test_the_page_asks_nobody_else_and_is_small() -> None:
    """No address of another host in any file; script and style are 72 KB at most."""
    size = 0
    for name in pagefiles.names():
        text = pagefiles.text(name)
        assert not re.search("https?:", text.replace("http://www.w3.org/2000/svg", ""))
        for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert sink not in text
        size += len(text.encode()) if name.endswith((".js", ".css")) else 0
    assert 10_000 < size <= 72 * 1_024


def test_the_pages_files_have_their_types(served: Viewer) -> None:
    assert served.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert served.get("/app.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert served.get("/style.css").headers["content-type"] == "text/css; charset=utf-8"


def test_an_agents_detail_is_told(served: Viewer) -> None:
    told = json.loads(served.get("/agent?id=main").body)
    assert told["conclusion"] == "merged"
    assert len(told["turns"]) == 3
    assert served.get("/agent?id=nobody").status == 404
    assert served.get("/agent").status == 404


def test_tools_and_isolation_are_accounted_for(served: Viewer) -> None:
    """The same figures as `outrider tokens --by tool`, and what isolation saved or cost."""
    told = json.loads(served.get("/accounts").body)
    assert {tool["name"] for tool in told["tools"]} == {"write_todos", "task", "ls"}
    assert sum(tool["share"] for tool in told["tools"]) == pytest.approx(1)
    assert told["isolation"]["agents"] == 3
    saved, alone = told["isolation"]["saved_tokens"], told["isolation"]["alone_tokens"]
    assert told["isolation"]["share"] == pytest.approx(saved / alone)


# ── the stream ──


def test_the_stream_begins_with_everything(served: Viewer) -> None:
    with served.stream() as patches:
        patch = next(patches)
    assert patch["run"]["status"] == "finished"
    assert [row["type"] for row in patch["agents"]] == ["main", "explorer", "reviewer"]
    assert patch["seq"] == patch["last"] == len(patch["events"])


def test_a_connection_that_broke_goes_on_from_where_it_was(served: Viewer) -> None:
    with served.stream(Last_Event_ID="5") as patches:
        patch = next(patches)
    assert patch["events"][0][0] == 6


def test_a_long_run_comes_in_pieces(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    write_journal(workspace, crowd(20, 5_000))
    with viewer(workspace, "first") as running, running.stream() as patches:
        events: list[Any] = []
        pieces = 0
        for patch in patches:
            assert len(patch["events"]) <= 2_000
            events += patch["events"]
            pieces += 1
            if patch["run"]["status"] == "finished" and patch["seq"] == patch["last"]:
                break
    assert [event[0] for event in events] == list(range(1, len(events) + 1))
    assert len(events) > 4_900
    assert pieces > 2


def test_a_run_that_goes_on_is_told_as_it_goes(tmp_path: Path) -> None:
    """Nothing is written by who looks: the run ends as it would have."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    go_on, reports = Event(), []
    started = Event()

    def script(request: Request) -> Any:
        if not results(request):
            return [call("ls")]
        started.set()
        assert go_on.wait(60)
        return "the end"

    run = Thread(target=lambda: reports.append(record_run(workspace, script)))
    run.start()
    try:
        assert started.wait(60)
        with viewer(workspace) as running, running.stream() as patches:
            seen = next(patches)
            calls = seen["calls"]
            while not calls or seen["run"]["status"] == "reading":
                seen = next(patches)
                calls += seen["calls"]
            assert seen["run"]["status"] == "running"
            go_on.set()
            for patch in patches:
                if patch["run"]["status"] == "finished":
                    break
            assert patch["conclusions"]["main"]["text"] == "the end"
    finally:
        go_on.set()
        run.join()
    assert [report.status for report in reports] == ["finished"]


def test_a_hostile_conclusion_is_told_as_text(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    record_run(workspace, hostile_script)
    with viewer(workspace) as running:
        told = json.loads(running.get("/agent?id=main").body)["conclusion"]
    assert told.startswith("<script>window.hacked = 1</script>")
    assert "␛[31mred" in told
    assert "[U+202E]txt.exe" in told
    assert len(told) > LONG_LINE
    assert HOSTILE.count("\x1b") == 3
    assert "\x1b" not in told


def test_secrets_are_taken_out_of_what_is_shown(tmp_path: Path) -> None:
    """In the task, a tool's output, a prompt, a conclusion, an error, also where content is shown."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    key = "sk-ant-api03-" + "a1b2c3d4" * 10

    both = f"the key is {key}, the token {SECRET}"
    (workspace / "note.txt").write_text(both)

    def script(request: Request) -> Any:
        match len(results(request)):
            case 0:
                return [call("read_file", path="note.txt")]
            case 1:
                return [call("task", prompt=both)] if request.agent_type == "main" else both
            case _:
                raise RequestRejected(both)

    record_run(workspace, script, task=f"use {both}")
    with viewer(workspace, DEPLOY_TOKEN=SECRET) as running:
        with running.stream() as patches:
            shown = json.dumps(next(patches))
            agents = [row["id"] for row in json.loads(shown)["agents"]]
        details = [running.get(f"/agent?id={agent}").body for agent in agents]
        shown += "".join(details) + running.get("/accounts").body
    assert len(details) == 2
    assert all("the key is [redacted], the token [redacted]" in detail for detail in details)
    assert key not in shown
    assert SECRET not in shown


# ── the command ──


def test_a_damaged_journal_is_told_on_the_page(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    place = write_journal(workspace, crowd(2, 60))
    import sqlite3

    with sqlite3.connect(place.journal) as database:
        database.execute("DELETE FROM records WHERE seq = 30")
    database.close()
    with viewer(workspace) as running, running.stream() as patches:
        for patch in patches:
            if patch["run"]["problem"]:
                break
    assert "30 is missing" in patch["run"]["problem"]
    assert patch["last"] == 29


def test_ctrl_c_ends_it_without_a_word(tmp_path: Path) -> None:
    import signal

    workspace = tmp_path / "ws"
    workspace.mkdir()
    record_run(workspace, lambda request: "x")
    with viewer(workspace) as running, running.stream() as patches:
        next(patches)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(20) == 0
        assert running.process.stderr is not None
        said = running.process.stderr.read()
    assert said == "outrider: open this address in a browser on this machine; Ctrl-C ends it\n"


def test_a_port_that_is_taken_is_one_sentence(cli: Cli, root: Path) -> None:
    record_run(root, lambda request: "x")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = cli("view", "--port", str(port))
    assert ran.code == 2
    assert ran.err.startswith(f"outrider: cannot listen on port {port}: ")
    assert ran.err.endswith("choose another --port\n")


def test_without_the_extra_the_command_names_it(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_run(root, lambda request: "x")
    monkeypatch.delitem(sys.modules, "orchestrator.viewer.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = cli("view")
    assert ran.code == 2
    assert "needs uvicorn, which is not installed: pip install 'outrider[view]'" in ran.err
    assert ran.err.count("\n") == 1


def test_without_a_run_it_says_so(cli: Cli) -> None:
    ran = cli("view")
    assert ran.code == 2
    assert "no run is recorded" in ran.err
