"""A strict local stand-in for the Messages API, served over real HTTP.

It refuses what the service refuses, counts what it bills, fails as it fails, and keeps a ledger of
every request. What answers is a brain: a function of the request. See `docs/stand-in.md`.
"""

from __future__ import annotations

try:
    import httptools as _httptools  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as _error:  # pragma: no cover
    raise ImportError(
        "The stand-in server needs an extra: pip install 'outrider[server]'"
    ) from _error

from .answers import Answer, Brain, call, say
from .faults import Fault
from .ledger import Ledger, Row
from .models import Model
from .server import Server, StandinProcess, serve, standin_process
from .settings import Settings

__all__ = [
    "Answer",
    "Brain",
    "Fault",
    "Ledger",
    "Model",
    "Row",
    "Server",
    "Settings",
    "StandinProcess",
    "call",
    "say",
    "serve",
    "standin_process",
]
