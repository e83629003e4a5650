"""The pipeline without our loop: pure functions on lists of messages, for a loop of your own.

::

    step = decide(messages, settings, model="claude-sonnet-5-5", system=system, tools=tools)
    match step:
        case Offload(parts=parts):
            # Yours: write first. Images and documents are bytes; of text, part.text is the same.
            paths = [store(part.data, part.suffix) for part in parts]
            known = facts_of(parts, known)
            messages = offloaded(messages, parts, paths)
        case Compact(cut=cut):
            archive(messages[1 : 1 + cut.dropped])               # yours: nothing is lost
            summary = ask_model(summary_question(messages, cut, settings))
            known = facts_of(messages[1 : 1 + cut.dropped], known)
            messages = compacted(messages, cut, summary, archive="history.md", known_facts=known)
        case Full():
            ...                                                  # nothing left to try
        case None:
            ...                                                  # send as it is

Messages are Messages API JSON; content may be a string or a list of blocks. Nothing is changed in
place. Every list that comes back is valid: no call without its result, no result without its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from orchestrator.context import compaction, facts, history, offload, placeholders, policy, room
from orchestrator.context.compaction import Cut
from orchestrator.context.estimate import Estimator
from orchestrator.context.history import Entry
from orchestrator.context.offload import Part
from orchestrator.context.placeholders import ReadBack
from orchestrator.context.policy import Context
from orchestrator.context.room import Compact, Full, Offload, Situation
from orchestrator.context.windows import window_for
from orchestrator.messages import Block, Message, encode, in_blocks, text_block, user

GivenMessage = Mapping[str, Any]


def decide(
    messages: Sequence[GivenMessage],
    settings: Context | None = None,
    *,
    model: str,
    system: str | Sequence[Block] = (),
    tools: Sequence[Block] = (),
    estimator: Estimator | None = None,
    can_offload: bool = True,
) -> Offload | Compact | Full | None:
    """What to do before the next call; ``None``: send as it is.

    ``estimator``: what earlier calls taught (`Estimator.learn`); without one, four bytes a token.
    After each step that is returned, apply it and decide again.
    """
    settings = settings or Context()
    entries = entries_of(messages)
    window = window_for(model)
    working = policy.working_window(settings, window)
    estimator = estimator or Estimator()
    per_byte = estimator.tokens_per_byte
    at = policy.lines(
        settings,
        working,
        policy.output_reserve(working, window),
        round(_largest_recent_turn(entries) * per_byte),
    )
    now = Situation(
        messages=entries,
        settings=settings,
        at=at,
        tokens=estimator.tokens(weight_of(messages, system=system, tools=tools)),
        tokens_per_byte=per_byte,
        can_offload=can_offload,
    )
    return room.make_room(now)


def weight_of(
    messages: Sequence[GivenMessage],
    *,
    system: str | Sequence[Block] = (),
    tools: Sequence[Block] = (),
) -> int:
    """The weight of a request in bytes, as `Estimator` takes it."""
    fixed = len(encode(system)) + len(encode(list(tools)))
    return fixed + sum(e.weight for e in entries_of(messages))


def placeholder(
    path: str, text: str, *, reader: str = "read_file", searcher: str | None = None
) -> str:
    """What stands in the history for a text that was stored at ``path``; at most 900 characters.

    It names your tool ``reader``, as ``reader(path="…")``, and the one that searches files, if any.
    """
    return placeholders.placeholder(path, text, ReadBack(reader, searcher))


def offloaded(
    messages: Sequence[GivenMessage],
    parts: Sequence[Part],
    paths: Sequence[str],
    *,
    reader: str = "read_file",
    searcher: str | None = None,
) -> list[Message]:
    """The messages after ``parts`` were stored at ``paths``, in the same order.

    ``reader``, ``searcher``: as for `placeholder`.
    """
    by = ReadBack(reader, searcher)
    plain = [in_blocks(m) for m in messages]
    for part, path in zip(parts, paths, strict=True):
        content = plain[part.entry]["content"]
        stub = part.placeholder(path, by)
        content[part.block] = offload.moved(content[part.block], part.key, stub)
    return plain


def summary_question(
    messages: Sequence[GivenMessage], cut: Cut, settings: Context | None = None
) -> list[Message]:
    """The messages of a summary call: the conversation itself, so that it is read from the cache,
    and the question at its end. Send it with the same system prompt and tools, tool choice none."""
    settings = settings or Context()
    plain = [in_blocks(m) for m in messages]
    kept = len(plain) - 1 - cut.dropped
    question = text_block(compaction.instruction(settings.summary_tokens, kept))
    if plain[-1]["role"] == "user":
        plain[-1]["content"].append(question)
    else:
        plain.append(user(question))
    return plain


def compacted(
    messages: Sequence[GivenMessage],
    cut: Cut,
    summary: str,
    *,
    archive: str,
    known_facts: Sequence[str] = (),
) -> list[Message]:
    """The messages with those before ``cut`` replaced by ``summary``.

    The first message keeps its first block, the request, word for word; behind it stand the summary
    and the facts named in what was dropped. A summary that says nothing is replaced by one by rules.
    ``known_facts``: those of earlier compactions (`facts_of`).
    """
    plain = [in_blocks(m) for m in messages]
    dropped = plain[1 : 1 + cut.dropped]
    entries = entries_of(dropped)
    if not compaction.is_acceptable(summary, sum(e.weight for e in entries)):
        summary = compaction.mechanical(entries, "")
    kept_facts, _ = facts.merge(known_facts, facts.extract(dropped))
    text = compaction.render(summary, archive, len(dropped), kept_facts)
    rest = plain[1 + cut.dropped :]
    return [user(plain[0]["content"][0], text), *rest]


def facts_of(
    leaving: Sequence[GivenMessage] | Sequence[Part], known: Sequence[str] = ()
) -> list[str]:
    """The facts to keep word for word once ``leaving`` has left, with those known before.

    ``leaving``: messages that a compaction drops, or parts that an offload moves: what is only a
    placeholder when its turn is dropped has no facts left to find.
    """
    texts = [item.text for item in leaving if isinstance(item, Part)]
    messages = [in_blocks(item) for item in leaving if not isinstance(item, Part)]
    kept, _ = facts.merge(known, [*facts.extract(messages), *facts.extract_from(texts)])
    return kept


def entries_of(messages: Sequence[GivenMessage]) -> tuple[Entry, ...]:
    """The messages as the pipeline works on them, one entry for each."""
    entries: list[Entry] = []
    before = b""
    for number, message in enumerate(messages):
        made = history.entry(in_blocks(message), number, before)
        entries.append(made)
        before = made.chain
    return tuple(entries)


def _largest_recent_turn(entries: Sequence[Entry]) -> int:
    starts = [*history.unit_starts(entries)[-5:], len(entries)]
    return max((sum(e.weight for e in entries[a:b]) for a, b in pairwise(starts)), default=0)
