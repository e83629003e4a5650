"""The offline stand-in, ``--model rehearsal``: no language model, and yet real work on real files.

As main agent it looks at the workspace, plans an item for each area, hands the areas to subagents
and merges their conclusions; as subagent it lists, searches and reads, and concludes with what it
extracted. Each reply is a function of the request alone, so it is right under any interleaving. It
knows nothing of any particular repository.

Its usage figures are estimates: a token for every four bytes, nothing read from a cache.
"""

from __future__ import annotations

import anyio.lowlevel

from orchestrator.ledger import Usage
from orchestrator.messages import Block, encode, text_block
from orchestrator.model import ModelFacts, Reply, Request
from orchestrator.rehearsal import lead, report, survey
from orchestrator.rehearsal.conversation import Conversation, Wish, call_block
from orchestrator.rehearsal.scope import Scope, scope_of, target_of

__all__ = ["RehearsalModel"]

_BYTES_PER_TOKEN = 4
_WRITE = "write_file"


class RehearsalModel:
    """A `Model` that needs neither key nor network. It holds no state: one serves any number of
    agents at once."""

    async def __call__(self, request: Request) -> Reply:
        # As a call over the network would, let other tasks run, and be cancelled here.
        await anyio.lowlevel.checkpoint()
        return reply_to(request)

    async def describe(self, name: str) -> ModelFacts:
        await anyio.lowlevel.checkpoint()
        return ModelFacts()


def reply_to(request: Request) -> Reply:
    """The reply to a request. Pure."""
    conversation = Conversation.of(request)
    calls = _calls(request, conversation)
    content = [text_block(_text(request, conversation, calls))]
    content += [call_block(conversation.turn, i, call) for i, call in enumerate(calls, 1)]
    return Reply(
        content=content,
        stop_reason="tool_use" if calls else "end_turn",
        usage=_usage(request, content),
        model=request.model,
    )


def _calls(request: Request, conversation: Conversation) -> list[Wish]:
    if not _may_call(request):
        return []
    if lead.leads(request, conversation):
        calls = lead.next_calls(request, conversation)
    else:
        calls = survey.next_calls(conversation, scope_of(conversation.task))
    return calls or _writing(request, conversation)


def _may_call(request: Request) -> bool:
    if request.purpose in ("summary", "handback"):
        return False
    return (request.tool_choice or {}).get("type") != "none"


def _writing(request: Request, conversation: Conversation) -> list[Wish]:
    """The result goes into a file only where the request names one, and only once."""
    target = target_of(conversation.task)
    if target is None or any(call.tool == _WRITE for call in conversation.calls):
        return []
    content = _result(request, conversation) + "\n"
    return conversation.fresh([Wish(_WRITE, {"path": target, "content": content})])


def _text(request: Request, conversation: Conversation, calls: list[Wish]) -> str:
    if request.purpose == "summary":
        return report.summary(conversation, request.max_tokens)
    if not calls:
        return _result(request, conversation)
    names = ", ".join(dict.fromkeys(call.tool for call in calls))
    if conversation.turn > 1:
        return f"Rehearsal, turn {conversation.turn}: {names}."
    return f"This is a rehearsal, and I am no language model. I begin with {names}."


def _result(request: Request, conversation: Conversation) -> str:
    # A call without tools, before the work was done, is the last one: at a limit.
    stopped = not _may_call(request)
    if lead.leads(request, conversation):
        return report.report(conversation, request.max_tokens, stopped)
    scope: Scope = scope_of(conversation.task)
    return report.conclusion(conversation, scope, request.max_tokens, stopped)


def _usage(request: Request, content: list[Block]) -> Usage:
    return Usage(
        input_tokens=len(request.body) // _BYTES_PER_TOKEN,
        output_tokens=len(encode(content)) // _BYTES_PER_TOKEN,
    )
