"""A run with three levels of agents, killed at chosen events and resumed until it ends.

::

    python -m tests.crash_loop                 killed once after every single event
    python -m tests.crash_loop --moments 200   a larger run, killed from outside at 200 random moments
    python -m tests.crash_loop --moments 50 --served    the same over HTTP: the ledger is the server's

Every kill takes a process of its own; what tools really did is counted in a file outside of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from orchestrator import Limits, Report, Request, resume, run, tool
from orchestrator.claude import ClaudeModel
from orchestrator.events import ModelReplied, Record, ToolReturned
from orchestrator.journal import read_records
from orchestrator.rundir import RunDir
from orchestrator.testing import ScriptedModel, call, results
from orchestrator.testing.standin import standin_process
from orchestrator.testing.standin.brains import Tree
from orchestrator.testing.standin.ledger import FIGURES
from orchestrator.testing.standin.material import lookup

RUN_ID = "crashed"
_NEVER = sys.maxsize
_TREE = Tree(children=(4, 5))


@dataclass(frozen=True)
class Story:
    """How large the run is: children of the main agent, and whether each has a child of its own."""

    root: Path
    children: int = 2
    # Seconds that a model call and a tool call take, so that kills from outside hit them.
    pause: float = 0.0

    # Seconds after which a kill from outside comes at the latest.
    longest: float = 1.5

    @property
    def task(self) -> str:
        return "do all parts"

    @property
    def effects(self) -> Path:
        return self.root / "effects.txt"

    def tools(self) -> list[Any]:
        @tool
        async def note(what: str) -> str:
            """Write a line."""
            await anyio.sleep(self.pause)
            # One write, appended whole: it is there or it is not.
            with self.effects.open("ab", buffering=0) as file:
                file.write(f"{what}\n".encode())
            await anyio.sleep(self.pause)
            return f"noted {what}"

        @tool(after_crash="repeat")
        async def look(what: str) -> str:
            """Look at something."""
            await anyio.sleep(self.pause)
            return f"{what}: " + "seen " * 1_200  # over the offload limit

        return [note, look]

    def model(self) -> ScriptedModel:
        async def script(request: Request) -> Any:
            await anyio.sleep(self.pause)
            return self._reply(request)

        return ScriptedModel(script)

    def _reply(self, request: Request) -> Any:
        brief = str(request.messages[0]["content"][0]["text"])
        got = results(request)
        if request.agent_type == "main":
            return self._main(got)
        if brief.startswith("leaf"):
            return [call("note", what=f"{brief} 1"), call("look", what=brief)] if not got else brief
        if not got:
            return [call("look", what=brief), call("note", what=f"{brief} 1")]
        if len(got) == 2:
            return [call("task", prompt=f"leaf of {brief}")]
        return f"{brief} is done"

    def _main(self, got: Sequence[str]) -> Any:
        names = [f"part {n}" for n in range(self.children)]
        if not got:
            todos = [{"content": name, "status": "pending"} for name in names]
            return [call("write_todos", todos=todos), call("note", what="main 1")]
        if len(got) == 2:
            return [call("task", prompt=name, background=name.endswith("1")) for name in names]
        if len(got) == 2 + len(names):
            return [call("note", what="main 2"), call("ls")]
        return "all parts are done"

    def check(self) -> None:
        check(self)


@dataclass(frozen=True)
class Served(Story):
    """A tree of 25 agents on three levels over HTTP; the stand-in tells what it has billed."""

    base_url: str = ""

    @property
    def task(self) -> str:
        return _TREE.task

    def tools(self) -> list[Any]:
        return [tool(after_crash="repeat")(lookup)]

    def model(self) -> Any:
        return ClaudeModel(base_url=self.base_url)

    def check(self) -> None:
        """Every fact came home, nothing was done twice, and every answer that arrived counts as told."""
        run_dir = RunDir(self.root, RUN_ID)
        conclusion = run_dir.result.read_text()
        assert all(fact in conclusion for fact in _TREE.facts())
        records = list(read_records(run_dir.journal))
        begun = Counter(r.agent_id for r in records if r.fact.event == "agent_started")
        assert len(begun) == 25
        assert set(begun.values()) == {1}
        with urllib.request.urlopen(f"{self.base_url}/_ledger") as answer:
            told = {row["request_id"]: row for row in json.load(answer)["rows"]}
        seen: set[str] = set()
        for record in records:
            if isinstance(record.fact, ModelReplied):
                number = record.fact.request_id or ""
                assert number not in seen, f"counted twice: {number}"
                seen.add(number)
                assert record.fact.usage is not None
                figures = record.fact.usage.as_json()
                assert all(figures[name] == told[number][name] for name in FIGURES[:4]), number


async def begin(story: Story, kill_at: int) -> Report:
    return await run(
        story.task,
        model=story.model(),
        root=story.root,
        tools=story.tools(),
        run_id=RUN_ID,
        limits=Limits(max_agents=None),
        observers=[_killer(kill_at)],
    )


async def go_on(story: Story, kill_at: int) -> Report:
    return await resume(
        RUN_ID,
        model=story.model(),
        root=story.root,
        tools=story.tools(),
        observers=[_killer(kill_at)],
    )


def _killer(kill_at: int) -> Any:
    def observe(records: Sequence[Record]) -> None:
        if records[-1].seq >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return observe


def in_a_process(
    work: Any, story: Story, kill_at: int = _NEVER, after: float | None = None
) -> bool:
    """Whether ``work`` came to its end; it is killed after event ``kill_at``, or ``after`` seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            anyio.run(work, story, kill_at)
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise AssertionError("the run failed instead of ending or being killed")
    return os.WIFEXITED(status)


