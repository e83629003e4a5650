"""Where a user keeps what serves all of their projects."""

from __future__ import annotations

import os
from pathlib import Path


def user_agent_folders() -> tuple[Path, ...]:
    """The folders of a user's own definitions, best first: Outrider's, then Claude Code's. They need
    not be there."""
    return _folders("agents")


def user_skill_folders() -> tuple[Path, ...]:
    """The folders of a user's own skills, in the same order."""
    return _folders("skills")


def _folders(kind: str) -> tuple[Path, ...]:
    from platformdirs import user_config_path

    home = Path(os.path.expanduser("~"))
    return (user_config_path("outrider") / kind, home / ".claude" / kind)
