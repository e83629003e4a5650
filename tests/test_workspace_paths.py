"""Confinement: paths that stay inside the root, and symlinks that try to leave it."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace import Conflict, NotFound, Refused, WorkspaceError, WrongKind
from workspace.atomic import read_bytes
from workspace.paths import Root, below, joined, parse

ROOTS = [("srv", "a")]


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a.txt", ("a.txt",)),
        (".", ()),
        ("", ()),
        ("./sub//x/./y/", ("sub", "x", "y")),
        ("/srv/a", ()),
        ("//srv/./a//x", ("x",)),
        ("foo..bar.txt", ("foo..bar.txt",)),
        ("v2..0/release", ("v2..0", "release")),
        ("...", ("...",)),
        ("./~name", ("~name",)),
        ("x/~/y", ("x", "~", "y")),
        ("~$report.docx", ("~$report.docx",)),
        ("a b\tc", ("a b\tc",)),
    ],
)
def test_ordinary_names_are_relative_to_the_root_or_absolute_inside_it(
    path: str, parts: tuple[str, ...]
) -> None:
    """P1, P2: dots inside a name are ordinary; `//` and `/./` mean nothing."""
    assert parse(path, ROOTS) == parts


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "'..' is not allowed"),
        ("a/../../x", "'..' is not allowed"),
        ("a/..", "'..' is not allowed"),
        ("/srv/a/../b", "'..' is not allowed"),
        ("~", "~ is not expanded"),
        ("~/x", "~ is not expanded"),
        ("~root/x", "~ is not expanded"),
        ("C:\\x", "drive letters"),
        ("c:/x", "drive letters"),
        ("a\0b", "NUL byte"),
        ("\ud800", "lone surrogate"),
        ("/etc/passwd", "outside the workspace, which is /srv/a"),
        ("/srv/a-evil/x", "outside the workspace"),
        ("/srv", "outside the workspace"),
        ("/", "outside the workspace"),
    ],
)
def test_a_path_that_could_leave_is_refused_with_the_reason(path: str, reason: str) -> None:
    """P2, P5: every refusal names its reason; `/srv/a` does not admit `/srv/a-evil`."""
    with pytest.raises(Refused) as caught:
        parse(path, ROOTS)
    assert reason in str(caught.value)


def test_a_refusal_is_short_and_encodable_however_long_the_path() -> None:
    """P2: the message can be sent, whatever the model wrote."""
    with pytest.raises(Refused) as caught:
        parse("\ud800" + "x" * 100_000, ROOTS)
    assert len(str(caught.value).encode()) < 400


@given(
    st.lists(
        st.sampled_from(["/", "..", ".", "~", "a", "srv", "C:", "\0", "a-evil", "é"])
        | st.text(max_size=3)
    )
)
def test_no_text_names_anything_outside(pieces: list[str]) -> None:
    """P2, P5: whatever the string, it is refused or its names stay below the root."""
    path = "".join(pieces)
    try:
        parts = parse(path, ROOTS)
    except Refused:
        return
    assert not {"", ".", ".."} & set(parts)
    assert os.path.normpath("/".join(["/srv/a", *parts])).startswith("/srv/a")
    assert parse("/srv/a/" + joined(parts), ROOTS) == parts


def test_below_counts_names_not_characters() -> None:
    """P5: containment is by whole names."""
    assert below(("srv", "a", "x"), ROOTS) == ("x",)
    assert below(("srv", "a-evil"), ROOTS) is None
    assert below(("x",), [()]) == ("x",)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "ws" / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "ws" / "sub" / "in.txt").write_text("inside")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("SECRET")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "secret.txt").write_text("SECRET")
    return Root(tmp_path / "ws")


def content(root: Root, path: str) -> str:
    with root.walk(root.parse(path)) as place:
        return read_bytes(place).decode()


def test_the_root_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        Root(tmp_path / "file")


def test_a_root_reached_through_a_symlink_is_accepted_in_both_spellings(
    root: Root, tmp_path: Path
) -> None:
    """P1: the path that people use and the real one mean the same file."""
    (tmp_path / "alias").symlink_to(root.path)
    aliased = Root(tmp_path / "alias")
    assert content(aliased, f"{tmp_path}/alias/sub/in.txt") == "inside"
    assert content(aliased, f"{root.path}/sub/in.txt") == "inside"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("l", "sub/in.txt", "l"),
        ("l", "./sub/../sub/in.txt", "l"),
        ("l", "sub", "l/in.txt"),
        ("sub/deep/l", "../in.txt", "sub/deep/l"),
        ("sub/deep/l", "../../sub", "sub/deep/l/in.txt"),
        ("l", "{root}/sub", "l/in.txt"),
        ("sub/deep/l", "{root}", "sub/deep/l/sub/in.txt"),
    ],
)
def test_a_symlink_that_stays_inside_is_followed(
    root: Root, link: str, target: str, path: str
) -> None:
    """P3: only what leads outside is refused."""
    (root.path / link).symlink_to(target.format(root=root.path))
    assert content(root, path) == "inside"
    with root.walk(root.parse(path)) as place:
        assert place.path == "sub/in.txt"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../out/secret.txt", "l"),
        ("../out", "l/secret.txt"),
        ("{root}/../out", "l/secret.txt"),
        ("{root}-evil", "l/secret.txt"),
        ("/", "l/etc/passwd"),
        ("..", "l"),
        ("sub/../../ws/sub", "l/in.txt"),
        ("/proc/self/root", "l/etc/passwd"),
    ],
)
def test_a_symlink_that_leads_outside_is_refused(root: Root, target: str, path: str) -> None:
    """P3, P5: also one that would come back in."""
    (root.path / "l").symlink_to(target.format(root=root.path))
    with pytest.raises(Refused, match="leads outside"):
        content(root, path)


def test_a_symlink_loop_is_an_error(root: Root) -> None:
    """P3: never a hang."""
    (root.path / "a").symlink_to("b")
    (root.path / "b").symlink_to("a")
    (root.path / "self").symlink_to("self/x")
    for path in ("a", "b/x", "self"):
        with pytest.raises(Refused, match="loop"):
            content(root, path)


def test_a_symlink_back_to_the_root_is_a_folder(root: Root) -> None:
    (root.path / "sub" / "up").symlink_to("..")
    with root.walk(("sub", "up")) as place:
        assert place.parts == ()
        assert place.is_folder
        with place.opened_folder() as folder:
            assert "sub" in os.listdir(folder)


def test_what_is_missing_and_what_is_no_folder_are_told_apart(root: Root) -> None:
    """R1: each has its own error."""
    with pytest.raises(NotFound):
        content(root, "sub/none/x")
    with pytest.raises(NotFound):
        content(root, "none")
    with pytest.raises(WrongKind, match="not a folder"):
        content(root, "sub/in.txt/x")
    with root.walk(("sub", "in.txt")) as place, pytest.raises(WrongKind), place.opened_folder():
        pass
    with root.walk(("none",)) as place, pytest.raises(NotFound), place.opened_folder():
        pass


def test_missing_folders_are_made_only_when_asked_and_only_inside(root: Root) -> None:
    """P3: a dangling symlink that climbs out makes nothing outside."""
    with root.walk(("new", "er", "x"), make=True) as place:
        assert place.parts == ("new", "er", "x")
    assert (root.path / "new" / "er").is_dir()
    (root.path / "dangling").symlink_to("missing/../../out/made")
    with pytest.raises(NotFound), root.walk(("dangling", "x"), make=True):
        pass
    assert not (root.path.parent / "out" / "made").exists()
    assert not (root.path / "missing").exists()


def test_the_check_sees_the_real_path_before_anything_is_made(root: Root) -> None:
    """P4: a symlink alias does not pass a check by name, nor make folders first."""
    (root.path / "alias").symlink_to("sub/deep")

    def refuse_deep(parts: tuple[str, ...]) -> None:
        if parts[:2] == ("sub", "deep"):
            raise Refused(joined(parts), "no")

    for path in (("alias",), ("alias", "x"), ("alias", "new", "x")):
        with pytest.raises(Refused), root.walk(path, refuse_deep, make=True):
            pass
    assert os.listdir(root.path / "sub" / "deep") == []


def test_a_swap_between_check_and_use_does_not_escape(root: Root) -> None:
    """P3: while a folder and a file flip to symlinks leading outside, no read shows the outside."""
    folder, file = root.path / "d", root.path / "f"
    folder.mkdir()
    (folder / "secret.txt").write_text("inside")
    file.write_text("inside")
    (root.path / "evil_d").symlink_to("../out")
    (root.path / "evil_f").symlink_to("../out/secret.txt")
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for good, evil in (("d", "evil_d"), ("f", "evil_f")):
                for source, target in (
                    (good, "spare"),
                    (evil, good),
                    (good, evil),
                    ("spare", good),
                ):
                    os.rename(root.path / source, root.path / target)

    thread = threading.Thread(target=flip)
    thread.start()
    seen = set()
    try:
        for _ in range(1_500):
            for path in ("d/secret.txt", "f"):
                try:
                    seen.add(content(root, path))
                except WorkspaceError as error:
                    seen.add(type(error).__name__)
    finally:
        stop.set()
        thread.join()
    assert "SECRET" not in seen
    assert "inside" in seen


def test_a_file_swapped_for_a_symlink_after_the_walk_is_a_conflict(root: Root) -> None:
    """P3: opening never follows what was put in place after the check."""

    def swap_and_read() -> None:
        with root.walk(("sub", "in.txt")) as place:
            (root.path / "sub" / "in.txt").unlink()
            (root.path / "sub" / "in.txt").symlink_to("../../out/secret.txt")
            read_bytes(place)

    with pytest.raises(Conflict, match="changed while"):
        swap_and_read()


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Root:
    top = tmp_path_factory.mktemp("maze")
    (top / "ws" / "a" / "b").mkdir(parents=True)
    (top / "x").write_text("SECRET")
    (top / "a").mkdir()
    (top / "a" / "x").write_text("SECRET")
    for folder in ("", "a", "a/b"):
        (top / "ws" / folder / "x").write_text("inside")
        for name, target in {
            "up": "..",
            "out": "../../..",
            "far": str(top),
            "root": str(top / "ws"),
            "in": "a",
            "weave": "a/b/../../../ws/../a",
        }.items():
            (top / "ws" / folder / name).symlink_to(target)
    return Root(top / "ws")


@given(
    st.lists(st.sampled_from(["a", "b", "x", "up", "out", "far", "root", "in", "weave", "..", ""])),
    st.booleans(),
)
def test_no_path_through_a_maze_of_symlinks_reads_the_outside(
    maze: Root, names: list[str], absolute: bool
) -> None:
    """P2, P3: on a real disk; whatever the path, it is refused, absent, or inside."""
    path = "/".join(([str(maze.path)] if absolute else []) + names)
    try:
        assert content(maze, path) == "inside"
    except WorkspaceError:
        pass
    else:
        assert os.path.realpath(maze.path / path).startswith(f"{maze.path}/")


def test_no_descriptor_is_left_open(root: Root) -> None:
    (root.path / "l").symlink_to("../out")
    (root.path / "up").symlink_to("sub/../sub")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("sub/in.txt", "l/x", "none/x", "up/in.txt", "sub/in.txt/x"):
        try:
            content(root, path)
        except WorkspaceError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
