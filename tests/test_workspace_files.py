"""Reading, writing, editing and deleting on disk: what is refused, and what two agents do at once."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workspace import (
    Access,
    Conflict,
    Denied,
    EditFailed,
    NotFound,
    NotText,
    Refused,
    Rule,
    Unavailable,
    WorkspaceError,
    WrongKind,
)
from workspace.atomic import write_bytes
from workspace.files import Files
from workspace.paths import Root
from workspace.versions import versions_of

as_root = os.geteuid() == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("SECRET")
    return tmp_path / "ws"


@pytest.fixture
def files(root: Path) -> Files:
    return Files(root)


# Reading


def test_a_missing_file_is_not_found(files: Files) -> None:
    """R1."""
    with pytest.raises(NotFound, match=r"none\.txt: not found"):
        files.read("none.txt")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"ok\xff\xfe", "not UTF-8 text: byte 0xff at byte 2 of 4"),
        ("é".encode("latin-1"), "not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        (b"%PDF-1.7", "a PDF document"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a WebP image"),
        (b"\xff\xfeh\0i\0", "UTF-16 text"),
    ],
)
def test_what_is_not_text_is_named_and_never_mangled(
    files: Files, root: Path, data: bytes, reason: str
) -> None:
    """R6, R7: an error for reading and editing; the bytes stay."""
    (root / "b").write_bytes(data)
    with pytest.raises(NotText, match=reason):
        files.read("b")
    with pytest.raises(WorkspaceError):
        files.edit("b", "x", "y")
    with pytest.raises(Conflict):
        files.write("b", "x")
    assert (root / "b").read_bytes() == data


def test_folders_and_pipes_are_no_files(files: Files, root: Path) -> None:
    """R1: an error at once; a fifo does not block."""
    os.mkfifo(root / "fifo")
    for path, reason in (("sub", "is a folder"), (".", "is a folder"), ("fifo", "a device")):
        with pytest.raises(WrongKind, match=reason):
            files.read(path)
    with pytest.raises(WrongKind, match="is a folder"):
        files.write("sub", "x")


def test_a_huge_file_is_refused_with_its_size(files: Files, root: Path) -> None:
    with open(root / "huge", "wb") as file:
        file.truncate(65 * 1024 * 1024)
    with pytest.raises(WrongKind, match="68,157,440 bytes"):
        files.read("huge")


def test_a_stored_lone_surrogate_survives_reading_and_editing(files: Files, root: Path) -> None:
    """R6: lone surrogates are safe, on the way in too."""
    data = "x \ud800 y".encode("utf-8", "surrogatepass")
    (root / "s").write_bytes(data)
    assert files.read("s") == "x \ud800 y"
    files.edit("s", "y", "z")
    assert (root / "s").read_bytes() == data[:-1] + b"z"
    for call in (
        lambda: files.write("new", "\ud800"),
        lambda: files.edit("s", "z", "\udfff"),
    ):
        with pytest.raises(NotText, match="lone surrogate"):
            call()
    assert not (root / "new").exists()


@pytest.mark.skipif(as_root, reason="permission bits do not bind root")
def test_an_unreadable_file_says_who_refused(files: Files, root: Path) -> None:
    (root / "a.txt").chmod(0)
    with pytest.raises(Unavailable, match="permission refused by the operating system"):
        files.read("a.txt")


def test_a_name_too_long_for_the_disk_is_a_short_error(files: Files) -> None:
    """P2."""
    with pytest.raises(Unavailable, match="too long") as caught:
        files.read("x" * 5_000)
    assert len(str(caught.value)) < 400


# Writing


def test_write_creates_a_file_and_the_folders_on_the_way(files: Files, root: Path) -> None:
    assert files.write("new/er/x.txt", "a\r\nb")
    assert (root / "new" / "er" / "x.txt").read_bytes() == b"a\r\nb"
    assert not files.write("new/er/x.txt", "again")


def test_an_overwrite_of_an_unread_or_changed_file_is_refused(files: Files, root: Path) -> None:
    """W3: by content, so a touched file is no conflict."""
    with pytest.raises(Conflict, match=r'have not read it; call read_file\(path="a.txt"\) first'):
        files.write("a.txt", "x")
    files.read("a.txt")
    (root / "a.txt").write_text("changed by the shell")
    with pytest.raises(Conflict, match="changed since you read it"):
        files.write("a.txt", "x")
    assert (root / "a.txt").read_text() == "changed by the shell"
    files.read("a.txt")
    os.utime(root / "a.txt")
    assert not files.write("a.txt", "x")


def test_an_edit_of_an_unread_or_changed_file_is_refused(files: Files, root: Path) -> None:
    """W3, W3a: changes by the shell are detected, also where the passage is untouched."""
    with pytest.raises(Conflict, match="have not read it"):
        files.edit("a.txt", "one", "1")
    files.read("a.txt")
    (root / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(Conflict, match="changed since you read it"):
        files.edit("a.txt", "one", "1")
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"


def test_a_failed_edit_leaves_the_file_unchanged(files: Files, root: Path) -> None:
    """W1, W2."""
    files.read("a.txt")
    for old, new in (("t", "T"), ("", "x"), ("nowhere", "x"), ("one", "one")):
        with pytest.raises(EditFailed):
            files.edit("a.txt", old, new)
    with pytest.raises(NotFound):
        files.edit("none.txt", "a", "b")
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_edits_follow_each_other_without_reading_again(files: Files, root: Path) -> None:
    files.read("a.txt")
    assert files.edit("a.txt", "one", "1").line == 1
    assert files.edit("a.txt", "t", "T", replace_all=True).count == 2
    assert (root / "a.txt").read_text() == "1\nTwo\nThree\n"
    assert not files.write("a.txt", "")


def test_two_agents_edit_different_places(root: Path) -> None:
    """W4: both edits are there afterwards, in either order, as often as they like."""
    a, b = Files(root), Files(root)
    a.read("a.txt")
    b.read("a.txt")
    a.edit("a.txt", "one", "1")
    b.edit("a.txt", "three", "3")
    a.edit("a.txt", "two", "2")
    b.edit("a.txt", "3", "33")
    assert (root / "a.txt").read_text() == "1\n2\n33\n"


def test_two_agents_edit_the_same_passage(root: Path) -> None:
    """W4: one wins, the other gets an explicit conflict."""
    a, b = Files(root), Files(root)
    a.read("a.txt")
    b.read("a.txt")
    a.edit("a.txt", "two", "2")
    with pytest.raises(Conflict, match="another agent edited it"):
        b.edit("a.txt", "two", "zwei")
    assert (root / "a.txt").read_text() == "one\n2\nthree\n"


def test_an_edit_beside_anothers_does_not_permit_an_overwrite(root: Path) -> None:
    """W3, W4: what the agent has not seen is never silently lost."""
    a, b = Files(root), Files(root)
    a.read("a.txt")
    b.read("a.txt")
    a.edit("a.txt", "one", "1")
    b.edit("a.txt", "three", "3")
    with pytest.raises(Conflict, match="changed since you read it"):
        b.write("a.txt", "mine")


def test_an_edit_does_not_build_on_anothers_overwrite(root: Path) -> None:
    """W3: only edits leave the rest of a file as it was."""
    a, b = Files(root), Files(root)
    a.read("a.txt")
    b.read("a.txt")
    a.write("a.txt", "one of another kind\n")
    with pytest.raises(Conflict, match="changed since you read it"):
        b.edit("a.txt", "one", "1")


def test_edits_back_and_forth_are_followed(root: Path) -> None:
    """W4: a content that came back is no endless chain."""
    a, b, c = Files(root), Files(root), Files(root)
    for agent in (a, b, c):
        agent.read("a.txt")
    a.edit("a.txt", "one", "1")
    a.edit("a.txt", "1", "one")
    b.edit("a.txt", "two", "2")
    c.edit("a.txt", "three", "3")
    assert (root / "a.txt").read_text() == "one\n2\n3\n"
    a.read("a.txt")
    a.edit("a.txt", "3", "three")
    a.edit("a.txt", "2", "two")
    (root / "a.txt").write_text("else")
    with pytest.raises(Conflict):
        c.edit("a.txt", "e", "E", replace_all=True)


def test_many_agents_at_once_lose_no_edit(root: Path) -> None:
    """W3a, W4: from real threads, through different spellings of one path."""
    count = 12
    (root / "many.txt").write_text("".join(f"<{n}>\n" for n in range(count)))
    (root / "alias").symlink_to("many.txt")
    agents = [Files(root) for _ in range(count)]
    paths = ["many.txt", "./many.txt", "alias", f"{root}/many.txt"]
    for n, agent in enumerate(agents):
        agent.read(paths[n % 4])
    start = threading.Barrier(count)

    def work(n: int) -> None:
        start.wait()
        for step in range(5):
            old = f"<{n}>" if step == 0 else f"<{n}:{step - 1}>"
            agents[n].edit(paths[n % 4], old, f"<{n}:{step}>")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "many.txt").read_text() == "".join(f"<{n}:4>\n" for n in range(count))


def test_two_agents_create_the_same_file_and_one_wins(root: Path) -> None:
    """W4: from real threads; the loser gets a conflict."""
    agents = [Files(root) for _ in range(8)]
    start = threading.Barrier(8)
    outcomes: list[str] = []

    def create(n: int) -> None:
        start.wait()
        try:
            agents[n].write("new/same.txt", str(n))
            outcomes.append(str(n))
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("conflict") == 7
    assert (root / "new" / "same.txt").read_text() in outcomes


def test_a_childs_delete_is_seen_by_the_parent(root: Path) -> None:
    """W4."""
    parent, child = Files(root), Files(root)
    parent.read("a.txt")
    child.delete("a.txt")
    with pytest.raises(NotFound):
        parent.edit("a.txt", "one", "1")
    assert parent.write("a.txt", "new")


def test_mode_bits_stay(files: Files, root: Path) -> None:
    """W5: of an edited and of an overwritten file; a new one follows the umask."""
    (root / "a.txt").chmod(0o750)
    files.read("a.txt")
    files.edit("a.txt", "one", "1")
    files.write("a.txt", "x")
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o750
    old = os.umask(0o027)
    try:
        files.write("new.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "new.txt").stat().st_mode) == 0o640


def test_a_write_through_a_symlink_keeps_the_symlink(files: Files, root: Path) -> None:
    """W5, P3: the file that it leads to is replaced."""
    (root / "link").symlink_to("a.txt")
    files.read("link")
    files.write("link", "x")
    assert (root / "link").is_symlink()
    assert (root / "a.txt").read_text() == "x"


def test_a_reader_sees_the_old_file_or_the_new_one(files: Files, root: Path) -> None:
    """W5: never a mixture, never an empty or missing file, and no temporary file stays."""
    contents = {"a" * 300_000, "b" * 300_000}
    files.write("big", "a" * 300_000)
    seen = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((root / "big").read_text())

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        files.write("big", "b" * 300_000)
        files.write("big", "a" * 300_000)
    done.set()
    thread.join()
    assert seen <= contents
    assert sorted(os.listdir(root)) == ["a.txt", "big", "sub"]


def test_kill_9_leaves_the_old_file_or_the_new_one(root: Path) -> None:
    """W5: a process is killed at several moments of its writing."""
    program = (
        "import sys; from workspace.files import Files; files = Files(sys.argv[1])\n"
        "while True:\n"
        "    for letter in 'ab':\n"
        "        files.write('sub/big', letter * 1_000_000); print(letter, flush=True)\n"
    )
    for moment in range(1, 6):
        (root / "sub" / "big").unlink(missing_ok=True)
        command = [sys.executable, "-c", program, str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(moment):
                process.stdout.readline()
            process.kill()
        assert (root / "sub" / "big").read_text() in ("a" * 1_000_000, "b" * 1_000_000)


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(root: Path) -> None:
    """W5: here because a folder took the name between check and rename."""
    with Root(root).walk(("new.txt",)) as place:
        (root / "new.txt").mkdir()
        with pytest.raises(IsADirectoryError):
            write_bytes(place, b"data")
    assert sorted(os.listdir(root)) == ["a.txt", "new.txt", "sub"]


@pytest.mark.skipif(as_root, reason="permission bits do not bind root")
def test_a_read_only_folder_is_a_clear_error(files: Files, root: Path) -> None:
    """L5, W5."""
    (root / "sub").chmod(0o500)
    try:
        with pytest.raises(Unavailable, match="permission refused"):
            files.write("sub/x", "x")
    finally:
        (root / "sub").chmod(0o700)


# Symlinks, deny rules, the private folder


def test_a_symlink_that_leads_outside_is_refused_for_every_operation(
    files: Files, root: Path
) -> None:
    """P3: a file and a folder; delete takes the link alone."""
    (root / "f").symlink_to("../out/secret.txt")
    (root / "d").symlink_to("../out")
    for path in ("f", "d/secret.txt"):
        with pytest.raises(Refused):
            files.read(path)
        with pytest.raises(Refused):
            files.write(path, "x")
        with pytest.raises(Refused):
            files.edit(path, "S", "x")
    with pytest.raises(Refused):
        files.write("d/new.txt", "x")
    with pytest.raises(Refused):
        files.entries("d")
    with pytest.raises(Refused):
        files.delete("d/secret.txt")
    assert files.delete("d") == 1
    assert files.delete("f") == 1
    assert os.listdir(root.parent / "out") == ["secret.txt"]
    assert (root.parent / "out" / "secret.txt").read_text() == "SECRET"


@pytest.fixture
def guarded(root: Path) -> Files:
    (root / "secret" / "deep").mkdir(parents=True)
    (root / "secret" / "k.txt").write_text("KEY")
    (root / "alias").symlink_to("secret")
    (root / "sub" / "k").symlink_to("../secret/k.txt")
    (root / "sub" / "own.lock").write_text("locked")
    return Files(
        root,
        Access(
            deny_read=(Rule("secret/**", "read(secret/**)"),),
            deny_write=(Rule("*.lock", "edit(*.lock)"),),
        ),
    )


@pytest.mark.parametrize(
    "path",
    ["secret/k.txt", "secret//k.txt", "./secret/./k.txt", "alias/k.txt", "sub/k", "SECRET/K"],
)
def test_a_deny_rule_cannot_be_passed(guarded: Files, path: str) -> None:
    """P4: by `//`, `/./`, case or a symlink alias."""
    for call in (
        lambda: guarded.read(path),
        lambda: guarded.write(path, "x"),
        lambda: guarded.edit(path, "K", "x"),
    ):
        with pytest.raises(Denied) as caught:
            call()
        assert caught.value.rule == "read(secret/**)"


def test_ls_hides_what_is_denied(guarded: Files, root: Path) -> None:
    """P4: aliases of it too."""
    assert [entry.name for entry in guarded.entries(".")] == ["a.txt", "sub"]
    assert [entry.name for entry in guarded.entries("sub")] == ["own.lock"]
    with pytest.raises(Denied):
        guarded.entries("alias")


def test_nothing_private_is_written_or_listed(root: Path) -> None:
    """L8: one's own results are read and listed, under their real name only."""
    own = ".outrider/runs/R/agents/A/results"
    (root / own).mkdir(parents=True)
    (root / own / "0001-x.txt").write_text("whole")
    (root / ".outrider" / "MEMORY.md").write_text("memory")
    (root / "door").symlink_to(".outrider")
    files = Files(root, Access(readable_private=lambda: [own]))
    assert files.read(f"{own}/0001-x.txt") == "whole"
    assert [entry.name for entry in files.entries(own)] == ["0001-x.txt"]
    assert [entry.name for entry in files.entries(".")] == ["a.txt", "door", "sub"]
    for path in (".outrider/MEMORY.md", "door/MEMORY.md"):
        with pytest.raises(Refused):
            files.read(path)
    for path in (f"{own}/new.txt", "door/new.txt", ".outrider/new.txt"):
        with pytest.raises(Refused):
            files.write(path, "x")
    for path in (".outrider", own, "door/MEMORY.md"):
        with pytest.raises(Refused):
            files.delete(path)
    assert (root / ".outrider" / "MEMORY.md").exists()


