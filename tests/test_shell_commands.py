"""Commands of the shell: what they print, how they end, what is left of them; under both back ends."""

from __future__ import annotations

import os
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from tests.shells import OWN, Ground, _known_processes, ground, needs_sandbox, processes
from workspace import Access, Bounds, ResultStore, Shell, ShellRefused, WorkspaceError
from workspace.shell.shell import MOST_JOBS

__all__ = ["_known_processes"]
pytestmark = [pytest.mark.anyio, needs_sandbox]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with ground("root" if os.geteuid() == 0 else "ordinary", monkeypatch) as found:
        yield found


async def said(shell: Shell, command: str, seconds: float = 30) -> str:
    ran = await shell.run(command, seconds)
    return await shell.text(ran.output)


async def until(holds: Callable[[], object]) -> None:
    """Other processes bring it about: there is no event to wait for."""
    with anyio.fail_after(120):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.02)


# ── output ──


async def test_the_back_end_is_the_one_asked_for(anyio_backend_name: str) -> None:
    import sniffio

    assert sniffio.current_async_library() == anyio_backend_name


async def test_output_and_errors_are_interleaved_as_they_came(place: Ground) -> None:
    async with place.shell() as shell:
        text = await said(shell, "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    assert text == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


@pytest.mark.parametrize("code", [0, 1, 3, 127, 137])
async def test_the_exit_code_is_the_commands(place: Ground, code: int) -> None:
    async with place.shell() as shell:
        assert (await shell.run(f"exit {code}", 30)).code == code


async def test_a_command_that_a_signal_ends_has_128_and_its_number(place: Ground) -> None:
    async with place.shell() as shell:
        assert (await shell.run("kill -9 $$", 30)).code == 137


async def test_output_is_stored_whole_before_anything_is_cut(place: Ground) -> None:
    """O10: also 4 MB of it, to the last byte, with its counts and ends."""
    async with place.shell() as shell:
        ran = await shell.run("seq 1 600000; printf last", 60)
        whole = "".join(f"{i}\n" for i in range(1, 600_001)) + "last"
        output = ran.output
        assert (place.root / output.path).read_text() == whole
        assert (output.chars, output.lines) == (len(whole), 600_001)
        assert whole.startswith(output.head)
        assert whole.endswith(output.tail)
        assert (len(output.head), len(output.tail)) == (1_000, 4_000)


async def test_a_large_output_is_never_held_in_memory(place: Ground) -> None:
    """20 MB of it, of which less than 5 MB are here at any time."""
    async with place.shell() as shell:
        await shell.run("true", 30)
        tracemalloc.start()
        try:
            ran = await shell.run("head -c 20000000 /dev/zero | tr '\\0' x", 60)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert ran.output.chars == 20_000_000
    assert most < 5_000_000


async def test_bytes_that_are_no_text_are_written_as_escapes(place: Ground) -> None:
    """Also a character that comes in two pieces, and one that never comes whole."""
    async with place.shell() as shell:
        text = await said(shell, r"printf 'a\xff\000b\xc3'; sleep 0.2; printf '\xa9 \xe2\x82'")
    assert text == "a\\xff\\x00bé \\xe2\\x82"


async def test_line_ends_are_not_changed(place: Ground) -> None:
    async with place.shell() as shell:
        ran = await shell.run(r"printf 'a\r\nb\rc\f\n'", 30)
        assert (place.root / ran.output.path).read_bytes() == b"a\r\nb\rc\f\n"


async def test_a_command_that_prints_without_end_is_ended_at_the_limit(place: Ground) -> None:
    async with place.shell(bounds=Bounds(output=100_000)) as shell:
        with anyio.fail_after(60):
            ran = await shell.run("yes ä", None)
        assert ran.why == "output"
        size = (place.root / ran.output.path).stat().st_size
        assert 99_990 <= size <= 100_000
        assert set(await shell.text(ran.output)) == {"ä", "\n"}


async def test_what_was_printed_before_the_time_out_is_there(place: Ground) -> None:
    async with place.shell() as shell:
        ran = await shell.run("echo first; sleep 60; echo second", 1)
        assert (ran.why, await shell.text(ran.output)) == ("timeout", "first\n")


async def test_there_is_nothing_to_read_on_standard_input(place: Ground) -> None:
    async with place.shell() as shell:
        assert await said(shell, "cat; read x || echo end") == "end\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("echo a\0b", "NUL byte"),
        ("echo \ud800", "lone surrogate"),
        (f"echo {'x' * 100_001}", "write a script"),
    ],
)
async def test_a_command_that_cannot_be_one_is_refused_with_the_reason(
    place: Ground, command: str, why: str
) -> None:
    async with place.shell() as shell:
        with pytest.raises(ShellRefused, match=why):
            await shell.run(command, 30)
        assert not list((place.root / OWN / "results").glob("*-bash.txt"))


