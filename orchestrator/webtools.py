"""`fetch` for one agent: it reaches what the agent's rules let it reach."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from orchestrator.agent import Agent
from orchestrator.permissions import Decision, Permissions
from orchestrator.tools import Tool, tool_of
from orchestrator.web import Fetch, Guard, named_hosts


def web_tools(agent: Agent) -> list[Tool]:
    """`fetch`, where a rule of the run enables it."""
    if not agent.permissions.enables("fetch"):
        return []
    layers = list(_layers(agent.permissions))
    run = layers[-1]
    guard = Guard(
        partial(_decided, agent),
        named=named_hosts((*run.allow, *run.ask)),
        denied=named_hosts(rule for layer in layers for rule in layer.deny),
    )
    # Asking once more for a page changes nothing.
    return [tool_of(Fetch(guard).fetch, after_crash="repeat")]


def _layers(permissions: Permissions | None) -> Iterator[Permissions]:
    """From the agent's own rules outwards, to those of the run."""
    while permissions is not None:
        yield permissions
        permissions = permissions.outer


def _decided(agent: Agent, host: str) -> Decision:
    # Grants of its definition may bind the agent further after its tools were made: asked each time.
    name = f"[{host}]" if ":" in host else host
    return agent.permissions.decide("fetch", {"url": f"http://{name}/"})
