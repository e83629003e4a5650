"""What orchestration costs beside the model: Outrider, journal and log included, against a raw loop.

    python benchmarks/fanout.py [--case NAME ...] [--rounds N] [--json FILE]

Every sample runs in a fresh process against a fresh stand-in, which is a process of its own too.
In each round all variants run one after another, and ratios are taken within a round, so that a
busy machine slows down both sides; printed are medians over the rounds. See `benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import re
import resource
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.cli.table import Column, table
from orchestrator.testing.standin import standin_process
from orchestrator.testing.standin.brains import LongHaul, Tree

# Caches from 512 tokens on, does not bind thinking; its window holds the longest case.
MODEL = "claude-opus-5"
VARIANTS = ("plain", "streamed", "outrider")
# A leaf of the fan-out by itself: three look-ups and a report, so that nothing is done for the first
# time in what is measured.
_WARM_UP = Tree().task.replace("[node 0]", "[node 0.99]")

# Base URL, task, an empty folder: how many of the facts were delivered.
Run = Callable[[str, str, str], Coroutine[Any, Any, int]]


@dataclass(frozen=True)
class Case:
    """A piece of work. ``units``: what its CPU is divided by; ``live``: agents at the same time, which
    may all call the model then."""

    name: str
    about: str
    brain: Tree | LongHaul
    units: int
    unit: str
    live: int
    latency: float = 0.0
    # Whether Outrider keeps every result in the context, as the raw loops do.
    whole: bool = False

    @property
    def depth(self) -> int:
        """Levels of subagents."""
        return len(self.brain.children) if isinstance(self.brain, Tree) else 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The stand-in's command line."""
        brain = self.brain
        given = [f"--calls={brain.calls}", f"--kilobytes={brain.kilobytes}"]
        given += [f"--parallel={brain.parallel}", f"--latency={self.latency}"]
        if isinstance(brain, Tree):
            return ("--brain=tree", f"--children={','.join(map(str, brain.children))}", *given)
        search = ("--search",) if brain.search else ()
        return ("--brain=longhaul", f"--asked={brain.asked}", *search, *given)


def _turns(count: int, name: str = "") -> Case:
    # The report is a turn as well. Small results: 400 of them fit the window, so nobody compacts.
    brain = LongHaul(calls=count - 1, kilobytes=1, asked=5)
    return Case(name or f"b{count}", f"one agent, {count} turns of 1 KB", brain, count, "turn", 1)


def _haul(name: str, calls: int, kilobytes: int) -> Case:
    # As a model does that has an eye on its context: it looks for its facts instead of paging.
    brain = LongHaul(calls=calls, kilobytes=kilobytes, search=True)
    return Case(name, f"a long haul: {calls} look-ups of {kilobytes} KB", brain, calls, "call", 1)


CASES = {
    case.name: case
    for case in (
        Case("a", "50 children, 10 at a time, 3 calls of 8 KB", Tree(), 50, "child", 10),
        Case("a50", "the same with 50 ms of latency", Tree(), 50, "child", 10, latency=0.05),
        Case("awhole", "the same, nothing offloaded", Tree(), 50, "child", 10, 0.05, whole=True),
        _turns(25),
        _turns(100),
        _turns(400),
        Case(
            "c",
            # One reply of 8,000 tokens has no room for 500 calls.
            "500 children at once, 50 of each of 10 parents, 1 s latency",
            Tree(children=(10, 50), parallel=50, calls=1, kilobytes=1),
            510,
            "child",
            510,
            latency=1.0,
        ),
        _haul("d100", 100, 32),
        _haul("d30", 30, 120),
    )
}
# The same in the smallest size: to see that it works, not to measure.
SMALL = {
    case.name: case
    for case in (
        *(
            Case(
                name, "2 children, 1 call of 8 KB", Tree((2,), calls=1), 2, "child", 2, whole=whole
            )
            for name, whole in (("a", False), ("a50", False), ("awhole", True))
        ),
        _turns(6, "b25"),
        _turns(7, "b100"),
        _turns(8, "b400"),
        Case(
            "c",
            "4 children at once, 2 of each of 2 parents",
            Tree((2, 2), calls=1, kilobytes=1),
            6,
            "child",
            6,
        ),
        _haul("d100", 10, 32),
        _haul("d30", 10, 120),
    )
}


@dataclass(frozen=True)
class Sample:
    """One run. ``cpu``, ``wall``: seconds; ``kib``: growth of the process at its peak, in KiB;
    ``billed``: uncached + 1.25 × written + 0.1 × read input tokens; ``delivered``: conclusions."""

    variant: str
    cpu: float
    wall: float
    kib: int
    billed: int
    requests: int
    rejected: int
    delivered: int


# -- one run, in a process of its own


def sample(case: Case, variant: str, base_url: str, warm_url: str) -> Sample:
    """Run ``case`` once. What happens only once in a process has happened before it is measured."""
    run = outrider(case) if variant == "outrider" else _raw(case, streamed=variant == "streamed")
    with TemporaryDirectory() as warm_folder, TemporaryDirectory() as folder:
        asyncio.run(run(warm_url, _WARM_UP, warm_folder))
        gc.collect()
        before, cpu, began = _resident("VmRSS"), _cpu(), time.perf_counter()
        _forget_peak()
        delivered = asyncio.run(run(base_url, case.brain.task, folder))
        cpu, wall, peak = _cpu() - cpu, time.perf_counter() - began, _resident("VmHWM")
    told = _get(f"{base_url}/_ledger")["totals"]
    billed = told["input_tokens"] + 1.25 * told["cache_creation_input_tokens"]
    return Sample(
        variant=variant,
        cpu=cpu,
        wall=wall,
        kib=peak - before,
        billed=round(billed + 0.1 * told["cache_read_input_tokens"]),
        requests=told["requests"],
        rejected=told["rejected"],
        delivered=delivered,
    )


