"""What a definition file says, as a value, and what can be wrong with one."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
Severity = Literal["info", "warning", "error"]

_INHERIT = "inherit"


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of subagent. Names of tools and models stand here as the file wrote them.

    A limit that is `None` is not set by the definition. `extra` keeps the fields that Outrider
    does not know.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None  # None: all that the parent has; (): none
    disallowed_tools: tuple[str, ...] = ()
    model: str | tuple[str, ...] | None = (
        None  # several: by preference; None, "inherit": the parent's
    )
    source: str = ""  # a path, or "built-in:<name>"
    max_turns: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None  # USD
    conclusion_tokens: int | None = None
    offload_at: int | None = None  # characters
    compact_at: float | None = None  # share of the window, above 0, at most 1
    can_spawn: bool | tuple[str, ...] | None = None
    permissions: Mapping[str, Sequence[str]] | None = (
        None  # {"deny": ["read(secret/**)", …]}, about paths
    )
    memory: bool | str | None = None  # the project's ("project"), its type's ("agent"), none
    instructions: bool | None = None  # None: as it has a memory
    todos: bool | None = None
    effort: str | None = None
    returns: Mapping[str, JSON] | None = None  # a JSON schema, or fields with their types
    # MCP servers: by name, with a description of those that this file brings along. None: not said.
    mcp_servers: Mapping[str, Mapping[str, JSON] | None] | None = None
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it names, best first."""
        return (self.model,) if isinstance(self.model, str) else self.model or ()

    @property
    def digest(self) -> str:
        """Tells two definitions apart by what they say, wherever they lie."""
        said = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "source"]
        text = repr(said).encode(errors="surrogatepass")
        return hashlib.blake2b(text, digest_size=8).hexdigest()

    def model_for(self, parent_model: str, aliases: Mapping[str, str]) -> str:
        """The model that it runs on: of several names the first that `aliases` (by names in lower
        case) knows, else the first; the parent's where it names none."""
        known = {*aliases, *map(str.casefold, aliases.values()), _INHERIT}
        names = self.models or (_INHERIT,)
        name = next((n for n in names if n.casefold() in known), names[0])
        return parent_model if name.casefold() == _INHERIT else aliases.get(name.casefold(), name)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to say about a file. `message` reads "what – fix"."""

    path: str
    line: int  # from 1
    key: str
    severity: Severity
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.key}: {self.message}"


class Rejected(Exception):
    """Inside the loader: this file gives no definition, for the reason that it carries."""

    def __init__(self, line: int, key: str, message: str, severity: Severity = "error") -> None:
        super().__init__(message)
        self.line = line
        self.key = key
        self.severity: Severity = severity

    def problem(self, path: str) -> Problem:
        return Problem(path, self.line, self.key, self.severity, str(self))
