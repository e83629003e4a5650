"""A run on disk: names that are safe, files that are whole, archives that are complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import ConfigError
from orchestrator.messages import Message, assistant, user
from orchestrator.rundir import (
    RunDir,
    append_archive,
    check_run_id,
    drop_section,
    find_run,
    list_runs,
    new_run_id,
    read_archive,
    write_text_atomic,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))
NOON = datetime(2026, 11, 30, 14, 25, 1, tzinfo=UTC)


def made(root: Path, *names: str) -> list[RunDir]:
    runs = [RunDir(root, name) for name in names]
    for run in runs:
        run.create()
        run.journal.touch()
    return runs


# ── names ──


def test_a_new_id_sorts_by_time_in_utc() -> None:
    """Ids read as date, time (UTC), part of the second and three random bytes; a later one sorts
    later, also within a second."""
    assert new_run_id(NOON, lambda size: "ab" * size) == "20261130-142501-000ababab"
    here = NOON.astimezone(timezone(timedelta(hours=9)))
    assert new_run_id(here, lambda size: "00" * size) == "20261130-142501-000000000"
    for later in (timedelta(milliseconds=1), timedelta(seconds=1)):
        assert new_run_id(NOON) < new_run_id(NOON + later)
    assert check_run_id(new_run_id(NOON)) != new_run_id(NOON)


@pytest.mark.parametrize("text", ["a", "my-run", "v2..0", "A_1.b", "x" * 64])
def test_ordinary_names_are_allowed(text: str) -> None:
    """P2: dots inside a name are an ordinary name."""
    assert check_run_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "../x", "a/b", "a\\b", "-rf", ".hidden", "a b", "a\n", "é", "a\0", "x" * 65],
)
def test_unsafe_names_are_refused(text: str) -> None:
    """P2: a name that could leave the folder, or that a shell could misread, is a usage error."""
    with pytest.raises(ConfigError, match="cannot name a run: use"):
        check_run_id(text)


def test_latest_is_no_name() -> None:
    """`latest` means the newest run, so no run may be called so."""
    with pytest.raises(ConfigError, match="newest"):
        check_run_id("latest")


# ── layout ──


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    """Files stand where the docs say; the main agent's list and result are the run's."""
    run = RunDir(tmp_path, "r1")
    main, child = run.agent("main"), run.agent("main.toolu_01")
    shown = [run.journal, run.log, main.todos, main.conclusion, main.history, child.results]
    shown += [child.conclusion, child.todos]
    assert [run.shown(path) for path in shown] == [
        ".outrider/runs/r1/journal.db",
        ".outrider/runs/r1/log.jsonl",
        ".outrider/runs/r1/todos.md",
        ".outrider/runs/r1/result.md",
        ".outrider/runs/r1/agents/main/history.md",
        ".outrider/runs/r1/agents/main.toolu_01/results",
        ".outrider/runs/r1/agents/main.toolu_01/conclusion.md",
        ".outrider/runs/r1/agents/main.toolu_01/todos.md",
    ]
    assert all(path.is_absolute() for path in shown)


def test_a_relative_root_gives_the_same_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what is shown is relative to the workspace, however that was given."""
    monkeypatch.chdir(tmp_path)
    run = RunDir(Path(), "r1")
    assert run.shown(run.agent("a").results) == ".outrider/runs/r1/agents/a/results"


def test_runs_ignore_themselves_in_git(tmp_path: Path) -> None:
    """The runs' folder carries a .gitignore, which a person's own edit survives."""
    made(tmp_path, "r1")
    ignore = tmp_path / ".outrider/runs/.gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("*\n!kept\n")
    made(tmp_path, "r2")
    assert ignore.read_text() == "*\n!kept\n"


def test_a_run_is_made_once(tmp_path: Path) -> None:
    """L5: a second run of the same name is refused, with the way to go on."""
    made(tmp_path, "r1")
    with pytest.raises(ConfigError, match="r1 exists already: choose another --run-id"):
        RunDir(tmp_path, "r1").create()


