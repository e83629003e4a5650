"""``outrider config``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.table import Column, table

app: typer.Typer = typer.Typer(rich_markup_mode=None)
_LIMITS = {
    *("max_tokens", "max_cost", "max_turns", "max_seconds", "max_agents"),
    *("concurrency", "depth"),
}
_COLUMNS = (Column("setting"), Column("value", least=20), Column("from", least=10))


@app.callback()
def _config() -> None:
    """Settings and where they come from.

    \b
    Examples:
      outrider config show
      outrider config show --json
    """


@app.command("show")
def show(root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """Every setting with its value and where that comes from.

    The order is: option, environment (OUTRIDER_MAX_TURNS), .outrider/config.toml in the workspace
    (max_turns = 50), the user's config.toml, default. What deny holds and the tables models
    and prices add up over all of them. Paths of config.toml are relative to the workspace.

    \b
    Examples:
      outrider config show
      OUTRIDER_MAX_TURNS=none outrider config show --json
    """
    from orchestrator.cli.output import clean, print_json
    from orchestrator.cli.terminal import print_lines, width
    from orchestrator.config import load_settings, user_config

    configured = load_settings(root)
    # A base URL may hold a password.
    values = clean(configured.settings.model_dump())
    if as_json:
        print_json({n: {"value": v, "from": configured.origin(n)} for n, v in values.items()})
        return
    rows = [[n, _shown(n, v), configured.origin(n)] for n, v in values.items()]
    print_lines(table(_COLUMNS, rows, width()))
    typer.echo(f"\nuser's file: {user_config()}")


def _told(value: Any) -> str:
    """A model's name, or its rates in USD per million tokens."""
    if not isinstance(value, dict):
        return str(value)
    return "{" + ", ".join(f"{k} = {v}" for k, v in value.items() if v is not None) + "}"


def _shown(name: str, value: Any) -> str:
    if name == "model" and value is None:
        from orchestrator.compose import DEFAULT_MODEL

        return f"{DEFAULT_MODEL} (with a key or a base URL)"
    if value is None:
        return "none" if name in _LIMITS else "never" if name == "offload_at" else "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_told(part)}" for name, part in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return str(value)
