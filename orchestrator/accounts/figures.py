"""By agent, model or turn: cost by kind of token, and estimates beside what was reported. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from orchestrator.events import ModelFailed, ModelReplied, Record
from orchestrator.ledger import Costs, Usage
from orchestrator.readings import Key

# (model, usage of one call, seconds since the epoch) -> USD by kind of token; ``None``: not known.
PriceParts = Callable[[str, Usage, float], Costs | None]


_NOTHING = Costs()


@dataclass(frozen=True, slots=True)
class Figures:
    """``costs`` is ``None`` as soon as one call's price is not known. ``estimated``: tokens that the
    agents expected of their own requests; ``reported``: what the provider said of the same ones."""

    costs: Costs | None = _NOTHING
    estimated: int = 0
    reported: int = 0

    @property
    def deviation(self) -> float | None:
        """The estimates against what was reported, as a share: 0.02 is two per cent too many."""
        return self.estimated / self.reported - 1 if self.reported else None


def figures_by(
    records: Iterable[Record], key: Key, parts: PriceParts
) -> dict[tuple[str, int | None], Figures]:
    """By name and turn, as the rows of `readings.tokens_by` are."""
    found: dict[tuple[str, int | None], Figures] = {}
    for record in records:
        fact = record.fact
        if not isinstance(fact, ModelReplied | ModelFailed):
            continue
        name = fact.model if key == "model" else record.agent_id
        place = name, record.turn if key == "turn" else None
        before = found.get(place, Figures())
        found[place] = _after(before, record, fact, parts)
    return found


def _after(
    before: Figures, record: Record, fact: ModelReplied | ModelFailed, parts: PriceParts
) -> Figures:
    if fact.usage is None:
        return before
    costs = parts(fact.model, fact.usage, record.ts)
    total = None if costs is None or before.costs is None else before.costs + costs
    after = replace(before, costs=total)
    # A summary call's estimate is a guess by its bytes, and a prompt that was cut was not reported.
    if isinstance(fact, ModelFailed) or fact.purpose == "summary" or fact.truncated:
        return after
    if not fact.usage.context_tokens or not fact.estimate_tokens:
        return after
    return replace(
        after,
        estimated=before.estimated + fact.estimate_tokens,
        reported=before.reported + fact.usage.context_tokens,
    )
