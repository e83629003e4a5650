"""An agent's state, as a fold over its events. Pure: `apply` is all that changes it.

Resume, replay, fork and every report read the same events, so what is true of a live agent is true
of a replayed one.
"""

from orchestrator.state.fold import ARCHIVE, STOPPED, apply, replay
from orchestrator.state.following import follow, follow_all, unfollowed
from orchestrator.state.value import State, reminder

__all__ = [
    "ARCHIVE",
    "STOPPED",
    "State",
    "apply",
    "follow",
    "follow_all",
    "reminder",
    "replay",
    "unfollowed",
]
