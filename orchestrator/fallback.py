"""What becomes of an agent whose model does not answer any more, where another one may take over. Pure."""

from __future__ import annotations

from orchestrator import compose
from orchestrator.context.policy import output_reserve, working_window
from orchestrator.context.windows import binds_thinking
from orchestrator.errors import ModelError
from orchestrator.events import ModelSwitched
from orchestrator.model import Fallback
from orchestrator.state import State


def switch_after(
    state: State, error: ModelError, fallback: Fallback | None
) -> ModelSwitched | None:
    """The switch after a call that was given up with ``error``; ``None``: that is no reason, or there
    is nothing to switch to.

    Only what could be tried again is a reason: an outage. What is wrong with the request or the
    account would be wrong elsewhere too.
    """
    if fallback is None or not error.retryable or fallback.name == state.spec.model:
        return None
    window = compose.window_of(fallback.name, fallback.facts)
    working = working_window(compose.within(state.settings, window), window)
    return ModelSwitched.model_validate(
        {
            "from": state.spec.model,
            "to": fallback.name,
            "why": error.kind,
            "window_tokens": working,
            "output_tokens": output_reserve(working, window),
            "binds_thinking": binds_thinking(fallback.name),
            "diagnostics": fallback.facts.diagnostics,
        }
    )
