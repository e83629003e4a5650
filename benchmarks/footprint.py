"""What a run and an installation take on disk."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from fanout import Case, outrider
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from orchestrator.events import Fact
from orchestrator.journal import read_records
from orchestrator.messages import encode
from orchestrator.testing.standin import standin_process

MEGABYTE = 1_000_000


def journal(case: Case) -> dict[str, int]:
    """A run of ``case``: its journal's bytes, its events', and those of the text in them."""
    with standin_process(*case.arguments) as server, TemporaryDirectory() as folder:
        anyio.run(outrider(case), server.base_url, case.brain.task, folder)
        (path,) = Path(folder).glob(".outrider/runs/*/journal.db")
        facts = [record.fact for record in read_records(path)]
        return {
            "journal_bytes": path.stat().st_size,
            "text_bytes": sum(map(_text_bytes, facts)),
            "events": len(facts),
        }


def _text_bytes(fact: Fact) -> int:
    """Of what people, models and tools said: all that a log leaves out by default."""
    said = [getattr(fact, name) for name in fact.content]
    return sum(len(encode(value)) for value in said if isinstance(value, str | list | dict))


def installation(name: str = "outrider") -> dict[str, Any]:
    """The package and all that it needs without extras, as installed here."""
    needed: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        key = canonicalize_name(waiting.pop())
        if key in needed:
            continue
        needed[key] = distribution(key)
        for text in needed[key].requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                waiting.append(wanted.name)
    sizes = {key: _size(found) for key, found in needed.items()}
    # An editable install lists no files of its own: those of the tree are what a wheel would hold.
    sizes[canonicalize_name(name)] = _size_of_tree()
    megabytes = {key: tuple(part / MEGABYTE for part in size) for key, size in sizes.items()}
    largest = sorted(megabytes.items(), key=lambda item: -sum(item[1]))[:8]
    return {
        "packages": len(sizes),
        "megabytes": round(sum(size[0] for size in megabytes.values()), 1),
        "megabytes_compiled": round(sum(size[1] for size in megabytes.values()), 1),
        "largest": {key: [round(part, 1) for part in size] for key, size in largest},
    }


def _size(found: Distribution) -> tuple[int, int]:
    return _bytes(Path(str(file.locate())) for file in found.files or ())


def _size_of_tree() -> tuple[int, int]:
    root = Path(__file__).parent.parent
    folders = [root / package for package in ("orchestrator", "subagents", "todos", "workspace")]
    return _bytes(file for folder in folders for file in folder.rglob("*"))


def _bytes(paths: Iterable[Path]) -> tuple[int, int]:
    """Of the files, and of the compiled Python that lies beside them: pip makes all of it, unless
    it is told not to, and Python what it imports."""
    files = [path for path in paths if path.suffix != ".pyc" and path.is_file()]
    made = [Path(cache_from_source(str(path))) for path in files if path.suffix == ".py"]
    return (
        sum(path.stat().st_size for path in files),
        sum(path.stat().st_size for path in made if path.is_file()),
    )
