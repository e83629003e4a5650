"""How definitions and their problems are shown to people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.cli.table import Column, number, table

if TYPE_CHECKING:
    from subagents import Problem

_SIZES = (
    Column("window", right=True),
    Column("prompt", right=True),
    Column("schemas", right=True),
)
_CHECK = (
    Column("name"),
    Column("model", least=7),
    *_SIZES,
    Column("tools", least=12),
    Column("source", least=12),
)
_LIST = (*_CHECK, Column("description", least=16))


def listing(kinds: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    rows = [[*_row(kind), _short(kind["description"])] for kind in kinds]
    return table(_LIST, rows, width)


def _short(text: str) -> str:
    from orchestrator.progress import one_line

    return one_line(text, 120)


def _row(kind: dict[str, Any]) -> list[str]:
    return [
        kind["name"],
        kind["model"],
        _window(kind),
        number(kind["prompt_tokens"]),
        number(kind["schema_tokens"]),
        _tools(kind),
        kind["source"],
    ]


def _window(kind: dict[str, Any]) -> str:
    return number(kind["window_tokens"]) + ("" if kind["window_known"] else "?")


def _tools(kind: dict[str, Any]) -> str:
    bounds = kind["bounds"]
    named = ([f"{t}({p})" for p in bounds[t]] if t in bounds else [t] for t in kind["tools"])
    return ", ".join(name for names in named for name in names) or "none"


def problem_json(problem: Problem) -> dict[str, Any]:
    names = ("path", "line", "key", "severity", "message")
    return {name: getattr(problem, name) for name in names}


def page(kind: dict[str, Any], problems: Iterable[Problem]) -> list[str]:
    guess = "" if kind["window_known"] else " (a guess: the model is not known)"
    unmeasured = f", without {', '.join(kind['unmeasured_tools'])}"
    facts = {
        "name": kind["name"],
        "description": _short(kind["description"]),
        "model": kind["model"],
        "window": f"{number(kind['window_tokens'])} tokens{guess}",
        "tools": _tools(kind),
        "schemas": f"{number(kind['schema_tokens'])} tokens"
        + (unmeasured if kind["unmeasured_tools"] else ""),
        "prompt": f"{number(kind['prompt_tokens'])} tokens",
        "limits": ", ".join(
            f"{k} {_amount(v)}" for k, v in kind["limits"].items() if v is not None
        ),
        "source": kind["source"],
        **_optional(kind),
    }
    lines = [f"{name:<11}  {text}" for name, text in facts.items()]
    lines += [f"{problem.severity:<11}  {problem}" for problem in problems]
    return [*lines, "", kind["prompt"]]


def _amount(value: float) -> str:
    return f"{value:,}".removesuffix(".0")


def _optional(kind: dict[str, Any]) -> dict[str, str]:
    """Facts that are shown only where there is something to say."""
    spawns = kind["can_spawn"]
    facts = {
        "effort": kind["effort"],
        "spawns": ", ".join(spawns) if isinstance(spawns, list) else None,
        "denied": ", ".join(kind["denied"]),
        "returns": None if kind["returns"] is None else json.dumps(kind["returns"]),
        "unknown": ", ".join(kind["unknown_tools"]),
    }
    return {name: text for name, text in facts.items() if text}


def verdict(
    problems: Sequence[Problem], kinds: Sequence[dict[str, Any]], width: int | None
) -> list[str]:
    lines = [f"{problem.severity}: {problem}" for problem in problems]
    if kinds:
        lines += [*([""] if lines else []), *table(_CHECK, [_row(k) for k in kinds], width)]
    counts = {s: sum(p.severity == s for p in problems) for s in ("error", "warning", "info")}
    said = ", ".join(
        f"{n} {s}{'s' if n != 1 and s != 'info' else ''}" for s, n in counts.items() if n
    )
    return [*lines, "", f"{len(kinds)} definitions; {said or 'no problems'}"]
