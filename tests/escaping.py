"""Escapes that are tried as a user that it is given: by the file tools of a subagent in a run of Outrider,
by the same calls done by code without any guard, or by commands in the shell's sandbox.
`tests.test_tool_escapes` and `tests.test_shell_ordinary` start this file as a process of its own.

Usage: escaping.py guarded|naive|shell UID|- FOLDER… with what to try as JSON on standard input; all but
`guarded` do the first one in the first folder, and so on. Prints JSON: the user that it was, the results.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from orchestrator import Permissions, Request, run
from orchestrator.testing import ScriptedModel, call, results
from workspace import Access, Bounds, ResultStore, Rule, Shell

RUN = "r"
RULES = Permissions(allow=("write(**)",), deny=("read(.env)",))
Calls = Sequence[tuple[str, dict[str, Any]]]


def main() -> None:
    what, user, *folders = sys.argv[1:]
    calls = json.load(sys.stdin)
    act: Callable[[], list[str]] = {
        "guarded": lambda: guarded(Path(folders[0]), calls),
        "naive": lambda: list(map(naive, map(Path, folders), calls)),
        "shell": lambda: anyio.run(in_shell, folders, calls),
    }[what]
    if user != "-":
        # Whoever it becomes may not be able to read the libraries: they are all imported by then.
        with tempfile.TemporaryDirectory() as folder:
            guarded(Path(folder), [("ls", {})] if what == "shell" else calls)
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    print(json.dumps([[*os.getresuid(), *os.getresgid()], act()]))  # noqa: T201


def guarded(root: Path, calls: Calls) -> list[str]:
    """What a subagent is told that makes the calls after another one, its sibling, has left a result."""
    told: list[str] = []

    async def much() -> str:
        """Say much."""
        return "sibling's result\n" * 1_000

    def script(request: Request) -> Any:
        done = results(request)
        match request.agent_type, done:
            case "main", _ if len(done) < 2:
                return [call("task", prompt=["leave a result", "try"][len(done)])]
            case "main", _:
                return "done"
            case _, [] if "leave a result" in json.dumps(request.messages):
                return [call("much")]
            case _, []:
                found = next(root.glob(f".outrider/runs/{RUN}/agents/*/results/*"))
                sibling = str(found.relative_to(root))
                return [call(tool, **placed(given, root, sibling)) for tool, given in calls]
            case _:
                told[:] = done
                return "done"

    async def go() -> None:
        model = ScriptedModel(script)
        report = await run(
            "go", model=model, root=root, run_id=RUN, tools=[much], permissions=RULES
        )
        assert report.status == "finished"

    anyio.run(go)
    return told


def placed(given: dict[str, Any], root: Path, sibling: str) -> dict[str, Any]:
    """The arguments, with where things are."""
    places = {"{outside}": str(root.parent / "outside"), "{sibling}": sibling}
    places["{run}"] = f".outrider/runs/{RUN}"
    made = dict(given)
    for name, text in places.items():
        made = {k: v.replace(name, text) if isinstance(v, str) else v for k, v in made.items()}
    return made


def naive(root: Path, one: tuple[str, dict[str, Any]]) -> str:
    """A call's result, with nothing between it and the disk but the user's own rights."""
    tool, given = one
    found = next(root.glob(f".outrider/runs/{RUN}/agents/*/results/*"))
    given = placed(given, root, str(found.relative_to(root)))
    path = root / given["path"]
    try:
        return str(NAIVE[tool](path, given))
    except OSError as error:
        return f"the system says: {error}"


async def in_shell(folders: Sequence[str], commands: Sequence[dict[str, Any]]) -> list[str]:
    """What each command prints, run in a sandbox by the rules that come with it."""
    return [await _in_shell(*each) for each in zip(folders, commands, strict=True)]


async def _in_shell(root: str, given: dict[str, Any]) -> str:
    access = Access(
        deny_read=tuple(map(Rule, given["deny_read"])),
        deny_write=tuple(map(Rule, given["deny_write"])),
        guarded=tuple(map(tuple, given["guarded"])),
        readable_private=lambda: given["readable"],
    )
    async with anyio.create_task_group() as group:
        store = ResultStore(root, given["results"])
        shell = Shell(root, access, store, group, bounds=Bounds(processes=60))
        ran = await shell.run(given["command"], 60)
        await shell.close()
    return await shell.text(ran.output)


def _write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return "written"


def _lines(path: Path) -> list[str]:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return [line for file in files for line in file.read_text(errors="replace").splitlines()]


NAIVE: dict[str, Callable[[Path, dict[str, Any]], object]] = {
    "read_file": lambda path, given: path.read_text(),
    "write_file": lambda path, given: _write(path, given["content"]),
    "edit_file": lambda path, given: _write(
        path, path.read_text().replace(given["old_string"], given["new_string"])
    ),
    "delete_file": lambda path, given: shutil.rmtree(path) if path.is_dir() else path.unlink(),
    "ls": lambda path, given: os.listdir(path),
    "glob": lambda path, given: [p.name for p in path.rglob(given["pattern"])],
    "grep": lambda path, given: [line for line in _lines(path) if given["pattern"] in line],
}


if __name__ == "__main__":
    main()
