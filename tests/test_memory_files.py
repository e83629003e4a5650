"""A memory file on disk: many writers, foreign states, and what of it is shown."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
import sniffio
from hypothesis import given, settings
from hypothesis import strategies as st

from workspace import BadEntry, Memory, MemoryEntry, MemoryTools, Refused, WorkspaceError
from workspace.text import SNAPSHOT_CHARS

TODAY = date(2026, 11, 30)
Written = list[tuple[str, str]]


def file_of(root: Path) -> Path:
    return root / ".outrider/MEMORY.md"


def tools_of(
    memory: Memory,
    written: Written | None = None,
    refuse: Callable[[str], str | None] | None = None,
) -> MemoryTools:
    async def note(action: str, entry: MemoryEntry) -> None:
        await anyio.lowlevel.checkpoint()  # as a journal, which can be interrupted
        if written is not None:
            written.append((action, entry.text))

    return MemoryTools(memory, refuse or (lambda text: None), note, lambda: TODAY)


# ── many writers ──

_WRITER = """
import sys
from datetime import date
from workspace import Memory
memory = Memory(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    entry, _ = memory.add(f"{sys.argv[2]} {number}", date(2026, 11, 30))
    if number % 3 == 0:
        memory.update(entry.id, f"{sys.argv[2]} {number} changed", date(2026, 11, 30))
    if number % 3 == 1:
        memory.forget(entry.id)
"""


def test_m3_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """M3: three processes add, change and delete; every change of each is there at the end."""
    count = 24
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_text("# By hand\n\n- stays\n")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    # All of them are waiting: none has begun before the others were there.
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    expected = {"stays"}
    for name in ("a", "b", "c"):
        expected |= {f"{name} {n} changed" for n in range(0, count, 3)}
        expected |= {f"{name} {n}" for n in range(2, count, 3)}
    entries = Memory(tmp_path).entries()
    assert {entry.text for entry in entries} == expected
    assert len(entries) == len(expected)
    assert file_of(tmp_path).read_text().startswith("# By hand\n\n- stays\n")


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "update", "forget"]), st.integers(0, 3)), max_size=5
)


@settings(max_examples=15, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=4))
def test_m3_whatever_writers_do_at_once_each_finds_its_own_work_as_it_left_it(
    tmp_path_factory: pytest.TempPathFactory, plans: list[list[tuple[str, int]]]
) -> None:
    """A law over plans of adding, changing and deleting: the end is what each would have alone, and
    what people wrote is there byte for byte."""
    root = tmp_path_factory.mktemp("ws")
    file_of(root).parent.mkdir()
    by_hand = "# Ours\r\n\n- by hand\n  over lines\n\n```\n- code\n```\n"
    file_of(root).write_bytes(by_hand.encode())
    start = threading.Barrier(len(plans))

    def work(writer: int, plan: list[tuple[str, int]]) -> dict[str, str]:
        memory, own = Memory(root), dict[int, tuple[str, str]]()
        start.wait()
        for step, (action, number) in enumerate(plan):
            text = f"writer {writer} {number} {step}"
            if action == "add" and number not in own:
                own[number] = memory.add(text, TODAY)[0].id, text
            elif action == "update" and number in own:
                own[number] = memory.update(own[number][0], text, TODAY).id, text
            elif action == "forget" and number in own:
                memory.forget(own.pop(number)[0])
        return dict(own.values())

    with ThreadPoolExecutor(len(plans)) as pool:
        left = list(pool.map(work, range(len(plans)), plans))
    expected = {id_: text for own in left for id_, text in own.items()}
    assert len(expected) == sum(map(len, left))
    assert {e.id: e.text for e in Memory(root).entries() if e.date} == expected
    assert file_of(root).read_bytes().startswith(by_hand.encode())


@pytest.mark.anyio
async def test_m3_many_tasks_that_write_at_once_lose_nothing(
    tmp_path: Path, anyio_backend: str
) -> None:
    """M3: each with tools of its own, as agents have."""
    assert sniffio.current_async_library() == anyio_backend
    written: Written = []
    async with anyio.create_task_group() as group:
        for number in range(60):
            tools = tools_of(Memory(tmp_path), written)
            group.start_soon(tools.remember, f"fact {number}")
    texts = [entry.text for entry in Memory(tmp_path).entries()]
    assert sorted(texts) == sorted(f"fact {n}" for n in range(60))
    assert sorted(written) == sorted(("add", text) for text in texts)


@pytest.mark.anyio
async def test_of_many_tasks_that_delete_one_entry_exactly_one_does(tmp_path: Path) -> None:
    """M2: delete twice."""
    entry, _ = Memory(tmp_path).add("once", TODAY)
    outcomes: list[str] = []

    async def forget() -> None:
        try:
            await tools_of(Memory(tmp_path)).forget(entry.id)
            outcomes.append("deleted")
        except BadEntry as error:
            outcomes.append(str(error)[:16])

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(forget)
    assert sorted(outcomes) == ["deleted", *["there is no entr"] * 9]


# ── the tools ──


@pytest.mark.anyio
async def test_m1_every_answer_says_that_the_next_session_begins_with_the_change(
    tmp_path: Path,
) -> None:
    written: Written = []
    tools = tools_of(Memory(tmp_path), written)
    said = [await tools.remember("Ann knows the release")]
    (entry,) = Memory(tmp_path).entries()
    assert (
        file_of(tmp_path).read_text() == f"- Ann knows the release <!-- {entry.id} 2026-11-30 -->\n"
    )
    said.append(await tools.update_memory(entry.id, "Bob knows the release"))
    assert [e.text for e in Memory(tmp_path).entries()] == ["Bob knows the release"]
    said.append(await tools.forget(entry.id))
    assert file_of(tmp_path).read_text() == ""
    for answer in said:
        assert entry.id in answer
        assert "stays as it is; the next session begins with the change" in answer
    assert written == [
        ("add", "Ann knows the release"),
        ("update", "Bob knows the release"),
        ("forget", "Bob knows the release"),
    ]


@pytest.mark.anyio
async def test_a_change_that_is_made_is_told_also_if_the_agent_is_cancelled_meanwhile(
    tmp_path: Path,
) -> None:
    begun, go_on = anyio.Event(), threading.Event()

    class Slow(Memory):
        def add(self, text: str, today: date) -> tuple[MemoryEntry, bool]:
            anyio.from_thread.run_sync(begun.set)
            go_on.wait()
            return super().add(text, today)

    written: Written = []
    answers: list[str] = []

    async def remember() -> None:
        answers.append(await tools_of(Slow(tmp_path), written).remember("kept"))
        await anyio.lowlevel.checkpoint()
        answers.append("went on")

    async with anyio.create_task_group() as group:
        group.start_soon(remember)
        await begun.wait()
        group.cancel_scope.cancel()
        go_on.set()
    assert [entry.text for entry in Memory(tmp_path).entries()] == ["kept"]
    assert written == [("add", "kept")]
    assert "went on" not in answers


@pytest.mark.anyio
async def test_what_is_kept_already_is_no_write(tmp_path: Path) -> None:
    written: Written = []
    tools = tools_of(Memory(tmp_path), written)
    await tools.remember("once")
    before = file_of(tmp_path).read_bytes()
    assert "already" in await tools.remember("Once")
    assert file_of(tmp_path).read_bytes() == before
    assert len(written) == 1


@pytest.mark.anyio
async def test_a_text_that_must_not_be_kept_changes_nothing(tmp_path: Path) -> None:
    written: Written = []
    tools = tools_of(Memory(tmp_path), written, lambda text: "NO" if "key" in text else None)
    await tools.remember("fine")
    before = file_of(tmp_path).read_bytes()
    calls: list[Callable[[], Awaitable[str]]] = [
        lambda: tools.remember("the key"),
        lambda: tools.update_memory("fine", "the key"),
    ]
    for call in calls:
        with pytest.raises(BadEntry, match="NO"):
            await call()
    assert file_of(tmp_path).read_bytes() == before
    assert written == [("add", "fine")]


def test_what_cannot_be_done_makes_no_file_and_no_folder(tmp_path: Path) -> None:
    for refused in (lambda: Memory(tmp_path).forget("x"), lambda: Memory(tmp_path).add(" ", TODAY)):
        with pytest.raises(BadEntry):
            refused()
    assert list(tmp_path.iterdir()) == []


# ── the file ──


def test_bytes_that_are_no_utf_8_stay_as_they_are(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_bytes(b"- caf\xe9\r\nplain \xff\r\n")
    memory = Memory(tmp_path)
    entry, _ = memory.add("more", TODAY)
    assert file_of(tmp_path).read_bytes() == (
        b"- caf\xe9\r\nplain \xff\r\n- more <!-- " + entry.id.encode() + b" 2026-11-30 -->\r\n"
    )
    assert [e.text for e in memory.entries()] == ["caf\ufffd", "more"]


def test_a_memory_that_leads_outside_is_neither_read_nor_written(tmp_path: Path) -> None:
    """P3."""
    root, outside = tmp_path / "ws", tmp_path / "outside.md"
    (root / ".outrider").mkdir(parents=True)
    outside.write_text("- SECRET\n")
    file_of(root).symlink_to("../../outside.md")
    with pytest.raises(Refused):
        Memory(root).add("x", TODAY)
    assert outside.read_text() == "- SECRET\n"
    assert Memory(root).snapshot().startswith("[not read: ")


def test_a_folder_that_leads_outside_gets_no_lock_file(tmp_path: Path) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / ".outrider").symlink_to("../outside")
    with pytest.raises(WorkspaceError):
        Memory(root).add("x", TODAY)
    assert list(outside.iterdir()) == []


def test_a_lock_that_another_process_keeps_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filelock import FileLock

    Memory(tmp_path).add("x", TODAY)
    monkeypatch.setattr("workspace.memory._LOCK_SECONDS", 0.05)
    with (
        FileLock(tmp_path / ".outrider/runs/memory.lock"),
        pytest.raises(WorkspaceError, match="another process is changing it; try again"),
    ):
        Memory(tmp_path).add("y", TODAY)
    Memory(tmp_path).add("y", TODAY)


def test_types_of_agents_have_files_of_their_own_whatever_they_are_called(tmp_path: Path) -> None:
    names = ["reviewer", "a b", "a-b", "a.b", "..", "日本", "x" * 99]
    paths = [Memory(tmp_path, name).path for name in names]
    assert paths[0] == ".outrider/memory/reviewer.md"
    assert len(set(paths)) == len(names)
    assert all(path.count("/") == 2 and ".." not in path for path in paths)
    # Definitions are looked up in any case: so are their memories.
    assert Memory(tmp_path, "Reviewer").path == paths[0]
    for name in names:
        Memory(tmp_path, name).add(f"of {name}", TODAY)
    assert [Memory(tmp_path, n).entries()[0].text for n in names] == [f"of {n}" for n in names]
    assert Memory(tmp_path).entries() == ()


# ── what is shown ──


def filled(root: Path, count: int) -> Memory:
    file_of(root).parent.mkdir(exist_ok=True)
    lines = [f"- fact {n} {'x' * 80} <!-- e{n} 2026-01-{n % 28 + 1:02} -->" for n in range(count)]
    file_of(root).write_text("\n".join(["# By hand", "", "Read this.", *lines, ""]))
    return Memory(root)


def test_m3_a_memory_over_its_limit_leaves_out_the_oldest_entries_and_says_so(
    tmp_path: Path,
) -> None:
    """M3: visibly; the file itself is never cut."""
    memory = filled(tmp_path, 120)
    before = file_of(tmp_path).read_bytes()
    shown = memory.snapshot()
    total = len(before)
    assert len(shown) < SNAPSHOT_CHARS + 150
    assert shown.startswith("# By hand\n\nRead this.\n- fact ")
    left = shown.count("- fact ")
    assert 80 < left < 120
    assert f"[shortened: the {120 - left} oldest entries are left out, " in shown
    assert f" of {total:,} characters of .outrider/MEMORY.md are shown]\n" in shown
    # The newest are there, whatever their place in the file.
    assert all(f"- fact {n} " in shown for n in range(120) if n % 28 == 27)
    assert "- fact 0 " not in shown
    assert file_of(tmp_path).read_bytes() == before


@pytest.mark.anyio
async def test_a_write_to_a_memory_over_its_limit_says_that_it_is_shortened(tmp_path: Path) -> None:
    tools = tools_of(filled(tmp_path, 120))
    assert "the oldest entries are left out" in await tools.remember("one more")
    file_of(tmp_path).write_text("")
    assert "left out" not in await tools.remember("one more")
