"""The floor: agents on the official SDK alone, written by hand, with nothing around them.

What anybody would write first: `messages.create`, results of parallel calls gathered, a subagent as
one more tool, one automatic cache breakpoint. No journal, log, limits, retries of its own, offload
or to-do list. `benchmarks/fanout.py` measures Outrider against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from anthropic import AsyncAnthropic

from orchestrator.testing.standin.material import lookup

Function = Callable[..., Awaitable[str]]

_MAX_TOKENS = 8_000
_PARENT = "You plan, delegate the work to subagents with the task tool, and merge what they report."
_LEAF = "You do the work that you are given, with the tools that you have, and report the result."

_TASK = {
    "name": "task",
    "description": "Hand work to a subagent with a fresh context; only its conclusion comes back.",
    "input_schema": {
        "type": "object",
        "properties": {
            "prompt": {"type": "string"},
            "subagent_type": {"type": "string"},
            "description": {"type": "string"},
        },
        "required": ["prompt"],
    },
}
_LOOKUP = {
    "name": "lookup",
    "description": "Look up a record.",
    "input_schema": {
        "type": "object",
        "properties": {"key": {"type": "string", "description": "Its name and size: alpha/8."}},
        "required": ["key"],
    },
}


class RawLoop:
    """Agents over one client. ``streamed``: by the SDK's `messages.stream`, not `messages.create`."""

    def __init__(self, client: AsyncAnthropic, model: str, *, streamed: bool = False) -> None:
        self._client = client
        self._model = model
        self._ask = self._stream if streamed else self._create

    async def agent(self, prompt: str, depth: int = 0) -> str:
        """An agent's conclusion. ``depth``: levels of subagents below it; at 0 it looks things up."""

        async def subagent(prompt: str, **_described: str) -> str:
            return await self.agent(prompt, depth - 1)

        if depth:
            return await self._loop(_PARENT, _TASK, subagent, prompt)
        return await self._loop(_LEAF, _LOOKUP, _look_up, prompt)

    async def _loop(self, system: str, tool: Any, function: Function, prompt: str) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        while True:
            reply = await self._ask(
                model=self._model,
                max_tokens=_MAX_TOKENS,
                system=system,
                tools=[tool],
                messages=messages,
                cache_control={"type": "ephemeral"},
            )
            messages.append({"role": "assistant", "content": reply.content})
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return "\n".join(block.text for block in reply.content if block.type == "text")
            results = await asyncio.gather(*(function(**use.input) for use in uses))
            answers = [
                {"type": "tool_result", "tool_use_id": use.id, "content": result}
                for use, result in zip(uses, results, strict=True)
            ]
            messages.append({"role": "user", "content": answers})

    async def _create(self, **request: Any) -> Any:
        return await self._client.messages.create(**request)

    async def _stream(self, **request: Any) -> Any:
        async with self._client.messages.stream(**request) as stream:
            return await stream.get_final_message()


async def _look_up(key: str) -> str:
    return lookup(key)
