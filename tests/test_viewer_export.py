"""`outrider view --export`: one file, whole, inert, redacted, without a request to anybody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
import sys
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.errors import RequestRejected
from orchestrator.testing import call, results
from orchestrator.viewer.pagefiles import bundle
from tests.test_cli_process import Cli, cli, root
from tests.viewing import (
    HOSTILE,
    LONG_LINE,
    crowd,
    hostile,
    record_run,
    two_children,
    write_journal,
)

__all__ = ["cli", "root"]


class Parts(HTMLParser):
    """The scripts, styles and the policy of a page, as a browser would tell them apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.policy = ""
        self.addresses: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in = tag
        self.addresses += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "script":
            self.scripts.append((given, ""))
        elif tag == "style":
            self.styles.append("")
        elif given.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(given["content"])

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            given, text = self.scripts[-1]
            self.scripts[-1] = (given, text + data)
        elif self._in == "style":
            self.styles[-1] += data

    def data(self) -> dict[str, Any]:
        return {
            json.loads(given["data-name"] or ""): json.loads(text)
            for given, text in self.scripts
            if given["type"] == "application/json"
        }

    def code(self) -> list[str]:
        return [text for given, text in self.scripts if given["type"] == "module"]


def export(cli: Cli, root: Path) -> tuple[str, Parts]:
    ran = cli("view", "--export", "run.html", "--log-content")
    assert ran.code == 0
    assert ran.out == ""
    assert "look through it before you share it" in ran.err
    text = (root / "run.html").read_text(encoding="utf-8")
    return text, Parts(text)


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_file_holds_the_run_and_every_agents_detail(cli: Cli, root: Path) -> None:
    report = record_run(root, two_children)
    _, parts = export(cli, root)
    data = parts.data()
    assert data["story"]["run"]["total"] == report.usage.total_tokens
    for agent in report.agents:
        detail = data[f"agent:{agent.agent_id}"]
        assert len(detail["turns"]) == agent.turns
    assert data["agent:main"]["conclusion"] == "merged"


@pytest.mark.parametrize(("facts", "status"), [(20, "crashed"), (60, "finished")])
def test_a_run_without_its_end_says_so_in_the_file(
    cli: Cli, root: Path, facts: int, status: str
) -> None:
    write_journal(root, list(crowd(2, 60))[:facts])
    _, parts = export(cli, root)
    assert parts.data()["story"]["run"]["status"] == status


def test_of_a_damaged_journal_the_file_holds_what_can_be_read(cli: Cli, root: Path) -> None:
    place = write_journal(root, crowd(2, 60))
    with closing(sqlite3.connect(place.journal)) as database, database:
        database.execute("DELETE FROM records WHERE seq = 30")
    _, parts = export(cli, root)
    story = parts.data()["story"]
    assert "record 30 is missing" in story["run"]["problem"]
    assert story["last"] == 29


def test_the_policy_allows_this_script_and_this_style_and_no_connection(
    cli: Cli, root: Path
) -> None:
    record_run(root, two_children)
    _, parts = export(cli, root)
    (script,), (style,) = parts.code(), parts.styles
    rules = dict(rule.strip().split(" ", 1) for rule in parts.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest(script)}'"
    assert rules["style-src"] == f"'sha256-{digest(style)}'"
    assert parts.addresses == ["#main"]


def test_the_modules_are_joined_without_a_clash_of_names() -> None:
    script = bundle()
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    names = re.findall(
        r"^(?:async )?(?:function|class|const|let) \{?\s*(\w+)", script, re.MULTILINE
    )
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))


def test_what_a_model_wrote_ends_no_tag_and_begins_none(cli: Cli, root: Path) -> None:
    record_run(root, hostile)
    text, parts = export(cli, root)
    assert len(parts.code()) == 1
    assert "<script>window" not in text
    conclusion = parts.data()["agent:main"]["conclusion"]
    assert conclusion.startswith(HOSTILE[:30])
    assert len(conclusion) > LONG_LINE
    assert text.isascii() or not re.search("[\x1b\u202e\u200f]", text)


def test_canary_secrets_are_nowhere_in_the_file(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the environment, the task, a tool's output, a call's input, an error, a conclusion."""
    key = "sk-ant-api03-" + "Q7w8E9r0" * 10
    value = "canary-of-the-environment"
    monkeypatch.setenv("DEPLOY_TOKEN", value)
    both = f"{key} and {value}"
    (root / "note.txt").write_text(both)

    def script(request: Request) -> Any:
        match len(results(request)):
            case 0:
                return [call("read_file", path="note.txt")]
            case 1:
                return [call("grep", pattern=both)]
            case 2:
                return [call("task", prompt=both)] if request.agent_type == "main" else both
            case _:
                raise RequestRejected(f"no luck with {both}")

    record_run(root, script, task=f"use {both}")
    text, parts = export(cli, root)
    assert "no luck with [redacted] and [redacted]" in text
    assert "[redacted] and [redacted]" in json.dumps(parts.data())
    assert key not in text
    assert value not in text


def test_a_file_that_cannot_be_written_is_one_sentence(cli: Cli, root: Path) -> None:
    record_run(root, two_children)
    ran = cli("view", "--export", "nowhere/run.html")
    assert ran.code == 2
    assert ran.err == "outrider: cannot write nowhere/run.html: No such file or directory\n"


def test_exporting_needs_no_extra(cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_run(root, two_children)
    for name in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    export(cli, root)
