"""Scripted brains: whole runs driven by functions of the request.

They keep no state, so they are right under any interleaving, after a retry and after a compaction.
What a brain has done so far it reads from the calls, facts and summaries that it is shown.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from . import conversation
from .answers import Answer, Block, Brain, call, say
from .material import FACT, fact, fact_line
from .settings import Body

Odd = Literal["endless", "refuses", "empty", "long", "cut"]

_NODE = re.compile(r"\[node ([\d.]+)\]")
_HAUL = re.compile(r"haul-(\d+)/")
#: Characters of a conclusion that no parent would want whole.
LONG = 70_000
#: A summary holds this many characters: about 800 tokens.
SUMMARY = 3_000


def echo(body: Body) -> Answer:
    """Repeats the last thing said."""
    last = list(conversation.texts(body))[-1]
    return say(f"echo: {last[-200:]}")


def keep_facts(body: Body) -> Answer:
    """A summary with every fact, where the put-away records are, and how far the work has come."""
    lines = [f"FACT {key} = {value}" for key, value in conversation.facts(body).items()]
    lines += [f"{key} is in {path}" for key, path in conversation.paths(body).items()]
    steps = _HAUL.findall(conversation.whole(body))
    progress = [f"Last record looked up: haul-{max(steps, key=int)}/"] if steps else []
    text = "\n".join(["Summary of the work so far.", *progress, *lines])
    return say(text[:SUMMARY].rpartition("\n")[0] if len(text) > SUMMARY else text)


def keep_nothing(body: Body) -> Answer:
    """A summary of no use: what matters has to survive without it."""
    return say("Several things were looked at and some progress was made.")


def thoughtful(brain: Brain, *, redacted: bool = False) -> Brain:
    """The same brain, thinking first. The server leaves it out where thinking is off."""

    async def think(body: Body) -> Answer:
        answer = brain(body)
        done = await answer if inspect.isawaitable(answer) else answer
        thought = f"{len(body['messages'])} messages in, the next step is plain."
        blocks: list[Block] = [{"type": "thinking", "thinking": thought}]
        if redacted:
            blocks.append({"type": "redacted_thinking"})
        return replace(done, content=[*blocks, *done.content])

    return think


def report(facts: Mapping[str, str], keys: Sequence[str]) -> Answer:
    """The final answer: each fact asked for, and which are missing."""
    found = [f"FACT {key} = {facts[key]}" for key in keys if key in facts]
    missing = [key for key in keys if key not in facts]
    lines = [f"{len(found)} of {len(keys)} facts.", *found]
    return say("\n".join([*lines, *(f"missing: {key}" for key in missing)]))


def reported(text: str) -> dict[str, str]:
    """The facts in a conclusion that are true, by key: how many did survive the run."""
    return {key: value for key, value in FACT.findall(text) if value == fact(key)}


def _reads(pages: Sequence[tuple[str, int]]) -> list[Block]:
    return [call("read_file", path=path, offset=line) for path, line in pages]


@dataclass(frozen=True, slots=True)
class Tree:
    """Agents that spawn agents. `children`: how many at each level; `(50,)` is a plain fan-out.

    A leaf makes `calls` look-ups of `kilobytes` and reports the first record's fact; where that was
    put away it is read back. `odd` makes leaves misbehave, by their number among their siblings.
    """

    children: tuple[int, ...] = (50,)
    parallel: int = 10
    calls: int = 3
    kilobytes: int = 8
    subagent_type: str = "general"
    tool: str = "lookup"
    odd: Mapping[int, Odd] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """The task to start the run with."""
        return "[node 0] Delegate the look-ups, then report every fact."

    def leaves(self, path: str = "0") -> Iterator[str]:
        """The leaves below a node, by path."""
        level = path.count(".")
        if level == len(self.children):
            yield path
            return
        for index in range(self.children[level]):
            yield from self.leaves(f"{path}.{index}")

    def keys(self, path: str = "0") -> list[str]:
        """The keys whose facts a node reports."""
        return [self._key(leaf, 0) for leaf in self.leaves(path)]

    def facts(self) -> list[str]:
        """What a run's conclusion holds when nothing was lost."""
        return [fact_line(key) for key in self.keys()]

    def __call__(self, body: Body) -> Answer:
        first = next(conversation.texts(body))
        marker = _NODE.search(first)
        path = marker[1] if marker else "0"
        if path.count(".") == len(self.children):
            return self._leaf(body, path)
        return self._parent(body, path)

    def _key(self, leaf: str, number: int) -> str:
        return f"node-{leaf}-{number}/{self.kilobytes}"

    def _parent(self, body: Body, path: str) -> Answer:
        count = self.children[path.count(".")]
        started = [-1, *self._started(body, path)]
        batch = range(max(started) + 1, min(max(started) + 1 + self.parallel, count))
        if batch and "task" in conversation.offered(body):
            return Answer([self._spawn(f"{path}.{index}") for index in batch])
        return report(conversation.facts(body), self.keys(path))

    def _started(self, body: Body, path: str) -> Iterator[int]:
        """Numbers of the children started so far: from the calls, else from facts in a summary."""
        below = re.compile(rf"\[node {re.escape(path)}\.(\d+)\]|FACT node-{re.escape(path)}\.(\d+)")
        for texts in below.findall(conversation.whole(body)):
            yield from (int(number) for number in texts if number)

    def _spawn(self, path: str) -> Block:
        return call(
            "task",
            prompt=f"[node {path}] Look up your records and report the facts.",
            subagent_type=self.subagent_type,
            description=f"look-ups of {path}",
        )

    def _leaf(self, body: Body, path: str) -> Answer:
        behaviour = self.odd.get(int(path.rpartition(".")[2]))
        done = sum(called.name == self.tool for called in conversation.calls(body))
        may_call = self.tool in conversation.offered(body)
        if may_call and (done < self.calls or behaviour == "endless"):
            return Answer([call(self.tool, key=self._key(path, done))])
        if behaviour is not None and behaviour != "endless":
            return _misbehave(behaviour)
        keys = [self._key(path, 0)]
        pages = conversation.read_back(body, keys, self.parallel)
        if pages and "read_file" in conversation.offered(body):
            return Answer(_reads(pages))
        return report(conversation.facts(body), keys)


