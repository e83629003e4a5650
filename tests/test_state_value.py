"""A state is never changed: a change makes a new one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from orchestrator.evolving import evolve
from orchestrator.progress.board import AgentView
from orchestrator.readings import AgentRow, RunSummary
from orchestrator.state import State

VALUES: list[Any] = [
    State(turn=3, facts=("a",)),
    AgentRow("main"),
    RunSummary("r"),
    AgentView("main", None, "main", "", 0, "m", 0.0),
]
NAMES = [(value, field.name) for value in VALUES for field in fields(value)]


@pytest.mark.parametrize(("old", "name"), NAMES, ids=[f"{type(v).__name__}.{n}" for v, n in NAMES])
def test_a_change_gives_what_dataclasses_would_and_leaves_the_old_one(old: Any, name: str) -> None:
    before = replace(old)
    changes: dict[str, Any] = {name: object()}
    assert evolve(old, **changes) == replace(old, **changes)
    assert old == before


def test_no_field_of_a_state_can_be_set() -> None:
    with pytest.raises(FrozenInstanceError):
        evolve(State(), turn=1).turn = 2  # type: ignore[misc]
