"""What a command in the sandbox sees, and the arguments for bubblewrap that make it so. Pure.

Nothing is there but what is named here: system folders and programs to read, the workspace at its
real path, a `/tmp` and a home folder of the command's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from workspace.access import PRIVATE
from workspace.shell.bounds import Bounds

MountKind = Literal["pin", "read_only", "hidden_folder", "hidden_file"]
_SHM_BYTES = 64 * 1024 * 1024
# Before the command, which cannot take them off again: raising a hard limit needs a capability that
# nothing here has. The score makes the kernel choose the sandbox, not its surroundings, when the
# machine runs out of memory.
_BEGINNING = """\
ulimit -c 0
{processes}ulimit -d {kibibytes} 2>/dev/null
echo 1000 2>/dev/null >/proc/self/oom_score_adj
exec {shell} -c "$1"
"""


@dataclass(frozen=True)
class Mount:
    """Something in the workspace that a command sees otherwise than it is.

    `pin`: as it is, but its name cannot be changed, so that a rule about what is in it holds also
    for the next command. A folder's mount stands before those of what is in it.
    """

    kind: MountKind
    path: str


@dataclass(frozen=True)
class View:
    """The file system of a command. All paths are absolute and exist.

    `system`: folders to read, at their own places; `links`: (target, path) of links such as `/bin`;
    `secrets`: files of the system that are hidden; `kernel`: what of `/proc` is the machine's, to read;
    `tools`: folders of programs elsewhere. `readable`: what is shown of Outrider's folder.
    """

    root: str
    home: str
    system: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    secrets: Sequence[Mount] = ()
    kernel: Sequence[str] = ()
    tools: Sequence[str] = ()
    readable: Sequence[str] = ()
    mounts: Sequence[Mount] = ()
    is_read_only: bool = False
    network: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


def arguments(view: View, bounds: Bounds) -> list[str]:
    """bubblewrap's arguments up to the command."""
    return [
        *_isolation(view),
        *_system(view),
        *_own_places(view, bounds),
        # They may be in the home folder, and the workspace anywhere.
        *_shown(view.tools),
        *_workspace(view),
        "--remount-ro",
        "/",
        "--chdir",
        view.root,
    ]


def beginning(shell: str, command: str, processes: int | None, memory: int) -> list[str]:
    """The program that sets the limits of a command, and then is the command. `processes`: `None`
    where the kernel would count those outside the sandbox too."""
    limit = "" if processes is None else f"ulimit -u {processes} 2>/dev/null\n"
    script = _BEGINNING.format(processes=limit, kibibytes=memory // 1024, shell=shell)
    return [shell, "-c", script, "bash", command]


def _isolation(view: View) -> Iterable[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session")
    # In a namespace of its own root would keep every capability, and could unmount what hides.
    yield from ("--cap-drop", "ALL")
    if not view.network:
        yield "--unshare-net"
    yield "--clearenv"
    for name, value in view.environment.items():
        yield from ("--setenv", name, value)


def _system(view: View) -> Iterable[str]:
    yield from _shown(view.system)
    for target, path in view.links:
        yield from ("--symlink", target, path)
    yield from _mounted(view.secrets)


def _own_places(view: View, bounds: Bounds) -> Iterable[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    # Their owner can write there without any capability, and most are not of the sandbox alone.
    yield from _shown(view.kernel)
    yield from ("--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
    for path in ("/tmp", view.home):
        yield from ("--size", str(bounds.scratch), "--tmpfs", path)
    yield from ("--symlink", "/tmp", "/var/tmp")


def _workspace(view: View) -> Iterable[str]:
    yield from ("--ro-bind" if view.is_read_only else "--bind", view.root, view.root)
    yield from _mounted(view.mounts)
    private = f"{view.root}/{PRIVATE}"
    yield from ("--tmpfs", private)
    yield from _shown(view.readable)
    yield from ("--remount-ro", private)


def _shown(paths: Iterable[str]) -> Iterable[str]:
    for path in paths:
        yield from ("--ro-bind", path, path)


def _mounted(mounts: Iterable[Mount]) -> Iterable[str]:
    for mount in mounts:
        path = mount.path
        match mount.kind:
            case "pin":
                yield from ("--bind", path, path)
            case "read_only":
                yield from ("--ro-bind", path, path)
            case "hidden_folder":
                yield from ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
            case "hidden_file":
                # Mounted without devices: opening it is refused, which says more than emptiness.
                yield from ("--ro-bind", "/dev/null", path)
