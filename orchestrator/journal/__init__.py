"""The journal: one SQLite file per run that holds every event, in order, before anything acts on it.

What was appended outlives the process on return, and a loss of power within a second; a caller that is about
to have an effect waits for the disk, and all that wait share one flush. What depends on the journal's order
(state, log, progress) runs after the commit, in that order.
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
