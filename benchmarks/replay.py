"""The context pipeline over recorded sessions: what it would have cost, and whether it holds.

    python benchmarks/replay.py FOLDER [FOLDER ...] [--window TOKENS ...] [--read-back SHARE]
                                [--curve] [--json FILE]

Every session is played through the loop's own decisions (`orchestrator.whatif`) with the shipped
defaults, in windows of 32k, 64k and 200k tokens, and compared with sending everything for ever.
``--curve`` tries ``offload_at`` from 1,000 to 20,000 characters with 0, 25 and 50 % of what was
offloaded read back. No model is called. See ``docs/replay.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise, product
from multiprocessing import Pool
from pathlib import Path
from typing import Any, TypeVar

from replay_checks import Reach, orphans
from replay_sessions import LEARNT_AFTER, Session, biases, find, load

from orchestrator.cli.table import Column, number, short_number, table
from orchestrator.context import Context
from orchestrator.context.policy import GAIN_SHARE
from orchestrator.whatif import (
    Call,
    Compaction,
    Conversation,
    Moment,
    Played,
    Stored,
    append_only,
    gather,
    moments,
    play,
)

WINDOWS = (32_000, 64_000, 200_000)
OFFLOAD_AT = (1_000, 1_500, 2_000, 3_000, 5_000, 8_000, 12_000, 20_000)
READ_BACK = (0.0, 0.25, 0.5)
SLACK = 0.1

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One session in one window, or the sum of many. Token counts are input tokens."""

    session: str
    window: int
    calls: int
    append_only: float
    billed: float
    input_tokens: int
    read_tokens: int
    peak: int
    offloads: int
    compactions: int
    orphans: int
    over_window: int
    idle_pairs: int
    exhausted: int
    dropped_facts: int
    lost_facts: int

    @property
    def share_billed(self) -> float:
        return self.billed / self.append_only if self.append_only else 1.0

    @property
    def cache_share(self) -> float:
        return self.read_tokens / self.input_tokens if self.input_tokens else 0.0

    @property
    def reachable(self) -> float:
        return 1 - self.lost_facts / self.dropped_facts if self.dropped_facts else 1.0

    def as_json(self) -> dict[str, Any]:
        shares = {
            "share_billed": round(self.share_billed, 4),
            "cache_share": round(self.cache_share, 4),
            "reachable": round(self.reachable, 4),
        }
        return {**asdict(self), **shares}


@dataclass(frozen=True)
class Judged:
    """One session: its rows by window, and how far the estimate was from each report."""

    rows: tuple[Row, ...]
    family: str
    biases: tuple[float, ...]


@dataclass(frozen=True)
class Point:
    """Sessions in one window under one setting, summed. Token counts are input tokens."""

    window: int
    offload_at: int
    read_back: float
    append_only: float
    billed: float
    input_tokens: int
    read_tokens: int
    peak: int
    calls: int
    offloads: int
    compactions: int

    @property
    def share_billed(self) -> float:
        return self.billed / self.append_only if self.append_only else 1.0

    @property
    def cache_share(self) -> float:
        return self.read_tokens / self.input_tokens if self.input_tokens else 0.0

    def as_json(self) -> dict[str, Any]:
        shares = {
            "share_billed": round(self.share_billed, 4),
            "cache_share": round(self.cache_share, 4),
        }
        return {**asdict(self), **shares}


# ── the sessions as they would be run ──


def judge(path: Path, windows: Sequence[int], read_back: float) -> Judged:
    """Play a session in each window, and check every request and every compaction on the way."""
    session = load(path)
    baseline = append_only(session.conversation)
    rows = tuple(_row(session, baseline, window, read_back) for window in windows)
    return Judged(rows, session.family, tuple(biases(session.reports)))


