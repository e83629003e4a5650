"""``outrider replay``: what other settings would have made of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.table import Column, cost, number, short_number, table
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.context.policy import Context
    from orchestrator.events import Record
    from orchestrator.rundir import RunDir
    from orchestrator.whatif import Call, Conversation, Played

_AS_RUN, _WHAT_IF = "as run", "what if"
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A model or alias whose window and prices to take."),
]
_COLUMNS = (
    Column("agent", least=8),
    Column("settings"),
    *(
        Column(title, right=True)
        for title in ("calls", "peak", "mean", "offl", "comp", "billed", "cached", "cost")
    ),
)


def replay(
    run: opt.NewestRun = "latest",
    offload_at: opt.OffloadAt = None,
    compact_at: opt.CompactAt = None,
    window: opt.Window = None,
    model: Model = None,
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """What if: a recorded run under other thresholds, another window or model, without a model.

    What models said and tools returned stays as it was; what is offloaded, summarised and read from
    the cache is worked out anew, once for the run's own settings and once for those asked for.
    "billed" is input tokens by price: uncached + 1.25 × cache writes + 0.1 × cache reads.

    \b
    Examples:
      outrider replay latest --offload-at 2000
      outrider replay latest --window 64000 --compact-at 0.7
      outrider replay latest --model claude-haiku-4-5 --json
    """
    from orchestrator.journal import read_records
    from orchestrator.rundir import find_run

    place = find_run(root, run)
    options = {"offload_at": offload_at, "compact_at": compact_at, "window": window, "model": model}
    asked = _asked(root, options)
    records = list(read_records(place.journal))
    files = _Stored(place)
    compared = list(_compare(records, files, asked))
    if as_json:
        _print_json(place.run_id, compared, files.missing)
    else:
        _print_table(compared, records, files.missing)


def _asked(root: Path, options: Mapping[str, str | None]) -> dict[str, Any]:
    """What was asked for, checked as `run` checks it; a model by the name that a run would use."""
    from orchestrator.compose import MODEL_ALIASES, resolved
    from orchestrator.config import load_settings

    given = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(root, given).settings
    asked = {name: getattr(settings, name) for name in given}
    if model := asked.get("model"):
        asked["model"] = resolved(model, {**MODEL_ALIASES, **settings.models})
    return asked


class _Stored:
    """Offloaded results as they lie in the run's folder. ``missing`` counts those that do not."""

    def __init__(self, run: RunDir) -> None:
        self._root = run.root.absolute()
        self._folder = run.folder.resolve()
        self.missing = 0

    def __call__(self, path: str) -> str | None:
        file = (self._root / path).resolve()
        try:
            if file.is_relative_to(self._folder):
                return file.read_bytes().decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError):
            pass
        self.missing += 1
        return None


# ── playing ──


@dataclass(frozen=True)
class Side:
    """An agent's conversation as one group of settings plays it. ``cost_usd`` is ``None`` where a
    price is not known."""

    model: str
    window: int
    settings: Context
    played: Played
    cost_usd: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "window_tokens": self.window,
            "settings": asdict(self.settings),
            **_figures([self]),
        }


@dataclass(frozen=True)
class Compared:
    """One agent: as its run was set, and as asked for (``None`` where nothing was asked)."""

    agent_id: str
    as_run: Side
    what_if: Side | None


def _compare(
    records: Sequence[Record], stored: _Stored, asked: Mapping[str, Any]
) -> Iterator[Compared]:
    from orchestrator.context.policy import Context
    from orchestrator.whatif import of_records, on_model

    began: dict[str, float] = {}
    for record in records:
        began.setdefault(record.agent_id, record.ts)
    for agent_id, recorded in of_records(records, stored).items():
        settings = Context(**recorded.started.policy)
        at = began[agent_id]
        as_run = _play(recorded, settings, recorded.started.window_tokens, at)
        other = None
        if asked:
            changed = {name: value for name, value in asked.items() if name != "model"}
            moved = on_model(recorded, asked["model"]) if "model" in asked else recorded
            window = None if {"model", "window"} & asked.keys() else as_run.window
            other = _play(moved, replace(settings, **changed), window, at)
        yield Compared(agent_id, as_run, other)


def _play(recorded: Conversation, settings: Context, window: int | None, at: float) -> Side:
    """``window``: working window in tokens; ``None`` where the settings and the model decide."""
    from orchestrator.context.policy import working_window
    from orchestrator.context.windows import window_for
    from orchestrator.whatif import play

    model = recorded.started.model
    if window is None:
        try:
            window = working_window(settings, window_for(model))
        except ValueError as error:
            raise ConfigError(f"{model}: {error}") from None
    played = play(recorded, settings, window)
    return Side(model, window, settings, played, _cost(played.calls, model, settings, at))


def _cost(calls: Sequence[Call], model: str, settings: Context, at: float) -> float | None:
    """What the calls cost in USD at the prices of ``at``, in seconds since the epoch."""
    from orchestrator.prices import pricing

    summariser = settings.summary_model or model
    total = 0.0
    for call in calls:
        name = summariser if call.purpose == "summary" else model
        price = pricing(None)(name, call.usage, at)
        if price is None:
            return None
        total += price
    return total


