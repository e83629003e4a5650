"""What was recorded of an agent: what it began with, and what came to it from outside. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator import events as ev
from orchestrator.context import policy
from orchestrator.context.estimate import BYTES_PER_TOKEN
from orchestrator.context.offload import characters, inner_key
from orchestrator.context.windows import binds_thinking, window_for
from orchestrator.messages import Block, Message, in_blocks, text_block, tool_result, tool_uses
from orchestrator.state import follow_all

# The fixed prefix of a session of which only the messages are known.
PREFIX_TOKENS = 1_500
# The tools that results are read back with.
READER = "read_file"
_SEARCHER = "grep"
# Our own tools that keep within limits of their own, which a journal does not say.
_BOUNDED = frozenset({"read_file", "task", "write_todos"})
_LOST = "[error] there was no result: the call was interrupted"


@dataclass(frozen=True)
class Conversation:
    """What one agent began with, and what came to it from outside: replies, whole tool results,
    messages, to-do lists.

    ``rate``: tokens a byte. ``rates``: the same by turn, for what came in that turn (turn 0 is the
    first request), as far as reports tell; they play the provider's count, which the estimate has
    to follow. ``output``: tokens of each reply, where they were reported. ``bounded``: tools that keep
    their results within limits of their own, so that they are never offloaded at birth.
    """

    started: ev.AgentStarted
    events: Sequence[ev.Event]
    rate: float = 1 / BYTES_PER_TOKEN
    rates: Sequence[float] = ()
    output: Sequence[int | None] = ()
    bounded: frozenset[str] = frozenset()
    # Where offloaded results go: a path is a good part of a placeholder.
    folder: str = ".outrider/runs/20260101-000000-000000/agents/main/results"


def of_messages(
    messages: Iterable[Mapping[str, Any]],
    *,
    prefix_tokens: int = PREFIX_TOKENS,
    model: str = "recorded",
    rate: float = 1 / BYTES_PER_TOKEN,
    rates: Sequence[float] = (),
    output: Sequence[int | None] = (),
) -> Conversation:
    """A conversation from bare messages, the first of them the user's request. A message's content
    may be a plain text.

    Histories need not be clean: a call without a result counts as interrupted, a result without a
    call is left out.
    """
    numbered = [in_blocks(message) for message in messages]
    brief = ""
    if numbered and numbered[0]["role"] == "user":
        brief = _said(numbered[0])
        del numbered[0]
    # An empty text block and an empty tool list are what a prefix of blanks costs beside them.
    padding = round(prefix_tokens / rate) - len('[{"type":"text","text":""}][]')
    started = ev.AgentStarted(
        agent_id="main",
        definition="recorded",
        model=model,
        window_tokens=policy.WORKING_WINDOW_TOKENS,
        output_tokens=policy.output_reserve(policy.WORKING_WINDOW_TOKENS, window_for(model)),
        tools=[READER, _SEARCHER],
        reader=READER,
        brief=brief or "(no request)",
        system=[text_block(" " * max(0, padding))],
    )
    events = tuple(_events(numbered, model))
    return Conversation(started, events, rate, rates, output)


def on_model(recorded: Conversation, model: str) -> Conversation:
    """The same conversation with another model."""
    known = window_for(model)
    update = {
        "model": model,
        "binds_thinking": binds_thinking(model),
        "output_tokens": policy.output_reserve(recorded.started.window_tokens, known),
    }
    return replace(recorded, started=recorded.started.model_copy(update=update))


def of_records(
    records: Iterable[ev.Record], stored: Callable[[str], str | None]
) -> dict[str, Conversation]:
    """The conversations of a run's agents by their ids, in the order in which they started.

    ``stored(path)`` is the text of an offloaded result, of which the records hold the placeholder;
    where it is ``None``, the placeholder is played. Raises `JournalError` where a record does not follow
    from those before it.
    """
    by_agent: dict[str, list[ev.Record]] = {}
    for record in records:
        by_agent.setdefault(record.agent_id, []).append(record)
    found = {name: _of_own(own, stored) for name, own in by_agent.items()}
    return {name: one for name, one in found.items() if one is not None}


def _of_own(
    records: Sequence[ev.Record], stored: Callable[[str], str | None]
) -> Conversation | None:
    """The conversation of the agent whose records these are."""
    events = [record.fact for record in records]
    started = next((e for e in events if isinstance(e, ev.AgentStarted)), None)
    if started is None:
        return None
    # What the run's own reports taught it, and the window that it ended with.
    end = follow_all(records)
    update = {"window_tokens": end.window_tokens}
    kept = tuple(_from_outside(events, stored))
    replies = (e for e in kept if isinstance(e, ev.ModelReplied))
    paths = (e.path for e in events if isinstance(e, ev.Offloaded))
    return Conversation(
        started.model_copy(update=update),
        kept,
        rate=end.estimator.tokens_per_byte,
        output=[None if e.usage is None else e.usage.output_tokens for e in replies],
        bounded=_BOUNDED,
        folder=next(paths, f"{Conversation.folder}/0001.txt").rpartition("/")[0],
    )


def _from_outside(
    events: Iterable[ev.Event], stored: Callable[[str], str | None]
) -> Iterator[ev.Event]:
    """What came in, results whole; not what the pipeline made of it."""
    births: dict[tuple[str, str | None], str] = {}
    for event in events:
        match event:
            case ev.ModelReplied():
                births.clear()  # ids are unique in a turn only
                if event.purpose != "summary":
                    yield event
            case ev.Offloaded(reason="birth"):
                births[event.tool_use_id, event.key] = event.path
            case ev.ToolReturned():
                paths = {key: p for (use, key), p in births.items() if use == event.tool_use_id}
                yield _whole(event, paths, stored) if paths else event
            case ev.MessageAdded() | ev.TodosWritten():
                yield event


def _whole(
    event: ev.ToolReturned, paths: Mapping[str | None, str], stored: Callable[[str], str | None]
) -> ev.ToolReturned:
    """The result with the texts that moved to ``paths``, by block, back in their places."""
    if isinstance(event.result, str):
        text = stored(paths[None]) if None in paths else None
        return event if text is None else event.model_copy(update={"result": text})
    content = list(event.result)
    for index, block in enumerate(content):
        path = paths.get(inner_key(index))
        if path is not None and (text := stored(path)) is not None:
            content[index] = {**block, "text": text}
    return event.model_copy(update={"result": content})


def _events(messages: Sequence[Message], model: str) -> Iterator[ev.Event]:
    """The messages after the first request, as what came in."""
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            uses = tool_uses(message["content"])
            stop = "tool_use" if uses else "end_turn"
            yield ev.ModelReplied(
                model=model, blocks=message["content"], stop_reason=stop, usage=None
            )
            yield from _answers(uses, _results_after(messages, number))
        elif text := _said(message):
            answers = any(b.get("type") == "tool_result" for b in message["content"])
            # Beside results stands what a harness adds of its own.
            yield ev.MessageAdded(text=text, origin="outrider" if answers else "user")


def _results_after(messages: Sequence[Message], number: int) -> dict[str, Block]:
    """The results between this reply and the next one, by their call's id."""
    found: dict[str, Block] = {}
    for message in messages[number + 1 :]:
        if message["role"] == "assistant":
            break
        for block in message["content"]:
            if block.get("type") == "tool_result":
                found.setdefault(block["tool_use_id"], block)
    return found


def _answers(uses: Sequence[Block], results: Mapping[str, Block]) -> Iterator[ev.Event]:
    for index, use in enumerate(uses):
        block = results.get(use["id"]) or tool_result(use["id"], _LOST, is_error=True)
        content: str | list[Block] = block.get("content") or "(empty)"
        yield ev.ToolReturned(
            tool=use["name"],
            tool_use_id=use["id"],
            index=index,
            chars=characters(content),
            is_error=bool(block.get("is_error")),
            result=content,
        )


def _said(message: Message) -> str:
    """A user message's own text. Images that a person sent are named: a run takes in text only."""
    parts = [
        b["text"] if b.get("type") == "text" else f"({b['type']})"
        for b in message["content"]
        if b.get("type") in ("text", "image", "document")
    ]
    return "\n".join(part for part in parts if part.strip())