def _row(session: Session, baseline: Played, window: int, read_back: float) -> Row:
    reach, wrong, lost = Reach(), 0, 0
    happened: list[Moment] = []
    for moment in moments(session.conversation, Context(), window, read_back=read_back):
        happened.append(moment)
        messages = [e.message for e in moment.state.messages]
        match moment.what:
            case Stored(files=files):
                reach.store(files)
            case Call():
                wrong += orphans(messages)
            case Compaction(dropped=dropped):
                reach.drop(e.message for e in dropped)
                lost = len(reach.lost(messages))
    played = gather(happened)
    usage = played.usage
    return Row(
        session=session.name,
        window=window,
        calls=len(played.calls),
        append_only=baseline.billed,
        billed=played.billed,
        input_tokens=usage.context_tokens,
        read_tokens=usage.cache_read_input_tokens,
        peak=played.peak,
        offloads=played.offloads,
        compactions=len(played.compactions),
        orphans=wrong,
        over_window=played.rejected,
        idle_pairs=idle_pairs(played.compactions, window),
        exhausted=int(played.exhausted_at is not None),
        dropped_facts=reach.dropped,
        lost_facts=lost,
    )


def idle_pairs(compactions: Sequence[Compaction], window: int) -> int:
    """Compactions that freed less than their share and were followed by another without growth."""
    return sum(
        first.before - first.after < GAIN_SHARE * window and second.before <= first.after
        for first, second in pairwise(compactions)
    )


def total(rows: Sequence[Row], name: str = "all") -> Row:
    """The sum; of peaks, the largest."""
    summed: dict[str, Any] = {
        field: sum(getattr(row, field) for row in rows)
        for field in Row.__dataclass_fields__
        if field not in ("session", "window", "peak")
    }
    return Row(session=name, window=rows[0].window, peak=max(r.peak for r in rows), **summed)


def bias_by_family(judged: Iterable[Judged]) -> dict[str, dict[str, float]]:
    """Of ``estimate / reported - 1`` after five reports: mean, 95th percentile, largest, and the
    share within ±10 %."""
    found: dict[str, list[float]] = {}
    for one in judged:
        found.setdefault(one.family, []).extend(one.biases)
    return {family: _spread(values) for family, values in sorted(found.items()) if values}


def _spread(values: Sequence[float]) -> dict[str, float]:
    sizes = sorted(map(abs, values))
    return {
        "requests": len(values),
        "mean": round(sum(values) / len(values), 5),
        "p95": round(sizes[int(0.95 * (len(sizes) - 1))], 5),
        "largest": round(sizes[-1], 5),
        "within": round(sum(size <= SLACK for size in sizes) / len(sizes), 5),
    }


# ── the curve ──


def trace(path: Path, windows: Sequence[int]) -> list[Point]:
    """A session under every setting of the curve."""
    conversation = load(path).conversation
    baseline = append_only(conversation).billed
    settings = product(windows, OFFLOAD_AT, READ_BACK)
    return [_point(conversation, baseline, *setting) for setting in settings]


def _point(
    conversation: Conversation, baseline: float, window: int, offload_at: int, read_back: float
) -> Point:
    played = play(conversation, Context(offload_at=offload_at), window, read_back=read_back)
    usage = played.usage
    return Point(
        window=window,
        offload_at=offload_at,
        read_back=read_back,
        append_only=baseline,
        billed=played.billed,
        input_tokens=usage.context_tokens,
        read_tokens=usage.cache_read_input_tokens,
        peak=played.peak,
        calls=len(played.calls),
        offloads=played.offloads,
        compactions=len(played.compactions),
    )


_ADDED = (
    *("append_only", "billed", "input_tokens", "read_tokens"),
    *("calls", "offloads", "compactions"),
)


def curve(traced: Sequence[Sequence[Point]]) -> list[Point]:
    """The sum over the sessions at each setting."""
    return [_summed(points) for points in zip(*traced, strict=True)]


def _summed(points: Sequence[Point]) -> Point:
    first = points[0]
    added = {name: sum(getattr(point, name) for point in points) for name in _ADDED}
    peak = max(point.peak for point in points)
    return replace(first, peak=peak, **added)


# ── tables ──

_COLUMNS = (
    Column("session", least=16),
    *(
        Column(title, right=True)
        for title in (
            "calls",
            "only append",
            "billed",
            "%",
            "cached",
            "peak",
            "offl",
            "comp",
            "orphans",
            "over",
            "idle",
            "reach",
        )
    ),
)


def row_lines(rows: Sequence[Row]) -> list[str]:
    return table(_COLUMNS, [*map(_cells, rows), _cells(total(rows))], width=120)


