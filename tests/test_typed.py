"""What users' own checkers say: every public type is known, and code as the pages show it has no error."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.test_docs import DOCUMENTS, ROOT, blocks

pytestmark = [
    pytest.mark.pyright,
    needs("pyright", None if find_spec("basedpyright") else "basedpyright is not installed"),
]


def checked(*arguments: str, folder: Path = ROOT) -> dict[str, Any]:
    """What the checker says, as its JSON."""
    # It asks the first `python` of the PATH what is installed.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("package", ["orchestrator", "subagents", "todos", "workspace"])
def test_every_type_of_a_package_is_known_to_whoever_imports_it(package: str) -> None:
    said = checked("--verifytypes", package, "--ignoreexternal")["typeCompleteness"]
    unknown = [s["name"] for s in said["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert unknown == []
    assert said["completenessScore"] == 1
    assert len(said["symbols"]) > 40


# What a user writes who holds types dear: each public thing in the way that the pages use it.
STRICT = '''
from collections.abc import Sequence
from pathlib import Path

import anyio

from orchestrator import (
    Context, Events, Limits, Permissions, Report, Request, ToolError, fork, resume, run, stream,
    this_call, tool,
)
from orchestrator.testing import ScriptedModel, call, results
from subagents import Definition, load


@tool
def words(path: str) -> int:
    """Count words."""
    return len((this_call().root / path).read_text().split())


@tool(seconds=3, after_crash="repeat")
async def rows(table: str, most: int = 3) -> list[dict[str, str | int]]:
    """Rows of a table."""
    if not table:
        raise ToolError("name a table")
    return [{"table": table, "most": most}]


def script(request: Request) -> str | list[dict[str, object]]:
    return "\\n".join(results(request)) or [call("words", path=request.agent_type)]


async def follow(events: Events) -> Sequence[int]:
    used = [0]
    async for record in events:
        if record.fact.event == "model_replied" and record.fact.usage is not None:
            used.append(record.fact.usage.total_tokens)
    return used


async def main() -> Report:
    limits, context = Limits(max_tokens=500_000, max_turns=None), Context(window=16_000)
    rules = Permissions(allow=("bash(ls:*)",), deny=("read(secret/**)",))
    report = await run(
        "Go", model=ScriptedModel(script), tools=[words, rows, len], agents=[Path("team")],
        limits=limits, context=context, permissions=rules, root=Path(),
    )
    report = await resume(report.run_id, "On", limits={"max_turns": 9}, permissions={"allow": ["bash"]})
    report = await fork(report.run_id, 1, limits=limits)
    async with stream("Go", model="rehearsal", limits=limits) as events:
        print(await follow(events), events.report.agents[0].usage.input_tokens)
    found: dict[str, Definition] = load(Path("team")).definitions
    print([words(path="a"), *(d.tools for d in found.values())])
    return report


print(anyio.run(main).status)
'''


def code_of_pages() -> dict[str, str]:
    """Every whole program or module that a page shows, and the examples."""
    found = {}
    for document in DOCUMENTS:
        for number, code in enumerate(blocks(document, "python")):
            named = re.match(r"# (\w+\.py)\n", code)
            name = named[1] if named else f"{document.stem.replace('-', '_')}_{number}.py".lower()
            assert ast.parse(code)
            found[name] = code
    for path in (ROOT / "examples").glob("*.py"):
        found[f"examples/{path.name}"] = path.read_text(encoding="utf-8")
    return found


def test_code_as_the_pages_show_it_has_no_error_for_pyright(tmp_path: Path) -> None:
    for name, code in {**code_of_pages(), "strict/user.py": f"# pyright: strict\n{STRICT}"}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    said = checked("--pythonpath", sys.executable, ".", folder=tmp_path)
    wrong = [d for d in said["generalDiagnostics"] if d["severity"] == "error"]
    assert [f"{d['file']}:{d['range']['start']['line']}: {d['message']}" for d in wrong] == []
    assert said["summary"]["filesAnalyzed"] > 10


def test_code_of_a_strict_user_has_no_error_for_mypy(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(STRICT)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
            "user.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
