"""Canaries: secrets planted wherever a run meets them, and looked for wherever it writes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Request
from orchestrator.cli import main
from orchestrator.errors import RequestRejected
from orchestrator.events import to_json
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.viewer import pagefiles
from tests.viewing import viewer

RUN = "r"

# Known by the environment: values without any shape, in variables whose names say what they are.
VARIABLES = {
    "MY_API_TOKEN": "tuesday-afternoon-tea",
    "DB_PASSWORD": "correct horse battery staple",
    "SESSION_COOKIE": "oatmeal-and-raisins",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYCANARYKEY",
}
ENVIRONMENT = ", ".join(VARIABLES.values())
# Known by their shape: nowhere, ever.
KEY = "sk-ant-api03-canarycanarycanary0123456789"
TOKEN = "ghp_canarycanarycanarycanary0123456789AB"
COOKIE = "session-canary-4711"
PASSWORD = "hunter2canary"
BEARER = "c4n4ry-of-the-b34r3r-0123456789"
AWS_KEY = "AKIACANARYCANARY4711"
AWS_SECRET = "canary/of/the/access/key+0123456789abcde"
SECRETS = (*VARIABLES.values(), KEY, TOKEN, COOKIE, PASSWORD, BEARER, AWS_KEY, AWS_SECRET)
EVERYTHING = (
    f"env {ENVIRONMENT}, key {KEY}, token {TOKEN}, Cookie: sid={COOKIE}\n"
    f"password={PASSWORD} postgres://user:{PASSWORD}@host/db\n"
    f"Authorization: Bearer {BEARER}\nor bearer {BEARER}\n"
    f"{AWS_KEY} with aws_secret_access_key = {AWS_SECRET}\n"
)
# What people, models and tools say: only where it was asked for.
CONTENT = "canary-in-the-coal-mine"


def leaky(topic: str) -> str:
    """A tool whose output and errors hold everything.

    Args:
        topic: What to do.
    """
    if topic == "fail":
        raise ValueError(f"{CONTENT} {EVERYTHING}")
    return f"{CONTENT} {EVERYTHING}\n" + "and more of it\n" * 600


FILE = f"notes-{TOKEN}.txt"


def script(request: Request) -> Any:
    """Secrets in prompts, in arguments, in a tool's name, in a plan, in errors of the service."""
    done = len(results(request))
    if request.agent_type != "main":
        return (
            f"The child saw the file {FILE} and no more, {KEY}"
            if done
            else [call("leaky", topic="x")]
        )
    if done == 0:
        todo = {"content": f"{CONTENT} {KEY}", "status": "in_progress"}
        return [
            call("write_todos", todos=[todo]),
            call("leaky", topic="fail"),
            call("leaky", topic=EVERYTHING),
            call(f"tool-{KEY}", x=ENVIRONMENT),
            call("write_file", path=FILE, content=f"{CONTENT} {EVERYTHING}"),
            call("read_file", path=f"none-{TOKEN}"),
        ]
    if done == 6:
        return [call("task", prompt=f"{KEY} look at {CONTENT} {EVERYTHING}", description=KEY)]
    if "fail at the end" in json.dumps(request.messages[0]):
        raise RequestRejected(f"the proxy said: {EVERYTHING}", status=400)
    return f"All is done; see {FILE}."


