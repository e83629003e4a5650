"""Texts of people, models and tools: on the page, in its stream, in its file, only where asked for.

The canaries are random words without the shape of a secret, planted wherever a run takes texts in.
Without ``--log-content`` none of them may leave; with it they do, and real secrets still do not.
"""

from __future__ import annotations

import http.client
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.errors import Overloaded
from orchestrator.events import Record, to_json
from orchestrator.journal import read_records
from orchestrator.messages import text_block
from orchestrator.rundir import RunDir
from orchestrator.testing import call, results
from orchestrator.viewer import Story, pagefiles
from tests.test_cli_process import Cli, cli, outrider, root
from tests.test_logs import canaries
from tests.viewing import Viewer, record_run, viewer

__all__ = ["cli", "root"]

RUN = "watched"
KEY = "sk-ant-api03-" + "K3y0F4Run" * 8
PLACES = (
    *("environment", "task", "instructions", "memory", "definition", "brief", "argument", "file"),
    *("output", "tool error", "plan", "thinking", "said", "child", "service error", "conclusion"),
)
VARIABLE = "HARMLESS_SETTING"


def leaky(topic: str) -> str:
    """Says what is in the environment, or fails.

    Args:
        topic: What to do.
    """
    if topic.startswith("fail"):
        raise ValueError(f"it went wrong: {topic}")
    return f"{os.environ[VARIABLE]} {topic}\n" + "and more of it\n" * 600


@dataclass
class Planted:
    """A run with a canary in each place; it waits for ``go_on`` before its last words."""

    root: Path
    words: dict[str, str]
    waits: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)

    def prepare(self) -> None:
        settings = self.root / ".outrider"
        (settings / "agents").mkdir(parents=True)
        (settings / "MEMORY.md").write_text(f"- {self.words['memory']} <!-- m1 2026-11-01 -->\n")
        (settings / "agents" / "looker.md").write_text(
            "---\nname: looker\ndescription: Looks.\n---\n"
            f"Look, and say {self.words['definition']}.\n"
        )
        (self.root / "AGENTS.md").write_text(f"Mind {self.words['instructions']}.\n")
        (self.root / "note.txt").write_text(f"{self.words['file']} and {KEY}\n")

    def record(self) -> None:
        task = f"use {self.words['task']} and {KEY}"
        record_run(self.root, self.script, RUN, task=task, tools=[leaky])

    def script(self, request: Request) -> Any:
        word, done = self.words, len(results(request))
        if request.agent_type != "main":
            return (
                f"the child says {word['child']}" if done else [call("read_file", path="note.txt")]
            )
        match done:
            case 0:
                plan = [{"content": word["plan"], "status": "in_progress"}]
                thought = {"type": "thinking", "thinking": word["thinking"], "signature": "x"}
                return [thought, text_block(word["said"]), call("write_todos", todos=plan)]
            case 1:
                return [
                    call("leaky", topic=word["output"]),
                    call("leaky", topic=f"fail {word['tool error']}"),
                    call("grep", pattern=word["argument"]),
                ]
            case 4:
                return [call("task", prompt=f"{word['brief']} {KEY}", subagent_type="looker")]
            case _:
                return self.end(word)

    def end(self, word: dict[str, str]) -> str:
        if not self.waits.is_set():
            self.waits.set()
            raise Overloaded(f"busy: {word['service error']} {KEY}", retry_after=0.01)
        assert self.go_on.wait(60)
        return f"so be it: {word['conclusion']}, {KEY}"


class Recording(Thread):
    """The bytes of the live stream until the run's end."""

    def __init__(self, running: Viewer) -> None:
        super().__init__()
        self._running = running
        self.begun = Event()
        self.text = ""

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._running.port, timeout=60)
        cookie = f"outrider-view-{self._running.port}={self._running.token}"
        connection.request("GET", "/stream", headers={"Cookie": cookie})
        answer = connection.getresponse()
        while line := answer.readline().decode():
            self.text += line
            self.begun.set()
            if '"status":"finished","reason":null,"started"' in line:
                break
        connection.close()


@dataclass(frozen=True)
class Told:
    """All that left about one run, by where, and the canaries."""

    texts: bool
    words: dict[str, str]
    parts: dict[str, str]
    root: Path


