"""Settings: where each comes from, and what is wrong with one that cannot be used.

::

    option  >  environment  >  .outrider/config.toml in the root  >  user configuration  >  default

A setting has one name everywhere: the option without its dashes (``--max-turns``), with underscores
in files (``max_turns``), in capitals in the environment (``OUTRIDER_MAX_TURNS``). Some of them add up
over all places instead: the rules of ``allow``, ``ask`` and ``deny``, and the tables of model names and prices.
To them come the rules to ask and to deny of ``.claude/settings.json``, never those to allow. ``ask`` is
a list of rules; a yes or no there says, as the option does, whether a person may be asked.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from orchestrator.budget import Limits
from orchestrator.context.policy import Context
from orchestrator.errors import ConfigError
from orchestrator.permissions import CLAUDE_FILES, OPTIONAL, Permissions, restrictions_in, rule
from orchestrator.prices import Rates

PROJECT_FILE = ".outrider/config.toml"
PREFIX = "OUTRIDER_"
_NEITHER = ("none", "never")
_YES_OR_NO = ("true", "false", "yes", "no", "on", "off", "1", "0")


def _nothing(value: object) -> object:
    """``none`` (and ``never``) take a limit away that has a default."""
    return None if isinstance(value, str) and value.strip().lower() in _NEITHER else value


def _several(value: object) -> object:
    """A list as people write one in the environment: JSON, or texts between commas."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",") if part.strip()]
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("no valid JSON list: write one, or texts between commas") from None


def _named(value: object) -> object:
    """A table of model names, in the environment as ``name=model,…``. They are looked up without
    case."""
    if isinstance(value, str):
        value = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
    if not isinstance(value, Mapping):
        return value
    return {str(name).strip().casefold(): model for name, model in value.items()}


_RATES = tuple(rate.name for rate in fields(Rates))


def _priced(value: object) -> object:
    """A table of prices by model name: rates in USD per million tokens, or the name of the model that
    it is priced as. In the environment it is JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError('no valid JSON: write {"name": {"input": 1, "output": 5}}') from None
    if not isinstance(value, Mapping):
        raise ValueError("no table of prices by model name")  # noqa: TRY004  # pydantic's way
    return {str(name): _rates(str(name), rates) for name, rates in value.items()}


def _rates(name: str, value: object) -> Rates | str:
    if isinstance(value, str | Rates):
        return value
    if not isinstance(value, Mapping):
        said = f"{name}: no rates, and no name of a model that it is priced as"
        raise ValueError(said)  # noqa: TRY004  # pydantic's way
    for rate, usd in value.items():
        if rate not in _RATES:
            raise ValueError(f"{name}: no such rate {rate}; there are: {', '.join(_RATES)}")
        if isinstance(usd, bool) or not isinstance(usd, int | float) or not usd >= 0:
            raise ValueError(f"{name}: {rate} is no price in USD per million tokens")
    if missing := {"input", "output"} - value.keys():
        raise ValueError(f"{name}: {', '.join(sorted(missing))} is missing")
    return Rates(**value)


Count = Annotated[int | None, BeforeValidator(_nothing)]
Amount = Annotated[float | None, BeforeValidator(_nothing)]
Several = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_several)]

_LIMITS = Limits()
_CONTEXT = Context()
OF_LIMITS = (
    *("max_tokens", "max_cost", "max_turns", "max_seconds", "max_agents"),
    *("concurrency", "depth"),
)
OF_CONTEXT = ("compact_at", "compaction", "offload_at", "window", "keep_turns", "summary_model")
# They add up over all places.
_ADDED = ("allow", "ask", "deny", "models", "prices")


class Settings(BaseSettings):
    """Everything that can be set, checked. ``None`` is no limit, or "nobody said"."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    model: str | None = None
    base_url: str | None = None
    agents: Several = ()
    agent: str | None = None
    tools: Several = ()
    mcp_config: str | None = None
    memory: bool = True
    background: bool = True
    sandbox: bool = True
    network: bool = False

    compact_at: Amount = _CONTEXT.compact_at
    compaction: bool = _CONTEXT.compaction
    offload_at: Count = _CONTEXT.offload_at
    window: Count = _CONTEXT.window
    keep_turns: int = _CONTEXT.keep_turns
    summary_model: str | None = _CONTEXT.summary_model
    fallback_model: str | None = None

    max_tokens: Count = _LIMITS.max_tokens
    max_cost: Amount = _LIMITS.max_cost
    max_turns: Count = _LIMITS.max_turns
    max_seconds: Amount = _LIMITS.max_seconds
    max_agents: Count = _LIMITS.max_agents
    concurrency: Count = _LIMITS.concurrency
    depth: Count = _LIMITS.depth

    allow: Several = ()
    ask: Several = ()
    deny: Several = ()
    asking: bool | None = None
    output_format: Literal["text", "json", "stream-json"] = "text"
    quiet: bool = False
    log_content: bool = False
    telemetry: bool = False
    models: Annotated[dict[str, str], NoDecode, BeforeValidator(_named)] = Field(
        default_factory=dict
    )
    prices: Annotated[dict[str, Rates | str], NoDecode, BeforeValidator(_priced)] = Field(
        default_factory=dict
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The places are read one by one (`load_settings`), so that each value's place is known.
        return (init_settings,)

    @field_validator(*OF_LIMITS, *OF_CONTEXT)
    @classmethod
    def _fits(cls, value: Any, info: ValidationInfo) -> Any:
        """The library's own rules, so that they are written once."""
        name = info.field_name or ""
        (Limits if name in OF_LIMITS else Context)(**{name: value})
        return value

    @field_validator("allow", "ask", "deny")
    @classmethod
    def _readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            Permissions(value)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return value

    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in OF_LIMITS})

    def context(self) -> Context:
        return Context(**{name: getattr(self, name) for name in OF_CONTEXT})

    def permissions(self) -> Permissions:
        return Permissions(self.allow, self.ask, self.deny)


