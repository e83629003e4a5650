"""For tests of agents: a scripted model, and (extra ``server``) a strict stand-in for the Messages
API in `orchestrator.testing.standin`."""

from orchestrator.testing.scripted import ScriptedModel, call, results, said

__all__ = ["ScriptedModel", "call", "results", "said"]
