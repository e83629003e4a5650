"""Tool calls: side by side, each answered, large results stored before they enter the history."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace

import anyio

from orchestrator.agent import Agent, Call
from orchestrator.concluding import conclude
from orchestrator.context import offload
from orchestrator.context.placeholders import placeholder
from orchestrator.errors import JournalError
from orchestrator.events import (
    Fact,
    Offloaded,
    OffloadFailed,
    ToolReturned,
    ToolStarted,
)
from orchestrator.intents import has_effects, interrupted
from orchestrator.messages import Block
from orchestrator.outputs import Output
from orchestrator.permitting import denied_by, rule_on
from orchestrator.steps import STOPPING
from orchestrator.tools import AfterCrash, ThisCall, Tool, calling, explain
from workspace import WorkspaceError

current_call: ContextVar[Call] = ContextVar("current_call")

_WAIT_FOR_CHILDREN = ("task", "ask_task")
_NOT_FINISHED = f"stopped, and it may have happened in part: {STOPPING}"

Uses = Sequence[tuple[int, Block]]


async def call_tools(agent: Agent, uses: Uses) -> None:
    """Run the calls at the same time; the results keep the order of the calls.

    Calls that were under way when an earlier process died are settled by their tools' policies.
    """
    failures: list[JournalError] = []
    fatal = [use["name"] for index, use in uses if _policy_of(agent, index, use) == "fail"]

    async def call(index: int, use: Block) -> None:
        try:
            await _call(agent, index, use)
        except JournalError as error:
            failures.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, use in uses:
            group.start_soon(call, index, use)
    if failures:
        raise failures[0]  # carried past the group, which would wrap it
    if fatal:
        await conclude(agent, "failed", f"tool:{fatal[0]}", agent.state.text_so_far)


def _policy_of(agent: Agent, index: int, use: Block) -> AfterCrash | None:
    """What becomes of a call that had begun before this process took over; ``None``: it had not."""
    used = agent.tools.get(use["name"])
    return used.after_crash if used is not None and index in agent.state.begun else None


async def refuse(agent: Agent, uses: Uses, why: str) -> None:
    """Answer the calls without running them."""
    await agent.record(
        *(
            ToolReturned(
                tool=use["name"],
                tool_use_id=use["id"],
                index=index,
                chars=len(why),
                is_error=True,
                result=f"[error] {why}",
            )
            for index, use in uses
        )
    )


async def _call(agent: Agent, index: int, use: Block) -> None:
    current_call.set(Call(agent.state.turn, index, use["id"], use["name"]))
    started = time.monotonic()
    facts: list[Fact] = []
    output, is_error = await _run(agent, index, use, facts)
    used = agent.tools.get(use["name"])
    result = output
    if not (used and used.bounded):
        result = await _offload_at_birth(agent, use, output, facts)
    returned = ToolReturned(
        tool=use["name"],
        tool_use_id=use["id"],
        index=index,
        ms=round((time.monotonic() - started) * 1000),
        chars=offload.characters(output),
        is_error=is_error,
        result=_sendable(result),
        seen=agent.files.take_news() if agent.files is not None else {},
    )
    await agent.record(*facts, returned)


async def _run(agent: Agent, index: int, use: Block, facts: list[Fact]) -> tuple[Output, bool]:
    used = agent.tools.get(use["name"])
    if used is None:
        return _missing(agent, use["name"]), True
    if _policy_of(agent, index, use) in ("ask", "fail"):
        return interrupted(used), True
    ruling = await rule_on(agent, used.name, use["input"])
    if ruling.refusal is not None:
        facts += ruling.decided
        return ruling.refusal, True
    current_call.set(replace(current_call.get(), passed=ruling.passed))
    await _record_before(agent, index, use, used, ruling.decided)
    try:
        return await _within_deadline(agent, used, use), False
    except JournalError:
        raise
    # Whatever else a tool raises is the model's to read, not the run's to die of.
    except Exception as error:  # noqa: BLE001
        rule = getattr(error, "rule", None)
        if isinstance(rule, str):
            facts.append(denied_by(rule, use["name"]))
        return explain(error, used), True


def _missing(agent: Agent, name: str) -> str:
    how = agent.off.get(name)
    why = "" if how is None else f": it is off in this run (the user can enable it: {how})"
    return f"[error] no tool {name!r}{why}. Tools: {', '.join(agent.tools)}."


async def _record_before(
    agent: Agent, index: int, use: Block, used: Tool, decided: Sequence[Fact]
) -> None:
    """An effect outlasts a loss of power: that it was about to happen must do so as well."""
    if has_effects(used):
        begun = ToolStarted(tool=used.name, tool_use_id=use["id"], index=index)
        await agent.record(*decided, begun, on_disk=True)
    elif decided:
        await agent.record(*decided)


async def _within_deadline(agent: Agent, used: Tool, use: Block) -> Output:
    # A bounded tool such as `task` ends itself: its children hand back what they have.
    left = None if used.bounded else agent.seconds_left()
    call = current_call.get()
    where = f"{agent.agent_id}/{call.turn}.{call.index}/{call.tool_use_id}"
    run_id = agent.seams.run_id
    calling.set(ThisCall(agent.seams.root, run_id, agent.agent_id, f"{run_id}/{where}"))
    reins = agent.seams.reins
    # Those that wait for children let these hand back.
    after_stop = math.inf if used.name in _WAIT_FOR_CHILDREN else reins.tool_seconds
    with reins.at_most(after_stop), anyio.move_on_after(left):
        return await used.run(use["input"])
    raise TimeoutError("stopped: the time is over" if not reins.is_stopping else _NOT_FINISHED)


async def _offload_at_birth(agent: Agent, use: Block, output: Output, facts: list[Fact]) -> Output:
    """The output with placeholders for texts over the limit, each stored whole first."""
    if isinstance(output, str):
        return await _text_at_birth(agent, use, output, None, facts)
    content = []
    for index, block in enumerate(output):
        if block["type"] == "text":
            key = offload.inner_key(index)
            block = {**block, "text": await _text_at_birth(agent, use, block["text"], key, facts)}
        content.append(block)
    return content


async def _text_at_birth(
    agent: Agent, use: Block, text: str, key: str | None, facts: list[Fact]
) -> str:
    """The placeholder for a text over the limit; else the text itself. ``key``: which block of a
    list it is."""
    limit, by = agent.state.settings.offload_at, agent.state.read_back
    if by is None or not offload.is_over(text, limit):
        return text
    tool, tool_use_id, chars = use["name"], use["id"], len(text)
    try:
        stored = await agent.store.write(tool, text)
    except (WorkspaceError, OSError) as error:
        # Nothing is lost: the content stays where it is, and the log says why.
        facts.append(
            OffloadFailed(tool=tool, tool_use_id=tool_use_id, chars=chars, message=str(error))
        )
        return text
    facts.append(
        Offloaded(
            tool=tool,
            tool_use_id=tool_use_id,
            chars=chars,
            path=stored.path,
            reason="birth",
            sha256=stored.sha256,
            key=key,
        )
    )
    return placeholder(stored.path, text, by)


def _sendable(output: Output) -> Output:
    """Text that can be sent as UTF-8 and is not empty: the API refuses both otherwise."""
    if isinstance(output, str):
        return _sendable_text(output)
    return [
        {**block, "text": _sendable_text(block["text"])} if block["type"] == "text" else block
        for block in output
    ]


def _sendable_text(text: str) -> str:
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()) or "(empty)"
