"""What happened when a conversation was played, and its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.context.history import Entry
from orchestrator.context.policy import Level
from orchestrator.ledger import Usage
from orchestrator.state import State

Purpose = Literal["agent", "read_back", "summary"]


@dataclass(frozen=True, slots=True)
class Call:
    """One model call. Its input is ``read`` from the cache, ``written`` to it, and ``uncached``.

    ``estimate`` is what the policy believed of ``tokens``. ``turn`` counts replies, those that read
    back included. A ``rejected`` call was over the window: nothing is billed.
    """

    purpose: Purpose
    turn: int
    tokens: int
    estimate: int
    level: Level
    read: int = 0
    written: int = 0
    uncached: int = 0
    output: int = 0
    rejected: bool = False

    @property
    def billed(self) -> float:
        """Input tokens at their weight in price."""
        return self.usage.weighted

    @property
    def usage(self) -> Usage:
        return Usage(self.uncached, self.output, self.read, self.written, self.written)


@dataclass(frozen=True, slots=True)
class Stored:
    """Texts that moved to files, by path (of an image or document, the empty text). ``at_birth``:
    before they were ever sent. ``is_facts``: a list of facts that a compaction put aside, which no
    offload moved."""

    files: Mapping[str, str]
    at_birth: bool
    is_facts: bool = False


@dataclass(frozen=True, slots=True)
class Compaction:
    """Oldest messages gave way to a summary. ``before`` and ``after`` are estimates in tokens."""

    dropped: Sequence[Entry]
    turn: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Nothing was left to make room with: a run would have ended here."""

    turn: int


What = Call | Stored | Compaction | Exhausted


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, and the agent's state after it (for a call: as it was sent)."""

    what: What
    state: State


@dataclass(frozen=True)
class Played:
    """A conversation played to its end, or to where it was exhausted."""

    calls: tuple[Call, ...] = ()
    offloads: int = 0
    compactions: tuple[Compaction, ...] = ()
    exhausted_at: int | None = None

    @property
    def sent(self) -> tuple[Call, ...]:
        """The agent's calls that were answered: no summaries."""
        return tuple(c for c in self.calls if c.purpose != "summary" and not c.rejected)

    @property
    def peak(self) -> int:
        """The largest request in tokens."""
        return max((c.tokens for c in self.sent), default=0)

    @property
    def mean(self) -> float:
        """Tokens of a request on average."""
        return sum(c.tokens for c in self.sent) / len(self.sent) if self.sent else 0.0

    @property
    def rejected(self) -> int:
        """Requests over the window."""
        return sum(c.rejected for c in self.calls)

    @property
    def summary_calls(self) -> int:
        return sum(c.purpose == "summary" for c in self.calls)

    @property
    def usage(self) -> Usage:
        return sum((c.usage for c in self.calls), Usage())

    @property
    def billed(self) -> float:
        """Input tokens of all calls at their weight in price: uncached, 1.25 × written, 0.1 × read."""
        return sum(c.billed for c in self.calls)

    @property
    def cache_share(self) -> float:
        """Share of the input that was read from the cache."""
        usage = self.usage
        total = usage.context_tokens
        return usage.cache_read_input_tokens / total if total else 0.0


def gather(happened: Iterable[Moment]) -> Played:
    """The figures of what happened."""
    whats = [moment.what for moment in happened]
    exhausted = next((w.turn for w in whats if isinstance(w, Exhausted)), None)
    return Played(
        calls=tuple(w for w in whats if isinstance(w, Call)),
        offloads=sum(len(w.files) for w in whats if isinstance(w, Stored) and not w.is_facts),
        compactions=tuple(w for w in whats if isinstance(w, Compaction)),
        exhausted_at=exhausted,
    )
