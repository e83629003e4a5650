"""`outrider runs prune`: what goes, what stays, and that nothing outside is touched."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import RunInUse
from orchestrator.journal import open_journal
from orchestrator.pruning import age_of, delete, delete_leftovers, size_of
from orchestrator.rundir import RunDir, list_runs
from tests.test_cli_process import Cli, clean_environment, cli, root
from tests.warm import WARM

__all__ = ["cli", "root"]
DAY = 86_400


@pytest.fixture
def three(cli: Cli, root: Path) -> list[RunDir]:
    """Three runs, written to 1, 10 and 100 days ago."""
    made = []
    for name, days in (("new", 1), ("mid", 10), ("old", 100)):
        assert cli("run", "x", "--model", "rehearsal", "--quiet", "--run-id", name).code == 0
        run = RunDir(root, name)
        then = time.time() - days * DAY
        os.utime(run.journal, (then, then))
        os.utime(run.folder, (then, then))
        made.append(run)
    return made


def left(root: Path) -> list[str]:
    return [run.run_id for run in list_runs(root)]


def test_runs_older_than_thirty_days_go_and_each_has_a_line_with_its_size(
    cli: Cli, root: Path, three: list[RunDir]
) -> None:
    ran = cli("runs", "prune", "--yes")
    assert ran.code == 0
    [line] = ran.out.splitlines()
    assert line.startswith("old · ")
    assert " kB · 100 days old" in line
    assert ran.err.startswith("outrider: deleted 1 of 1 runs, ")
    assert left(root) == ["new", "mid"]
    assert not three[2].folder.exists()


@pytest.mark.parametrize(
    ("options", "stays"),
    [
        (("--older-than", "5d"), ["new"]),
        (("--older-than", "20h"), []),
        (("--older-than", "52w"), ["new", "mid", "old"]),
        (("--keep", "1"), ["new"]),
        (("--keep", "2"), ["new", "mid"]),
        (("--keep", "1", "--older-than", "50d"), ["new", "mid"]),
        (("--keep", "3", "--older-than", "1h"), ["new", "mid", "old"]),
    ],
)
def test_age_and_number_choose(
    cli: Cli, root: Path, three: list[RunDir], options: tuple[str, ...], stays: list[str]
) -> None:
    assert cli("runs", "prune", *options, "--yes").code == 0
    assert left(root) == stays


def test_without_yes_and_without_a_terminal_nothing_is_deleted(
    cli: Cli, root: Path, three: list[RunDir]
) -> None:
    ran = cli("runs", "prune")
    assert ran.code == 2
    assert "nothing was deleted (1 run, " in ran.err
    assert "give --yes" in ran.err
    assert len(left(root)) == 3


@pytest.mark.parametrize(("answer", "stays"), [("n\n", 3), ("y\n", 2)])
def test_on_a_terminal_it_asks(root: Path, three: list[RunDir], answer: str, stays: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    subprocess.run(
        [*WARM, "runs", "prune"],
        cwd=root,
        env=clean_environment(root.parent, TERM="dumb"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        timeout=120,
        check=False,
    )
    said = os.read(ours, 65_536).decode()
    os.close(theirs)
    os.close(ours)
    assert "Delete 1 run, " in said
    assert len(left(root)) == stays


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "1y", "1.5d"])
def test_an_age_that_is_none_is_refused(cli: Cli, three: list[RunDir], text: str) -> None:
    ran = cli("runs", "prune", f"--older-than={text}", "--yes")
    assert (ran.code, "such as 30d" in ran.err) == (2, True)


def test_ages_have_units() -> None:
    assert [age_of(t) for t in ("90m", "12H", " 30d", "2w")] == [5400, 43200, 30 * DAY, 14 * DAY]


def test_a_live_run_is_never_deleted(cli: Cli, root: Path, three: list[RunDir]) -> None:
    """Whatever its age: it holds its lock."""

    async def while_held() -> None:
        async with open_journal(three[2].journal):
            ran = cli("runs", "prune", "--older-than", "0d", "--yes")
            assert ran.code == 0
            [line] = [line for line in ran.out.splitlines() if line.startswith("old")]
            assert line.endswith("kept: running")
            with pytest.raises(RunInUse):
                delete(three[2])

    anyio.run(while_held)
    assert left(root) == ["old"]


def test_links_inside_a_run_are_never_followed_out(
    cli: Cli, root: Path, three: list[RunDir]
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x" * 1_000_000)
    (three[2].folder / "link").symlink_to(outside, target_is_directory=True)
    (three[2].folder / "agents" / "file").symlink_to(outside / "precious")
    (three[2].folder / "loop").symlink_to(three[2].folder, target_is_directory=True)
    assert size_of(three[2].folder) < 1_000_000
    assert cli("runs", "prune", "--yes").code == 0
    assert not three[2].folder.exists()
    assert (outside / "precious").stat().st_size == 1_000_000


def test_a_run_that_is_a_link_itself_is_left_alone(
    cli: Cli, root: Path, three: list[RunDir]
) -> None:
    elsewhere = root.parent / "elsewhere"
    three[2].folder.rename(elsewhere)
    three[2].folder.symlink_to(elsewhere, target_is_directory=True)
    ran = cli("runs", "prune", "--yes")
    assert "kept: a link to another place" in ran.out
    assert (elsewhere / "journal.db").is_file()


def test_a_run_whose_fork_stays_is_kept(cli: Cli, root: Path, three: list[RunDir]) -> None:
    """The fork reads its files; both together may go."""
    assert cli("fork", "old", "--at", "1", "--run-id", "branch", "--quiet").code == 0
    ran = cli("runs", "prune", "--yes")
    assert "kept: its fork branch reads its files" in ran.out
    assert {"old", "branch"} <= set(left(root))
    assert cli("runs", "prune", "--older-than", "0d", "--yes").code == 0
    assert left(root) == []


def test_a_deletion_that_was_cut_short_leaves_no_half_run(
    root: Path, three: list[RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("orchestrator.pruning.shutil.rmtree", full)
        with pytest.raises(OSError, match="Input/output"):
            delete(three[2])
    assert left(root) == ["new", "mid"]
    delete_leftovers(root)
    assert sorted(p.name for p in three[0].folder.parent.iterdir()) == [".gitignore", "mid", "new"]


def test_runs_show_their_sizes(cli: Cli, root: Path, three: list[RunDir]) -> None:
    lines = cli("runs").out.splitlines()
    assert "size" in lines[0].split()
    assert all(" kB " in line for line in lines[1:])
    found = json.loads(cli("runs", "--json").out)
    assert [each["bytes"] for each in found] == [size_of(run.folder) for run in three]
