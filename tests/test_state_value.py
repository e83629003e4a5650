"""A state is never changed: a change makes a new one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from orchestrator.state import State
from orchestrator.state.value import evolve


@pytest.mark.parametrize("name", [field.name for field in fields(State)])
def test_a_change_gives_the_state_that_dataclasses_would_and_leaves_the_old_one(name: str) -> None:
    old = State(turn=3, facts=("a",))
    before = replace(old)
    changes: dict[str, Any] = {name: object()}
    assert evolve(old, **changes) == replace(old, **changes)
    assert old == before


def test_no_field_of_a_state_can_be_set() -> None:
    with pytest.raises(FrozenInstanceError):
        evolve(State(), turn=1).turn = 2  # type: ignore[misc]