def _raw(case: Case, *, streamed: bool) -> Run:
    from anthropic import AsyncAnthropic
    from raw_loop import RawLoop

    async def run(base_url: str, task: str, _folder: str) -> int:
        async with AsyncAnthropic(base_url=base_url, api_key="any") as client:
            loop = RawLoop(client, MODEL, streamed=streamed)
            conclusion = await loop.agent(task, 0 if task == _WARM_UP else case.depth)
        return sum(fact in conclusion for fact in case.brain.facts())

    return run


def outrider(case: Case) -> Run:
    from orchestrator import Context, Limits, run, tool
    from orchestrator.testing.standin.material import lookup

    # It only reads, which is as well for the raw loop's: nothing needs to be on disk before it runs.
    reading = tool(after_crash="repeat")(lookup)
    limits = Limits(concurrency=case.live, max_agents=None, max_turns=None)

    context = Context(offload_at=None) if case.whole else Context()

    async def at(base_url: str, task: str, folder: str) -> int:
        report = await run(
            task,
            model=MODEL,
            base_url=base_url,
            root=folder,
            tools=[reading],
            limits=limits,
            context=context,
        )
        # A parent of very many gets the heads of their conclusions; they are whole on disk.
        paths = [Path(folder, agent.conclusion_path or "") for agent in report.agents[1:]]
        whole = "\n".join([path.read_text() for path in paths] or [report.conclusion])
        return sum(fact in whole for fact in case.brain.facts())

    return at


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident(figure: str) -> int:
    """A line of ``/proc/self/status`` in KiB: ``VmRSS`` is now, ``VmHWM`` the peak."""
    found = re.search(rf"{figure}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


# -- rounds and ratios


def measure(case: Case, rounds: int, warm_url: str) -> list[list[Sample]]:
    """All variants, ``rounds`` times. Who is first changes from round to round."""
    return [
        [_fresh(case, variant, warm_url) for variant in _rotated(VARIANTS, number)]
        for number in range(rounds)
    ]


def _fresh(case: Case, variant: str, warm_url: str) -> Sample:
    with standin_process(*case.arguments) as server, fresh_process() as pool:
        return pool.submit(sample, case, variant, server.base_url, warm_url).result()


@contextmanager
def fresh_process() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


def _rotated(names: Sequence[str], by: int) -> list[str]:
    by %= len(names)
    return [*names[by:], *names[:by]]


def summary(case: Case, rounds: Sequence[Sequence[Sample]]) -> list[dict[str, Any]]:
    """A row for each variant: medians over the rounds, and medians of the ratios within each."""
    by_round = [{one.variant: one for one in samples} for samples in rounds]
    return [_row(case, variant, by_round) for variant in VARIANTS]


def _row(case: Case, variant: str, rounds: Sequence[dict[str, Sample]]) -> dict[str, Any]:
    def median(of: Callable[[Sample], float]) -> float:
        return statistics.median(of(samples[variant]) for samples in rounds)

    def ratio(of: Callable[[Sample], float]) -> float:
        ratios = (of(samples[variant]) / of(samples["plain"]) for samples in rounds)
        return round(statistics.median(ratios), 2)

    return {
        "case": case.name,
        "variant": variant,
        "delivered": int(min(median(lambda s: s.delivered), len(case.brain.facts()))),
        "expected": len(case.brain.facts()),
        "requests": int(median(lambda s: s.requests)),
        "rejected": int(median(lambda s: s.rejected)),
        "cpu_seconds": round(median(lambda s: s.cpu), 3),
        f"cpu_ms_per_{case.unit}": round(median(lambda s: s.cpu) / case.units * 1000, 2),
        "cpu_ratio": ratio(lambda s: s.cpu),
        "wall_seconds": round(median(lambda s: s.wall), 3),
        "wall_ratio": ratio(lambda s: s.wall),
        "billed": int(median(lambda s: s.billed)),
        "billed_ratio": ratio(lambda s: s.billed),
        "kib_per_live_agent": round(median(lambda s: s.kib) / case.live, 1),
    }


def show(case: Case, rows: Sequence[dict[str, Any]]) -> str:
    """The rows of one case as a table."""
    columns = [
        Column(case.name),
        *(Column(name, right=True) for name in ("done", "requests", f"ms/{case.unit}", "CPU ×")),
        *(Column(name, right=True) for name in ("wall s", "wall ×", "billed-eq", "billed ×")),
        Column("KiB/live agent", right=True),
    ]
    cells = [
        [
            row["variant"],
            f"{row['delivered']}/{row['expected']}",
            f"{row['requests']:,}",
            f"{row[f'cpu_ms_per_{case.unit}']:.2f}",
            f"{row['cpu_ratio']:.2f}",
            f"{row['wall_seconds']:.2f}",
            f"{row['wall_ratio']:.2f}",
            f"{row['billed']:,}",
            f"{row['billed_ratio']:.2f}",
            f"{row['kib_per_live_agent']:,.0f}",
        ]
        for row in rows
    ]
    return "\n".join([f"{case.name}: {case.about}", *table(columns, cells), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures, every sample included")
    options = parser.parse_args()
    found = []
    with standin_process("--brain=fanout") as warm:
        for case in map(CASES.__getitem__, options.case):
            rounds = measure(case, options.rounds, warm.base_url)
            rows = summary(case, rounds)
            samples = [asdict(one) for samples in rounds for one in samples]
            found.append({"case": case.name, "about": case.about, "rows": rows, "samples": samples})
            sys.stdout.write(show(case, rows) + "\n")
            sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
