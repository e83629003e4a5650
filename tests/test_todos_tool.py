import json

import anyio
import pytest
import sniffio
from pydantic import TypeAdapter

from todos import Todo, TodoChange, TodoError, TodoTool, parse, render

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class File:
    """A to-do file in memory; writing gives other tasks a turn, as a disk does."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.writes = 0

    def read(self) -> tuple[Todo, ...]:
        return parse(self.text)

    async def write(self, items: tuple[Todo, ...]) -> None:
        self.writes += 1
        await anyio.lowlevel.checkpoint()
        self.text = render(items)


def tool(file: File) -> TodoTool:
    return TodoTool(file.read, file.write)


async def test_the_result_counts_items_by_status(anyio_backend: str) -> None:
    assert sniffio.current_async_library() == anyio_backend
    made = tool(File())
    assert await made.write_todos([]) == "No items."
    assert (
        await made.write_todos(
            [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
        )
        == "2 items: 1 pending, 1 completed"
    )


async def test_parallel_writes_lose_nothing() -> None:
    """T2: twenty writes in one message, twenty items, twenty ids."""
    file = File()
    made = tool(file)
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            change: TodoChange = {"content": f"item {number}", "status": "pending"}
            tasks.start_soon(made.write_todos, [change])
    items = file.read()
    assert {todo.content for todo in items} == {f"item {number}" for number in range(20)}
    assert {todo.id for todo in items} == {str(number) for number in range(1, 21)}


async def test_an_invalid_status_leaves_the_file_alone() -> None:
    """T2: error, list unchanged."""
    file = File("- [ ] a <!-- 1 -->\n")
    with pytest.raises(TodoError, match="'done' is not one of"):
        await tool(file).write_todos([{"id": "1", "status": "done"}])  # type: ignore[typeddict-item]
    assert (file.text, file.writes) == ("- [ ] a <!-- 1 -->\n", 0)


async def test_an_item_follows_a_subagent() -> None:
    """T3: an item can be bound to a spawned subagent and follows its outcome."""
    file = File("- [ ] a <!-- 1 -->\n")
    made = tool(file)
    await made.set_status("1", "in_progress")
    assert file.text == "- [~] a <!-- 1 -->\n"
    with pytest.raises(TodoError, match="known ids: 1"):
        await made.set_status("2", "completed")


async def test_an_edit_by_a_person_is_seen_and_ids_are_never_given_twice() -> None:
    file = File()
    made = tool(file)
    await made.write_todos(
        [{"content": "a", "status": "pending"}, {"content": "b", "status": "pending"}]
    )
    file.text = "- [x] a <!-- 1 -->\n"  # a person ticks one item and deletes the other
    await made.write_todos([{"content": "c", "status": "pending"}])
    assert file.text == "- [x] a <!-- 1 -->\n- [ ] c <!-- 3 -->\n"


async def test_a_write_without_a_change_does_not_touch_the_file() -> None:
    file = File("- [ ] a <!-- 1 -->\n")
    await tool(file).write_todos([{"content": "a", "status": "pending"}])
    assert file.writes == 0


def test_schema_and_instructions_fit_their_budget() -> None:
    """T4: at most 250 tokens at four bytes a token; this holds it to 170."""
    schema = TypeAdapter(list[TodoChange]).json_schema()
    text = json.dumps(schema) + (TodoTool.write_todos.__doc__ or "")
    assert len(text.encode()) / 4 <= 170
