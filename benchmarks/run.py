"""All benchmarks by one command: a table, JSON, and a comparison with a baseline.

    python benchmarks/run.py [--only a,b] [--rounds N] [--json FILE] [--baseline FILE]

Ratios are against a loop written by hand on the official SDK, within the same round. A ratio that
is over 10 % worse than the baseline's is flagged, and that is all: the exit code stays 0.
See `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fanout
import footprint
import startup

from orchestrator.cli.table import Column, table
from orchestrator.testing.standin import standin_process

BASELINE = Path(__file__).with_name("baseline.json")
# A loss below this share is within what a quiet machine shows from run to run.
LOSS = 0.10
# Figures per part; the least is best in all of them.
AIMS = {
    "a cpu": 1.0,
    "a50 wall": 1.1,
    "b25 cpu": 1.0,
    "b100 cpu": 0.8,
    "b400 cpu": 0.6,
    "c cpu": 1.2,
    "c KiB/child": 100.0,
    "e help": 0.2,
    "e import": 0.25,
    "g packages": 35,
    "g megabytes": 40,
}


@dataclass(frozen=True)
class Figure:
    """One number to keep an eye on: a ratio, or a size. ``losing``: over `LOSS` worse than before."""

    name: str
    value: float
    before: float | None
    aim: float | None

    @property
    def losing(self) -> bool:
        return self.before is not None and self.value > self.before * (1 + LOSS)


@dataclass(frozen=True)
class Measured:
    """What a part of the benchmark gives: figures by name, the table to show, all that was seen."""

    figures: Mapping[str, float]
    shown: str
    seen: Any


def _cases(*names: str) -> Callable[[argparse.Namespace], Measured]:
    """Outrider beside both raw loops, on one server for warming up."""

    def measure(options: argparse.Namespace) -> Measured:
        figures: dict[str, float] = {}
        shown, seen = [], []
        with standin_process("--brain=fanout") as warm:
            for name in names:
                case = (fanout.SMALL if options.small else fanout.CASES)[name]
                rounds = fanout.measure(case, options.rounds, warm.base_url)
                rows = fanout.summary(case, rounds)
                (own,) = (row for row in rows if row["variant"] == "outrider")
                figures |= {f"{name} {key}": own[f"{key}_ratio"] for key in ("cpu", "wall")}
                figures[f"{name} billed"] = own["billed_ratio"]
                if case.live > 1:
                    figures[f"{name} KiB/child"] = own["kib_per_live_agent"]
                shown.append(fanout.show(case, rows))
                samples = [asdict(one) for samples in rounds for one in samples]
                seen.append({"case": name, "about": case.about, "rows": rows, "samples": samples})
        return Measured(figures, "\n".join(shown), seen)

    return measure


def _startup(options: argparse.Namespace) -> Measured:
    seconds = startup.measure(max(options.rounds, 1))
    sdk = seconds["import anthropic"]
    names = {"e import": "import orchestrator", "e help": "outrider --help"}
    rows = [[name, f"{used:.3f}", f"{used / sdk:.2f}"] for name, used in seconds.items()]
    columns = [Column("start-up"), Column("CPU s", right=True), Column("CPU ×", right=True)]
    figures = {key: round(seconds[name] / sdk, 3) for key, name in names.items()}
    return Measured(figures, "\n".join([*table(columns, rows), ""]), seconds)


def _journal(options: argparse.Namespace) -> Measured:
    figures, shown, seen = {}, [], {}
    for name in ("a", "b100"):
        case = (fanout.SMALL if options.small else fanout.CASES)[name]
        with fanout.fresh_process() as pool:
            found = pool.submit(footprint.journal, case).result()
        ratio = found["journal_bytes"] / found["text_bytes"]
        figures[f"f {name} journal/text"] = round(ratio, 3)
        shown.append(
            f"{name}: {found['events']:,} events, {found['text_bytes']:,} bytes of text in them, "
            f"{found['journal_bytes']:,} bytes of journal: {ratio:.2f} ×"
        )
        seen[name] = found
    return Measured(figures, "\n".join([*shown, ""]), seen)


def _installed(options: argparse.Namespace) -> Measured:
    found = footprint.installation()
    sizes = ", ".join(f"{name} {a} + {b}" for name, (a, b) in found["largest"].items())
    shown = (
        f"core: {found['packages']} packages, {found['megabytes']} MB, and as far as it was made "
        f"{found['megabytes_compiled']} MB of compiled Python\n"
        f"largest, files + compiled Python: {sizes}\n"
    )
    # How much is compiled depends on the installer, and on what has been imported.
    figures = {f"g {key}": found[key] for key in ("packages", "megabytes")}
    return Measured(figures, shown, found)


PARTS: dict[str, tuple[str, Callable[[argparse.Namespace], Measured]]] = {
    "a": ("fan-out", _cases("a", "a50", "awhole")),
    "b": ("one agent, 25, 100 and 400 turns", _cases("b25", "b100", "b400")),
    "c": ("500 children at once", _cases("c")),
    "d": ("two long hauls", _cases("d100", "d30")),
    "e": ("import and start-up", _startup),
    "f": ("the journal's size beside the text in it", _journal),
    "g": ("install size", _installed),
}


def main() -> None:
    options = _options()
    before = json.loads(options.baseline.read_text())["figures"] if options.baseline else {}
    load = [os.getloadavg()]
    figures: list[Figure] = []
    seen = {}
    for part in options.only:
        title, measure = PARTS[part]
        found = measure(options)
        load.append(os.getloadavg())
        seen[part] = found.seen
        figures += [
            Figure(name, value, before.get(name), AIMS.get(name))
            for name, value in found.figures.items()
        ]
        _say(f"{part}: {title}\n{found.shown}")
    _say("\n".join(_compared(figures)))
    conditions = _conditions(options, load)
    _say("\n".join(f"{key}: {value}" for key, value in conditions.items()))
    if options.json is not None:
        told = {
            "conditions": conditions,
            "figures": {figure.name: figure.value for figure in figures},
            "losses": [figure.name for figure in figures if figure.losing],
            "seen": seen,
        }
        options.json.write_text(json.dumps(told, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only",
        type=_parts,
        default=list(PARTS),
        metavar="PART,…",
        help="; ".join(f"{name}: {title}" for name, (title, _) in PARTS.items()),
    )
    parser.add_argument("--rounds", type=int, default=3, help="medians are over so many (3)")
    parser.add_argument("--json", type=Path, help="also write all figures and samples")
    parser.add_argument(
        "--baseline",
        type=Path,
        default=BASELINE if BASELINE.is_file() else None,
        help="the figures to compare with: an earlier --json (benchmarks/baseline.json)",
    )
    parser.add_argument("--small", action="store_true", help="try it out in the smallest size")
    options = parser.parse_args()
    if options.small:
        options.baseline = None if options.baseline == BASELINE else options.baseline
    return options


def _parts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"no part {name!r}; there are {', '.join(PARTS)}")
    return names


def _compared(figures: Sequence[Figure]) -> Iterator[str]:
    columns = [Column("figure")]
    columns += [Column(name, right=True) for name in ("now", "baseline", "change", "aim")]
    rows = [
        [
            figure.name,
            f"{figure.value:,.2f}",
            "" if figure.before is None else f"{figure.before:,.2f}",
            f"{figure.value / figure.before - 1:+.0%}" if figure.before else "",
            "" if figure.aim is None else f"≤ {figure.aim:g}",
            "LOSS" if figure.losing else "",
        ]
        for figure in figures
    ]
    yield from table([*columns, Column("")], rows)
    losing = [figure.name for figure in figures if figure.losing]
    if losing:
        yield f"over {LOSS:.0%} worse than the baseline: {', '.join(losing)}"
    yield ""


def _conditions(options: argparse.Namespace, load: Sequence[tuple[float, ...]]) -> dict[str, Any]:
    minute = [round(average[0], 2) for average in load]
    return {
        "python": platform.python_version(),
        "anthropic": version("anthropic"),
        "cores": os.cpu_count(),
        "load before, and after each part": minute,
        "rounds": options.rounds,
        "size": "small" if options.small else "full",
    }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
