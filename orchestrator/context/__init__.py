"""The context pipeline: what an agent's model is sent, and how that stays small.

Pure functions, usable without the rest of Outrider: see `orchestrator.context.standalone`.
"""

from orchestrator.context.compaction import Cut
from orchestrator.context.estimate import Estimator
from orchestrator.context.offload import Part
from orchestrator.context.overflow import is_context_overflow, window_in
from orchestrator.context.policy import Context
from orchestrator.context.room import Compact, Full, Offload
from orchestrator.context.standalone import (
    compacted,
    decide,
    facts_of,
    offloaded,
    placeholder,
    summary_question,
    weight_of,
)
from orchestrator.context.windows import Window, window_for

__all__ = [
    "Compact",
    "Context",
    "Cut",
    "Estimator",
    "Full",
    "Offload",
    "Part",
    "Window",
    "compacted",
    "decide",
    "facts_of",
    "is_context_overflow",
    "offloaded",
    "placeholder",
    "summary_question",
    "weight_of",
    "window_for",
    "window_in",
]