def _cells(row: Row) -> list[str]:
    return [
        row.session + (" (exhausted)" if row.exhausted else ""),
        number(row.calls),
        short_number(round(row.append_only)),
        short_number(round(row.billed)),
        f"{row.share_billed:.1%}",
        f"{row.cache_share:.1%}",
        short_number(row.peak),
        number(row.offloads),
        number(row.compactions),
        number(row.orphans),
        number(row.over_window),
        number(row.idle_pairs),
        f"{row.reachable:.1%}" if row.dropped_facts else "–",
    ]


def bias_lines(by_family: dict[str, dict[str, float]]) -> list[str]:
    titles = ("requests", "mean", "p95", "largest", f"within ±{SLACK:.0%}")
    rows = [
        [
            name,
            number(bias["requests"]),
            *(f"{bias[key]:+.2%}" for key in ("mean", "p95", "largest")),
            f"{bias['within']:.2%}",
        ]
        for name, bias in by_family.items()
    ]
    return table((Column("family"), *(Column(t, right=True) for t in titles)), rows)


def curve_lines(points: Sequence[Point]) -> list[str]:
    """For each window, billed and cached by ``offload_at``, a pair of columns by read-back share."""
    lines: list[str] = []
    titles = [f"{what} {share:.0%}" for share in READ_BACK for what in ("billed", "cached")]
    columns = [Column("offload_at", right=True), *(Column(t, right=True) for t in titles)]
    for window in dict.fromkeys(p.window for p in points):
        rows = []
        for at in OFFLOAD_AT:
            row = [p for p in points if (p.window, p.offload_at) == (window, at)]
            shares = [f"{s:.1%}" for p in row for s in (p.share_billed, p.cache_share)]
            rows.append([number(at), *shares])
        lines += ["", f"window {number(window)}, columns by share read back", ""]
        lines += table([*columns], rows)
    return lines


# ── the command ──


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    paths = find(asked.folder)
    if not paths:
        sys.stderr.write("no recorded session is in these folders\n")
        return 2
    windows = asked.window or list(WINDOWS)
    # The longest first: so no worker is left with one of them at the end.
    paths.sort(key=lambda path: -path.stat().st_size)
    if asked.curve:
        points = curve(_map(partial(trace, windows=windows), paths, asked.jobs))
        found: dict[str, Any] = {"curve": [point.as_json() for point in points]}
        lines = curve_lines(points)
    else:
        work = partial(judge, windows=windows, read_back=asked.read_back)
        judged = _map(work, paths, asked.jobs)
        found = _as_json(judged, asked.read_back)
        lines = _lines(judged, windows)
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


def _map(work: Callable[[Path], T], paths: Sequence[Path], jobs: int) -> list[T]:
    if jobs <= 1 or len(paths) == 1:
        return [work(path) for path in paths]
    with Pool(jobs) as pool:
        return pool.map(work, paths, chunksize=1)


def _lines(judged: Sequence[Judged], windows: Sequence[int]) -> list[str]:
    lines: list[str] = []
    for index, window in enumerate(windows):
        rows = sorted((one.rows[index] for one in judged), key=lambda row: row.session)
        lines += [f"window {number(window)}", "", *row_lines(rows), ""]
    if biased := bias_by_family(judged):
        lines += [f"estimate against report, after {LEARNT_AFTER} reports", "", *bias_lines(biased)]
    return lines


def _as_json(judged: Sequence[Judged], read_back: float) -> dict[str, Any]:
    windows = range(len(judged[0].rows))
    totals = [total([one.rows[i] for one in judged]) for i in windows]
    return {
        "read_back": read_back,
        "totals": [row.as_json() for row in totals],
        "sessions": [row.as_json() for one in judged for row in one.rows],
        "estimate": bias_by_family(judged),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Play recorded sessions through the context pipeline, without a model."
    )
    parser.add_argument("folder", nargs="+", type=Path, help="folders of recorded sessions")
    parser.add_argument(
        "--window", type=int, action="append", metavar="TOKENS", help="repeatable (32k, 64k, 200k)"
    )
    parser.add_argument(
        "--read-back", type=float, default=0.0, metavar="SHARE", help="of offloaded results (0)"
    )
    parser.add_argument("--curve", action="store_true", help="by offload_at and read-back share")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser


if __name__ == "__main__":
    sys.exit(main())
