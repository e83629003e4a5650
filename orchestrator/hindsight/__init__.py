"""What a model was sent, seen afterwards: each request of an agent rebuilt from the journal, byte for
byte, by the functions that built it then. Pure.

::

    records = list(read_records(path))
    for call in calls_of(records, "main", run_id):
        print(call.turn, call.is_proven, len(call.request.body))
"""

from orchestrator.hindsight.calls import Call, calls_of, opening, turns_of
from orchestrator.hindsight.difference import Difference, Gone, difference
from orchestrator.hindsight.pieces import SECTIONS, Piece, piece_of, pieces_of

__all__ = [
    "SECTIONS",
    "Call",
    "Difference",
    "Gone",
    "Piece",
    "calls_of",
    "difference",
    "opening",
    "piece_of",
    "pieces_of",
    "turns_of",
]
