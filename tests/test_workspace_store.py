"""The store of offloaded results."""

import hashlib
import os
import tempfile
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspace import NotFound, NotText, Refused, ResultStore, WorkspaceError
from workspace.store import StoredFile

FOLDER = ".outrider/runs/R/agents/A/results"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def on_disk(root: Path, stored: StoredFile) -> bytes:
    return (root / stored.path).read_bytes()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("{" + '"k": "v", ' * 8_400 + "}", 1),
        ("a\r\nb\r\n", 2),
        ("no final newline", 1),
        ("\n\n\nblank\n\n", 5),
        ("", 0),
        ("\ud800 lone \udfff", 1),
        ("\ufeffbom\0nul\f\u2028", 1),
    ],
)
async def test_stored_bytes_equal_the_text(tmp_path: Path, data: str, lines: int) -> None:
    """O3: nothing is translated, added or lost."""
    store = ResultStore(tmp_path, FOLDER)
    stored = await store.write("bash", data)
    content = data.encode("utf-8", "surrogatepass")
    assert on_disk(tmp_path, stored) == content
    assert (stored.chars, stored.lines) == (len(data), lines)
    assert stored.sha256 == hashlib.sha256(content).hexdigest()
    assert await store.read(stored.path) == data


@given(st.text(st.characters() | st.sampled_from("\r\n\ud800")), st.text(max_size=9))
@settings(max_examples=60, deadline=None)
def test_every_text_comes_back(data: str, hint: str) -> None:
    """O3: the round trip, lone surrogates included."""

    async def round_trip() -> str:
        store = ResultStore(root, FOLDER)
        return await store.read((await store.write(hint, data)).path)

    with tempfile.TemporaryDirectory() as root:
        assert anyio.run(round_trip) == data


@given(st.binary(max_size=300), st.text(max_size=9), st.text(max_size=5))
@settings(max_examples=60, deadline=None)
def test_all_bytes_come_back(data: bytes, hint: str, suffix: str) -> None:
    """O3: the round trip, whatever they are and wherever the name comes from."""

    async def round_trip() -> bytes:
        stored = await ResultStore(root, FOLDER).write_bytes(hint, data, suffix)
        assert (stored.chars, stored.lines) == (len(data), 0)
        assert stored.sha256 == hashlib.sha256(data).hexdigest()
        assert on_disk(Path(root), stored) == data
        return await ResultStore(root, FOLDER).read_bytes(stored.path)

    with tempfile.TemporaryDirectory() as root:
        assert anyio.run(round_trip) == data


@pytest.mark.anyio
async def test_bytes_are_stored_once_and_named_by_their_kind(tmp_path: Path) -> None:
    """O4, O7: a suffix that could mislead is replaced; text and bytes share the names."""
    store = ResultStore(tmp_path, FOLDER)
    first = await store.write_bytes("shot", b"\x89PNG", ".png")
    assert first.path == f"{FOLDER}/0001-shot.png"
    assert await ResultStore(tmp_path, FOLDER).write_bytes("other", b"\x89PNG", ".gif") == first
    assert (await store.write_bytes("a/b", b"\xff", "/../x")).path == f"{FOLDER}/0002-a-b.bin"
    text = await store.write("said", "text")
    assert (await store.write_bytes("shot", b"text", ".png")).path == text.path
    assert sorted(os.listdir(store.path)) == ["0001-shot.png", "0002-a-b.bin", "0003-said.txt"]
    assert await store.read_bytes(text.path) == b"text"


@pytest.mark.anyio
async def test_bytes_are_not_read_as_text(tmp_path: Path) -> None:
    """R6: a clear error."""
    store = ResultStore(tmp_path, FOLDER)
    stored = await store.write_bytes("shot", b"\x89PNG", ".png")
    with pytest.raises(NotText, match="stored as bytes"):
        await store.read(stored.path)


@pytest.mark.anyio
async def test_names_are_unique_safe_and_bounded_whatever_the_hint(tmp_path: Path) -> None:
    """O4: `a.b`, `a_b`, `a/b`, empty, 5,000 characters, climbing, foreign letters."""
    store = ResultStore(tmp_path, FOLDER)
    hints = ["call_1", "call_1", "a.b", "a_b", "a/b", "", "x" * 5_000, "../../x", "é", "\0", "-"]
    stored = [await store.write(hint, f"data {n}") for n, hint in enumerate(hints)]
    paths = [file.path for file in stored]
    assert len(set(paths)) == len(hints)
    assert paths[0] == f"{FOLDER}/0001-call_1.txt"
    assert paths[5] == f"{FOLDER}/0006-result.txt"
    assert all(Path(path).parent == Path(FOLDER) and len(Path(path).name) < 60 for path in paths)
    assert [on_disk(tmp_path, file) for file in stored] == [
        f"data {n}".encode() for n in range(len(hints))
    ]


