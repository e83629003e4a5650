"""A model that is a function of the request: no key, no network, right under any interleaving.

::

    def script(request):
        if not results(request):
            return [call("read_file", path="README.md")]
        return f"It begins: {results(request)[-1][:40]}"

    report = await run("Look at the README", model=ScriptedModel(script))

Because the reply depends on nothing but the request, the same script serves every agent of a run,
however their turns interleave; tell agents apart by ``request.agent_type``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from orchestrator.ledger import Usage
from orchestrator.messages import Block, text_block, text_of, tool_uses
from orchestrator.model import ModelFacts, Reply, Request

Scripted = str | list[Block] | Reply


class ScriptedModel:
    """Answers with what ``fn(request)`` returns: a text, content blocks, or a whole `Reply`.

    ``fn`` may be async, and may raise a `ModelError` to play a failing service. Calls get ids that
    are unique in their conversation where the script gives none. Usage, where the script gives none,
    is estimated at four bytes a token.
    """

    def __init__(
        self,
        fn: Callable[[Request], Scripted | Awaitable[Scripted]],
        *,
        name: str = "scripted",
        window: int | None = None,
    ) -> None:
        self.name = name
        self._fn = fn
        self._window = window

    async def __call__(self, request: Request) -> Reply:
        made = self._fn(request)
        reply = await made if inspect.isawaitable(made) else made
        if isinstance(reply, Reply):
            return reply
        content = [text_block(reply)] if isinstance(reply, str) else _with_ids(reply, request)
        usage = Usage(len(request.body) // 4, len(str(content)) // 4)
        stop = "tool_use" if tool_uses(content) else "end_turn"
        # The API, too, sends no empty text.
        content = [b for b in content if b.get("text") != ""]
        return Reply(content=content, stop_reason=stop, usage=usage, model=request.model)

    async def describe(self, name: str) -> ModelFacts:
        """The window that was given to the model, whatever it is called."""
        return ModelFacts(window=self._window)


def _with_ids(content: list[Block], request: Request) -> list[Block]:
    turn = len(request.messages)
    return [
        {**block, "id": f"call_{turn}_{index}"}
        if block.get("type") == "tool_use" and not block.get("id")
        else block
        for index, block in enumerate(content)
    ]


def call(tool: str, /, **arguments: Any) -> Block:
    """A call of a tool, for a script's reply."""
    return {"type": "tool_use", "id": "", "name": tool, "input": arguments}


def results(request: Request) -> list[str]:
    """The texts of all tool results in the request, oldest first."""
    return [
        text_of(block.get("content") or "")
        for message in request.messages
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def said(request: Request) -> str:
    """The text of the request's first user message: the task, or a subagent's brief."""
    return text_of(request.messages[0]["content"])
