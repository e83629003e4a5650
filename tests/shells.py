"""Shells for tests: run as root or as an ordinary user, in a workspace with things to guard."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.needs import missing, needs
from workspace import Access, Bounds, ResultStore, Shell, why_no_sandbox
from workspace.shell import watch

OWN = ".outrider/runs/R/agents/own"
CHILD = ".outrider/runs/R/agents/child"
SIBLING = ".outrider/runs/R/agents/sibling"
SECRET = "sk-very-secret-0123456789"
NOBODY = 65534
_PATH = "/usr/local/bin:/usr/bin:/bin"
_HERE = Path(__file__).parent
# Becomes an ordinary user, then bubblewrap: the same process, so what is watched stays the same.
_ASNOBODY = """#!/bin/sh
exec setpriv --reuid {uid} --regid {uid} --clear-groups {bwrap} "$@"
"""

needs_sandbox = needs("sandbox", (why_no_sandbox() or "").partition(":")[0] or None)


_known: set[int] = set()


@pytest.fixture(autouse=True)
def _known_processes() -> None:
    """Other tests of the same worker may have left processes that are theirs."""
    _known.clear()
    _known.update(watch.family_of(os.getpid()))


def processes() -> int:
    """How many there are that came since the test began."""
    return len(set(watch.family_of(os.getpid())) - _known)


@dataclass(frozen=True)
class Ground:
    """A workspace, and a folder beside it that is none of its business. ``become``: the words with
    which a program is run as the user that the attempts are made as."""

    root: Path
    outside: Path
    become: tuple[str, ...]

    @property
    def is_root(self) -> bool:
        """Whether the attempts are made as root."""
        return os.geteuid() == 0 and not self.become

    def plainly(self, command: str, *, environ: dict[str, str] | None = None) -> str:
        """Run a command as that user without any guard; what it printed."""
        done = subprocess.run(
            [*self.become, "bash", "-c", command],
            cwd=self.root,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return done.stdout.decode(errors="replace")

    @asynccontextmanager
    async def shell(
        self, access: Access | None = None, bounds: Bounds | None = None, *, network: bool = False
    ) -> AsyncIterator[Shell]:
        async with anyio.create_task_group() as group:
            shell = Shell(
                self.root,
                access or Access(readable_private=lambda: (OWN, f"{CHILD}/results")),
                ResultStore(self.root, f"{OWN}/results"),
                group,
                network=network,
                bounds=bounds,
            )
            yield shell
            await shell.close()


@contextmanager
def ground(user: str, patch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """``user``: ``root`` or ``ordinary``."""
    is_root = os.geteuid() == 0
    if user == "root" and not is_root:
        pytest.skip("these tests are not run as root")
    # Not pytest's own folder: an ordinary user cannot enter that of root.
    place = Path(tempfile.mkdtemp(prefix="ground-"))
    place.chmod(0o755)
    become: tuple[str, ...] = ()
    if user == "ordinary" and is_root:
        if not shutil.which("setpriv"):
            missing("setpriv", "setpriv (util-linux) is missing")
        become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        _let_bubblewrap_be_run_by_nobody(place, patch)
    try:
        _furnish(place, owner=NOBODY if become else None)
        yield Ground(place / "work", place / "outside", become)
    finally:
        shutil.rmtree(place)


def tried_by(
    place: Ground, what: str, folders: Sequence[Path], given: Sequence[Any], **environ: str
) -> list[str]:
    """What `tests/escaping.py` answers, which is that user as a whole."""
    user = str(NOBODY) if place.become else "-"
    home = str(place.root.parent / "home")
    # From where an ordinary user can read it, wherever these tests lie.
    packages = place.root.parent / "packages"
    for name in ("orchestrator", "subagents", "todos", "workspace"):
        if not (packages / name).exists():
            shutil.copytree(_HERE.parent / name, packages / name)
    paths = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"HOME": home, "XDG_CONFIG_HOME": home, "PYTHONPATH": paths, "PATH": _PATH}
    done = subprocess.run(
        [sys.executable, str(_HERE / "escaping.py"), what, user, *map(str, folders)],
        env={**os.environ, **own, **environ},
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    (ids, results) = json.loads(done.stdout)
    assert ids == ([NOBODY] * 6 if place.become else [*os.getresuid(), *os.getresgid()])
    assert len(results) == len(given)
    return list(results)


def _let_bubblewrap_be_run_by_nobody(place: Path, patch: pytest.MonkeyPatch) -> None:
    programs = place / "programs"
    programs.mkdir()
    script = programs / "bwrap"
    script.write_text(_ASNOBODY.format(uid=NOBODY, bwrap=shutil.which("bwrap")))
    script.chmod(0o755)
    patch.setenv("PATH", f"{programs}:{_PATH}")


def _furnish(place: Path, owner: int | None) -> None:
    root, outside = place / "work", place / "outside"
    files = {
        outside / "secret.txt": "outside-secret\n",
        root / "notes.md": "notes\n",
        root / ".env": "KEY=denied-secret\n",
        root / "conf/keys/id": "denied-secret\n",
        root / "locked/rules.txt": "as it was\n",
        root / ".outrider/config.toml": 'model = "rehearsal"\n',
        root / ".outrider/agents/reviewer.md": "as it was\n",
        root / ".outrider/runs/R/journal.db": "as it was\n",
        root / OWN / "results/0001-own.txt": "own result\n",
        root / CHILD / "results/0001-child.txt": "child's result\n",
        root / CHILD / "history.md": "child's history\n",
        root / SIBLING / "results/0001-sibling.txt": "sibling's result\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if owner is not None:
        for path in (outside, root, *outside.rglob("*"), *root.rglob("*")):
            os.chown(path, owner, owner)
