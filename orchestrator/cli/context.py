"""``outrider context``: exactly what a model was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.table import Column, number, table
from orchestrator.errors import ConfigError
from orchestrator.ids import named

if TYPE_CHECKING:
    from orchestrator.events import Record
    from orchestrator.hindsight import Call, Difference, Gone, Piece

_PREVIEW_CHARS = 100

OfAgent = Annotated[
    str, typer.Option("--agent", metavar="ID", help="Whose (the beginning of its id will do).")
]
OfTurn = Annotated[
    int | None, typer.Option("--turn", metavar="K", help="Which turn, from 1; else the newest.")
]
Diff = Annotated[
    bool, typer.Option("--diff", help="What came and what left since the turn before.")
]


def context(
    run: opt.NewestRun = "latest",
    agent: OfAgent = "main",
    turn: OfTurn = None,
    diff: Diff = False,
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """Exactly what a model was sent, by section, with tokens: rebuilt from the journal.

    The request is compared by its hash with what was sent then. Tokens of a part are its share, by
    size, of what the provider reported for the whole. --diff says of everything that left where it
    went: which file, which compaction. --json has the request itself under "request".

    \b
    Examples:
      outrider context latest --turn 3
      outrider context latest --agent explorer --turn 12 --diff
      outrider context latest --turn 3 --json | jq .request.messages
    """
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width
    from orchestrator.hindsight import calls_of, difference, pieces_of
    from orchestrator.journal import read_records
    from orchestrator.rundir import find_run

    place = find_run(root, run)
    records = list(read_records(place.journal))
    agent_id = _agent(records, agent)
    calls = calls_of(records, agent_id, place.run_id)
    call, before = _chosen(calls, agent_id, turn)
    change = difference(calls, before, call) if diff and before is not None else None
    pieces = pieces_of(call)
    if as_json:
        print_json(_as_json(calls, call, pieces, change))
    else:
        print_lines(described(calls, call, pieces, width()))
        print_lines(_difference(change, call) if diff else _contents(pieces))


def _agent(records: Sequence[Record], text: str) -> str:
    names = list(dict.fromkeys(record.agent_id for record in records))
    matching = named(text, names)
    if len(matching) == 1:
        return matching[0]
    known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    said = f"fits {len(matching)} agents" if matching else "is no agent of this run"
    raise ConfigError(f"--agent {text} {said}; there are: {known or 'none'}")


def _chosen(calls: Sequence[Call], agent_id: str, turn: int | None) -> tuple[Call, Call | None]:
    """The call that made the turn, and the one of the turn before."""
    from orchestrator.hindsight import turns_of

    turns = turns_of(calls)
    if not turns:
        raise ConfigError(f"{agent_id} has made no model call")
    wanted = max(turns) if turn is None else turn
    if wanted not in turns:
        raise ConfigError(f"--turn {wanted}: {agent_id} has turns {min(turns)} to {max(turns)}")
    before = [number for number in turns if number < wanted]
    return turns[wanted], turns[max(before)] if before else None


# ── for people ──


def described(
    calls: Sequence[Call], call: Call, pieces: Sequence[Piece], width: int | None
) -> list[str]:
    """Which call it is, and its sections, of which ``pieces`` are all, in figures."""
    from orchestrator.hindsight import SECTIONS

    rows = []
    for section in SECTIONS:
        own = [piece for piece in pieces if piece.section == section]
        if own:
            marks = sum(piece.has_breakpoint for piece in own)
            rows.append([section, str(len(own)), number(_tokens(own)), str(marks or "")])
    marks = sum(piece.has_breakpoint for piece in pieces)
    rows.append(["total", str(len(pieces)), number(_tokens(pieces)), str(marks)])
    columns = (
        Column("section"),
        *(Column(t, right=True) for t in ("blocks", "tokens", "breakpoints")),
    )
    return [*_title(calls, call), "", *table(columns, rows, width)]


def _tokens(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _title(calls: Sequence[Call], call: Call) -> list[str]:
    state, fact = call.state, call.fact
    reported = call.reported_tokens
    said = "no tokens reported" if reported is None else f"{number(reported)} tokens reported"
    ended = getattr(fact, "stop_reason", None) or f"failed: {getattr(fact, 'kind', '?')}"
    lines = [
        f"{call.agent_id} · turn {call.turn} · {fact.purpose} · {call.request.model} · {ended}",
        f"{said}, {number(state.context_tokens)} estimated, window {number(state.window_tokens)} · "
        f"{number(len(call.request.body))} bytes",
        {
            True: f"equal, by its hash, to what was sent ({fact.request_hash})",
            False: "NOT equal, by its hash, to what was sent",
            None: "no hash of what was sent was recorded: rebuilt, not proven",
        }[call.is_proven],
    ]
    others = [c for c in calls if c is not call and c.turn == call.turn]
    failed = [getattr(c.fact, "kind", "") for c in others if c.fact.event == "model_failed"]
    if failed:
        lines.append(f"tried before in this turn: {', '.join(failed)}")
    return lines


def _contents(pieces: Sequence[Piece]) -> Iterator[str]:
    for piece in pieces:
        yield ""
        yield f"── {_label(piece)} ──"
        yield from piece.text.splitlines() or [""]


def _label(piece: Piece) -> str:
    parts: list[str] = [piece.section]
    if piece.message is not None:
        parts.append(f"message {piece.message + 1}")
    parts.append(piece.kind if piece.tool is None else f"{piece.kind} {piece.tool}")
    if piece.turn:
        parts.append(f"turn {piece.turn}")
    parts.append(f"{number(piece.tokens)} tokens")
    if piece.has_breakpoint:
        parts.append("breakpoint")
    return " · ".join(parts)


def _difference(change: Difference | None, call: Call) -> Iterator[str]:
    yield ""
    if change is None:
        yield f"turn {call.turn} is the first: there is none before it"
        return
    gone = [each.piece for each in change.gone]
    yield (
        f"since turn {change.before.turn}: {number(_tokens(change.kept))} tokens kept, "
        f"{number(_tokens(change.came))} came, {number(_tokens(gone))} left"
    )
    for piece in change.came:
        yield f"+ {_label(piece)}"
        yield f"    {_preview(piece)}"
    for each in change.gone:
        yield f"- {_label(each.piece)}"
        yield f"    → {each}"


def _preview(piece: Piece) -> str:
    line = " ".join(piece.text[: 4 * _PREVIEW_CHARS].split())
    return line if len(line) <= _PREVIEW_CHARS else f"{line[: _PREVIEW_CHARS - 1]}…"


# ── for programs ──


def _as_json(
    calls: Sequence[Call], call: Call, pieces: Sequence[Piece], change: Difference | None
) -> dict[str, Any]:
    from orchestrator.events import SCHEMA
    from orchestrator.hindsight import SECTIONS

    fact = call.fact
    return {
        "schema": SCHEMA,
        "run_id": call.run_id,
        "agent_id": call.agent_id,
        "agent_type": call.state.spec.agent_type,
        "turn": call.turn,
        "purpose": fact.purpose,
        "model": call.request.model,
        "request_id": fact.request_id,
        "request_hash": fact.request_hash,
        "proven": call.is_proven,
        "bytes": len(call.request.body),
        "reported_tokens": call.reported_tokens,
        "estimate_tokens": call.state.context_tokens,
        "window_tokens": call.state.window_tokens,
        "sections": [
            _section(name, [p for p in pieces if p.section == name])
            for name in SECTIONS
            if any(p.section == name for p in pieces)
        ],
        "breakpoints": [
            {"section": p.section, "message": p.message, "block": p.index}
            for p in pieces
            if p.has_breakpoint
        ],
        "others": [_other(c) for c in calls if c is not call and c.turn == call.turn],
        "request": json.loads(call.request.body),
        "diff": None if change is None else _diff(change),
    }


def _section(name: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    blocks = [_piece(piece) for piece in pieces]
    return {"name": name, "tokens": _tokens(pieces), "blocks": blocks}


def _piece(piece: Piece) -> dict[str, Any]:
    return {
        "message": piece.message,
        "block": piece.index,
        "type": piece.kind,
        "tool": piece.tool,
        "turn": piece.turn,
        "bytes": piece.bytes,
        "tokens": piece.tokens,
        "breakpoint": piece.has_breakpoint,
        "text": piece.text,
    }


def _other(call: Call) -> Mapping[str, Any]:
    """Another call of the same turn: a summary, or one that failed before."""
    return {
        "event": call.fact.event,
        "purpose": call.fact.purpose,
        "kind": getattr(call.fact, "kind", None),
        "request_id": call.fact.request_id,
        "request_hash": call.fact.request_hash,
        "proven": call.is_proven,
        "bytes": len(call.request.body),
        "reported_tokens": call.reported_tokens,
    }


def _diff(change: Difference) -> dict[str, Any]:
    return {
        "since_turn": change.before.turn,
        "kept_tokens": _tokens(change.kept),
        "came": [_piece(piece) | {"section": piece.section} for piece in change.came],
        "left": [_gone(each) for each in change.gone],
    }


def _gone(each: Gone) -> dict[str, Any]:
    where = {"how": each.how, "path": each.where, "compaction": each.compaction}
    return _piece(each.piece) | {"section": each.piece.section, "went": where}
