"""P3, P4: the check and the use cannot be raced apart, by any of the file functions.

A name inside becomes a link that leads outside, or to a folder inside that a rule denies, once between the check and the use for certain, then by
a process of its own whenever it comes to it. Code that resolves a path, looks where it leads and uses it
loses both; ours loses neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from workspace import Access, Refused, Rule, Use, WorkspaceError
from workspace.files import Files
from workspace.globs import glob
from workspace.paths import Parts
from workspace.search import regex
from workspace.tree import find_lines, find_paths

INSIDE = "a passage\n"
MOST_TRIES = 20_000
LEAST_TRIES = 300


@dataclass
class Ground:
    """``ws`` is the workspace, ``out`` is not for tools: it is outside, or denied by a rule."""

    top: Path
    denied: bool

    def __post_init__(self) -> None:
        (self.ws / "d").mkdir(parents=True)
        self.out.mkdir()
        for path in ("d/file.txt", "f", f"{self.way}/file.txt", f"{self.way}/only-outside.txt"):
            (self.ws / path).write_text(INSIDE)

    @property
    def ws(self) -> Path:
        return self.top / "ws"

    @property
    def way(self) -> str:
        """To what is not for tools, from the workspace."""
        return "out" if self.denied else "../out"

    @property
    def out(self) -> Path:
        return (self.ws / self.way).resolve()

    def access(self, also: Callable[[Use, Parts], None]) -> Access:
        return Access(deny_read=(Rule("/out"),) if self.denied else (), also=also)

    def outside(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.out.iterdir()}

    def swap(self, name: str) -> None:
        """`d` or `f` becomes a link to its like outside."""
        (self.ws / name).rename(self.ws / "kept")
        (self.ws / name).symlink_to(self.way if name == "d" else f"{self.way}/file.txt")


@dataclass
class Between:
    """What is called between a check and a use; ``act`` happens the ``at``-th time."""

    at: int
    act: Callable[[], None]
    calls: int = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.act()


@dataclass
class Naive:
    """What one writes first: resolve, look where that is, use what was resolved."""

    ground: Ground
    between: Callable[[], None] = field(default=lambda: None)

    def checked(self, path: str) -> Path:
        real = (self.ground.ws / path).resolve()
        if not real.is_relative_to(self.ground.ws) or real.is_relative_to(self.ground.out):
            raise Refused(path, "not for tools")
        self.between()
        return real

    def read(self, path: str) -> str:
        return self.checked(path).read_text()

    def write(self, path: str, content: str) -> None:
        self.checked(path).write_text(content)

    def edit(self, path: str, old: str, new: str) -> None:
        real = self.checked(path)
        real.write_text(real.read_text().replace(old, new))

    def delete(self, path: str) -> None:
        real = self.checked(path)
        names = [real / name for name in os.listdir(real)] if real.is_dir() else [real]
        for name in names:
            name.unlink()

    def ls(self, path: str) -> list[str]:
        return os.listdir(self.checked(path))

    def glob(self, path: str) -> list[str]:
        return [found.name for found in self.checked(path).rglob("*")]

    def grep(self, path: str, text: str) -> list[str]:
        real = self.checked(path)
        lines: list[str] = []
        for file in [real] if real.is_file() else list(real.rglob("*")):
            with suppress(Refused):
                if (inside := self.checked(str(file))).is_file():
                    lines += [line for line in inside.read_text().splitlines() if text in line]
        return lines


def searched(files: Files, path: str) -> list[str]:
    found = find_lines(files, regex("x|e"), path, lambda parts: True, "content", lambda: True)
    return found.lines


def named(files: Files, path: str) -> list[str]:
    return find_paths(files, glob("*"), path, lambda: True).lines


def known(files: Files, path: str) -> None:
    files.read(path)


def nothing(files: Files, path: str) -> None:
    pass


@dataclass(frozen=True)
class Operation:
    """One function on ``path``, while ``swapped`` changes under it, and the same done naively. ``secret``:
    the text of the file outside where it shows that it was read; without it that file is like ours, so that
    no comparison of contents helps. ``before``: what an agent does first."""

    name: str
    path: str
    ours: Callable[[Files, str], object]
    naive: Callable[[Naive, str], object]
    before: Callable[[Files, str], object] = nothing
    secret: str = ""

    @property
    def swapped(self) -> str:
        return "f" if self.path == "f" or self.name.endswith("of a file") else "d"

    def ground(self, top: Path, denied: bool) -> Ground:
        ground = Ground(top, denied)
        if self.secret:
            (ground.out / "file.txt").write_text(self.secret)
        return ground

    def got_out(self, ground: Ground, outside: dict[str, str], result: object) -> bool:
        """Whether something outside was shown or changed."""
        shown = str(result)
        is_shown = "only-outside" in shown or bool(self.secret and self.secret.strip() in shown)
        return is_shown or ground.outside() != outside


SECRET = "SECRET: xe\n"
OPERATIONS = (
    *(
        operation
        for path in ("d/file.txt", "f")
        for operation in (
            Operation("read", path, Files.read, Naive.read, secret=SECRET),
            Operation(
                "edit", path,
                lambda files, path: files.edit(path, "passage", "word"),
                lambda naive, path: naive.edit(path, "passage", "word"),
                known,
            ),
            Operation(
                "overwrite", path,
                lambda files, path: files.write(path, "mine"),
                lambda naive, path: naive.write(path, "mine"),
                known,
            ),
            Operation("grep", path, searched, lambda naive, path: naive.grep(path, "xe"), secret=SECRET),
        )
    ),
    Operation(
        "write", "d/new.txt",
        lambda files, path: files.write(path, "mine"),
        lambda naive, path: naive.write(path, "mine"),
    ),
    Operation("grep", "d", searched, lambda naive, path: naive.grep(path, "xe"), secret=SECRET),
    Operation("grep", ".", searched, lambda naive, path: naive.grep(path, "xe"), secret=SECRET),
    Operation("grep of a file", ".", searched, lambda naive, path: naive.grep(path, "xe"), secret=SECRET),
    Operation("glob", "d", named, Naive.glob),
    Operation("ls", "d", Files.entries, Naive.ls),
    Operation("delete", "d/file.txt", Files.delete, Naive.delete),
    Operation("delete", "d", Files.delete, Naive.delete),
)  # fmt: skip


def told(act: Callable[[], object]) -> object:
    """What it returned; for what was refused, why."""
    try:
        return act()
    except (WorkspaceError, OSError) as error:
        return type(error).__name__


denied_or_outside = pytest.mark.parametrize("denied", [False, True], ids=["outside", "denied"])
every_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: f"{operation.name}: {operation.path}"
)


def ours_got_out(operation: Operation, ground: Ground, at: int) -> bool | None:
    """With the swap at that of our checks; ``None`` where there are no more."""
    between = Between(at, lambda: ground.swap(operation.swapped))
    begun = False

    def also(use: Use, parts: Parts) -> None:
        if begun:
            between()

    files = Files(ground.ws, ground.access(also))
    operation.before(files, operation.path)
    outside, begun = ground.outside(), True
    result = told(lambda: operation.ours(files, operation.path))
    return operation.got_out(ground, outside, result) if between.calls >= at else None


def naive_got_out(operation: Operation, ground: Ground, at: int) -> bool | None:
    between = Between(at, lambda: ground.swap(operation.swapped))
    outside = ground.outside()
    result = told(lambda: operation.naive(Naive(ground, between), operation.path))
    return operation.got_out(ground, outside, result) if between.calls >= at else None


def at_each_check(
    got_out: Callable[[Operation, Ground, int], bool | None],
    operation: Operation,
    top: Path,
    denied: bool,
) -> list[bool]:
    """Whether it got out, with the swap at the first check, at the second …"""
    found: list[bool] = []
    while True:
        ground = operation.ground(top / str(len(found)), denied)
        if (out := got_out(operation, ground, len(found) + 1)) is None:
            return found
        found.append(out)


@denied_or_outside
@every_operation
def test_a_swap_right_after_any_check_leads_nowhere_else(
    tmp_path: Path, operation: Operation, denied: bool
) -> None:
    """P3, P4: and code that checks and then uses is led there by the very same swap."""
    assert any(at_each_check(naive_got_out, operation, tmp_path / "naive", denied))
    ours = at_each_check(ours_got_out, operation, tmp_path / "ours", denied)
    assert len(ours) >= 2
    assert not any(ours)


# What was deleted or written meanwhile is put right again; pauses of chance keep the two out of step.
FLIPPING = f"""
import itertools, os, random, shutil, sys
from contextlib import suppress
root, way = sys.argv[1:]
os.chdir(root)
trash = map("../trash/{{}}".format, itertools.count())
def put(name):
    with open(name, "w") as file:
        file.write({INSIDE!r})
