"""The context pipeline: what an agent's model is sent, and how that stays small. Pure functions on
messages, usable without the rest of Outrider."""

from orchestrator.context.overflow import is_context_overflow
from orchestrator.context.policy import Context
from orchestrator.context.windows import Window, window_for

__all__ = ["Context", "Window", "is_context_overflow", "window_for"]
