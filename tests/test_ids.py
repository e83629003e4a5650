"""Ids as people type them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ids import named

IDS = st.lists(st.text("ab-1", min_size=1, max_size=5))


@given(IDS, st.text("ab-1", max_size=5))
def test_an_id_names_itself_alone_and_a_beginning_all_that_begin_so(
    ids: list[str], text: str
) -> None:
    found = named(text, ids)
    if text in ids:
        assert found == [text]
    elif text:
        assert found == list(dict.fromkeys(each for each in ids if each.startswith(text)))
    else:
        assert found == []
