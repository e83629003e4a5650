"""The scripted brains, driven over HTTP by a small agent of this file's own.

It offloads, spawns children and compacts as crudely as will do, so that a brain is seen to be right
from the request alone: after a compaction, from a summary of no use, with results put away.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from orchestrator.testing.standin import Server, serve
from orchestrator.testing.standin.brains import (
    LongHaul,
    Tree,
    keep_facts,
    keep_nothing,
    reported,
    thoughtful,
)
from orchestrator.testing.standin.material import fact, lookup

NAMES = ("lookup", "read_file", "task", "write_todos")
TOOLS: Any = [{"name": name, "input_schema": {"type": "object"}} for name in NAMES]


def connect(server: Server) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.base_url, api_key="test", max_retries=0)


@dataclass
class Run:
    """An agent and its children; `keep`: messages kept at a compaction, every `every` messages."""

    client: AsyncAnthropic
    offload_at: int = 5_000
    every: int = 1_000
    keep: int = 6
    turns: int = 300
    model: str = "claude-sonnet-5"
    thinking: bool = False
    files: dict[str, str] = field(default_factory=dict)
    compactions: int = 0
    reads: int = 0
    todos: int = 0

    async def agent(self, prompt: str, name: str = "main") -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        for _ in range(self.turns):
            if len(messages) > self.every:
                messages = await self.compact(messages, prompt, name)
            answer = await self.ask(messages, name, "agent")
            content = [block.model_dump(exclude_none=True) for block in answer.content]
            uses = [block for block in content if block["type"] == "tool_use"]
            if not uses or answer.stop_reason != "tool_use":
                return "".join(block.get("text", "") for block in content)
            results = await asyncio.gather(*(self.tool(use, name) for use in uses))
            messages.append({"role": "assistant", "content": content})
            messages.append({"role": "user", "content": list(results)})
        return "endless"

    async def ask(self, messages: list[Any], name: str, purpose: str) -> Any:
        return await self.client.messages.create(
            model=self.model,
            max_tokens=4_000,
            messages=messages,
            tools=TOOLS,
            thinking={"type": "adaptive"} if self.thinking else {"type": "disabled"},
            extra_headers={"x-outrider-agent": name, "x-outrider-purpose": purpose},
        )

    async def compact(self, messages: list[Any], prompt: str, name: str) -> list[Any]:
        wish = {"type": "text", "text": "Summarize the conversation above."}
        last = {**messages[-1], "content": [*messages[-1]["content"], wish]}
        answer = await self.ask([*messages[:-1], last], name, "summary")
        self.compactions += 1
        kept = [self.unthought(message) for message in messages[-self.keep :]]
        text = "".join(b.text for b in answer.content if b.type == "text")
        return [{"role": "user", "content": f"{prompt}\n\n{text}\n{self.listing()}"}, *kept]

    def listing(self) -> str:
        """What a harness keeps word by word after any summary."""
        return "\n".join(self.files)

    @staticmethod
    def unthought(message: Any) -> Any:
        content = [b for b in message["content"] if "thinking" not in b["type"]]
        return {**message, "content": content}

    async def tool(self, use: Any, name: str) -> Any:
        text = await self.call(use["name"], use["input"], f"{name}/{use['id']}")
        if len(text) > self.offload_at and use["name"] != "read_file":
            path = f".outrider/runs/r/results/{use['id']}.txt"
            self.files[path] = text
            first = f"[offloaded {path} · {len(text)} characters, {text.count(chr(10))} lines · "
            text = f"{first}preview, not the whole]\n{text[:300]}\n…\n{text[-300:]}"
        return {"type": "tool_result", "tool_use_id": use["id"], "content": text}

    async def call(self, tool: str, arguments: Any, child: str) -> str:
        if tool == "lookup":
            return lookup(arguments["key"])
        if tool == "task":
            text = await self.agent(arguments["prompt"], child)
            status = "finished" if text else "empty"
            return f"[general {child} · {status} · 3 tool calls · 99 tokens]\n{text[:2_000]}"
        if tool == "write_todos":
            self.todos += 1
            return "ok"
        self.reads += 1
        return self.page(**arguments)

    def page(self, path: str, offset: int = 1) -> str:
        lines = self.files[path].splitlines()
        text = "\n".join(lines[offset - 1 : offset + 39])
        more = offset + 40
        return f"{text}\n[go on with offset={more}]" if more <= len(lines) else text


@pytest.mark.asyncio
async def test_a_fan_out_brings_every_fact_home() -> None:
    """50 children, 10 at a time, 3 look-ups of 8 KB each, put away at birth and read back."""
    brain = Tree(children=(50,), parallel=10, calls=3, kilobytes=8)
    async with serve(brain) as server, connect(server) as client:
        run = Run(client)
        conclusion = await run.agent(brain.task)
        assert set(brain.facts()) <= set(conclusion.splitlines())
        assert len(reported(conclusion)) == 50
        assert not server.ledger.rejected
        assert len(server.ledger.by_agent()) == 51
        assert server.ledger.by_agent()["main"]["requests"] == 6


@pytest.mark.asyncio
async def test_a_deep_tree_passes_facts_up_through_every_level() -> None:
    brain = Tree(children=(3, 2, 2), parallel=2, calls=1, kilobytes=1)
    async with serve(brain) as server, connect(server) as client:
        conclusion = await Run(client).agent(brain.task)
        assert set(brain.facts()) <= set(conclusion.splitlines())
        assert len(server.ledger.by_agent()) == 1 + 3 + 6 + 12


@pytest.mark.asyncio
async def test_children_that_misbehave_leave_their_siblings_alone() -> None:
    """One never ends, one refuses, one says nothing, one says far too much, one is torn."""
    odd: Any = {0: "endless", 1: "refuses", 2: "empty", 3: "long", 4: "cut"}
    brain = Tree(children=(8,), parallel=8, calls=1, kilobytes=1, odd=odd)
    async with serve(brain) as server, connect(server) as client:
        conclusion = await Run(client, turns=20).agent(brain.task)
        assert set(reported(conclusion)) == {f"node-0.{n}-0/1" for n in (5, 6, 7)}
        assert conclusion.count("missing: ") == 5
        by_agent = server.ledger.by_agent()
        assert sorted(sums["requests"] for sums in by_agent.values()).count(20) == 1
        reasons = {row.stop_reason for row in server.ledger.rows}
        assert {"refusal", "max_tokens", "end_turn", "tool_use"} <= reasons


@pytest.mark.asyncio
@pytest.mark.parametrize("summarizer", [keep_facts, keep_nothing])
@pytest.mark.parametrize("parallel", [1, 10])
async def test_a_long_haul_reports_early_facts_after_compactions(
    summarizer: Any, parallel: int
) -> None:
    """Also when the summary keeps nothing: the paths that the harness lists are read."""
    brain = LongHaul(calls=60, kilobytes=16, asked=5, parallel=parallel, todo_every=2)
    async with serve(brain, summarizer=summarizer) as server, connect(server) as client:
        run = Run(client, every=20 if parallel == 1 else 8, keep=4)
        conclusion = await run.agent(brain.task)
        assert set(brain.facts()) <= set(conclusion.splitlines())
        assert not server.ledger.rejected
        assert run.compactions >= 1
        assert run.reads >= 5
        assert run.todos >= 3
        calls = [row for row in server.ledger.rows if row.purpose == "summary"]
        assert len(calls) == run.compactions


@pytest.mark.asyncio
async def test_a_long_haul_that_thinks_is_bound_and_never_rejected() -> None:
    brain = thoughtful(LongHaul(calls=20, kilobytes=8, asked=3, todo_every=3))
    async with serve(brain, summarizer=keep_facts) as server, connect(server) as client:
        run = Run(client, every=20, keep=4, model="claude-opus-5-5", thinking=True)
        conclusion = await run.agent(LongHaul().task)
        assert len(reported(conclusion)) == 3
        assert run.compactions >= 2
        assert not server.ledger.rejected


@pytest.mark.asyncio
async def test_a_last_turn_without_tools_is_answered_with_what_there_is() -> None:
    """`tool_choice: none` is how a limit asks for a hand-back."""
    brain = LongHaul(calls=50, kilobytes=1, asked=2)
    async with serve(brain) as server, connect(server) as client:
        key = brain.keys()[0]
        use: Any = {"type": "tool_use", "id": "a", "name": "lookup", "input": {"key": key}}
        result: Any = {"type": "tool_result", "tool_use_id": "a", "content": lookup(key)}
        answer: Any = await client.messages.create(
            model="claude-sonnet-5",
            max_tokens=500,
            tools=TOOLS,
            tool_choice={"type": "none"},
            messages=[
                {"role": "user", "content": brain.task},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ],
        )
        assert answer.stop_reason == "end_turn"
        assert reported(answer.content[0].text) == {key: fact(key)}
        assert "missing: haul-0001/1" in answer.content[0].text


@pytest.mark.asyncio
async def test_the_same_request_is_answered_the_same_twice() -> None:
    brain = Tree(children=(3,))
    async with serve(brain) as server, connect(server) as client:
        run = Run(client)
        messages = [{"role": "user", "content": brain.task}]
        first, second = [await run.ask(messages, "main", "agent") for _ in range(2)]
        assert first.content == second.content
