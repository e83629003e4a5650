"""S2, S4, S9, S14, T3: handing work to a subagent."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest
import sniffio
from hypothesis import given
from hypothesis import strategies as st

from subagents import (
    Brief,
    Conclusion,
    Definition,
    Loaded,
    SpawnError,
    Status,
    TaskTool,
    estimate,
    listing,
)

pytestmark = pytest.mark.anyio
KINDS = {name: Definition(name, f"{name} things.", "x") for name in ("general", "Explorer")}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Plan:
    """To-do items by id, with every status that they were given."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def bind(self, id: str, status: str) -> None:
        if id == "gone":
            raise ValueError("No item has the id 'gone'.")
        self.seen.append((id, status))


def ends(
    status: Status, text: str = "Done."
) -> Callable[[Definition, Brief], Awaitable[Conclusion]]:
    async def start(definition: Definition, brief: Brief) -> Conclusion:
        await anyio.lowlevel.checkpoint()
        return Conclusion("a1", definition.name, status, None, text, "c.md", 0, 10)

    return start


async def test_a_task_gives_one_result(anyio_backend: str) -> None:
    """S2: the parent gains one result per spawn; S9: the type may be left out."""
    assert sniffio.current_async_library() == anyio_backend
    text = await TaskTool(KINDS, ends("finished"), Plan().bind).task("Look.")
    assert text == "[general a1 · finished · 0 tool calls · 10 tokens]\nDone."


async def test_the_brief_is_all_that_a_child_gets() -> None:
    """S1."""
    briefs: list[tuple[str, Brief]] = []

    async def start(definition: Definition, brief: Brief) -> Conclusion:
        briefs.append((definition.name, brief))
        return await ends("finished")(definition, brief)

    tool = TaskTool(Loaded(KINDS), start, Plan().bind)
    await tool.task("Look.", "explorer", description="Look around", todo="2")
    assert briefs == [("Explorer", Brief("Look.", "Look around", "2"))]


async def test_an_unknown_type_lists_the_valid_names() -> None:
    """S9."""
    plan = Plan()
    with pytest.raises(SpawnError, match=r"'writer'; there are: Explorer, general\."):
        await TaskTool(KINDS, ends("finished"), plan.bind).task("Look.", "writer", todo="1")
    with pytest.raises(SpawnError, match="there are: none"):
        await TaskTool({}, ends("finished"), plan.bind).task("Look.")
    with pytest.raises(SpawnError, match="empty"):
        await TaskTool(KINDS, ends("finished"), plan.bind).task(" ", todo="1")
    assert plan.seen == []


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        ("finished", "completed"),
        ("cancelled", "cancelled"),
        ("partial", "pending"),
        ("failed", "pending"),
        ("empty", "pending"),
    ],
)
async def test_a_todo_follows_the_outcome(status: Status, becomes: str) -> None:
    """T3: only a finished child completes its item."""
    plan = Plan()
    await TaskTool(KINDS, ends(status), plan.bind).task("Look.", todo="1")
    assert plan.seen == [("1", "in_progress"), ("1", becomes)]


async def test_an_unknown_todo_is_an_error_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="gone"):
        await TaskTool(KINDS, ends("finished"), Plan().bind).task("Look.", todo="gone")


async def test_a_todo_that_vanished_meanwhile_does_not_cost_the_conclusion() -> None:
    """S4."""
    plan = Plan()
    removed: list[str] = []

    async def bind(id: str, status: str) -> None:
        await plan.bind("gone" if removed else id, status)
        removed.append(id)

    text = await TaskTool(KINDS, ends("finished"), bind).task("Look.", todo="1")
    assert "Done.\n[todo 1 was not updated: No item has the id 'gone'.]" in text


async def test_cancellation_passes_through_and_opens_the_item_again() -> None:
    """S13: and the tool can be used again."""
    plan = Plan()
    started = anyio.Event()

    async def start(definition: Definition, brief: Brief) -> Conclusion:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as tasks:
        tool = TaskTool(KINDS, start, plan.bind)
        tasks.start_soon(lambda: tool.task("Look.", todo="1"))
        await started.wait()
        tasks.cancel_scope.cancel()
    assert plan.seen == [("1", "in_progress"), ("1", "pending")]


async def test_one_child_that_fails_leaves_the_others() -> None:
    """S4: B fails, A and C succeed → A and C are delivered, B is a result that says so."""
    results: dict[str, str] = {}

    async def start(definition: Definition, brief: Brief) -> Conclusion:
        return await ends("failed" if brief.prompt == "B" else "finished")(definition, brief)

    tool = TaskTool(KINDS, start, Plan().bind)

    async def run(name: str) -> None:
        results[name] = (await tool.task(name)).split(" · ")[1]

    async with anyio.create_task_group() as tasks:
        for name in "ABC":
            tasks.start_soon(run, name)
    assert results == {"A": "finished", "B": "failed", "C": "finished"}


async def test_parallel_children_share_the_room_for_their_conclusions() -> None:
    """S5: the sum over parallel children is limited too, a single one gets its whole limit."""
    results: list[str] = []
    tool = TaskTool(KINDS, ends("finished", "word " * 10_000), Plan().bind, total=3_000)

    async def run() -> None:
        results.append(await tool.task("Look."))

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(run)
    assert len(results) == 6
    assert sum(map(estimate, results)) <= 3_000
    assert estimate(await tool.task("Look.")) > 1_900


async def test_a_definition_may_set_its_own_limit() -> None:
    kinds = {"general": Definition("general", "b", "c", conclusion_tokens=100)}
    text = await TaskTool(kinds, ends("finished", "word " * 1_000), Plan().bind).task("Look.")
    assert estimate(text) <= 100


def test_a_listing_that_fits_is_whole() -> None:
    assert listing(Loaded(KINDS)) == "- general: general things.\n- Explorer: Explorer things.\n"
    assert listing({}) == ""


@given(st.lists(st.text("ab 漢\n", max_size=900), max_size=40), st.integers(30, 2000))
def test_a_listing_is_bounded_in_sum(descriptions: list[str], limit: int) -> None:
    """S14: and names every kind as long as the names fit."""
    kinds = {f"kind-{n}": Definition(f"kind-{n}", d, "x") for n, d in enumerate(descriptions)}
    text = listing(kinds, limit)
    assert estimate(text) <= limit
    if limit > 200:
        assert all(name in text for name in kinds)


def test_a_shortened_listing_says_so_and_cuts_evenly() -> None:
    """S14: short descriptions stay whole."""
    kinds = {"a": Definition("a", "word " * 400, "x"), "b": Definition("b", "Short.", "x")}
    lines = listing(kinds, 100).splitlines()
    assert lines[0].endswith("word…")
    assert lines[1:] == ["- b: Short.", "(descriptions shortened)"]


def test_a_listing_without_room_for_descriptions_keeps_names() -> None:
    kinds = {f"kind-{n}": Definition(f"kind-{n}", "Something.", "x") for n in range(40)}
    assert listing(kinds, 60).endswith(", and more\n(descriptions left out)\n")
    assert listing(kinds, 110).endswith("kind-39\n(descriptions left out)\n")