async def test_where_output_cannot_be_stored_nothing_is_run(place: Ground) -> None:
    blocked = place.root / ".outrider/runs/R/agents/blocked"
    blocked.write_text("a file where a folder should be")
    async with anyio.create_task_group() as group:
        store = ResultStore(place.root, f"{blocked.relative_to(place.root)}/results")
        shell = Shell(place.root, Access(), store, group)
        with pytest.raises(WorkspaceError):
            await shell.run("touch ran", 30)
    assert not (place.root / "ran").exists()


async def test_each_command_starts_afresh(place: Ground) -> None:
    async with place.shell() as shell:
        await shell.run("cd /tmp; export X=1; touch /tmp/left $HOME/left", 30)
        text = await said(shell, "pwd; echo $X; ls $HOME/left /tmp/left 2>&1")
    assert text.startswith(f"{place.root}\n\n")
    assert text.count("No such file") == 2


async def test_a_workspace_is_seen_at_its_real_path_and_programs_work(place: Ground) -> None:
    """P1: the same path in the shell as in the file tools; also a file with an odd name."""
    odd = place.root / "a 'b\" ü\n.txt"
    odd.write_text("odd")
    async with place.shell() as shell:
        assert await said(shell, f"cat {place.root}/notes.md; cat a*b*") == "notes\nodd"
        assert "usr" in await said(shell, "ls / && sed --version | head -1 && id -u")


