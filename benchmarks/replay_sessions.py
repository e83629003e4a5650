"""Recorded sessions in one normal form, as conversations to play and as reports to estimate.

A session is a JSON object with ``messages`` of role user, assistant or event. Blocks are those of the
Messages API without signatures and image data; assistant messages carry ``prompt_tokens``, all that
the provider counted as input, where it was reported. ``compact_boundary`` is an event: the recorder
replaced its history there, and the next user message is its summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from orchestrator.context.estimate import BYTES_PER_TOKEN, Estimator, weigh
from orchestrator.context.windows import family_of
from orchestrator.messages import Message, encode
from orchestrator.whatif import Conversation, of_messages

# What text can be in tokens a byte; outside of it a report counted something that is not recorded.
_LEAST_RATE, _MOST_RATE = 0.15, 0.6
# How far one turn's rate may be from its session's.
_SPREAD = 1.5
_LEAST_DELTA_BYTES = 200
# A report that moves against its bytes by more than this share: the recorder took something out of
# its context, or put something in, and did not record that.
_UNRECORDED_SHARE = 0.05
# The estimate is judged from this report on.
LEARNT_AFTER = 5


@dataclass(frozen=True)
class Reported:
    """One request of the recorded session: its bytes since its context began, and the report."""

    context: int
    weight: int
    tokens: int
    turn: int


@dataclass(frozen=True)
class Session:
    name: str
    family: str
    conversation: Conversation
    reports: Sequence[Reported]


def find(folders: Iterable[Path]) -> list[Path]:
    """The session files under the folders, in order of their names."""
    paths = (path for folder in folders for path in sorted(folder.rglob("*.json")))
    return [path for path in paths if "messages" in _read(path)]


def load(path: Path) -> Session:
    recorded = _read(path)
    model = recorded.get("model") or "unknown"
    reports = list(_reports(recorded["messages"]))
    rate, rates = _rates(reports, _replies(recorded["messages"]))
    conversation = of_messages(
        [_plain(m) for m in recorded["messages"] if _is_work(m)],
        model=model,
        rate=rate,
        rates=rates,
        output=_outputs(recorded["messages"]),
    )
    return Session(path.stem, family_of(model), conversation, reports)


def biases(reports: Sequence[Reported]) -> list[float]:
    """``estimate / reported - 1`` of each request after the first five reports.

    What the recorder sent before the messages (system prompt, tools) is not recorded: it is taken
    from the first report of each context, at the tokens a byte that were learnt until then.
    """
    estimator = Estimator()
    found: list[float] = []
    context, fixed = -1, 0
    for report in reports:
        if report.context != context:
            estimator = estimator.forget_report()
            context = report.context
            fixed = round(report.tokens / estimator.tokens_per_byte) - report.weight
        weight = max(1, fixed + report.weight)
        if estimator.reports >= LEARNT_AFTER and estimator.reported_tokens is not None:
            found.append(estimator.tokens(weight) / report.tokens - 1)
        estimator = estimator.learn(weight, report.tokens)
    return found


def _read(path: Path) -> dict[str, Any]:
    read = json.loads(path.read_text(encoding="utf-8"))
    return read if isinstance(read, dict) else {}


def _is_work(message: dict[str, Any]) -> bool:
    """Whether a message belongs to the work: not the recorder's own compaction or error texts, nor a
    reply that broke off before its first word."""
    return (
        message["role"] in ("user", "assistant")
        and not message.get("is_compact_summary")
        and not message.get("synthetic")
        and bool(message["content"])
    )


def _plain(message: dict[str, Any]) -> Message:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_unsigned(b) for b in blocks]}


def _unsigned(block: dict[str, Any]) -> dict[str, Any]:
    """A thinking block as it weighs in a request: its signature was dropped, its length was kept."""
    if block["type"] != "thinking":
        return block
    signature = "s" * block.get("signature_chars", 0)
    return {"type": "thinking", "thinking": block.get("thinking") or "", "signature": signature}


def _replies(messages: Sequence[dict[str, Any]]) -> int:
    return sum(m["role"] == "assistant" and _is_work(m) for m in messages)


def _outputs(messages: Sequence[dict[str, Any]]) -> list[int | None]:
    replies = [m for m in messages if m["role"] == "assistant" and _is_work(m)]
    # Where a reply was streamed some recorders kept the count of its first event: too small to use.
    sizes = [sum(len(str(b)) for b in m["content"]) / BYTES_PER_TOKEN for m in replies]
    told = [(m.get("usage") or {}).get("output_tokens") for m in replies]
    return [t if t and t >= size / 2 else None for t, size in zip(told, sizes, strict=True)]


def _reports(messages: Sequence[dict[str, Any]]) -> Iterator[Reported]:
    context = weight = turn = 0
    last: Reported | None = None
    for message in messages:
        if message.get("event") == "compact_boundary":
            context, weight, last = context + 1, 0, None
        if message["role"] == "event" or not message["content"] or message.get("synthetic"):
            continue
        if message["role"] == "assistant":
            turn += 1
            if tokens := message.get("prompt_tokens"):
                context += last is not None and not _goes_on(last, weight, tokens, turn)
                last = Reported(context, weight, tokens, turn)
                yield last
        plain = _plain(message)
        weight += weigh(plain["content"], len(encode(plain)))


def _goes_on(last: Reported, weight: int, tokens: int, turn: int) -> bool:
    """Whether a request is the one before and what was recorded since. After a reply that broke off
    (it has no report) recorders differ in what they send on."""
    grown, most = tokens - last.tokens, weight - last.weight
    slack = _UNRECORDED_SHARE * last.tokens
    return turn == last.turn + 1 and -slack <= grown <= most + slack


def _rates(reports: Sequence[Reported], replies: int) -> tuple[float, list[float]]:
    """Tokens a byte of the session, and of each turn: what its report grew by."""
    grown = [
        (before.turn, after.tokens - before.tokens, after.weight - before.weight)
        for before, after in pairwise(reports)
        if before.context == after.context and after.turn == before.turn + 1
    ]
    grown = [(turn, tokens, size) for turn, tokens, size in grown if tokens > 0 and size > 0]
    if not grown:
        return 1 / BYTES_PER_TOKEN, []
    rate = sum(t for _, t, _ in grown) / sum(size for _, _, size in grown)
    rate = min(max(rate, _LEAST_RATE), _MOST_RATE)
    rates = [rate] * (replies + 1)
    for turn, tokens, size in grown:
        if size >= _LEAST_DELTA_BYTES:
            rates[turn] = min(max(tokens / size, rate / _SPREAD), rate * _SPREAD)
    return rate, rates
