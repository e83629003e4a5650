"""One row for every request: who asked, what was answered, and which figures the client was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: The figures that add up, in the names of the API.
FIGURES = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
)


@dataclass(slots=True)
class Row:
    """A request and its outcome. Token figures are those sent, not those that would be true.

    A stream cut after `message_start` told its input figures and one output token; a refused
    request told nothing. `context_tokens` is the measured prompt, whatever was told.
    """

    seq: int
    endpoint: str
    agent: str = ""
    purpose: str = ""
    model: str = ""
    stream: bool = False
    max_tokens: int = 0
    body_bytes: int = 0
    body_hash: str = ""
    messages: int = 0
    context_tokens: int = 0
    #: Status sent; 0 where the connection ended before one was.
    status: int = 0
    #: The rules found nothing wrong. A valid request may still have met a fault.
    valid: bool = True
    #: Why it was refused, or which fault it met.
    error: str | None = None
    fault: str | None = None
    stop_reason: str | None = None
    request_id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0

    def told(self, usage: Mapping[str, Any]) -> None:
        """Takes over the figures of a usage object that was sent; the counts are cumulative."""
        for figure in FIGURES[:4]:
            if usage.get(figure) is not None:
                setattr(self, figure, usage[figure])
        lifetimes = usage.get("cache_creation") or {}
        for figure in FIGURES[4:]:
            if lifetimes.get(figure) is not None:
                setattr(self, figure, lifetimes[figure])


class Ledger:
    """The rows in the order in which the requests arrived."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    @property
    def rows(self) -> list[Row]:
        """Every request so far, those still being answered included."""
        return list(self._rows)

    @property
    def rejected(self) -> list[Row]:
        """The requests that broke a rule."""
        return [row for row in self._rows if not row.valid]

    def open(self, endpoint: str) -> Row:
        row = Row(len(self._rows) + 1, endpoint)
        self._rows.append(row)
        return row

    def totals(self) -> dict[str, int]:
        """Requests, rejections and the sum of every figure told."""
        return _sum(self._messages())

    def by_agent(self) -> dict[str, dict[str, int]]:
        """The same for each agent, in the order of first appearance."""
        groups: defaultdict[str, list[Row]] = defaultdict(list)
        for row in self._messages():
            groups[row.agent].append(row)
        return {agent: _sum(rows) for agent, rows in groups.items()}

    def as_json(self) -> dict[str, Any]:
        return {
            "totals": self.totals(),
            "by_agent": self.by_agent(),
            "rows": [asdict(row) for row in self._rows],
        }

    def _messages(self) -> list[Row]:
        return [row for row in self._rows if row.endpoint == "messages"]


def _sum(rows: Iterable[Row]) -> dict[str, int]:
    sums = dict.fromkeys(("requests", "rejected", *FIGURES), 0)
    sums["peak_context_tokens"] = 0
    for row in rows:
        sums["requests"] += 1
        sums["rejected"] += not row.valid
        for figure in FIGURES:
            sums[figure] += getattr(row, figure)
        sums["peak_context_tokens"] = max(sums["peak_context_tokens"], row.context_tokens)
    return sums