# What to write where pydantic says what it could not read; by the first word of its kind of error.
_WRITE = {
    "int": "write a whole number, such as 20 or 500_000",
    "float": "write a number, for example 0.5",
    "bool": "write true or false",
}


@dataclass(frozen=True)
class Configured:
    """The settings in force, and for each that is no default the place (or places) it comes from."""

    settings: Settings
    origins: Mapping[str, str]

    def origin(self, name: str) -> str:
        return self.origins.get(name, "default")


@dataclass(frozen=True)
class _Place:
    """One place's values. ``where`` names a value's place for an error, ``origin`` for a listing."""

    values: Mapping[str, Any]
    where: Callable[[str], str]
    origin: Callable[[str], str]

    def checked(self) -> dict[str, Any]:
        """The values as the settings hold them. Raises `ConfigError` that says what is wrong where."""
        if str(self.values.get("ask")).lower() in _YES_OR_NO:
            values = {k: v for k, v in self.values.items() if k != "ask"}
            return replace(self, values={**values, "asking": self.values["ask"]}).checked()
        for key in self.values:
            if key not in Settings.model_fields:
                raise ConfigError(f"{self.where(key)}: no such setting{_nearest(key)}")
        try:
            valid = Settings(**self.values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = str(first["loc"][0])
            text = _WRITE.get(first["type"].partition("_")[0]) or _said(first["msg"], key)
            raise ConfigError(f"{self.where(key)}: {text}") from None
        return {key: getattr(valid, key) for key in self.values}


def load_settings(
    root: Path, options: Mapping[str, Any] | None = None, *, user_file: Path | None = None
) -> Configured:
    """The settings for work in ``root``, with ``options`` from the command line before all others.

    Raises `ConfigError` that names the file, the line and the nearest valid key.
    """
    places = (
        _Place(options or {}, _option, lambda key: "option"),
        _environment(),
        _file(root / PROJECT_FILE, PROJECT_FILE, root),
        _file(user_file or user_config(), None, None),
    )
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for place in places:
        _add(values, origins, place)
    own = Permissions(values.get("allow", ()), values.get("ask", ()))
    for name in CLAUDE_FILES:
        _add(values, origins, _restrictions(root / name, name, own))
    return Configured(Settings(**values), origins)


def _add(values: dict[str, Any], origins: dict[str, str], place: _Place) -> None:
    for key, value in place.checked().items():
        origin = place.origin(key)
        if key not in values:
            values[key], origins[key] = value, origin
        elif key in _ADDED:
            values[key] = _both(values[key], value)
            origins[key] += f", {origin}"


def user_config() -> Path:
    """The user's own configuration file."""
    from platformdirs import user_config_path

    return user_config_path("outrider") / "config.toml"


def unknown_variables() -> list[str]:
    """Variables that look like settings and are none, with the nearest that is. They are no error:
    a later version, or another program, may know them."""
    names = (name for name in sorted(os.environ) if name.startswith(PREFIX))
    keys = ((name, name.removeprefix(PREFIX).lower()) for name in names)
    known = {*Settings.model_fields, "root", "debug"}
    return [f"{name}: no such setting{_nearest(key)}" for name, key in keys if key not in known]


# ── the places ──


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _environment() -> _Place:
    # Prefix and case of the names are pydantic-settings' work; values stay texts.
    values = dict(EnvSettingsSource(Settings)())
    variables = {key: f"{PREFIX}{key.upper()}" for key in values}
    # The SDK's own variable is part of the environment: it goes before files.
    if "base_url" not in values and (address := os.environ.get("ANTHROPIC_BASE_URL")):
        values["base_url"], variables["base_url"] = address, "ANTHROPIC_BASE_URL"

    def name(key: str) -> str:
        return variables.get(key, f"{PREFIX}ASK")  # which may hold rules, or a yes or no

    return _Place(values, name, name)


def _file(path: Path, shown: str | None, relative_to: Path | None) -> _Place:
    """The settings of a file; nothing where there is none. Paths in it are relative to the
    workspace, or to the user's folder."""
    shown = shown or str(path)
    text = _text(path, shown)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{shown}: no valid TOML: {error}") from None
    if shown == PROJECT_FILE:
        _check_starts_nothing(values, lambda key: f"{shown}:{_line(text, key)}: {key}")
    if isinstance(servers := values.get("mcp_config"), str):
        values["mcp_config"] = str(path.parent / servers)
    if isinstance(agents := values.get("agents"), list):
        home = relative_to or path.parent
        values["agents"] = [str(home / a) if isinstance(a, str) else a for a in agents]
    return _Place(values, lambda key: f"{shown}:{_line(text, key)}: {key}", lambda key: shown)


def _check_starts_nothing(values: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """A folder from elsewhere does not get to start programs by itself."""
    if "mcp_config" in values:
        raise ConfigError(
            f"{where('mcp_config')}: not taken from a project's file: describe its servers in "
            ".mcp.json, which asks for an allow rule, or name the file with --mcp-config"
        )
    allowed = values.get("allow", ())
    for text in [allowed] if isinstance(allowed, str) else allowed:
        if isinstance(text, str) and re.match(r"mcp(\(|__|$)", text.strip()):
            raise ConfigError(
                f"{where('allow')}: {text!r} is not taken from a project's file, since it would start "
                "programs: write it in your own configuration, or give --allow"
            )


def _restrictions(path: Path, shown: str, own: Permissions) -> _Place:
    """What the settings of another program take away; what they allow counts for nothing. An ask rule
    enables a tool that is optional, so one about a tool that is not there is passed over."""
    try:
        found = restrictions_in(_text(path, shown))
    except ValueError as error:
        raise ConfigError(f"{shown}: {error}") from None
    absent = [tool for tool in OPTIONAL if not own.enables(tool)]
    ask = tuple(t for t in found["ask"] if not any(map(rule(t).concerns, absent)))
    values = {k: rules for k, rules in {**found, "ask": ask}.items() if rules}
    return _Place(values, lambda key: f"{shown}: permissions.{key}", lambda key: shown)


def _text(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise ConfigError(f"{shown}: not UTF-8: save it as UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from None


def _line(text: str, key: str) -> int:
    """The line on which ``key`` (or its table) stands, from 1."""
    pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]")
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if pattern.match(line)), 1)


def _nearest(key: str) -> str:
    plain = key.lower().replace("-", "_")
    near = get_close_matches(plain, Settings.model_fields, 1)
    return f"; did you mean {near[0]}?" if near else "; `outrider config show` lists them"


def _said(message: str, key: str) -> str:
    """The library's words for a person at the command line."""
    said = message.removeprefix("Value error, ").removeprefix(f"{key} ")
    return said.replace(" None ", " none ")


def _both(first: Any, second: Any) -> Any:
    """Two places' values of a setting that adds up; of equal names the first one holds."""
    if isinstance(first, Mapping):
        return {**second, **first}
    return tuple(dict.fromkeys((*first, *second)))