def instead(make, *words):
    while True:
        with suppress(OSError):
            return make(*words)
        with suppress(OSError):
            os.rename("d", next(trash))
def pause():
    for _ in range(random.randrange(3_000)):
        pass
print("on", flush=True)
while True:
    os.makedirs("../trash", exist_ok=True)
    os.mkdir("../new")
    put("../new/file.txt")
    put("../new-f")
    os.symlink(way + "/file.txt", "../link")
    instead(os.symlink, way, "d")
    os.replace("../link", "f")
    pause()
    instead(os.rename, "../new", "d")
    os.replace("../new-f", "f")
    shutil.rmtree("../trash", ignore_errors=True)
    pause()
"""


@contextmanager
def flipping(ground: Ground) -> Iterator[None]:
    """A process that makes links of `d` and `f`, and makes them ours again, without a pause."""
    command = [sys.executable, "-S", "-c", FLIPPING, str(ground.ws), ground.way]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"on\n"
            yield
            assert process.poll() is None, "it went on to the end"
        finally:
            process.kill()


@denied_or_outside
@every_operation
def test_a_process_that_swaps_names_all_the_time_leads_nowhere_else(
    tmp_path: Path, operation: Operation, denied: bool
) -> None:
    """P3, P4: in more than three times as many tries as code that checks and then uses needs to lose."""
    ground = operation.ground(tmp_path / "naive", denied)
    outside = ground.outside()

    def naive() -> bool:
        result = told(lambda: operation.naive(Naive(ground), operation.path))
        return operation.got_out(ground, outside, result)

    with flipping(ground):
        tries = next((n for n in range(1, MOST_TRIES) if naive()), None)
    assert tries is not None, "the race was never lost"

    ground = operation.ground(tmp_path / "ours", denied)
    least, have_worked = max(LEAST_TRIES, 3 * tries), False

    def ours() -> bool:
        """Whether it could do its work."""
        files = Files(ground.ws, ground.access(lambda use, parts: None))
        told(lambda: operation.before(files, operation.path))
        result = told(lambda: operation.ours(files, operation.path))
        assert not operation.got_out(ground, outside, result)
        return not isinstance(result, str) or result == INSIDE

    with flipping(ground):
        for number in range(least + MOST_TRIES):
            have_worked = ours() or have_worked
            if have_worked and number >= least:
                return
    pytest.fail("it never found what is inside")