def _misbehave(behaviour: Odd) -> Answer:
    if behaviour == "refuses":
        details = {"type": "refusal", "category": None, "explanation": None}
        return Answer([], "refusal", stop_details=details)
    if behaviour == "empty":
        return Answer([], "end_turn")
    if behaviour == "cut":
        # The server cuts it at `max_tokens`, in the middle of the call's input.
        return Answer([call("task", prompt="words " * 200_000)])
    return say("A very long conclusion. " * (LONG // 24))


@dataclass(frozen=True, slots=True)
class LongHaul:
    """One agent, far more material than its window: `calls` look-ups of `kilobytes` each.

    At the end the facts of the first `asked` records are wanted. What was put away is looked into as
    its placeholder says: by a search for the record's name where a tool for that is named, else page
    by page. `search`: True, always by `grep`; False, always by pages. A fact that was found is noted.
    `parallel`: look-ups in one turn. `todo_every`: turns between two changes of the to-do list.
    """

    calls: int = 100
    kilobytes: int = 32
    asked: int = 10
    parallel: int = 1
    todo_every: int = 0
    tool: str = "lookup"
    search: bool | None = None

    @property
    def task(self) -> str:
        """The task to start the run with."""
        return f"Look up all {self.calls} records, then report the facts of the first {self.asked}."

    def keys(self) -> list[str]:
        return [self._key(index) for index in range(self.asked)]

    def facts(self) -> list[str]:
        """What a run's conclusion holds when nothing was lost."""
        return [fact_line(key) for key in self.keys()]

    def __call__(self, body: Body) -> Answer:
        tools = conversation.offered(body)
        done = self._done(body)
        if done < self.calls and self.tool in tools:
            return Answer([*self._todos(done, tools), *self._lookups(done)])
        looks = self._looks(body, tools)
        if looks:
            return Answer([*self._notes(body), *looks])
        return report(conversation.facts(body), self.keys())

    def _done(self, body: Body) -> int:
        """Look-ups made so far: by the records named, else by the files that hold their results."""
        steps = [int(step) for step in _HAUL.findall(conversation.whole(body))]
        files = [p for p in conversation.result_paths(body) if p.endswith(f"-{self.tool}.txt")]
        return max(max(steps, default=-1) + 1, len(files))

    def _looks(self, body: Body, tools: frozenset[str]) -> list[Block]:
        """Where to look next for the facts that are not to be seen."""
        pages = conversation.read_back(body, self.keys(), max(self.parallel, 4))
        searcher = {None: conversation.searcher(body), True: "grep", False: None}[self.search]
        searched = conversation.searched(body)
        names = {path: key for key, path in conversation.paths(body).items()}
        seen = conversation.facts(body)
        missing = "|".join(key for key in self.keys() if key not in seen)
        looks: list[Block] = []
        for path, line in pages:
            if searcher in tools and path not in searched:
                pattern = names.get(path, missing)
                looks.append(call(searcher, pattern=pattern, path=path, output="content"))
            elif "read_file" in tools:
                looks.append(call("read_file", path=path, offset=line))
        return looks

    def _notes(self, body: Body) -> list[Block]:
        """The facts found since the last note."""
        noted = dict(FACT.findall(conversation.noted(body)))
        found = conversation.facts(body)
        new = [f"FACT {key} = {found[key]}" for key in self.keys() if key in found.keys() - noted]
        return [{"type": "text", "text": "\n".join(["Found:", *new])}] if new else []

    def _key(self, index: int) -> str:
        return f"haul-{index:04d}/{self.kilobytes}"

    def _lookups(self, done: int) -> list[Block]:
        batch = range(done, min(done + self.parallel, self.calls))
        text = {"type": "text", "text": f"Records {batch.start} to {batch.stop - 1}."}
        return [text, *(call(self.tool, key=self._key(index)) for index in batch)]

    def _todos(self, done: int, tools: frozenset[str]) -> list[Block]:
        turn = done // self.parallel
        if not self.todo_every or turn % self.todo_every or "write_todos" not in tools:
            return []
        stages = 5
        now = done * stages // self.calls
        return [call("write_todos", todos=[_item(stage, now) for stage in range(stages)])]


def _item(stage: int, now: int) -> dict[str, Any]:
    status = "completed" if stage < now else "in_progress" if stage == now else "pending"
    return {"content": f"Look up part {stage + 1} of 5", "status": status}