# Deleting


def test_delete_of_a_folder_takes_what_is_under_it_not_its_siblings(
    files: Files, root: Path
) -> None:
    """W6: symlinks in it are unlinked, not followed."""
    (root / "sub" / "x").mkdir()
    (root / "sub" / "x" / "f").touch()
    (root / "sub" / "link").symlink_to("../../out")
    (root / "sub2").mkdir()
    assert files.delete("sub") == 4
    assert sorted(os.listdir(root)) == ["a.txt", "sub2"]
    assert (root.parent / "out" / "secret.txt").exists()


def test_a_delete_holds_the_files_lock_until_it_is_done(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W3a: also if no agent has read the file."""
    unlink = os.unlink
    held = []

    def watched(name: str, *, dir_fd: int) -> None:
        held.append(versions_of(dir_fd, name).lock.locked())
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", watched)
    files.delete("a.txt")
    monkeypatch.undo()
    assert held == [True]
    assert not (root / "a.txt").exists()


def test_delete_of_a_symlink_takes_the_link(files: Files, root: Path) -> None:
    """W6."""
    (root / "link").symlink_to("sub")
    assert files.delete("link") == 1
    assert (root / "sub").is_dir()


def test_delete_is_refused_if_a_descendant_is_denied(guarded: Files, root: Path) -> None:
    """W6: nothing of the folder goes."""
    (root / "sub" / "a").touch()
    with pytest.raises(Denied) as caught:
        guarded.delete("sub")
    assert caught.value.rule == "edit(*.lock)"
    assert (root / "sub" / "a").exists()
    with pytest.raises(Denied):
        guarded.delete("secret")


def test_the_root_and_what_is_not_there_cannot_be_deleted(files: Files, root: Path) -> None:
    """W2."""
    for path in (".", "", str(root)):
        with pytest.raises(Refused, match="root itself"):
            files.delete(path)
    with pytest.raises(NotFound):
        files.delete("none")


# Listing


def test_a_missing_folder_differs_from_an_empty_one(files: Files) -> None:
    """G5."""
    assert files.entries("sub") == []
    with pytest.raises(NotFound):
        files.entries("none")
    with pytest.raises(WrongKind, match="is a file"):
        files.entries("a.txt")


def test_what_is_listed_has_a_kind_and_a_size(files: Files, root: Path) -> None:
    (root / "link").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    entries = {entry.name: entry for entry in files.entries(".")}
    assert {name: entry.kind for name, entry in entries.items()} == {
        "a.txt": "file",
        "link": "symlink",
        "pipe": "other",
        "sub": "folder",
    }
    assert entries["a.txt"].size == 14
