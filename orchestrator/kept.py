"""What a run was started with, as its journal keeps it for `resume`. Pure.

Never a key: those come from the environment of whoever goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.errors import ConfigError
from orchestrator.permissions import Permissions
from orchestrator.prices import Overrides, Rates
from orchestrator.tools import Tool


@dataclass(frozen=True)
class Kept:
    """The settings of a run. ``tools``: where each function is to be found, as ``module:name``;
    ``agents``: definition files and folders that were named, ``agent``: the main one's name."""

    model: str | None = None
    base_url: str | None = None
    fallback_model: str | None = None
    agents: tuple[str, ...] = ()
    agent: str | None = None
    tools: tuple[str, ...] = ()
    limits: Limits = Limits()
    context: Context = Context()
    permissions: Permissions = Permissions()
    sandbox: bool = True
    network: bool = False
    memory: bool = True
    background: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)
    prices: Overrides = field(default_factory=dict)
    log_content: bool = False
    telemetry: bool = False
    mcp_config: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Kept:
        """The settings that `as_json` gave. Fields that this version does not know are left out.

        Raises `ConfigError` for what no version has written.
        """
        made: dict[str, Any] = {name: given[name] for name in _names(cls) & given.keys()}
        try:
            for name, kind in (("limits", Limits), ("context", Context)):
                made[name] = kind(**_known(kind, made.get(name, {})))
            rules = _known(Permissions, made.get("permissions", {}))
            made["permissions"] = Permissions(**{k: _tuple(v) for k, v in rules.items()})
            made["prices"] = {
                name: own if isinstance(own, str) else Rates(**_known(Rates, own))
                for name, own in made.get("prices", {}).items()
            }
            for name in ("agents", "tools"):
                made[name] = tuple(made.get(name, ()))
            return cls(**made)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the run's settings cannot be read from its journal: {error}"
            ) from None


def where(function: Callable[..., Any] | Tool) -> str | None:
    """``module:name`` of a function at the top of its module; ``None`` for any other."""
    plain = function.function if isinstance(function, Tool) else function
    module, name = getattr(plain, "__module__", None), getattr(plain, "__qualname__", "")
    return f"{module}:{name}" if module and name.isidentifier() else None


def _names(kind: type[Any]) -> set[str]:
    return {f.name for f in fields(kind)}


def _known(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in _names(kind)}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
