"""Outrider: run long tasks with language-model agents, each in a context of its own.

The names below are the public library. They are loaded when first used, so that importing the
package (and ``outrider --help``) stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.budget import Limits
    from orchestrator.context.policy import Context
    from orchestrator.errors import ConfigError, JournalError, ModelError, OutriderError, ToolError
    from orchestrator.events import Record
    from orchestrator.launching import run
    from orchestrator.model import Model, ModelFacts, Reply, Request
    from orchestrator.permissions import Permissions
    from orchestrator.reins import Reins
    from orchestrator.report import Report
    from orchestrator.resuming import fork, resume
    from orchestrator.streaming import Events, stream
    from orchestrator.tools import ThisCall, Tool, this_call, tool

_HOME = {
    "ConfigError": "errors",
    "Context": "context.policy",
    "Events": "streaming",
    "JournalError": "errors",
    "Limits": "budget",
    "Model": "model",
    "ModelError": "errors",
    "ModelFacts": "model",
    "OutriderError": "errors",
    "Permissions": "permissions",
    "Record": "events",
    "Reins": "reins",
    "Reply": "model",
    "Report": "report",
    "Request": "model",
    "ThisCall": "tools",
    "Tool": "tools",
    "ToolError": "errors",
    "fork": "resuming",
    "resume": "resuming",
    "run": "launching",
    "stream": "streaming",
    "this_call": "tools",
    "tool": "tools",
}

__all__ = [
    "ConfigError",
    "Context",
    "Events",
    "JournalError",
    "Limits",
    "Model",
    "ModelError",
    "ModelFacts",
    "OutriderError",
    "Permissions",
    "Record",
    "Reins",
    "Reply",
    "Report",
    "Request",
    "ThisCall",
    "Tool",
    "ToolError",
    "fork",
    "resume",
    "run",
    "stream",
    "this_call",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"orchestrator.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