@pytest.mark.parametrize("home", ["/", "/usr/sbin", "/nonexistent/home"])
async def test_commands_run_whatever_the_home_folder_is(
    place: Ground, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    async with place.shell() as shell:
        assert (
            await said(shell, "echo x > ~/x && cat ~/x && ls /usr/sbin | head -1 | wc -l")
            == "x\n1\n"
        )


# ── without a sandbox ──


async def test_without_the_sandbox_a_command_may_do_what_the_user_may(place: Ground) -> None:
    """And still has none of the secrets, ends in time and takes its group with it."""
    async with anyio.create_task_group() as group:
        store = ResultStore(place.root, f"{OWN}/results")
        shell = Shell(place.root, Access(), store, group, sandbox=False)
        assert "outside-secret" in await said(shell, "cat ../outside/secret.txt")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOME_KEY", "sk-very-secret")
            assert "sk-very-secret" not in await said(shell, "env")
        ran = await shell.run("sleep 300 & sleep 301; echo no", 0.5)
        assert ran.why == "timeout"
        ended = await shell.run("sleep 300 & echo yes", 30)
        assert (ended.code, await shell.text(ended.output)) == (0, "yes\n")
    assert processes() == 0


# ── jobs ──


async def test_a_job_runs_on_while_others_do_and_its_output_can_be_read(place: Ground) -> None:
    async with place.shell() as shell:
        job = await shell.start("echo begun; until [ -e go ]; do sleep 0.05; done; echo over", None)
        await until(lambda: (place.root / job.path).read_text() == "begun\n")
        await shell.run("touch go", 30)
        with anyio.fail_after(30):
            await job.done.wait()
        assert job.ran is not None
        assert (job.ran.code, await shell.text(job.ran.output)) == (0, "begun\nover\n")


async def test_a_stopped_job_is_gone_and_what_it_printed_stays(place: Ground) -> None:
    async with place.shell() as shell:
        job = await shell.start("setsid sleep 300 & echo begun; sleep 300", None)
        await until(lambda: (place.root / job.path).read_text() == "begun\n")
        await shell.stop(job)
        assert job.ran is None
        assert (place.root / job.path).read_text() == "begun\n"
        assert processes() == 0


async def test_jobs_end_with_their_shell(place: Ground) -> None:
    async with place.shell() as shell:
        for _ in range(3):
            await shell.start("sleep 300 & sleep 300", None)
    assert processes() == 0


async def test_the_number_of_jobs_is_bounded(place: Ground) -> None:
    async with place.shell() as shell:
        for _ in range(16):
            await shell.start("sleep 300", None)
        with pytest.raises(ShellRefused, match="16 commands"):
            await shell.start("sleep 300", None)
        await shell.stop(shell.jobs[1])
        await shell.start("sleep 300", None)


async def test_a_command_is_a_child_of_the_event_loops_own_thread(place: Ground) -> None:
    """The sandbox dies with the thread that made it: that must not be one that comes and goes."""
    own = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    async with place.shell() as shell:
        await shell.start("sleep 300", None)
        await until(lambda: own.read_text().split())
        assert processes() > 0


# ── cancellation ──


def left_open() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def temporary(place: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    folder = place.outside / "temporary"
    folder.mkdir(mode=0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


async def test_of_100_commands_cancelled_in_the_middle_nothing_is_left(
    place: Ground, temporary: Path
) -> None:
    """No process, no descriptor, no temporary file, and no half output: counted."""
    command = "setsid sleep 300 & sleep 300 & touch started.$$.$RANDOM; echo printed; sleep 300"
    async with place.shell() as shell:
        await shell.run("true", 30)
        files, descriptors = sorted(place.root.rglob("*-bash.txt")), left_open()
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(shell.run, command, 300)
            await until(lambda: len(list(place.root.glob("started.*"))) >= 50)
            assert processes() > 000
            group.cancel_scope.cancel()
        assert processes() == 0
        assert left_open() == descriptors
        assert sorted(place.root.rglob("*-bash.txt")) == files
        assert os.listdir(temporary) == []


async def test_a_command_cancelled_before_it_begins_leaves_nothing(place: Ground) -> None:
    async with place.shell() as shell:
        await shell.run("true", 30)
        before = left_open()
        for seconds in (0, 0.001, 0.003, 0.01, 0.03):
            with anyio.move_on_after(seconds):
                await shell.run("sleep 300", None)
        assert (processes(), left_open()) == (0, before)


@pytest.mark.parametrize("sandbox", [True, False])
async def test_where_the_kernel_has_no_descriptors_of_processes_all_is_as_before(
    place: Ground, monkeypatch: pytest.MonkeyPatch, sandbox: bool
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with anyio.create_task_group() as group:
        store = ResultStore(place.root, f"{OWN}/results")
        shell = Shell(place.root, Access(), store, group, sandbox=sandbox)
        assert await said(shell, "sleep 300 & echo yes; exit 4") == "yes\n"
        assert (await shell.run("exit 4", 30)).code == 4
        assert (await shell.run("sleep 300", 0.3)).why == "timeout"
        with anyio.move_on_after(0.3):
            await shell.run("sleep 300 & sleep 300", None)
    await until(lambda: processes() == 0)


# ── where the sandbox is missing ──


async def test_without_bubblewrap_a_command_is_refused_in_one_sentence_with_the_fix(
    place: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place.root))
    async with place.shell() as shell:
        with pytest.raises(ShellRefused) as refused:
            await shell.run("touch ran", 30)
    said = str(refused.value)
    assert "apt-get install bubblewrap" in said
    assert "--no-sandbox" in said
    assert "\n" not in said
    assert not (place.root / "ran").exists()


async def test_where_bubblewrap_does_not_work_its_reason_is_given(
    place: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = place.root / "programs"
    programs.mkdir()
    fake = programs / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    async with place.shell() as shell:
        with pytest.raises(
            ShellRefused, match=r"No permissions .*seccomp=unconfined.*--no-sandbox"
        ):
            await shell.run("true", 30)


async def test_a_folder_that_cannot_be_guarded_is_refused(place: Ground) -> None:
    (place.root / ".outrider").rename(place.root / "elsewhere")
    (place.root / ".outrider").symlink_to("elsewhere")
    async with place.shell() as shell:
        with pytest.raises(ShellRefused, match="symbolic link"):
            await shell.run("true", 30)


async def test_commands_that_begin_together_are_counted_together(place: Ground) -> None:
    """No more of them are in the background than may be, though all ask before the first has begun."""
    refused: list[str] = []
    async with place.shell() as shell:

        async def start() -> None:
            try:
                await shell.start("sleep 60", None)
            except ShellRefused as error:
                refused.append(str(error))

        async with anyio.create_task_group() as group:
            for _ in range(MOST_JOBS + 4):
                group.start_soon(start)
        assert len(shell.jobs) == MOST_JOBS
        assert [job.number for job in shell.jobs.values()] == list(range(1, MOST_JOBS + 1))
        assert refused == ["16 commands are in the background already: end one first"] * 4
