"""Whether the sandbox works on this machine: found out by trying it, once."""

import shutil
import subprocess
import sys
from functools import lru_cache

from workspace.errors import ShellRefused

PROGRAM = "bwrap"
_TRIAL_SECONDS = 10.0
_TRIAL = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
    *("--disable-userns", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--dev", "/dev", "--size", "1048576", "--tmpfs", "/tmp"),
    *("--perms", "0000", "--tmpfs", "/tmp/x", "--remount-ro", "/tmp/x", "true"),
)
_OTHERWISE = "or allow commands without a sandbox with --no-sandbox"


def why_no_sandbox() -> str | None:
    """One sentence that says why commands cannot be run in a sandbox here and what to do; `None`
    where they can. Blocks for some milliseconds the first time."""
    return _why(shutil.which(PROGRAM))


@lru_cache(maxsize=8)
def _why(program: str | None) -> str | None:
    if sys.platform != "linux":
        return f"the shell's sandbox (bubblewrap) exists on Linux only: work there, {_OTHERWISE}"
    if program is None:
        return (
            "the shell needs a sandbox and bubblewrap is not installed: install it "
            f"(apt-get install bubblewrap; dnf install bubblewrap), {_OTHERWISE}"
        )
    failure = _try(program)
    if failure is None:
        return None
    return (
        f"the shell needs a sandbox and bubblewrap does not work here ({failure}): {_fix(failure)}, "
        f"{_OTHERWISE}"
    )


def _try(program: str) -> str | None:
    try:
        tried = subprocess.run(
            [program, *_TRIAL],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    return said[-1].removeprefix("bwrap: ")[:200] if said else f"exit code {tried.returncode}"


def _fix(failure: str) -> str:
    if "nknown option" in failure:
        return "install bubblewrap 0.8 or newer"
    return (
        "let this user make namespaces (in a container: --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined --security-opt systempaths=unconfined; on a machine: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )


def check_sandbox() -> None:
    """Raises `ShellRefused` where commands cannot be run in a sandbox."""
    if (why := why_no_sandbox()) is not None:
        raise ShellRefused(why)