def check(story: Story) -> None:
    """Nothing was done twice, nothing was lost, and the end is the one that there would have been."""
    run_dir = RunDir(story.root, RUN_ID)
    assert run_dir.result.read_text().strip() == "all parts are done"
    records = list(read_records(run_dir.journal))
    done = Counter(story.effects.read_text().splitlines())
    assert all(n == 1 for n in done.values()), f"done twice: {done}"
    interrupted = [
        r.fact for r in records if isinstance(r.fact, ToolReturned) and "interrupted" in str(r.fact)
    ]
    planned = 2 + 2 * story.children
    # A call that was under way may or may not have happened; every other one has, once.
    assert planned - len(interrupted) <= len(done) <= planned, (done, interrupted)
    ended = Counter(r.agent_id for r in records if r.fact.event == "agent_ended")
    begun = Counter(r.agent_id for r in records if r.fact.event == "agent_started")
    assert set(ended.values()) == set(begun.values()) == {1}, (begun, ended)
    assert len(ended) == 1 + 2 * story.children, ended
    told = Counter(r.fact.child_id for r in records if r.fact.event == "message_added")
    assert all(n == 1 for n in told.values()), f"delivered twice: {told}"
    log = [json.loads(line)["seq"] for line in run_dir.log.read_text().splitlines()]
    assert log == [r.seq for r in records], "the log holds what the journal holds"


def has_ended(story: Story) -> bool:
    *_, last = read_records(RunDir(story.root, RUN_ID).journal)
    return last.fact.event == "run_ended"


def events_of(story: Story) -> int:
    """How many events the run has when nothing kills it. Run in this process, so that what it imports
    late is there for those that come of it."""
    anyio.run(begin, story, _NEVER)
    check(story)
    return sum(1 for _ in read_records(RunDir(story.root, RUN_ID).journal))


def killed_after(event: int, folder: Path) -> None:
    """Kill the small run after ``event``, and once more soon after it was resumed."""
    story = Story(folder)
    folder.mkdir()
    if not in_a_process(begin, story, kill_at=event) and not has_ended(story):
        in_a_process(go_on, story, kill_at=event + 5)
        if not has_ended(story):
            in_a_process(go_on, story)
    check(story)


def killed_at_moments(
    moments: int, made: Callable[[Path], Story], folder: Path, seed: int
) -> tuple[int, Counter[str]]:
    """Kill a run from outside, resume it, kill it again, until it has ended; and begin another, until
    there were ``moments`` kills.

    Returns how many runs that took, and after which events they were killed.
    """
    chance = random.Random(seed)
    kills, runs, last = 0, 0, Counter[str]()
    while kills < moments:
        runs += 1
        story = made(folder / f"run-{runs}")
        story.root.mkdir()
        work = begin
        while True:
            if kills < moments and chance.random() < 0.95:
                ended = in_a_process(work, story, after=chance.uniform(0.05, story.longest))
                kills += not ended and has_begun(story)
            else:
                ended = in_a_process(work, story)
            if ended or (has_begun(story) and has_ended(story)):
                break
            if has_begun(story):
                work = go_on
                *_, newest = read_records(RunDir(story.root, RUN_ID).journal)
                last[newest.fact.event] += 1
            else:
                shutil.rmtree(story.root)
                story.root.mkdir()
        story.check()
    return runs, last


def has_begun(story: Story) -> bool:
    """Whether anything was recorded: a run that was killed before that is begun again."""
    journal = RunDir(story.root, RUN_ID).journal
    return journal.is_file() and any(True for _ in read_records(journal))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--every", type=int, default=1, help="kill after every Nth event")
    options.add_argument("--moments", type=int, help="kill a larger run at so many moments")
    options.add_argument("--served", action="store_true", help="over HTTP, with the stand-in")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    os.environ.setdefault("ANTHROPIC_API_KEY", "test")
    with tempfile.TemporaryDirectory() as made:
        whole = Path(made) / "whole"
        whole.mkdir()
        events = events_of(Story(whole))
        if given.moments is not None:
            with standin_process(
                "--brain", "tree", "--children", "4,5", "--latency", "0.02"
            ) as server:

                def story(root: Path) -> Story:
                    if given.served:
                        return Served(root, base_url=server.base_url, longest=5.0)
                    return Story(root, children=20, pause=0.004)

                runs, last = killed_at_moments(given.moments, story, Path(made), given.seed)
            after = ", ".join(f"{name} {n}" for name, n in last.most_common())
            print(f"{given.moments} kills in {runs} runs, after {after}: all the same end")
            return
        for event in range(1, events + 1, given.every):
            killed_after(event, Path(made) / f"at-{event}")
        print(f"killed after each of {events} events, in steps of {given.every}: all the same end")


if __name__ == "__main__":
    main()
