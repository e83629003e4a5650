"""Escape attempts: each is first shown to succeed without the guard, then to fail with it; as root
and as an ordinary user."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.needs import needs
from tests.shells import (
    OWN,
    SECRET,
    SIBLING,
    Ground,
    _known_processes,
    ground,
    needs_sandbox,
    processes,
)
from workspace import Access, Bounds, Rule
from workspace.shell import cgroups, sandbox

__all__ = ["_known_processes"]
pytestmark = [pytest.mark.anyio, needs_sandbox]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what the sandbox allows does not depend on it; test_shell_commands has both


@pytest.fixture(params=["root", "ordinary"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with ground(request.param, monkeypatch) as found:
        yield found


@dataclass(frozen=True)
class Attempt:
    """A command, and how one sees that it got through: by what it printed, and what is on disk.
    ``says``: what it prints where it ran as it is meant to, with the guard and without."""

    name: str
    command: str
    got_through: Callable[[str, Ground], bool]
    says: tuple[str, ...] = ()


def printed(text: str) -> Callable[[str, Ground], bool]:
    return lambda output, place: text in output


def changed(path: str, before: str | None = "as it was\n") -> Callable[[str, Ground], bool]:
    def look(output: str, place: Ground) -> bool:
        file = place.root / path
        return (file.read_text() if file.exists() else None) != before

    return look


# A reader and a writer that look where a path leads before they use it: they refuse a link that stands
# there, so only what comes between the look and the use gets past them.
CAREFUL = """
rm -rf door way kept over; mkdir door; echo harmless > door/secret.txt; ln -s ../outside way
inside() { case "$(realpath -m "$1")" in "$(pwd -P)"/*) ;; *) return 1 ;; esac; }
inside way/secret.txt || echo a standing link is refused
put_link() { mv -T door kept && mv -T way door; }
put_folder() { mv -T door way && mv -T kept door; }
"""
# In between, for certain.
SWAP = f"{CAREFUL} inside door/secret.txt && put_link && cat door/secret.txt"
SWAP_WRITING = f"{CAREFUL} inside door/new.txt && put_link && echo planted > door/new.txt"


def racing(attempt: str) -> str:
    """By a process of its own, whenever it comes to it. The bound is in tries: most win within ten,
    and pauses of chance keep the two from falling into step."""
    pause = "for ((i = RANDOM % 2000; i--;)); do :; done"
    flipping = f"( until [ -e over ]; do put_link; {pause}; put_folder; done ) 2>/dev/null &"
    trying = f"for try in $(seq ${{TRIES:-200}}); do {attempt}; done 2>/dev/null"
    return f"{CAREFUL} {flipping} {trying}; touch over; wait; echo tried $try times"


RACE = racing("inside door/secret.txt && cat door/secret.txt | grep outside-secret && break")
RACE_WRITING = racing(
    "inside door/new.txt && echo planted > door/new.txt; [ -e ../outside/new.txt ] && break"
)
REFUSED = ("a standing link is refused",)
TRIED = (*REFUSED, "tried ")


def planted_outside(output: str, place: Ground) -> bool:
    return (place.outside / "new.txt").exists()


ATTEMPTS = (
    Attempt("dotdot", "cat ../outside/secret.txt", printed("outside-secret")),
    Attempt("absolute path", 'cat "$PWD"/../outside/secret.txt', printed("outside-secret")),
    Attempt("symbolic link", "ln -s ../outside way; cat way/secret.txt", printed("outside-secret")),
    Attempt("link after the check", SWAP, printed("outside-secret"), REFUSED),
    Attempt("link after the check, writing", SWAP_WRITING, planted_outside, REFUSED),
    Attempt("symlink race", RACE, printed("outside-secret"), TRIED),
    Attempt("symlink race, writing", RACE_WRITING, planted_outside, TRIED),
    Attempt("write outside", "echo planted > ../outside/new.txt", planted_outside),
    Attempt(
        "journal",
        f"echo x >> {Path(OWN).parents[1]}/journal.db",
        changed(".outrider/runs/R/journal.db"),
    ),
    Attempt(
        "definition",
        "echo x > .outrider/agents/reviewer.md",
        changed(".outrider/agents/reviewer.md"),
    ),
    Attempt(
        "new definition",
        "echo x > .outrider/agents/evil.md",
        changed(".outrider/agents/evil.md", None),
    ),
    Attempt(
        "configuration",
        "echo 'base_url = \"http://evil\"' > .outrider/config.toml",
        changed(".outrider/config.toml", 'model = "rehearsal"\n'),
    ),
    Attempt(
        "own results",
        f"echo x > {OWN}/results/0001-own.txt",
        changed(f"{OWN}/results/0001-own.txt", "own result\n"),
    ),
    Attempt(
        "moving the folder away",
        "mv .outrider elsewhere && cp -r elsewhere .outrider && echo x > .outrider/config.toml",
        changed(".outrider/config.toml", 'model = "rehearsal"\n'),
    ),
    Attempt("deleting the folder", "rm -rf .outrider", changed(".outrider/runs/R/journal.db")),
    Attempt("sibling's results", f"cat {SIBLING}/results/*", printed("sibling's result")),
    Attempt("sibling's names", "ls -R .outrider", printed("0001-sibling.txt")),
    Attempt(
        "child's history",
        "cat .outrider/runs/R/agents/child/history.md",
        printed("child's history"),
    ),
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
async def test_an_attempt_on_files_succeeds_without_the_guard_and_fails_with_it(
    place: Ground, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.shell() as shell:
        ran = await shell.run(attempt.command, 60)
        guarded = await shell.text(ran.output)
        assert not attempt.got_through(guarded, place)
    plain = place.plainly(attempt.command, environ={"TRIES": "5000"})
    assert attempt.got_through(plain, place)
    assert all(text in output for text in attempt.says for output in (guarded, plain))


async def test_an_agent_sees_its_own_results_and_its_childrens(place: Ground) -> None:
    """L8: and the workspace at its real path, which it can write."""
    async with place.shell() as shell:
        ran = await shell.run(
            "cat .outrider/runs/R/agents/own/results/0001-own.txt "
            ".outrider/runs/R/agents/child/results/*; pwd; echo new > made.txt",
            30,
        )
        text = await shell.text(ran.output)
    assert "own result\nchild's result\n" in text
    assert str(place.root) in text
    assert (place.root / "made.txt").read_text() == "new\n"


# ── names that are not there, and must not come to be ──

GUARDED = ((".claude", "agents"), (".claude", "settings.json"), (".mcp.json",), ("team",))
GOVERNING = Access(deny_write=tuple(Rule("/".join(p)) for p in GUARDED), guarded=GUARDED)


def stands(path: str) -> Callable[[str, Ground], bool]:
    return lambda output, place: os.path.lexists(place.root / path)


PLANTED = (
    Attempt("a file", "echo '{}' > .mcp.json", stands(".mcp.json")),
    Attempt("a folder", "mkdir -p .claude/agents; echo x > .claude/agents/x.md", stands(".claude/agents")),
    Attempt("a file in a folder that was not there", "mkdir .claude; echo '{}' > .claude/settings.json", stands(".claude/settings.json")),
    Attempt("a link", "echo '{}' > plain; ln -s plain .mcp.json", stands(".mcp.json")),
    Attempt("a link on the way", "mkdir -p x/agents; ln -s x .claude", stands(".claude/agents")),
    Attempt("a broken link", "ln -s nowhere team", stands("team")),
    Attempt("closed to its owner", "mkdir -p .claude/agents; chmod 0 .claude/agents .claude", stands(".claude")),
    Attempt("a fifo", "mkfifo .mcp.json", stands(".mcp.json")),
)  # fmt: skip


def all_names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("attempt", PLANTED, ids=lambda attempt: attempt.name)
async def test_what_must_not_come_to_be_is_gone_when_the_command_has_ended(
    place: Ground, attempt: Attempt
) -> None:
    """Nothing of it stands there, nothing was put there to hold the place, and nothing is lost."""
    async with place.shell(GOVERNING) as shell:
        ran = await shell.run(f"{attempt.command}; touch other", 30)
    kept = [place.root / taken.kept for taken in ran.taken]
    assert not any(stands("/".join(parts))("", place) for parts in GUARDED)
    assert len(kept) == 1
    assert stands(ran.taken[0].kept)("", place)
    assert Path(OWN) / "taken" == kept[0].parent.relative_to(place.root)
    assert "was taken away: no command may make it" in ran.hints[0]
    assert (place.root / "other").exists()
    place.plainly(f"rm -rf .claude; {attempt.command}")
    assert attempt.got_through("", place)
    place.plainly("chmod -R u+rwx .")


async def test_a_command_that_makes_nothing_there_leaves_no_name_behind(place: Ground) -> None:
    before = all_names(place.root)
    async with place.shell(GOVERNING) as shell:
        ran = await shell.run("ls -A; true", 30)
        assert (await shell.text(ran.output)).split() == sorted(
            name for name in before if "/" not in name
        )
        await shell.forget(ran.output)
    assert (ran.taken, ran.hints) == ((), ())
    assert all_names(place.root) == before


async def test_a_name_that_a_first_command_hides_is_not_there_for_a_second_one(
    place: Ground,
) -> None:
    """Nor for one that begins while another, in the background, has just made it."""
    async with place.shell(GOVERNING) as shell:
        await shell.run(
            "mkdir -p .claude/agents; echo x > .claude/agents/x.md; chmod 0 .claude", 30
        )
        await shell.run("chmod 755 .claude", 30)
        assert not (place.root / ".claude/agents").exists()
        job = await shell.start("echo '{}' > .mcp.json; echo made; sleep 300", None)
        with anyio.fail_after(60):
            while not (place.root / ".mcp.json").exists():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        ran = await shell.run("echo evil > .mcp.json", 30)
        assert ran.code != 0
        await shell.stop(job)
    assert not (place.root / ".mcp.json").exists()


async def test_it_is_gone_too_when_the_command_is_cancelled_or_ended(place: Ground) -> None:
    make = "echo '{}' > .mcp.json; echo x > team; sleep 300"
    async with place.shell(GOVERNING) as shell:
        ran = await shell.run(make, 2)
        assert ran.why == "timeout"
        assert len(ran.taken) == 2
        async with anyio.create_task_group() as group:
            group.start_soon(shell.run, make, 300)
            with anyio.fail_after(60):
                while not (place.root / "team").exists():  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
    assert not any(place.root.joinpath(*parts).exists() for parts in GUARDED)


async def test_a_link_does_not_decide_what_is_taken_away(place: Ground) -> None:
    """It goes itself, and what it leads to stays: another program's folder, outside."""
    other = place.outside / "agents"
    other.mkdir()
    (other / "theirs.md").write_text("theirs")
    async with place.shell(GOVERNING) as shell:
        ran = await shell.run("ln -s ../outside .claude; ls .claude/agents", 30)
    assert [t.parts for t in ran.taken] == [(".claude",)]
    assert (other / "theirs.md").read_text() == "theirs"
    assert not stands(".claude")("", place)


REPLACED = ("rm .claude; mkdir -p .claude/agents", "ln -sfn locked .claude", "rm .claude")


@pytest.mark.parametrize("command", REPLACED)
async def test_a_link_of_the_users_is_put_back(place: Ground, command: str) -> None:
    os.symlink("conf", place.root / ".claude")
    if place.become:
        os.chown(place.root / ".claude", 65534, 65534, follow_symlinks=False)
    async with place.shell(GOVERNING) as shell:
        await shell.run(command, 30)
    assert os.readlink(place.root / ".claude") == "conf"
    place.plainly(command)
    assert (
        not (place.root / ".claude").is_symlink() or os.readlink(place.root / ".claude") != "conf"
    )


async def test_a_rule_that_lets_a_place_be_written_lets_a_command_make_it(place: Ground) -> None:
    async with place.shell(Access(guarded=GUARDED)) as shell:
        ran = await shell.run("echo '{}' > .mcp.json", 30)
    assert ran.taken == ()
    assert (place.root / ".mcp.json").exists()


# ── rules about paths ──

RULES = Access(
    deny_read=(Rule(".env"), Rule("/conf/keys/id"), Rule("vault/")),
    deny_write=(Rule("/locked/**"),),
)

PASSED_BY_RULES = (
    Attempt("a denied file", "cat .env", printed("denied-secret")),
    Attempt("through a link", "ln -s .env plain; cat plain", printed("denied-secret")),
    Attempt("through a hard link", "ln .env hard; cat hard", printed("denied-secret")),
    Attempt("copied", "cp .env copy; cat copy", printed("denied-secret")),
    Attempt("renamed", "mv .env plain && cat plain", printed("denied-secret")),
    Attempt("a write", "echo x > locked/rules.txt", changed("locked/rules.txt")),
    Attempt("a new file", "echo x > locked/new.txt", changed("locked/new.txt", None)),
    Attempt("a delete", "rm -rf locked", changed("locked/rules.txt")),
    Attempt("overwriting", "echo x > .env", changed(".env", "KEY=denied-secret\n")),
)


@pytest.mark.parametrize("attempt", PASSED_BY_RULES, ids=lambda attempt: attempt.name)
async def test_deny_rules_hold_for_commands_too(place: Ground, attempt: Attempt) -> None:
    async with place.shell(RULES) as shell:
        ran = await shell.run(attempt.command, 30)
        assert not attempt.got_through(await shell.text(ran.output), place)
    assert attempt.got_through(place.plainly(attempt.command), place)


async def test_a_folder_cannot_be_renamed_to_pass_a_rule_in_the_next_command(place: Ground) -> None:
    renaming, reading = "mv conf other", "cat other/keys/id"
    async with place.shell(RULES) as shell:
        await shell.run(renaming, 30)
        ran = await shell.run(reading, 30)
        assert "denied-secret" not in await shell.text(ran.output)
        writing = await shell.run("touch conf/new conf/keys/new; ls conf conf/keys", 30)
        assert (await shell.text(writing.output)).count("new") == 2
    assert "denied-secret" in place.plainly(f"{renaming}; {reading}")


async def test_what_a_rule_hides_says_so(place: Ground) -> None:
    async with place.shell(RULES) as shell:
        hidden = await shell.run("cat .env", 30)
        locked = await shell.run("touch locked/x", 30)
    assert hidden.hints == ("what a read(…) rule denies cannot be opened here",)
    assert len(locked.hints) == 1
    assert "write(…) rule denies" in locked.hints[0]


# ── secrets, processes of others, network ──


@pytest.fixture
def neighbour(place: Ground) -> Iterator[int]:
    """A process of the same user that has a secret in its environment."""
    process = subprocess.Popen(
        [*place.become, "sleep", "300"], env={**os.environ, "NEIGHBOUR_KEY": SECRET}
    )
    try:
        while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:6]:
            time.sleep(0.01)
        yield process.pid
    finally:
        process.kill()
        process.wait()


OWN_SECRETS = "env; cat /proc/self/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n'"
OTHERS_SECRETS = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^NEIGHBOUR_KEY"


async def test_secrets_of_the_environment_are_not_there(
    place: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("SOME_PASSWORD", SECRET)
    async with place.shell(network=True) as shell:
        ran = await shell.run(OWN_SECRETS, 30)
        text = await shell.text(ran.output)
    assert SECRET not in text
    assert "PATH=" in text
    assert SECRET in place.plainly(OWN_SECRETS)


async def test_other_processes_cannot_be_looked_into(place: Ground, neighbour: int) -> None:
    looks = (
        OTHERS_SECRETS,
        f"cat /proc/{neighbour}/root{place.outside}/secret.txt",
    )
    for look in looks:
        async with place.shell() as shell:
            ran = await shell.run(look, 30)
            text = await shell.text(ran.output)
        got = place.plainly(look)
        assert (SECRET in got) or ("outside-secret" in got)
        assert SECRET not in text
        assert "outside-secret" not in text


async def test_other_processes_cannot_be_ended(place: Ground, neighbour: int) -> None:
    async with place.shell() as shell:
        await shell.run(f"kill -9 {neighbour}; kill -9 -1", 30)
    os.kill(neighbour, 0)
    assert _state(neighbour) == "S"
    place.plainly(f"kill -9 {neighbour}")
    assert _until(lambda: _state(neighbour) != "S")


@contextmanager
def answering() -> Iterator[int]:
    """A port of this machine that answers ``hello``."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=partial(_answer, listening), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def server() -> Iterator[int]:
    with answering() as port:
        yield port


CONNECT = "timeout 5 cat < /dev/tcp/127.0.0.1/{port}"


def _answer(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"hello\n")


async def test_the_network_is_off_unless_it_is_allowed(place: Ground, server: int) -> None:
    connect = CONNECT.format(port=server)
    async with place.shell() as shell:
        ran = await shell.run(connect, 30)
        assert "hello" not in await shell.text(ran.output)
        named = await shell.run("getent hosts example.org || echo could not resolve; exit 1", 30)
    async with place.shell(network=True) as shell:
        allowed = await shell.run(connect, 30)
        assert "hello" in await shell.text(allowed.output)
    assert "hello" in place.plainly(connect)
    assert "--network" in named.hints[0]


# ── bounds ──


def without_groups(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("workspace.shell.cgroups.make", lambda *_: None)


_trial = cgroups.make(Bounds(), 1 << 30)
needs_groups = needs("groups", "no control group can be made here" if _trial is None else None)
if _trial is not None:
    _trial.remove()


# Not bash: it waits long before it gives up starting a process.
MANY_PROCESSES = "sh -c 'for i in $(seq 300); do sleep 20 & done; sleep 20'"


@pytest.mark.parametrize("by_group", [pytest.param(True, marks=needs_groups), pytest.param(False)])
async def test_processes_are_bounded(
    place: Ground, by_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a control group; without one by the user's limit, and for root by looking."""
    if not by_group:
        without_groups(monkeypatch)
    counted = "for i in $(seq 300); do sleep 60 & done; jobs -r | wc -l; kill $(jobs -p)"
    async with place.shell(bounds=Bounds(processes=60)) as shell:
        ran = await shell.run(MANY_PROCESSES, 30)
        text = await shell.text(ran.output)
    is_watched = not by_group and place.is_root
    assert ran.why == ("processes" if is_watched else None)
    assert is_watched or "fork" in text
    assert ran.seconds < 20
    assert "300" in place.plainly(counted)


def groups_left() -> list[Path]:
    places = (Path(place.folder) for place in cgroups._places_here())
    return [left for place in places for left in place.glob(f"outrider-{os.getpid()}-*")]


ENDLESS_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"
# Twice as many with each step, and no more than 255 in all: one that can be let go without the guard.
BOUNDED_BOMB = (
    "bomb() { [ $1 = 0 ] && exec sleep 60; bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; bomb 7"
)


@needs_groups
@pytest.mark.parametrize("bomb", [ENDLESS_BOMB, BOUNDED_BOMB], ids=["endless", "bounded"])
async def test_a_fork_bomb_does_not_grow_beyond_its_group_and_is_ended(
    place: Ground, bomb: str
) -> None:
    most = 0
    async with place.shell(bounds=Bounds(processes=60)) as shell:
        job = await shell.start(bomb, 2)
        with anyio.fail_after(60):
            while not job.done.is_set():
                most = max(most, processes())
                await anyio.sleep(0.05)
    assert 1 < most <= 70
    assert processes() == 0
    assert groups_left() == []


def test_without_the_guard_the_bounded_bomb_has_all_its_processes(place: Ground) -> None:
    with unguarded(place, BOUNDED_BOMB):
        assert _until(lambda: processes() >= 250)
    assert _until(lambda: processes() == 0)


@contextmanager
def unguarded(place: Ground, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs as that user, and is ended with its whole group."""
    with subprocess.Popen(
        [*place.become, "bash", "-c", command],
        cwd=place.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def test_a_single_process_cannot_have_more_memory_than_the_bound(place: Ground) -> None:
    take = "head -c 300000000 /dev/zero | tail | wc -c"
    async with place.shell(bounds=Bounds(memory=100_000_000)) as shell:
        ran = await shell.run(take, 30)
        text = await shell.text(ran.output)
    assert "300000000" not in text
    assert ran.why == "memory" or "memory" in text
    assert "300000000" in place.plainly(take)


async def test_processes_together_cannot_have_more_memory_than_the_bound(place: Ground) -> None:
    """Each of them within it, and none of them ends before all hold what they took."""
    take = (
        "for i in 1 2 3 4 5 6; do (x=$(head -c 40000000 /dev/zero | tr '\\0' x); echo >> held; "
        "until [ $(wc -l < held) = 6 ]; do sleep 0.1; done; echo all hold) & done; wait"
    )
    async with place.shell(bounds=Bounds(memory=150_000_000)) as shell:
        ran = await shell.run(take, 40)
        assert "all hold" not in await shell.text(ran.output)
    assert ran.why == "memory"
    assert place.plainly(f"rm -f held; {take}").count("all hold") == 6


def leaving(length: str) -> str:
    return f"setsid sleep {length} & (setsid setsid sleep {length} &) ; echo started"


async def test_a_process_that_left_the_session_is_ended_too(place: Ground) -> None:
    length = f"{300 + os.getpid() % 1000}.{time.monotonic_ns() % 1_000_000}"
    leave = leaving(length)
    async with place.shell() as shell:
        ran = await shell.run(leave, 30)
        assert "started" in await shell.text(ran.output)
        assert not running(length)
    # The output is left behind: it would hold the pipe open.
    place.plainly(f"({leave}) >/dev/null 2>&1")
    assert _until(lambda: len(running(length)) == 2)
    for pid in running(length):
        os.kill(pid, 9)


# What a namespace of one's own lets a command do, unless its capabilities are dropped and it can make no
# other; and what root may do on the machine. None of them changes anything that stays.
BY_ROOT_THERE = ("mount -o remount,rw .outrider", "mount -t tmpfs none /tmp")
BY_NAMESPACES = (
    "unshare --user --map-root-user --mount true",
    "unshare --user --map-root-user --mount mount -t tmpfs none /tmp",
)
KERNEL = ("kernel/core_pattern", "kernel/pid_max", "vm/swappiness", "vm/overcommit_memory")
BY_ROOT = (
    "mknod ../device c 1 3 && rm ../device",
    *(f"v=$(cat /proc/sys/{name}); echo $v > /proc/sys/{name}" for name in KERNEL),
    ": >> /usr/bin/env",
    "mkdir /made-by-a-test && rmdir /made-by-a-test",
    "cat /etc/shadow >/dev/null",
)


def passing(attempts: Sequence[str]) -> str:
    return "; ".join(f"({attempt}) 2>/dev/null && echo '{attempt}'" for attempt in attempts)


async def passed(place: Ground, attempts: Sequence[str]) -> list[str]:
    """Each in a sandbox of its own, since one may undo what another tries."""
    found = []
    async with place.shell() as shell:
        for attempt in attempts:
            ran = await shell.run(passing([attempt]), 30)
            found += (await shell.text(ran.output)).splitlines()
    return found


def let_capabilities_be(patch: pytest.MonkeyPatch) -> None:
    """The same sandbox without what takes capabilities away."""

    def isolation(view: sandbox.View) -> Iterator[str]:
        words = list(guarded(view))
        words.remove("--disable-userns")
        words[words.index("--cap-drop")] = "--cap-add"
        yield from words

    guarded = sandbox._isolation
    patch.setattr(sandbox, "_isolation", isolation)


async def test_nothing_can_be_mounted_or_unmounted(
    place: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace of one's own brings every capability with it, unless they are dropped. Without the
    guard an ordinary user needs another namespace for it: `mount` itself refuses."""
    attempts = [*BY_ROOT_THERE, *BY_NAMESPACES]
    assert await passed(place, attempts) == []
    let_capabilities_be(monkeypatch)
    assert await passed(place, attempts) == attempts[0 if place.is_root else len(BY_ROOT_THERE) :]


SETTINGS = "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null"


async def test_nothing_of_the_kernels_settings_can_be_written(place: Ground) -> None:
    """They belong to root, who needs no capability there, and the machine has them only once."""
    async with place.shell() as shell:
        ran = await shell.run(SETTINGS, 60)
        assert await shell.text(ran.output) == ""
    assert ("/proc/sys/kernel/core_pattern" in place.plainly(SETTINGS)) == place.is_root


async def test_what_root_may_do_on_the_machine_a_command_may_not(place: Ground) -> None:
    """What an ordinary user may not do without the guard either is the system's own."""
    assert await passed(place, BY_ROOT) == []
    assert place.plainly(passing(BY_ROOT)).splitlines() == ([*BY_ROOT] if place.is_root else [])


async def test_a_command_that_will_not_end_is_ended(place: Ground) -> None:
    """Without the guard it goes on after each of these signals."""
    stubborn = "trap '' TERM INT HUP; while :; do echo on; sleep 0.1; done"
    async with place.shell() as shell:
        with anyio.fail_after(30):
            ran = await shell.run(stubborn, 0.5)
        text = await shell.text(ran.output)
    assert (ran.why, {*text.split()}) == ("timeout", {"on"})
    assert processes() == 0
    with unguarded(place, stubborn) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.killpg(process.pid, number)
            # One may be printed already, the second comes afterwards.
            assert {process.stdout.readline() for _ in range(3)} == {b"on\n"}
        assert process.poll() is None


def running(length: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", length.encode()]:
                found.append(int(name))
    return found


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()
