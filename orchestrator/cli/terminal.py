"""Writing for a person, or for the next program in a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable

import typer


def width() -> int | None:
    """Cells of a line on the terminal; ``None`` in a pipe, where nothing need be shortened."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_lines(lines: Iterable[str]) -> None:
    """Lines that may hold what models and files wrote."""
    from orchestrator.progress import inert

    for line in lines:
        typer.echo(inert(line))
