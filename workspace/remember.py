"""The memory tools that a model sees: entries are added, changed and deleted, never the whole file."""

from collections.abc import Awaitable, Callable
from datetime import date
from functools import partial
from typing import Literal

from anyio import CancelScope
from anyio.to_thread import run_sync

from workspace.entries import MemoryEntry
from workspace.errors import BadEntry
from workspace.memory import Memory
from workspace.text import SNAPSHOT_CHARS

MEMORY_TOOLS = ("remember", "update_memory", "forget")
"""Names of the tools that write to the memory."""
Action = Literal["add", "update", "forget"]

# A change that is made is told, also if the agent is cancelled meanwhile; both take a moment only.
_untorn = partial(CancelScope, shield=True)
_LATER = (
    "What you were shown of the memory stays as it is; the next session begins with the change."
)


class MemoryTools:
    """The tools over one memory file.

    `refuse` says why a text must not be kept (a secret, for instance), or None. `written` is awaited
    after each change. Works under asyncio and trio; the disk is touched in worker threads only.
    """

    def __init__(
        self,
        memory: Memory,
        refuse: Callable[[str], str | None],
        written: Callable[[Action, MemoryEntry], Awaitable[None]],
        today: Callable[[], date] = date.today,
    ) -> None:
        self._memory = memory
        self._refuse = refuse
        self._written = written
        self._today = today

    def functions(self) -> list[Callable[..., Awaitable[str]]]:
        """The tools, in the order in which they are shown."""
        return [self.remember, self.update_memory, self.forget]

    async def remember(self, text: str) -> str:
        """Keep a fact for later sessions."""
        self._check(text)
        with _untorn():
            entry, is_new = await run_sync(self._memory.add, text, self._today())
            if is_new:
                await self._written("add", entry)
        if not is_new:
            return f"{self._memory.path} has it already, as entry {entry.id}; nothing was changed."
        return f"Kept as entry {entry.id} in {self._memory.path}. {_LATER}{await self._room()}"

    async def update_memory(self, entry: str, text: str) -> str:
        """Replace a remembered entry, by id or text."""
        self._check(text)
        with _untorn():
            changed = await run_sync(self._memory.update, entry, text, self._today())
            await self._written("update", changed)
        return f"Changed entry {changed.id} in {self._memory.path}. {_LATER}{await self._room()}"

    async def forget(self, entry: str) -> str:
        """Delete a remembered entry."""
        with _untorn():
            gone = await run_sync(self._memory.forget, entry)
            await self._written("forget", gone)
        return f"Deleted entry {gone.id} from {self._memory.path}. {_LATER}"

    def _check(self, text: str) -> None:
        if (why := self._refuse(text)) is not None:
            raise BadEntry(why)

    async def _room(self) -> str:
        size = await run_sync(self._memory.size)
        if size <= SNAPSHOT_CHARS:
            return ""
        return (
            f" It has {size:,} characters now, of which a session is shown {SNAPSHOT_CHARS:,}: the oldest "
            "entries are left out. Delete what is out of date."
        )
