"""An agent's own files in the run's folder: archive, conclusion, to-do list. Disk work in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anyio.to_thread import run_sync

from orchestrator.messages import Message
from orchestrator.rundir import RunDir, append_archive, drop_section, write_text_atomic


@dataclass
class DiskDesk:
    """The files of one agent. The main agent's to-dos and result lie at the top of the run."""

    run: RunDir
    history: Path
    conclusion: Path
    todos: Path
    # What is concluded now answers a question after the end; the first conclusion stays.
    is_followup: bool = False
    # Its files may hold what a crash kept from being recorded.
    is_revived: bool = False
    _stamp: tuple[int, int] | None = field(default=None, init=False)

    @classmethod
    def of(cls, run: RunDir, agent_id: str, *, is_main: bool) -> DiskDesk:
        own = run.agent(agent_id)
        if is_main:
            return cls(run, own.history, run.result, run.todos)
        return cls(run, own.history, own.conclusion, own.todos)

    async def archive(self, messages: Sequence[Message], heading: str) -> str:
        if self.is_revived:
            await run_sync(drop_section, self.history, heading)
        await run_sync(append_archive, self.history, messages, heading)
        return self.run.shown(self.history)

    async def conclude(self, text: str) -> str:
        path = self._next_conclusion() if self.is_followup else self.conclusion
        await run_sync(self._write, path, text if text.endswith("\n") else f"{text}\n")
        return self.run.shown(path)

    def _next_conclusion(self) -> Path:
        number = 2
        while (path := self.conclusion.with_stem(f"{self.conclusion.stem}-{number}")).exists():
            number += 1
        return path

    def has_file(self, path: str) -> bool:
        named = self.run.root / path
        try:
            # Most words that look like a path are none: that is soon found out.
            return named.is_file() and named.resolve().is_relative_to(self.run.root.resolve())
        except OSError:
            return False

    async def read_todos(self) -> str | None:
        # A stat is cheap enough to be made on the spot before every call.
        stamp = _stamp_of(self.todos)
        if stamp is None or stamp == self._stamp:
            return None
        self._stamp = stamp
        return await run_sync(_read, self.todos)

    async def write_todos(self, text: str) -> None:
        await run_sync(self._write, self.todos, text)
        self._stamp = _stamp_of(self.todos)

    async def settle_todos(self, recorded: Sequence[str]) -> None:
        if not recorded:
            return
        found = await run_sync(_read, self.todos) if _stamp_of(self.todos) else ""
        if found in ("", *recorded[:-1]):
            await self.write_todos(recorded[-1])
        elif found == recorded[-1]:
            self._stamp = _stamp_of(self.todos)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(path, text)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _stamp_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
