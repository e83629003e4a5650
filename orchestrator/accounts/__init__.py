"""Accounts that need more than adding up: what each kind of token cost, how good the estimates were,
what tools' results cost while they stayed, what isolation saved. Pure readings of a run's records.

What each figure means, exactly: ``docs/tokens.md``.
"""

from orchestrator.accounts.carrying import ToolAccount, by_tool
from orchestrator.accounts.figures import Figures, PriceParts, figures_by
from orchestrator.accounts.isolation import Isolation, isolation

__all__ = [
    "Figures",
    "Isolation",
    "PriceParts",
    "ToolAccount",
    "by_tool",
    "figures_by",
    "isolation",
]