def _figures(sides: Sequence[Side]) -> dict[str, Any]:
    """The figures of one agent, or of all of them: a peak is the largest, a share that of the sum."""
    from orchestrator.ledger import Usage

    played = [side.played for side in sides]
    usage = sum((p.usage for p in played), Usage())
    sent = sum(len(p.sent) for p in played)
    costs = [side.cost_usd for side in sides]
    return {
        "calls": sum(len(p.calls) for p in played),
        "summary_calls": sum(p.summary_calls for p in played),
        "peak_context_tokens": max((p.peak for p in played), default=0),
        "mean_context_tokens": round(sum(p.mean * len(p.sent) for p in played) / max(1, sent)),
        "offloaded": sum(p.offloads for p in played),
        "compactions": sum(len(p.compactions) for p in played),
        "over_window": sum(p.rejected for p in played),
        "exhausted": sum(p.exhausted_at is not None for p in played),
        "usage": usage.as_json(),
        "billed_tokens": round(sum(p.billed for p in played)),
        "cache_share": round(usage.cache_read_input_tokens / max(1, usage.context_tokens), 4),
        "cost_usd": None if None in costs else sum(c for c in costs if c is not None),
    }


# ── showing ──


def _sides(compared: Sequence[Compared]) -> dict[str, list[Side]]:
    """All agents' sides by their settings' name."""
    sides = {_AS_RUN: [one.as_run for one in compared]}
    if others := [one.what_if for one in compared if one.what_if is not None]:
        sides[_WHAT_IF] = others
    return sides


def _print_json(run_id: str, compared: Sequence[Compared], missing: int) -> None:
    from orchestrator.cli.output import print_json
    from orchestrator.events import SCHEMA

    sides = _sides(compared)
    print_json(
        {
            "schema": SCHEMA,
            "run_id": run_id,
            "missing_results": missing,
            "agents": [
                {
                    "agent_id": one.agent_id,
                    "as_run": one.as_run.as_json(),
                    "what_if": None if one.what_if is None else one.what_if.as_json(),
                }
                for one in compared
            ],
            "total": {
                "as_run": _figures(sides[_AS_RUN]),
                "what_if": _figures(sides[_WHAT_IF]) if _WHAT_IF in sides else None,
            },
        }
    )


def _print_table(compared: Sequence[Compared], records: Sequence[Record], missing: int) -> None:
    from orchestrator.cli.terminal import print_lines, width

    print_lines(compared_table(compared, width()))
    print_lines(_notes(compared, records, missing))


def compared_table(compared: Sequence[Compared], width: int | None) -> list[str]:
    """The agents' figures, the two groups of settings one below the other, and the total."""
    rows: list[list[str]] = []
    for one in compared:
        rows.append(_row(one.agent_id, _AS_RUN, [one.as_run]))
        if one.what_if is not None:
            rows.append(_row("", _WHAT_IF, [one.what_if]))
    if len(compared) != 1:
        names = [f"total ({len(compared)})", ""]
        sides = _sides(compared).items()
        rows += [_row(n, which, s) for n, (which, s) in zip(names, sides, strict=False)]
    return table(_COLUMNS, rows, width)


def _row(name: str, which: str, sides: Sequence[Side]) -> list[str]:
    figures = _figures(sides)
    return [
        name,
        which,
        number(figures["calls"]),
        short_number(figures["peak_context_tokens"]),
        short_number(figures["mean_context_tokens"]),
        number(figures["offloaded"]),
        number(figures["compactions"]),
        short_number(figures["billed_tokens"]),
        f"{figures['cache_share']:.0%}",
        cost(figures["cost_usd"]),
    ]


def _notes(compared: Sequence[Compared], records: Sequence[Record], missing: int) -> Iterator[str]:
    from orchestrator.prices import pricing
    from orchestrator.readings import summarise

    run = summarise(records, "", pricing(None))
    peak = max((agent.peak_context_tokens for agent in run.agents), default=0)
    requests = sum(agent.requests for agent in run.agents)
    yield ""
    yield (
        f"Recorded: {number(requests)} calls, peak {short_number(peak)}, "
        f"{short_number(run.usage.context_tokens)} input tokens, cost {cost(run.cost_usd)}."
    )
    yield from _guesses(compared)
    if missing:
        yield f"{number(missing)} stored results are gone; their placeholders were played."
    for one in compared:
        for which, side in ((_AS_RUN, one.as_run), (_WHAT_IF, one.what_if)):
            if side is not None and side.played.exhausted_at is not None:
                yield (
                    f"{one.agent_id}, {which}: after turn {side.played.exhausted_at} nothing is left "
                    "to make room with; the rest was not played."
                )


def _guesses(compared: Sequence[Compared]) -> Iterator[str]:
    """A misspelt model would look like one with a small window."""
    from orchestrator.context.windows import window_for

    asked = [one.what_if for one in compared if one.what_if is not None]
    open_ones = [side for side in asked if side.settings.window is None]
    guessed = {s.model: s.window for s in open_ones if not window_for(s.model).known}
    for model, window in guessed.items():
        yield f"What {model!r} takes is not known: {number(window)} tokens were assumed."