@pytest.mark.parametrize("obstacle", [".outrider", ".outrider/runs", ".outrider/runs/r1"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, obstacle: str) -> None:
    """L5, H3: a workspace that cannot take a run is one clear sentence."""
    (tmp_path / obstacle).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / obstacle).touch()
    with pytest.raises(ConfigError, match=r"cannot make the run's folder .*: .*; choose|r1 exists"):
        RunDir(tmp_path, "r1").create()


@given(st.lists(ANY_TEXT | st.sampled_from(["a.b", "a_b", "a/b", "", "x" * 5_000, "..", "."]), unique=True))  # fmt: skip
def test_agents_never_share_a_folder(ids: list[str]) -> None:
    """O4: any ids, however odd or long, have folders of their own right under `agents/`."""
    run = RunDir(Path("/w"), "r")
    folders = [run.agent(each).folder for each in ids]
    assert len(set(folders)) == len(folders)
    assert {folder.parent for folder in folders} <= {run.folder / "agents"}
    assert all(len(folder.name) <= 100 and "\0" not in folder.name for folder in folders)


def test_an_id_that_looks_like_a_folder_of_another(tmp_path: Path) -> None:
    """O4: no id can be chosen so that its folder is the one that another id was given."""
    run = RunDir(tmp_path, "r")
    odd = run.agent("a/b").folder
    assert run.agent(odd.name).folder != odd


# ── finding ──


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """Our ids by the time in them, chosen ones by their folder's age; other things are no runs."""
    assert list_runs(tmp_path) == []
    old, new = made(tmp_path, "20200101-000000-ffffff", "20200102-000000-000000")
    (chosen,) = made(tmp_path, "chosen")
    os.utime(chosen.folder, (1_577_900_000, 1_577_900_000))  # between the two
    (tmp_path / ".outrider/runs/empty").mkdir()
    assert list_runs(tmp_path) == [new, chosen, old]


def test_a_run_is_found_by_id_prefix_or_latest(tmp_path: Path) -> None:
    """`latest`, a whole id even if it begins another one, or what only one id begins with."""
    runs = made(tmp_path, "20200101-000000-ffffff", "20200102-000000-000000", "a", "ab")
    assert find_run(tmp_path, "20200101") == runs[0]
    assert find_run(tmp_path, "a") == runs[2]
    assert find_run(tmp_path, "latest") == list_runs(tmp_path)[0]


def test_what_fits_no_run_or_several_names_them(tmp_path: Path) -> None:
    """H3: the sentence names the runs there are, and how many when there are many."""
    with pytest.raises(ConfigError, match="no run is recorded in"):
        find_run(tmp_path, "latest")
    made(tmp_path, "ab", "ac")
    with pytest.raises(ConfigError, match=r"'a' fits 2 runs: a[bc], a[bc]"):
        find_run(tmp_path, "a")
    with pytest.raises(ConfigError, match=r"no run '' here; there are: a[bc], a[bc]$"):
        find_run(tmp_path, "")
    made(tmp_path, *(f"n{number}" for number in range(9)))
    with pytest.raises(ConfigError, match=r"no run 'x' here; there are: .*, … \(11 in all\)"):
        find_run(tmp_path, "x")


# ── atomic writes ──


