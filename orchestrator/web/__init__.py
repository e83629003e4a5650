"""Fetching from the web: `fetch`, with what it may reach and what it makes of the answer."""

from orchestrator.web.addresses import canonical, kind_of
from orchestrator.web.client import Bounds, Resolve
from orchestrator.web.fetching import Fetch
from orchestrator.web.guard import FetchDenied, FetchFailed, Guard, named_hosts

__all__ = [
    "Bounds",
    "Fetch",
    "FetchDenied",
    "FetchFailed",
    "Guard",
    "Resolve",
    "canonical",
    "kind_of",
    "named_hosts",
]
