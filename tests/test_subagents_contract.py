"""The conclusion contract: something said, in the shape asked for, naming what came of the work."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents import JSON, contract

SCHEMA = contract.schema_of({"verdict": ["yes", "no"], "places": ["string"], "count": "int"})
GOOD = {"verdict": "yes", "places": ["a.py:3"], "count": 1}


def test_s6_a_field_list_becomes_a_schema_of_required_fields() -> None:
    """S6"""
    assert SCHEMA == {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["yes", "no"]},
            "places": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer"},
        },
        "required": ["verdict", "places", "count"],
    }
    fields: dict[str, JSON] = {"point": {"x": "number"}, "tags": "string[]"}
    nested = contract.schema_of(fields)
    assert nested["properties"]["point"]["required"] == ["x"]
    assert nested["properties"]["tags"] == {"type": "array", "items": {"type": "string"}}


def test_a_json_schema_is_taken_as_it_is() -> None:
    schema: dict[str, JSON] = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert contract.schema_of(schema) == schema
    assert contract.schema_of({"type": "array", "items": {"type": "integer"}})["type"] == "array"


@pytest.mark.parametrize("bad", [{"a": 3}, {"a": "thing"}, {"type": "nonsense"}])
def test_a_schema_that_cannot_be_used_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="returns"):
        contract.schema_of(bad)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"Here it is.\n```json\n{json.dumps(GOOD, indent=2)}\n```\n",
        f"```\n[1]\n```\nand finally\n```json\n{json.dumps(GOOD)}\n```",
    ],
)
def test_s6_a_value_that_fits_is_found_in_a_block_or_alone(text: str) -> None:
    """S6"""
    assert contract.problem_of(text, SCHEMA, is_child=True) is None
    assert contract.value_in(text) == GOOD


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "no JSON value"),
        ('{"verdict": "yes"}', "must contain"),
        ('{"verdict": "maybe", "places": [], "count": 1}', "verdict"),
        ('{"verdict": "yes", "places": [], "count": "1"}', "count must be integer"),
        ("", "it is empty"),
    ],
)
def test_s6_what_does_not_fit_is_told_in_words(text: str, said: str) -> None:
    """S6"""
    problem = contract.problem_of(text, SCHEMA, is_child=True)
    assert problem is not None
    assert said in problem


@pytest.mark.parametrize(
    "text",
    [
        "See the file above.",
        "The report was written to reports/findings.md.",
        "As described in my previous message.",
        "I saved everything in out.json",
        "详见上文。",
        "结果已保存到 report.md",
    ],
)
def test_a_report_that_only_points_elsewhere_is_noticed(text: str) -> None:
    assert contract.points_elsewhere(text)
    assert contract.problem_of(text, None, is_child=True) is not None
    assert contract.problem_of(text, None, is_child=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "There are 3 TODO lines: a.py:1, b.py:2, c.py:3.",
        "The parser drops the last line when the file has no final newline (src/parse.py:88). I wrote a "
        "regression test to tests/test_parse.py and fixed the loop bound; all 41 tests pass.",
        "finished",
        "42",
    ],
)
def test_a_short_answer_is_an_answer(text: str) -> None:
    assert not contract.points_elsewhere(text)
    assert contract.problem_of(text, None, is_child=True) is None


def test_the_files_that_came_of_the_work_are_those_named_that_are_there() -> None:
    there = {"reports/findings.md", "a.py"}
    text = "Wrote `reports/findings.md`, changed ./a.py:12 and looked at gone.txt and v1.2.3."
    assert contract.named_files(text, there.__contains__) == ("reports/findings.md", "a.py")


@given(st.text(max_size=400))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    contract.problem_of(text, SCHEMA, is_child=True)
    contract.problem_of(text, None, is_child=True)
    assert len(contract.named_files(text, lambda path: True)) <= 20