def test_a_write_replaces_the_text_and_keeps_the_mode(tmp_path: Path) -> None:
    """W5: bytes as given, mode bits stay, no temporary file is left."""
    path = tmp_path / "todos.md"
    write_text_atomic(path, "one\r\n")
    path.chmod(0o640)
    write_text_atomic(path, "two\n\ud800")
    assert path.read_bytes() == b"two\n\\ud800"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    """W5: what cannot be replaced stays, and no temporary file is left."""
    (tmp_path / "todos.md").mkdir()
    (tmp_path / "todos.md" / "kept").touch()
    with pytest.raises(OSError, match="directory"):
        write_text_atomic(tmp_path / "todos.md", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["todos.md"]


REWRITER = """
import itertools, sys
from pathlib import Path
from orchestrator.rundir import write_text_atomic
for number in itertools.count():
    write_text_atomic(Path(sys.argv[1]), f"{number}\\n" * 20_000)
    print(number, flush=True)
"""


def test_kill_9_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """W5: killed while it rewrites a file, a process leaves one whole version of it."""
    path = tmp_path / "todos.md"
    for moment in (1, 4, 9):
        with subprocess.Popen(
            [sys.executable, "-c", REWRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(moment)]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        acknowledged = int([line for line in lines if line.endswith("\n")][-1])
        found = path.read_text().splitlines()
        assert len(found) == 20_000
        assert found == [found[0]] * 20_000
        assert int(found[0]) >= acknowledged


# ── the archive ──

MESSAGES = st.lists(
    st.builds(user, ANY_TEXT)
    | st.builds(assistant, ANY_TEXT, st.fixed_dictionaries({"type": ANY_TEXT, "input": ANY_TEXT}))
)


@given(st.lists(st.tuples(MESSAGES, ANY_TEXT)))
def test_an_archive_holds_every_message_once_and_in_order(
    sections: list[tuple[list[Message], str]],
) -> None:
    """C2: complete, whatever the text: fences, headings, line breaks and lone surrogates too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agents", "a", "history.md")
        for messages, heading in sections:
            append_archive(path, messages, heading)
        expected = [message for messages, _ in sections for message in messages]
        assert (list(read_archive(path)) if sections else []) == expected


def test_an_archive_is_only_ever_added_to(tmp_path: Path) -> None:
    """C2, L6: what stood there stays byte for byte, and each addition costs what it holds."""
    path = tmp_path / "history.md"
    sizes = [0]
    for number in range(20):
        before = path.read_bytes() if path.exists() else b""
        append_archive(path, [user("x" * 1_000)], f"Compaction {number}")
        assert path.read_bytes().startswith(before)
        sizes.append(path.stat().st_size)
    assert max(b - a for a, b in pairwise(sizes)) < 1_200
    assert path.read_text().startswith("## Compaction 0\n\n```jsonl\n{")


@given(st.integers(0, 400))
def test_a_torn_archive_takes_what_follows(lost: int) -> None:
    """C2, W5: cut anywhere by a crash, the archive still takes the next section whole."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.md")
        append_archive(path, [user("one"), user("```"), assistant("two")], "first")
        os.truncate(path, max(0, path.stat().st_size - lost))
        append_archive(path, [user("three"), assistant("four")], "second")
        assert list(read_archive(path))[-2:] == [user("three"), assistant("four")]


def test_an_archive_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """C2: an error, so that the caller drops nothing."""
    (tmp_path / "agents").touch()
    with pytest.raises(OSError, match="agents"):
        append_archive(tmp_path / "agents" / "history.md", [user("x")], "first")
    with pytest.raises(OSError, match="No space"):
        append_archive(Path("/dev/full"), [user("x" * 100_000)], "first")


def test_a_section_that_a_crash_left_unrecorded_is_dropped_before_it_is_made_again(
    tmp_path: Path,
) -> None:
    """Only the last one, and only under the same heading: what was recorded stays."""
    archive = tmp_path / "history.md"
    drop_section(archive, "Compaction 1: messages 1–2")
    append_archive(archive, [user("## Compaction 2: messages 3–4")], "Compaction 1: messages 1–2")
    whole = archive.read_bytes()
    append_archive(archive, [user("three")], "Compaction 2: messages 3–4")
    drop_section(archive, "Compaction 1: messages 1–2")
    assert len(list(read_archive(archive))) == 2
    drop_section(archive, "Compaction 2: messages 3–4")
    assert archive.read_bytes() == whole
    append_archive(archive, [user("three")], "Compaction 2: messages 3–4")
    assert [m["content"][0]["text"] for m in read_archive(archive)][-1] == "three"
