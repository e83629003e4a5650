"""Each fault × {main, child, summary call} × {once, three times, always}: docs/faults.md says what happens."""

from __future__ import annotations

import pytest

from tests.fault_matrix import CASES, FILE, document, outcomes


@pytest.mark.asyncio
async def test_the_table_of_faults_and_outcomes_is_true() -> None:
    found = await outcomes()
    assert len(found) == len(CASES) == 144
    assert document(found) == FILE.read_text(), "python -m tests.fault_matrix writes it"
    once = {text for case, text in found.items() if case.times == "once"}
    assert any(text.startswith("finished") and "tried again 1 ×" in text for text in once)
    for case, text in found.items():
        # A summary that cannot be had, or a child that fails, fails no run.
        if case.caller != "main":
            assert text.startswith("finished"), case