@pytest.fixture(scope="module", params=[False, True], ids=["without texts", "with texts"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("texts") / "ws"
    folder.mkdir()
    words = {place: f"canary{secrets.token_hex(8)}" for place in PLACES}
    planted = Planted(folder, words)
    planted.prepare()
    run = Thread(target=planted.record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, words["environment"])
        run.start()
        try:
            assert planted.waits.wait(60)
            parts = live(planted, texts=request.param)
        finally:
            planted.waits.set()
            planted.go_on.set()
            run.join()
        parts |= afterwards(folder, texts=request.param)
        yield Told(request.param, words, parts, folder)


def live(planted: Planted, *, texts: bool) -> dict[str, str]:
    """The stream, begun while the run goes on, and every address that the page can ask."""
    with viewer(planted.root, RUN, texts=texts) as running:
        stream = Recording(running)
        stream.start()
        assert stream.begun.wait(60)
        parts = {"agent, live": running.get("/agent?id=main").body}
        planted.go_on.set()
        stream.join(60)
        assert not stream.is_alive()
        parts["stream"] = stream.text
        records = read_records(RunDir(planted.root, RUN).journal)
        agents = sorted({record.agent_id for record in records})
        assert len(agents) == 2
        paths = ["/", "/accounts", "/nothing", "/agent?id=nobody"]
        paths += [f"/{name}" for name in pagefiles.names()]
        paths += [f"/agent?id={agent}" for agent in agents]
        for path in paths:
            answer = running.get(path)
            parts[path] = f"{answer.headers} {answer.body}"
    return parts


def afterwards(folder: Path, *, texts: bool) -> dict[str, str]:
    more = ("--log-content",) if texts else ()
    ran = outrider(folder, "view", RUN, "--export", ".outrider/run.html", *more)
    assert ran.code == 0, ran.err
    return {
        "export": (folder / ".outrider/run.html").read_text(encoding="utf-8"),
        "said by the command": ran.out + ran.err,
        "log": RunDir(folder, RUN).log.read_text(),
    }


def test_the_canaries_are_where_the_run_could_find_them(told: Told) -> None:
    """The journal, which a run is resumed from, holds each, the secret too."""
    journal = RunDir(told.root, RUN).journal
    held = b"".join(to_json(record.fact) for record in read_records(journal)).decode()
    assert {place for place, word in told.words.items() if word not in held} == set()
    assert held.count(KEY) >= 5


def test_without_the_option_no_text_leaves_by_any_way(told: Told) -> None:
    """Page, stream, each agent's detail, accounts, refusals, file, log, what the command says."""
    for where, text in told.parts.items():
        if not told.texts or where in ("log", "said by the command"):
            found = {place for place, word in told.words.items() if word in text}
            assert found == set(), where


def test_with_the_option_every_text_is_there_in_the_page_and_in_the_file(told: Told) -> None:
    """So that the test above cannot pass by an empty page."""
    served = "".join(text for where, text in told.parts.items() if where != "export")
    if told.texts:
        assert {place for place, word in told.words.items() if word not in served} == set()
        assert {p for p, word in told.words.items() if word not in told.parts["export"]} == set()


def test_a_real_secret_leaves_neither_way(told: Told) -> None:
    for where, text in told.parts.items():
        assert KEY not in text, where


def test_structure_figures_names_and_proofs_are_there_either_way(told: Told) -> None:
    for words in ("looker", "write_todos", "leaky", '"chars":', "Equal, by its hash", "result.md"):
        assert words in told.parts["export"]
    hint = f'"hint":"outrider view {RUN} --log-content"'
    assert (hint in told.parts["stream"]) is not told.texts


def test_no_field_for_texts_of_any_event_is_told_unless_asked() -> None:
    """Also of events that come later: what `orchestrator.events` calls content."""
    facts = canaries()
    begun = Record(seq=1, ts=0.0, agent_id="main", turn=0, fact=facts["AgentStarted"])  # type: ignore[arg-type]
    for name, fact in facts.items():
        story = Story(RUN)
        story.take_all([begun, begun.model_copy(update={"seq": 2, "fact": fact})])
        assert "canary" not in str(story.whole()), name


def test_the_setting_holds_where_the_option_is_not_given(
    cli: Cli, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_run(root, lambda request: "some words")
    for value, there in (("true", True), ("false", False)):
        monkeypatch.setenv("OUTRIDER_LOG_CONTENT", value)
        assert cli("view", "--export", "run.html").code == 0
        assert ("some words" in (root / "run.html").read_text()) is there


def test_the_command_says_how_to_have_the_texts_too(cli: Cli, root: Path) -> None:
    record_run(root, lambda request: "x")
    ran = cli("view", "--export", "run here.html")
    wanted = "outrider view first --log-content --export 'run here.html'"
    assert ran.err == f"outrider: wrote run here.html, without texts; with them: {wanted}\n"
    assert wanted in (root / "run here.html").read_text()
