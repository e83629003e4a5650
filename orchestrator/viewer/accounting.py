"""The accounts that need the whole run replayed: what tools' results cost while they stayed, and what
isolation saved (`orchestrator.accounts`), as JSON for the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.accounts import Isolation, by_tool, isolation
from orchestrator.events import Record
from orchestrator.readings import Price, unpriced


def accounts(records: Sequence[Record], price: Price = unpriced) -> dict[str, Any]:
    """``records``: all of the run so far. ``share``: of all that tools' results were carried."""
    tools = by_tool(records, price)
    carried = sum(tool.carried for tool in tools) or 1
    account = isolation(records)
    return {
        "tools": [
            {
                "name": tool.tool,
                "tokens": tool.tokens,
                "requests": tool.requests,
                "carried": tool.carried,
                "share": tool.carried / carried,
                "cost": tool.cost_usd,
            }
            for tool in tools
        ],
        "isolation": None if account is None else _told(account),
    }


def _told(account: Isolation) -> dict[str, Any]:
    return account.as_json() | {"share": account.saved / account.alone if account.alone else 0.0}
