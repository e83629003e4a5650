"""The journal: one SQLite file per run that holds every event, in order, before anything acts on it.

Appending is durable on return. Agents append at the same time; one writer takes all that waits and
commits it together, so that 500 agents cost a few disk flushes and not 500. What depends on the
journal's order (state, log, progress) runs in the writer, after the commit, in that order.
"""

from orchestrator.journal.lock import is_running, let_lock_go, take_lock
from orchestrator.journal.opening import open_journal
from orchestrator.journal.reading import read_records
from orchestrator.journal.rows import SCHEMA_VERSION
from orchestrator.journal.salvage import Lost, Salvage, Whole, salvage, spelled
from orchestrator.journal.seam import Applied, Entry, Journal

__all__ = [
    "SCHEMA_VERSION",
    "Applied",
    "Entry",
    "Journal",
    "Lost",
    "Salvage",
    "Whole",
    "is_running",
    "let_lock_go",
    "open_journal",
    "read_records",
    "salvage",
    "spelled",
    "take_lock",
]
