"""`fetch` for one agent: it reaches what the agent's rules let it reach."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from orchestrator.agent import Agent
from orchestrator.permissions import Decision, HostPattern, rule
from orchestrator.tools import Tool, tool_of
from orchestrator.web import Fetch, Guard, canonical, named_hosts


def web_tools(agent: Agent) -> list[Tool]:
    """`fetch`, where a rule of the run enables it."""
    if not agent.permissions.enables("fetch"):
        return []
    layers = agent.permissions.layers
    run = layers[0]
    denied = (host for layer in layers for text in layer.deny for host in _denied_by(text))
    guard = Guard(
        partial(_decided, agent),
        named=named_hosts(run.allow),
        asked=named_hosts(run.ask),
        denied=frozenset(denied),
    )
    # Asking once more for a page changes nothing; its own first line says more than the common one.
    return [tool_of(Fetch(guard).fetch, after_crash="repeat", untrusted=False)]


def _denied_by(text: str) -> Iterator[str]:
    """The host that a rule denies, in whichever spelling; one with a wildcard names nobody."""
    pattern = rule(text).pattern
    if isinstance(pattern, HostPattern) and not {*"*?"} & {*pattern.host}:
        yield canonical(pattern.host)


def _decided(agent: Agent, host: str) -> Decision:
    # Grants of its definition may bind the agent further after its tools were made: asked each time.
    name = f"[{host}]" if ":" in host else host
    return agent.permissions.decide("fetch", {"url": f"http://{name}/"})