@pytest.mark.anyio
async def test_the_same_content_twice_writes_nothing_new(tmp_path: Path) -> None:
    """O7: in one session and in the next."""
    first = await ResultStore(tmp_path, FOLDER).write("bash", "same")
    before = (tmp_path / first.path).stat().st_mtime_ns
    store = ResultStore(tmp_path, FOLDER)
    assert await store.write("other", "same") == first
    assert await store.write("third", "same") == first
    assert os.listdir(store.path) == ["0001-bash.txt"]
    assert (tmp_path / first.path).stat().st_mtime_ns == before


@pytest.mark.anyio
async def test_content_that_was_removed_meanwhile_is_stored_again(tmp_path: Path) -> None:
    """O3: a handle always leads to the text."""
    store = ResultStore(tmp_path, FOLDER)
    first = await store.write("a", "text")
    (tmp_path / first.path).unlink()
    second = await store.write("a", "text")
    assert on_disk(tmp_path, second) == b"text"
    (tmp_path / second.path).unlink()
    store.path.rmdir()
    assert on_disk(tmp_path, await store.write("a", "text")) == b"text"


@pytest.mark.anyio
async def test_parallel_writes_of_two_stores_on_one_folder_lose_nothing(tmp_path: Path) -> None:
    """O4: names are taken exclusively, also between processes."""
    stores = [ResultStore(tmp_path, FOLDER) for _ in range(2)]
    stored: list[StoredFile] = []

    async def write(store: ResultStore, data: str) -> None:
        stored.append(await store.write("call_1", data))

    async with anyio.create_task_group() as group:
        for n in range(20):
            for index, store in enumerate(stores):
                group.start_soon(write, store, f"{index}-{n}")
    assert len({file.path for file in stored}) == 40
    assert {on_disk(tmp_path, file).decode() for file in stored} == {
        f"{index}-{n}" for index in range(2) for n in range(20)
    }


@pytest.mark.anyio
async def test_a_folder_that_leads_outside_is_not_written(tmp_path: Path) -> None:
    """P3, O7: the error is for the caller, who keeps the content inline."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "ws" / ".outrider").symlink_to(tmp_path / "out")
    with pytest.raises(Refused, match="leads outside"):
        await ResultStore(tmp_path / "ws", FOLDER).write("x", "data")
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.anyio
async def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """O7."""
    (tmp_path / ".outrider").write_text("a file where the folder should be")
    with pytest.raises(WorkspaceError, match="not a folder"):
        await ResultStore(tmp_path, FOLDER).write("x", "data")


@pytest.mark.anyio
async def test_strangers_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    """O4: a planted symlink, a folder, a foreign name."""
    store = ResultStore(tmp_path, FOLDER)
    store.path.mkdir(parents=True)
    (store.path / "0001-x.txt").symlink_to("/etc/hostname")
    (store.path / "0002-x.txt").mkdir()
    (store.path / "notes").write_text("data")
    stored = await store.write("x", "data")
    assert stored.path == f"{FOLDER}/0003-x.txt"


@pytest.mark.anyio
async def test_only_what_is_in_the_store_is_read_from_it(tmp_path: Path) -> None:
    """L8."""
    (tmp_path / "a.txt").write_text("x")
    store = ResultStore(tmp_path, FOLDER)
    assert store.folder == FOLDER
    for path in ("a.txt", f"{FOLDER}/none.txt"):
        with pytest.raises(NotFound):
            await store.read(path)
        with pytest.raises(NotFound):
            await store.read_bytes(path)


def test_a_crash_leaves_no_torn_result(tmp_path: Path) -> None:
    """O3: a reader that looks all the time sees nothing, an empty reservation, or the whole."""
    data = "x" * 200_000
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for file in tmp_path.glob(f"{FOLDER}/0*.txt"):
                seen.add(len(file.read_bytes()))

    thread = threading.Thread(target=look)
    thread.start()

    async def write_many() -> None:
        store = ResultStore(tmp_path, FOLDER)
        for n in range(20):
            await store.write("x", data + chr(97 + n))

    anyio.run(write_many)
    done.set()
    thread.join()
    assert seen <= {0, 200_001}
