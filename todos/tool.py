"""`write_todos`, the tool by which a model keeps its plan outside the history."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import anyio

from todos.items import STATUSES, Status, Todo, TodoChange, highest_id, update


class TodoTool:
    """The list behind `read` and `write`, changed by one call at a time.

    The list is read again for every call, so that an edit by a person is seen.
    """

    def __init__(
        self,
        read: Callable[[], tuple[Todo, ...]],
        write: Callable[[tuple[Todo, ...]], Awaitable[None]],
    ) -> None:
        self._read = read
        self._write = write
        self._lock = anyio.Lock()
        self._used = 0  # a person may delete the last line: its id still is not given again

    async def write_todos(self, todos: list[TodoChange]) -> str:
        """Add or update items of your plan, by id, else by equal content; others stay as they are.

        Use it for work of three or more steps. Keep one item in_progress; mark it completed at once.

        Args:
            todos: Items to add or change.
        """
        return summary(await self._change(todos))

    async def set_status(self, id: str, status: Status) -> None:
        """Set one known item's status, for an item that follows a subagent. Raises `TodoError`."""
        await self._change([{"id": id, "status": status}])

    async def _change(self, changes: Iterable[TodoChange]) -> tuple[Todo, ...]:
        async with self._lock:
            items = self._read()
            changed = update(items, changes, used=self._used)
            if changed != items:
                await self._write(changed)
            self._used = max(self._used, highest_id(changed))
            return changed


def summary(items: Iterable[Todo]) -> str:
    """One line: how many items there are in each status."""
    counts = Counter(todo.status for todo in items)
    parts = [f"{counts[status]} {status}" for status in STATUSES if counts[status]]
    return f"{counts.total()} items: {', '.join(parts)}" if parts else "No items."