def ran(root: Path, *arguments: str) -> tuple[str, str]:
    """What a command writes: stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(root)
        patch.setattr("sys.argv", ["outrider", *arguments])
        main()
    return out.getvalue(), err.getvalue()


def without_conclusion(stream: str) -> str:
    """The conclusion is the result itself: what was asked for is given as it is."""
    *lines, last = stream.splitlines()
    result = json.loads(last)
    assert result.pop("conclusion") is not None
    return "\n".join([*lines, json.dumps(result)])


def served(root: Path, run_id: str, log_content: bool) -> Iterator[tuple[str, str]]:
    """Everything that `outrider view` answers with: each of its addresses, headers included, refusals, and
    the live stream until all of the run is told."""
    with viewer(root, run_id, texts=log_content, **VARIABLES) as running:
        with running.stream() as patches:
            for patch in patches:
                yield "view /stream", json.dumps(patch, ensure_ascii=False)
                if patch["seq"] == patch["last"] and patch["run"]["status"] in ENDED:
                    break
        records = read_records(RunDir(root, run_id).journal)
        agents = sorted({record.agent_id for record in records})
        paths = ["/", "/accounts", "/nothing", f"/{KEY}", f"/agent?id={KEY}"]
        paths += [f"/{name}" for name in pagefiles.names()]
        paths += [f"/agent?id={agent}" for agent in agents]
        for path in paths:
            answer = running.get(path)
            yield f"view {path.partition(KEY)[0]}", f"{answer.headers} {answer.body}"


ENDED = ("finished", "failed", "partial")


@dataclass(frozen=True)
class Written:
    """Everything that was written for people and programs about two runs, by where."""

    root: Path
    log_content: bool
    texts: list[tuple[str, str]]


@pytest.fixture(scope="module", params=["plain", "with content"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    root, texts = tmp_path_factory.mktemp("canaries"), []
    log_content = request.param == "with content"
    more = ("--log-content",) if log_content else ()

    def keep(*command: str) -> None:
        out, err = ran(root, *command)
        if command[0] == "run":
            out = without_conclusion(out)
        name = " ".join(part for part in command[:4] if part.isalpha() or part.startswith("--"))
        texts.extend([(f"stdout of {name}", out), (f"stderr of {name}", err)])

    (root / "AGENTS.md").write_text(f"Mind {CONTENT} and {EVERYTHING}\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VARIABLES.items():
            patch.setenv(name, value)
        patch.setattr("orchestrator.rehearsal.RehearsalModel", lambda: ScriptedModel(script))
        for number, task in enumerate(("go on to the end", "fail at the end")):
            run_id = f"{RUN}{number}"
            keep("run", f"{task}: {CONTENT} {EVERYTHING}", "--model", "rehearsal",
                 "--tools", "tests.test_canaries:leaky", "--run-id", run_id,
                 "--output-format", "stream-json", *more)  # fmt: skip
            texts.append(("log.jsonl", RunDir(root, run_id).log.read_text()))
            keep("log", run_id)
            for options in (("--json",), ("--csv",), ("--by", "tool"), ("--by", "tool", "--json")):
                keep("tokens", run_id, *options)
            keep("audit", run_id, "--json")
            keep("view", run_id, "--export", f"{run_id}.html", *more)
            texts.append(("export", (root / f"{run_id}.html").read_text()))
            texts.extend(served(root, run_id, log_content))
        keep("log", f"{RUN}0", "--json")
        keep("runs")
        keep("runs", "--json")
        yield Written(root, log_content, texts)


# What holds every text, where texts were asked for.
FULL = ("log.jsonl", "export", "view /agent?id=main")


def test_no_secret_is_written_anywhere_and_no_content_unless_asked(
    written: Written,
) -> None:
    """L1: environment, tool output, prompts, instructions, plans, file names, tool names and errors; in
    log, output, export and each answer of the page's server."""
    assert any("[redacted]" in text for _, text in written.texts)
    for where, text in written.texts:
        for secret in SECRETS:
            assert secret not in text, f"{secret} in {where}"
        # `runs` lists tasks: they are how a person tells runs apart.
        if not written.log_content and not where.startswith("stdout of runs"):
            assert CONTENT not in text, where
    if written.log_content:
        full = [text for where, text in written.texts if where in FULL]
        assert len(full) == 6
        assert all(CONTENT in text for text in full)


def test_secrets_are_planted_where_the_run_could_have_found_them(
    written: Written,
) -> None:
    """The journal, which is what a run is resumed from, has them all: the canaries were alive."""
    said = b"".join(
        to_json(r.fact) for r in read_records(RunDir(written.root, f"{RUN}0").journal)
    ).decode()
    for secret in (*SECRETS, CONTENT):
        assert said.count(secret) >= 5
    kinds = {re.sub(r"\W.*", "", name) for name, _ in written.texts}
    assert kinds == {"stdout", "stderr", "log", "export", "view"}
    looked = {name for name, _ in written.texts}
    assert {"view /stream", "view /accounts", "view /", "view /agent?id=main"} <= looked
    assert (written.root / FILE).is_file()


def test_a_failed_call_is_told_without_its_secrets(written: Written) -> None:
    """H3: a person still reads why."""
    told = "".join(text for where, text in written.texts if where.startswith("stderr of run "))
    assert "the proxy said: env [redacted]" in told
