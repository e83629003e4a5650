"""Everything that a run is started with, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.agent import Observe
from orchestrator.background import SILENT_SECONDS
from orchestrator.budget import Limits
from orchestrator.compose import MAIN, MODEL_ALIASES, REHEARSAL
from orchestrator.context.policy import Context
from orchestrator.mcp import Found
from orchestrator.memories import Scope, scope_of
from orchestrator.model import Fallback, Model, ModelFacts
from orchestrator.permissions import Ask, Permissions
from orchestrator.prices import Overrides
from orchestrator.reins import Reins
from orchestrator.skills import Skill
from orchestrator.tools import Tool
from subagents import Definition, Loaded


@dataclass(frozen=True)
class Options:
    """Everything that a run is started with, checked."""

    task: str
    root: Path
    model: Model
    model_name: str
    run_id: str
    main: Definition = MAIN
    tools: Mapping[str, Tool] = field(default_factory=dict)
    servers: Found = Found()
    definitions: Loaded = field(default_factory=Loaded)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    limits: Limits = Limits()
    context: Context = Context()
    permissions: Permissions = Permissions()
    ask: Ask | None = None
    reins: Reins | None = None
    fallback: Fallback | None = None
    sandbox: bool = True
    network: bool = False
    memory: bool = True
    background: bool = True
    main_facts: ModelFacts = ModelFacts()
    aliases: Mapping[str, str] = field(default_factory=lambda: MODEL_ALIASES)
    prices: Overrides = field(default_factory=dict)
    log_content: bool = False
    telemetry: bool = False
    observers: Sequence[Observe] = ()
    silent_seconds: float = SILENT_SECONDS
    # The settings as the journal keeps them (`kept.Kept`).
    kept: Mapping[str, Any] = field(default_factory=dict)

    @property
    def overrides_models(self) -> bool:
        """The rehearsal answers for every model that a definition names."""
        return self.model_name == REHEARSAL

    def model_of(self, definition: Definition, parent_model: str) -> str:
        """The model that an agent of this kind runs on."""
        if self.overrides_models:
            return self.model_name
        return definition.model_for(parent_model, self.aliases)

    def memory_of(self, definition: Definition) -> Scope:
        """Which memory an agent of this kind has."""
        if not self.memory:
            return "none"
        return scope_of(definition, is_main=definition is self.main)

    def spawnable(self, definition: Definition) -> Loaded:
        """The kinds of subagents that an agent of this kind may start."""
        if not isinstance(definition.can_spawn, tuple):
            return self.definitions
        names = {name.casefold() for name in definition.can_spawn}
        known = self.definitions.definitions
        return Loaded({k: d for k, d in known.items() if k.casefold() in names})
