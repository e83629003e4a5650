"""What a request says of the conversation so far: the task, every call with its answer, the turn.

Everything that the rehearsal knows is read here anew for each reply; nothing is kept in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.messages import Block, Message, text_of, tool_uses
from orchestrator.model import Request
from orchestrator.rehearsal.transcript import calls_in

READ = "read_file"
# A page of `read_file` has up to 5,000 characters, most have less. The output that a request asks
# for is at most a quarter of its window, so in a small window a turn reads less.
_TOKENS_OF_A_PAGE = 1_000
# The to-do list as it is shown.
_PLAN = re.compile(r"<todos>\n.*\n</todos>", re.DOTALL)
_OWN_ID = re.compile(r"toolu_r(\d+)_\d+")


@dataclass(frozen=True, slots=True)
class Wish:
    """A call that the rehearsal would like to make."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        return _key(self.tool, self.arguments)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was made, with its answer."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str
    failed: bool

    @property
    def key(self) -> str:
        return _key(self.tool, self.arguments)

    def argument(self, name: str) -> str:
        """An argument that is a text; empty where it is none, was left out or was moved away."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """``task`` is the first request, ``asides`` every other text of the user's side (summaries, the
    to-do list), ``said`` what a person has said since, ``turn`` the number of the reply that is asked
    for, from 1. ``pages`` is how many pages of files one turn may read."""

    task: str
    asides: tuple[str, ...]
    said: tuple[str, ...]
    calls: tuple[Call, ...]
    turn: int
    tools: Mapping[str, Block]
    pages: int

    @classmethod
    def of(cls, request: Request) -> Conversation:
        task, *asides = list(_user_texts(request.messages)) or [""]
        return cls(
            task=task,
            asides=tuple(asides),
            said=tuple(_said_since(request)),
            calls=(*_excerpted([task, *asides]), *_calls(request.messages)),
            turn=_turn(request.messages),
            tools={tool["name"]: tool for tool in request.tools if "name" in tool},
            pages=max(2, request.max_tokens // _TOKENS_OF_A_PAGE),
        )

    def adapted(self, wish: Wish) -> Wish | None:
        """The wish with those arguments only that the tool's schema knows; ``None`` where the tool
        is not there or needs something else."""
        tool = self.tools.get(wish.tool)
        if tool is None:
            return None
        schema = tool.get("input_schema") or {}
        known = schema.get("properties") or {}
        given = {name: value for name, value in wish.arguments.items() if name in known}
        return Wish(wish.tool, given) if given.keys() >= set(schema.get("required") or ()) else None

    def fresh(self, wishes: Iterable[Wish]) -> list[Wish]:
        """The wishes that can be called and were not called yet, each once, in order; of pages no
        more than a turn may read."""
        seen = {call.key for call in self.calls}
        chosen: list[Wish] = []
        for wish in wishes:
            can = self.adapted(wish)
            if can is not None and can.key not in seen:
                seen.add(can.key)
                chosen.append(can)
        pages = [wish for wish in chosen if wish.tool == READ]
        return [wish for wish in chosen if wish.tool != READ or wish in pages[: self.pages]]


def call_block(turn: int, index: int, wish: Wish) -> Block:
    """The call as a block. Its id is unique in the conversation: no turn number comes twice."""
    return {
        "type": "tool_use",
        "id": f"toolu_r{turn}_{index}",
        "name": wish.tool,
        "input": dict(wish.arguments),
    }


def _key(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{tool} {json.dumps(arguments, sort_keys=True, default=str)}"


def _turn(messages: Sequence[Message]) -> int:
    # A compaction drops the oldest replies, but keeps the newest: their ids still count.
    replies = [m["content"] for m in messages if m["role"] == "assistant"]
    ids = [str(use.get("id")) for content in replies for use in tool_uses(content)]
    numbers = [int(match[1]) for id in ids if (match := _OWN_ID.fullmatch(id))]
    return max([len(replies), *numbers]) + 1


def _calls(messages: Sequence[Message]) -> Iterator[Call]:
    answers = {
        block.get("tool_use_id"): block
        for message in messages
        for block in message["content"]
        if block.get("type") == "tool_result"
    }
    for message in messages:
        for use in tool_uses(message["content"]):
            answer = answers.get(use.get("id"))
            if answer is not None:
                yield _call(use, answer)


def _excerpted(texts: Iterable[str]) -> Iterator[Call]:
    for text in texts:
        for tool, arguments, answer in calls_in(text):
            yield Call(tool, arguments, answer, failed=answer.startswith("[error]"))


def _call(use: Block, answer: Block) -> Call:
    arguments = use.get("input")
    return Call(
        tool=str(use.get("name")),
        arguments=arguments if isinstance(arguments, dict) else {},
        answer=text_of(answer.get("content") or ""),
        failed=bool(answer.get("is_error")),
    )


def _said_since(request: Request) -> list[str]:
    """Texts behind the first request that are neither the plan nor what Outrider asks at the end."""
    texts = [text for text in _user_texts(request.messages[1:]) if not _PLAN.fullmatch(text)]
    return texts if request.purpose == "agent" else texts[:-1]


def _user_texts(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "user":
            yield from (b["text"] for b in message["content"] if b.get("type") == "text")
