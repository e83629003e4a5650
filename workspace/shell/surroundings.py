"""What is there on this machine for a sandbox to show: system folders, programs, a shell."""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from workspace.access import PRIVATE, Access
from workspace.errors import ShellRefused
from workspace.shell.environment import scrubbed
from workspace.shell.masks import masks
from workspace.shell.sandbox import Mount, View

# Programs and what they read. What is in none of these, nor a home of tools, is not there at all.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/gnu/store"),
)
# Tools that people install for themselves, in their home folder. None of them keeps keys.
_TOOLS = (
    *(".pyenv", ".nvm", ".rustup", ".cargo/bin", ".asdf", ".rbenv", ".volta", ".deno", ".bun/bin"),
    *(".sdkman/candidates", ".local/bin", ".local/lib", ".local/share/mise", "go/bin"),
    *(".local/share/uv/python", ".local/share/uv/tools", ".local/share/pnpm", "miniconda3"),
    *("anaconda3", "miniforge3"),
)
_SHARED_TOOLS = ("/home/linuxbrew/.linuxbrew",)


def view_of(
    root: Path, access: Access, environ: Mapping[str, str], *, network: bool
) -> tuple[View, int]:
    """What a command in `root` sees, and how many names in it the rules hide. Blocks.

    Raises `ShellRefused` where that cannot be kept.
    """
    place = str(root)
    environment = scrubbed(environ, network=network)
    home = environment["HOME"] = _home(environment["HOME"])
    _check(place)
    is_read_only, mounts = masks(place, access)
    links, system = _system(network)
    view = View(
        root=place,
        home=home,
        system=system,
        links=links,
        secrets=_closed_to_others("/etc") if os.geteuid() == 0 else (),
        kernel=_of_the_machine(),
        tools=_tools(home, environment["PATH"].split(":"), place),
        readable=sorted(_readable(root, access)),
        mounts=mounts,
        is_read_only=is_read_only,
        network=network,
        environment=environment,
    )
    return view, sum(mount.kind.startswith("hidden") for mount in mounts)


def shell_program() -> str:
    """The shell that commands are for. Raises `ShellRefused` where there is none."""
    found = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or shutil.which("sh")
    if found is None:
        raise ShellRefused("there is no shell here: install bash")
    return found


def counts_by_namespace(release: str | None = None) -> bool:
    """Whether `RLIMIT_NPROC` counts the processes of a sandbox alone: from Linux 5.14 on. Before, all
    that the user has anywhere count, and a desktop has more than a command may."""
    numbers = re.match(r"(\d+)\.(\d+)", release or os.uname().release)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (5, 14)


def _home(given: str) -> str:
    """Where an empty home folder can be: it must not take the place of the system's folders."""
    home = os.path.realpath(given) if os.path.isabs(given) else "/"
    no_place = home == "/" or _is_below(home, (*_SYSTEM, "/proc", "/dev"))
    return "/tmp" if no_place else home


def _check(root: str) -> None:
    if root == "/":
        raise ShellRefused("the workspace is the whole file system: choose a folder with --root")
    if os.path.islink(f"{root}/{PRIVATE}"):
        raise ShellRefused(f"{PRIVATE} is a symbolic link, which a sandbox cannot guard: move it")
    for taken in ("/proc", "/dev", "/sys"):
        if _is_below(root, (taken,)):
            raise ShellRefused(f"{taken} is no place for a workspace")


def _system(network: bool) -> tuple[list[tuple[str, str]], list[str]]:
    links, folders = [], []
    for path in _SYSTEM:
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            folders.append(path)
    # Which server to ask for names; often /etc only points to it.
    resolver = os.path.realpath("/etc/resolv.conf")
    if network and os.path.isfile(resolver) and not _is_below(resolver, _SYSTEM):
        folders.append(resolver)
    return links, folders


@lru_cache(maxsize=1)
def _closed_to_others(folder: str) -> tuple[Mount, ...]:
    """What only root and its groups may read there: as root a command could. Looked up once."""
    found: list[Mount] = []
    for place, folders, files in os.walk(folder):
        closed = [name for name in folders if _lacks(place, name, stat.S_IXOTH)]
        folders[:] = [name for name in folders if name not in closed]
        found += [Mount("hidden_folder", f"{place}/{name}") for name in closed]
        found += [
            Mount("hidden_file", f"{place}/{name}")
            for name in files
            if _lacks(place, name, stat.S_IROTH)
        ]
    return tuple(found)


@lru_cache(maxsize=1)
def _of_the_machine() -> tuple[str, ...]:
    """What is in `/proc` beside processes, and could be written: settings of the kernel."""
    found = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):
                mode = entry.stat(follow_symlinks=False).st_mode
                is_open = stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and mode & 0o222)
                if is_open and not entry.name.isdigit():
                    found.append(entry.path)
    return tuple(sorted(found))


def _lacks(folder: str, name: str, permission: int) -> bool:
    with suppress(OSError):
        mode = os.lstat(f"{folder}/{name}").st_mode
        return not stat.S_ISLNK(mode) and not mode & permission
    return False


def _tools(home: str, path: Iterable[str], root: str) -> list[str]:
    """Folders of programs outside the system's, without those that would show more than programs."""
    wanted = [*(f"{home}/{name}" for name in _TOOLS), *_SHARED_TOOLS]
    for folder in path:
        real = os.path.realpath(folder)
        wanted += [folder, real, *_environment_of(real)]
    shown: list[str] = []
    for folder in dict.fromkeys(wanted):
        if _is_shown(folder, home, root) and not _is_below(folder, (*_SYSTEM, *shown)):
            shown.append(folder)
    return shown


def _environment_of(folder: str) -> Iterator[str]:
    """A Python environment, and the Python that it was made from."""
    parent = os.path.dirname(folder)
    try:
        text = Path(parent, "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    yield parent
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            yield os.path.dirname(os.path.realpath(value.strip()))


def _is_shown(folder: str, home: str, root: str) -> bool:
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        return False
    # A folder that holds the home or the workspace holds more than programs.
    around = any(_is_below(path, (folder,)) for path in (home, root, "/tmp"))
    return not around and not _is_below(folder, (root, "/proc", "/dev"))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _readable(root: Path, access: Access) -> Iterator[str]:
    """What the agent may read of Outrider's own folder, as far as it is there."""
    for prefix in access.readable_private():
        path = root / prefix.strip("/")
        if path.exists() and not path.is_symlink():
            yield str(path)
