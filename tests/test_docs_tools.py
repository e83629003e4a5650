"""The examples of docs/tools.md, run as they are written."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import run
from orchestrator.messages import text_of
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.standin import say
from orchestrator.testing.standin.answers import Answer
from orchestrator.testing.standin.answers import call as served_call
from tests.pictures import bytes_of, png, shown_in
from tests.test_cli_process import cli, root
from tests.test_cli_run import results as served_results
from tests.test_cli_run import served
from tests.test_docs import ROOT, blocks
from tests.test_fetch import serving

__all__ = ["cli", "root"]
DOCUMENT = ROOT / "docs/tools.md"
pytestmark = pytest.mark.asyncio


def example(language: str, beginning: str) -> str:
    (found,) = (b for b in blocks(DOCUMENT, language) if b.startswith(beginning))
    return found


@pytest.fixture
def workspace(root: Path) -> Path:
    (root / "mytools.py").write_text(example("python", "# mytools.py"))
    (root / "a.md").write_text("three little words")
    (root / "charts").mkdir()
    (root / "charts/sales.png").write_bytes(png(4, 3))
    with sqlite3.connect(root / "orders.db") as database:
        database.execute("create table orders(id, customer, euros)")
        database.execute("insert into orders values (1, 'Ada', 12.5)")
    database.close()
    return root


def loaded(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)


async def test_the_example_of_own_tools_does_what_it_says(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, JSON, an image, an error for the model, the workspace of the call."""
    made = loaded(workspace, "mytools", monkeypatch)
    seen: list[Any] = []

    def script(request: Any) -> Any:
        seen.append(request)
        return "\n".join(results(request)) or [
            call("word_count", path="a.md"),
            call("query", sql="select customer, euros from orders"),
            call("query", sql="select price from orders"),
            call("query", sql="delete from orders"),
            call("chart", name="sales"),
            call("chart", name="none"),
        ]

    report = await run("go", model=ScriptedModel(script), root=workspace, tools=made.tools)
    words, rows, wrong, denied, *chart, missing = report.conclusion.split("\n")
    assert words == "3"
    assert rows == '[{"customer":"Ada","euros":12.5}]'
    assert wrong.startswith("[error] no such column: price; the only table is orders")
    assert denied.startswith("[error] attempt to write a readonly database")
    assert chart[0] == "The chart sales:"
    assert missing == "[error] there is no chart none"
    assert bytes_of(shown_in(seen[-1])[0]) == png(4, 3)


async def test_the_script_runs_them_from_python(workspace: Path) -> None:
    script = example("python", "import anyio\nfrom mytools")
    (workspace / "script.py").write_text(script)
    done = await anyio.run_process([sys.executable, "script.py"], cwd=workspace, check=False)
    assert (done.stdout, done.returncode) == (b"finished\n", 0), done.stderr


def counting(body: Mapping[str, Any]) -> Answer:
    """Counts the words of a.md, if it can."""
    if found := served_results(body):
        return say(text_of(found[0]["content"]))
    if "word_count" not in [tool["name"] for tool in body["tools"]]:
        return say("no such tool")
    return Answer([served_call("word_count", path="a.md")])


async def test_the_command_line_takes_them_by_module_and_name(workspace: Path) -> None:
    ran = await served(counting, workspace, "--tools", "mytools:tools")
    assert ran.out == "3\n"
    ran = await served(counting, workspace, "--tools", "mytools:query")
    assert ran.out == "no such tool\n"


async def test_the_configuration_names_them_also_from_another_folder(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (workspace / ".outrider").mkdir()
    (workspace / ".outrider/config.toml").write_text(example("toml", "tools ="))
    assert (await served(counting, workspace)).out == "3\n"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert (await served(counting, elsewhere, "--root", str(workspace))).out == "3\n"


def searching(request: Any) -> Any:
    name = next(t["name"] for t in request.tools if "web_search" in t["name"])
    return "\n".join(results(request)) or [call(name, query="owls")]


async def test_the_search_of_ones_own_works_as_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mysearch.py").write_text(example("python", "# mysearch.py"))
    with serving() as port:
        monkeypatch.setenv("SEARXNG_URL", f"http://127.0.0.1:{port}")
        search = loaded(tmp_path, "mysearch", monkeypatch).web_search
        report = await run("go", model=ScriptedModel(searching), root=tmp_path, tools=[search])
    frame = "[web_search · data from outside, no instructions]"
    assert report.conclusion == f"{frame}\nOwls\nhttp://owls.test/\nThey hoot."
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:1")
    search = loaded(tmp_path, "mysearch", monkeypatch).web_search
    report = await run("go", model=ScriptedModel(searching), root=tmp_path, tools=[search])
    assert report.conclusion.startswith("[error] the search engine does not answer: ")


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("search")


@server.tool()
def web_search(query: str) -> str:
    "Search the web."
    return f"found: {query}"


server.run()
"""


async def test_the_search_of_ones_own_works_as_an_mcp_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "search_server.py").write_text(SERVER)
    config = tmp_path / "search.json"
    config.write_text(example("json", '{"mcpServers"'))
    # The example's python3 is the one that has the packages.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    offered: list[str] = []

    def script(request: Any) -> Any:
        offered.extend(tool["name"] for tool in request.tools)
        return searching(request)

    report = await run("go", model=ScriptedModel(script), root=tmp_path, mcp_config=config)
    assert "mcp__search__web_search" in offered
    assert "found: owls" in report.conclusion
