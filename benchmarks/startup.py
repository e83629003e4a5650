"""What it costs to begin: CPU of a fresh interpreter that imports or asks for help, beside the SDK's import."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from tempfile import TemporaryDirectory

COMMANDS = {
    "import anthropic": ("-c", "import anthropic"),
    "import orchestrator": ("-c", "import orchestrator"),
    "outrider --help": ("-m", "orchestrator", "--help"),
    "nothing": ("-c", ""),
}


def measure(rounds: int) -> dict[str, float]:
    """CPU seconds of each command, the least of ``rounds``: whatever disturbs can only add to it."""
    with TemporaryDirectory() as compiled:
        # Compiled Python is there, as after an installation, whatever this environment says.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled
        found = [
            {name: _cpu_of(command, environment) for name, command in COMMANDS.items()}
            for _ in range(rounds + 1)
        ]
    # The first round has compiled what it imported.
    return {name: min(one[name] for one in found[1:]) for name in COMMANDS}


def _cpu_of(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [sys.executable, *command]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
