"""Prices for commands: the list's, and before them those that the workspace's settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.readings import Price


def price_for(root: Path) -> Price:
    """USD of a call made at a time. Raises `ConfigError` for settings that cannot be used."""
    from orchestrator.config import load_settings
    from orchestrator.prices import pricing

    return pricing(load_settings(root).settings.prices)
