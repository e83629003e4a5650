"""``outrider`` as a process of its own, forked off one that has imported everything already.

Importing takes most of a short command's processor time. `WARM` is a command like
``python -m orchestrator``: a small process that hands its arguments, folder, environment and
standard streams to the one that waits here, passes signals on, dies as the real one dies, and takes
it along when it is killed. What is shown of start-up itself, of terminals and of process groups
needs ``python -m orchestrator``.

The process that waits is started by the first command that asks, once for each of pytest's own, and
ends with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

ADDRESS = "TESTS_WARM_SOCKET"
WARM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("warm_start.py")))
_LIBRARIES = (
    *("anthropic", "anyio._backends._asyncio", "filelock", "genai_prices.data", "platformdirs"),
    *("pydantic_settings", "rich.live", "structlog", "uvicorn.main"),
)
_MOST = 16 * 1024 * 1024


@contextmanager
def waiting() -> Iterator[None]:
    """While this is entered, `WARM` finds a process that waits."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address := f"{folder}/s")
        listener.listen(64)
        ours, theirs = os.pipe()
        os.environ[ADDRESS] = address
        starting = threading.Thread(target=_start_when_asked, args=(listener, ours), daemon=True)
        starting.start()
        try:
            yield
        finally:
            os.environ.pop(ADDRESS, None)
            os.close(theirs)
            starting.join()
            os.close(ours)


def _start_when_asked(listener: socket.socket, end: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(end, selectors.EVENT_READ)
        if any(key.fileobj == end for key, _ in selector.select()):
            return
    number = str(listener.fileno())
    command = [sys.executable, "-m", "tests.warm", number]
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, cwd=root, stdin=end, pass_fds=[listener.fileno()]):
        pass


# ── the process that waits ──


def _import_everything() -> None:
    for package in ("orchestrator", "subagents", "todos", "workspace"):
        for module in pkgutil.walk_packages(
            importlib.import_module(package).__path__, f"{package}."
        ):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):  # of an extra
                    importlib.import_module(module.name)
    for name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()


class _Waiting:
    """Forks a process for each connection; tells each connection how its process ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._begin)
        self._selector.register(0, selectors.EVENT_READ, None)

    def serve(self) -> dict[str, Any] | None:
        """What is to be run, in the forked process; ``None`` in this one, at its end."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return None
                job: dict[str, Any] | None = key.data()
                if job is not None:
                    return job

    def _begin(self) -> dict[str, Any] | None:
        wire, _ = self._listener.accept()
        head, streams, _, _ = socket.recv_fds(wire, 8, 3)
        size = int.from_bytes(head, "big")
        data = b""
        while len(data) < min(size, _MOST):
            data += wire.recv(size - len(data))
        process = os.fork()
        if process == 0:
            self._selector.close()
            self._listener.close()
            wire.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            job: dict[str, Any] = json.loads(data)
            return job
        for stream in streams:
            os.close(stream)
        end = os.pidfd_open(process)

        def ended() -> None:
            _, status = os.waitpid(process, 0)
            self._selector.unregister(end)
            self._selector.unregister(wire)
            os.close(end)
            with suppress(OSError):
                wire.sendall(os.waitstatus_to_exitcode(status).to_bytes(2, "big", signed=True))
            wire.close()

        def told() -> None:
            # One byte, one signal; none any more: whoever waits for the process was killed.
            for number in wire.recv(64) or (signal.SIGKILL,):
                signal.pidfd_send_signal(end, number)

        self._selector.register(end, selectors.EVENT_READ, ended)
        self._selector.register(wire, selectors.EVENT_READ, told)
        return None


def _become(job: dict[str, Any]) -> None:
    """As if Python had been started with this."""
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    del sys.path[0]  # as `orchestrator.__main__` does
    sys.argv[:] = ["outrider", *job["arguments"]]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = open(  # noqa: SIM115  # as long as the process
            number,
            mode,
            buffering=1 if number == 2 or os.isatty(number) else -1,
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else None,
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _main() -> int:
    listener = socket.socket(fileno=int(sys.argv[1]))
    _import_everything()
    job = _Waiting(listener).serve()
    if job is None:
        return 0
    _become(job)
    from orchestrator.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(_main())
