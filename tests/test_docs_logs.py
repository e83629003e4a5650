"""The questions that the pages put to a log with `jq` are answered: each filter is run over a real log."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.test_cli_process import Cli, cli, root
from tests.test_docs import ROOT, blocks

__all__ = ["cli", "root"]
jq = pytest.importorskip("jq")


def questions(page: str) -> list[tuple[set[str], str]]:
    """Options and filter of each `jq` that a page shows."""
    found = []
    for block in blocks(ROOT / "docs" / page, "sh"):
        words = shlex.split(block.replace("\\\n", " "), comments=True)
        for place in (n for n, word in enumerate(words) if word == "jq"):
            options = {w for w in words[place + 1 : place + 3] if w.startswith("-")}
            found.append((options, words[place + 1 + len(options)]))
    return found


def answered(options: set[str], question: str, log: Path) -> list[Any]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    program = jq.compile(question)
    inputs = [lines] if "-s" in options else lines
    return [answer for value in inputs for answer in program.input_value(value).all()]


@pytest.fixture
def log(root: Path, cli: Cli) -> Path:
    """Of a run with subagents, a denial and results of many sizes."""
    (root / "alpha/long.md").write_text("# Long\n\n" + "TODO: more\n" * 3_000)
    rules = ("--deny", "read(beta/**)")
    ran = cli("run", "Survey", "--model", "rehearsal", "--run-id", "survey", "--quiet", *rules)
    assert ran.code == 0
    return root / ".outrider/runs/survey/log.jsonl"


def test_each_question_is_answered(log: Path) -> None:
    asked = [*questions("read-the-logs.md"), *questions("log.md")]
    assert len(asked) == 11
    for options, question in asked:
        if "model_failed" not in question or "-s" in options:
            assert answered(options, question, log), question
        else:
            assert answered(options, question, log) is not None, question


def test_the_answers_are_those_of_the_commands(log: Path, cli: Cli) -> None:
    events, tokens, ends, largest, _ = questions("read-the-logs.md")
    reported = json.loads(cli("tokens", "survey", "--json").out)
    (by_agent,) = answered(*tokens, log)
    assert sum(row["output"] for row in by_agent) == reported["usage"]["output_tokens"]
    assert {end["status"] for end in answered(*ends, log)} == {"finished"}
    (results,) = answered(*largest, log)
    assert [r["chars"] for r in results] == sorted((r["chars"] for r in results), reverse=True)
    assert answered(*events, log)[0] == "run_started"
