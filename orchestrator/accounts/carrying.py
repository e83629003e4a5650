"""Which tool's results cost most: each result over all requests that it was part of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.context.estimate import weigh
from orchestrator.context.history import Entry
from orchestrator.events import ModelFailed, ModelReplied, Record, ToolReturned
from orchestrator.ledger import Usage
from orchestrator.messages import encode
from orchestrator.readings import Price, unpriced
from orchestrator.state import State, follow


@dataclass(frozen=True, slots=True)
class ToolAccount:
    """One tool over a whole run.

    ``chars``: what it returned, whole. ``tokens``: what came into contexts of that, each result once.
    ``requests``: over its results, in how many requests each was. ``carried``: the same with tokens;
    ``usage`` is what it was read as: uncached, written to the cache, read from it. ``cost_usd`` is
    ``None`` where a price is not known.
    """

    tool: str
    calls: int = 0
    errors: int = 0
    chars: int = 0
    tokens: int = 0
    requests: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = 0.0

    @property
    def carried(self) -> int:
        return self.usage.context_tokens


def by_tool(records: Iterable[Record], price: Price = unpriced) -> list[ToolAccount]:
    """Each tool, the one whose results were carried most first. Raises `JournalError` where the records
    are of no run."""
    accounts: dict[str, ToolAccount] = {}
    agents: dict[str, _Agent] = {}
    for record in records:
        fact = record.fact
        agent = agents.setdefault(record.agent_id, _Agent())
        after = follow(agent.state, record)
        if isinstance(fact, ToolReturned):
            _count(accounts, fact)
        elif isinstance(fact, ModelReplied | ModelFailed) and fact.purpose != "summary":
            for name, share in agent.shares(fact):
                _add(accounts, name, share, price(fact.model, share.usage, record.ts))
        agent.state = after
    return sorted(accounts.values(), key=lambda account: -account.carried)


def _count(accounts: dict[str, ToolAccount], fact: ToolReturned) -> None:
    account = accounts.get(fact.tool) or ToolAccount(fact.tool)
    accounts[fact.tool] = replace(
        account,
        calls=account.calls + 1,
        errors=account.errors + fact.is_error,
        chars=account.chars + fact.chars,
    )


def _add(accounts: dict[str, ToolAccount], name: str, share: _Share, cost: float | None) -> None:
    account = accounts.get(name) or ToolAccount(name)
    total = None if cost is None or account.cost_usd is None else account.cost_usd + cost
    accounts[name] = replace(
        account,
        tokens=account.tokens + share.fresh,
        requests=account.requests + share.results,
        usage=account.usage + share.usage,
        cost_usd=total,
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """One tool's part in one request: tokens that are there for the first time, how many results."""

    fresh: int
    results: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class _Span:
    """A tool's result in an entry: where it begins, and its weight, in bytes."""

    tool: str
    use: str
    begin: int
    weight: int


class _Agent:
    """One agent's state, and which results it has carried before."""

    def __init__(self) -> None:
        self.state = State()
        self._seen: set[tuple[int, str]] = set()
        self._spans: dict[int, tuple[Entry, list[_Span]]] = {}

    def shares(self, fact: ModelReplied | ModelFailed) -> Iterator[tuple[str, _Share]]:
        """By tool, what its results were in the request that was answered now. A request of which
        nothing was reported is no part of any account."""
        usage, weight = fact.usage, self.state.request_weight
        if usage is None or not usage.context_tokens or self.state.started is None:
            return
        rate = usage.context_tokens / weight
        totals: dict[str, list[float]] = {}
        for entry_turn, begin, span in self._results():
            parts = _divided(begin * rate, (begin + span.weight) * rate, usage)
            total = totals.setdefault(span.tool, [0.0] * 5)
            for at, part in enumerate(parts):
                total[at] += part
            place = entry_turn, span.use
            if place not in self._seen:
                self._seen.add(place)
                total[3] += sum(parts)
            total[4] += 1
        for tool, (uncached, written, read, fresh, results) in totals.items():
            share = _usage(round(uncached), round(written), round(read), usage)
            yield tool, _Share(round(fresh), round(results), share)

    def _results(self) -> Iterator[tuple[int, int, _Span]]:
        """The results in the request, with their turn and where they begin in it, in bytes."""
        before, at = None, self.state.fixed_weight
        for entry in self.state.messages:
            known = self._spans.get(id(entry))
            if known is None or known[0] is not entry:
                known = self._spans[id(entry)] = entry, _spans(before, entry)
            for span in known[1]:
                yield entry.turn, at + span.begin, span
            at += entry.weight
            before = entry


def _spans(before: Entry | None, entry: Entry) -> list[_Span]:
    names = {} if before is None else {
        block["id"]: block["name"]
        for block in before.message["content"]
        if block.get("type") == "tool_use"
    }  # fmt: skip
    found, at = [], 0
    for block in entry.message["content"]:
        weight = weigh([block], len(encode(block)))
        if block.get("type") == "tool_result":
            use = block["tool_use_id"]
            found.append(_Span(names.get(use, "?"), use, at, weight))
        at += weight
    return found


def _divided(begin: float, end: float, usage: Usage) -> Sequence[float]:
    """Tokens of a stretch that were uncached, written and read. A request is read from the cache from
    its beginning on; what follows is written to it, and what comes last is neither."""
    read = usage.cache_read_input_tokens
    written = read + usage.cache_creation_input_tokens
    in_read = max(0.0, min(end, read) - begin)
    in_written = max(0.0, min(end, written) - max(begin, read))
    return max(0.0, end - begin - in_read - in_written), in_written, in_read


def _usage(uncached: int, written: int, read: int, of: Usage) -> Usage:
    """The cache writes by age as those of the whole request are."""
    share = of.ephemeral_1h_input_tokens / (of.cache_creation_input_tokens or 1)
    one_hour = round(written * min(share, 1.0))
    return Usage(uncached, 0, read, written, written - one_hour, one_hour)
