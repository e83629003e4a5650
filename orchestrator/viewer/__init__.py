"""``outrider view``: a run as a local web page, while it goes on and afterwards, and as one file.

What is shown is made in Python, as pure folds over the journal's records: `Story` (the run, its
agents, calls and events, to be sent piece by piece), `detail` (all that one agent was sent, turn by
turn) and `accounts` (what tools' results cost, what isolation saved). The page in ``page/`` only draws.

Texts of people, models and tools are told by their length alone unless `in_full` is given; everything
passes through a `cleaner` on its way out.
"""

from orchestrator.viewer.accounting import accounts
from orchestrator.viewer.shown import Clean, Tell, cleaner, in_full, length_only
from orchestrator.viewer.story import Story
from orchestrator.viewer.turns import detail

__all__ = [
    "Clean",
    "Story",
    "Tell",
    "accounts",
    "cleaner",
    "detail",
    "in_full",
    "length_only",
]
