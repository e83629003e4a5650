"""Escape attempts by the file tools: each succeeds without the guard, and fails with it; as root and as
an ordinary user, who is whom the whole of Outrider runs as then.

With the guard they are made by a subagent in a real run. Without it the same calls are done by plain code
in a copy of what that run left. Attempts that need the shell are in `test_shell_escapes`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pytest

from tests.shells import NOBODY, ground, tried_by


@dataclass(frozen=True)
class Attempt:
    """A call, how one sees in the result or on the disk that it got through, and what the model is told
    where it did not."""

    name: str
    tool: str
    arguments: dict[str, str]
    got_through: Callable[[str, Path], bool]
    refusal: str


def says(text: str) -> Callable[[str, Path], bool]:
    return lambda result, root: text in result


def planted(path: str) -> Callable[[str, Path], bool]:
    """A file at that path from the workspace, which may hold wildcards, holds what was to be written."""

    def look(result: str, root: Path) -> bool:
        files = filter(os.path.isfile, glob(str(root / path)))
        return any(b"planted" in Path(file).read_bytes() for file in files)

    return look


def gone(path: str) -> Callable[[str, Path], bool]:
    return lambda result, root: not (root / path).exists()


def read(name: str, path: str, text: str, refusal: str) -> Attempt:
    return Attempt(name, "read_file", {"path": path}, says(text), refusal)


def write(name: str, path: str, where: str, refusal: str) -> Attempt:
    return Attempt(
        name, "write_file", {"path": path, "content": "planted"}, planted(where), refusal
    )


def edit(name: str, path: str, old: str, where: str, refusal: str) -> Attempt:
    arguments = {"path": path, "old_string": old, "new_string": "planted"}
    return Attempt(name, "edit_file", arguments, planted(where), refusal)


def delete(name: str, path: str, where: str, refusal: str) -> Attempt:
    return Attempt(name, "delete_file", {"path": path}, gone(where), refusal)


def look(name: str, tool: str, path: str, text: str, refusal: str, **more: str) -> Attempt:
    return Attempt(name, tool, {"path": path, **more}, says(text), refusal)


DOTS, OUTSIDE, LINK = "'..' is not allowed", "outside the workspace", "leads outside the workspace"
OURS, OURS_TO_READ = "denied by protected .outrider/**", "is Outrider's own folder"
RUN, NEW = ".outrider/runs/r", "../outside/new.txt"

# `way` and `straight` are links to the folder outside and to the secret in it, `kinds` to the definitions.
ATTEMPTS = (
    read("dotdot, read", "../outside/secret.txt", "outside-secret", DOTS),
    write("dotdot, write", "../outside/new.txt", NEW, DOTS),
    delete("dotdot, delete", "../outside/secret.txt", "../outside/secret.txt", DOTS),
    look("dotdot, ls", "ls", "../outside", "secret.txt", DOTS),
    look("dotdot, grep", "grep", "..", "outside-secret", DOTS, pattern="outside-s"),
    read("absolute, read", "{outside}/secret.txt", "outside-secret", OUTSIDE),
    write("absolute, write", "{outside}/new.txt", NEW, OUTSIDE),
    delete("absolute, delete", "{outside}", "../outside", OUTSIDE),
    look("absolute, glob", "glob", "{outside}", "secret.txt", OUTSIDE, pattern="*"),
    read("link, read", "straight", "outside-secret", LINK),
    read("link on the way, read", "way/secret.txt", "outside-secret", LINK),
    write("link, write", "straight", "../outside/secret.txt", LINK),
    write("link on the way, write", "way/new.txt", NEW, LINK),
    edit("link, edit", "straight", "outside-secret", "../outside/secret.txt", LINK),
    delete("link on the way, delete", "way/secret.txt", "../outside/secret.txt", LINK),
    look("link, ls", "ls", "way", "secret.txt", LINK),
    look("link, glob", "glob", "way", "secret.txt", LINK, pattern="*"),
    look("link, grep", "grep", "way", "outside-secret", LINK, pattern="outside-s"),
    write("journal, write", f"{RUN}/journal.db", f"{RUN}/journal.db", OURS),
    delete("journal, delete", f"{RUN}/journal.db", f"{RUN}/journal.db", OURS),
    delete("everything of ours, delete", ".outrider", ".outrider", OURS),
    write("log, write", f"{RUN}/log.jsonl", f"{RUN}/log.jsonl", OURS),
    edit("definition, edit", ".outrider/agents/reviewer.md", "as it was", ".outrider/agents/reviewer.md", OURS),
    write("definition, new", ".outrider/agents/evil.md", ".outrider/agents/evil.md", OURS),
    write("definition by a link", "kinds/evil.md", ".outrider/agents/evil.md", OURS),
    write("definition elsewhere", ".claude/agents/evil.md", ".claude/agents/evil.md", "denied by protected .claude/agents/**"),
    write("configuration", ".outrider/config.toml", ".outrider/config.toml", OURS),
    write("permissions", ".claude/settings.json", ".claude/settings.json", "denied by protected .claude/settings*.json"),
    write("servers", ".mcp.json", ".mcp.json", "denied by protected .mcp.json"),
    read("sibling's result, read", "{sibling}", "sibling's result", OURS_TO_READ),
    look("sibling's result, grep", "grep", RUN, "sibling's result", OURS_TO_READ, pattern="sibling's"),
    look("sibling's result, glob", "glob", RUN, "0001-much.txt", OURS_TO_READ, pattern="*.txt"),
    edit("sibling's result, edit", "{sibling}", "sibling's", f"{RUN}/agents/*/results/*", OURS),
    read("rule, read", ".env", "denied-secret", "denied by read(.env)"),
    read("rule, other spelling", ".//./.env", "denied-secret", "denied by read(.env)"),
    read("rule, by a link", "alias", "denied-secret", "denied by read(.env)"),
    write("rule, write", ".env", ".env", "denied by read(.env)"),
    delete("rule, delete", ".env", ".env", "denied by read(.env)"),
)  # fmt: skip


CALLS = [(attempt.tool, attempt.arguments) for attempt in ATTEMPTS]


@dataclass(frozen=True)
class Tried:
    """The results of all attempts, and the workspaces that they were made in."""

    guarded: list[str]
    root: Path
    naive: list[str]
    copies: list[Path]


@pytest.fixture(scope="module", params=["root", "ordinary"])
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    with pytest.MonkeyPatch.context() as patch, ground(request.param, patch) as place:
        links = {"way": "../outside", "straight": "../outside/secret.txt", "alias": ".env"}
        for name, target in {**links, "kinds": ".outrider/agents"}.items():
            (place.root / name).symlink_to(target)
        guarded = tried_by(place, "guarded", [place.root], CALLS)
        copies = []
        for number in range(len(ATTEMPTS)):
            top = place.root.parent / "copies" / str(number)
            for folder in (place.root, place.outside):
                shutil.copytree(folder, top / folder.name, symlinks=True)
            if place.become:
                owned = ["chown", "-hR", f"{NOBODY}:{NOBODY}", str(top)]
                subprocess.run(owned, check=True)
            copies.append(top / place.root.name)
        naive = tried_by(place, "naive", copies, CALLS)
        yield Tried(guarded, place.root, naive, copies)


@pytest.mark.parametrize("number", range(len(ATTEMPTS)), ids=[a.name for a in ATTEMPTS])
def test_an_attempt_succeeds_without_the_guard_and_fails_with_it(tried: Tried, number: int) -> None:
    attempt = ATTEMPTS[number]
    assert attempt.got_through(tried.naive[number], tried.copies[number])
    assert not attempt.got_through(tried.guarded[number], tried.root)
    assert attempt.refusal in tried.guarded[number]
    assert tried.guarded[number].startswith(("[error] ", "[denied by "))
