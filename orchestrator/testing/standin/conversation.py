"""Reading a request as a scripted brain needs it: what was said, called, found and put away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .material import FACT, TITLE
from .settings import Body
from .tokens import blocks_of

_OFFLOADED = re.compile(r"\[offloaded (\S+) · ")
_SEARCH = re.compile(r"^Search it with (\w+)", re.MULTILINE)
_RESULT_PATH = re.compile(r"[\w./-]*/results/[\w./-]*\w")
_NEXT = re.compile(r"(?<!char_)\boffset\s*[=:]?\s*(\d+)")
#: Characters of a placeholder behind its first words.
_PREVIEW = 900


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call of the conversation, with its result as text; `None`: not answered."""

    name: str
    input: dict[str, Any]
    result: str | None
    is_error: bool


def text_of(block: Any) -> str:
    """What a block says to a reader: text, a call's input as JSON, a result's text."""
    kind = block.get("type")
    if kind == "tool_use":
        return f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
    if kind in ("tool_result", "compaction"):
        return "\n".join(text_of(part) for part in blocks_of(block.get("content")))
    return str(block.get("text", ""))


def texts(body: Body) -> Iterator[str]:
    """The text of every message, in order. The system prompt is not part of it."""
    for message in body["messages"]:
        yield "\n".join(text_of(block) for block in blocks_of(message["content"]))


def whole(body: Body) -> str:
    return "\n".join(texts(body))


def calls(body: Body) -> list[Called]:
    """The calls that are still in the history, oldest first."""
    results: dict[str, Any] = {}
    uses: list[Any] = []
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            if block.get("type") == "tool_use":
                uses.append(block)
            elif block.get("type") == "tool_result":
                results[block["tool_use_id"]] = block
    return [_called(use, results.get(use["id"])) for use in uses]


def _called(use: Any, result: Any) -> Called:
    text = None if result is None else text_of(result)
    failed = result is not None and bool(result.get("is_error"))
    return Called(use["name"], use["input"], text, failed)


def offered(body: Body) -> frozenset[str]:
    """The tools that may be called now: none under `tool_choice: none`."""
    if (body.get("tool_choice") or {}).get("type") == "none":
        return frozenset()
    return frozenset(tool["name"] for tool in body.get("tools") or [])


def facts(body: Body) -> dict[str, str]:
    """Every planted fact that can be seen, by key."""
    return dict(FACT.findall(whole(body)))


def paths(body: Body) -> dict[str, str]:
    """Where records were put away: key → path, from placeholders and from `KEY is in PATH`."""
    found = dict(re.findall(r"^(\S+) is in (\S+)$", whole(body), re.MULTILINE))
    for path, said in _placeholders(body):
        title = TITLE.search(said)
        if title is not None:
            found[title[1]] = path
    return found


def searcher(body: Body) -> str | None:
    """The tool that placeholders name for a search in what they stand for."""
    told = (_SEARCH.search(said) for _, said in _placeholders(body))
    return next((found[1] for found in told if found is not None), None)


def _placeholders(body: Body) -> Iterator[tuple[str, str]]:
    """The path in each placeholder's first line, and what follows that line."""
    text = whole(body)
    for placeholder in _OFFLOADED.finditer(text):
        said = text[placeholder.end() : placeholder.end() + _PREVIEW]
        yield placeholder[1], said.partition("[offloaded ")[0]


def result_paths(body: Body) -> list[str]:
    """Every path of a put-away result that is named."""
    return list(dict.fromkeys(_RESULT_PATH.findall(whole(body))))


def stray_paths(body: Body) -> list[str]:
    """Paths of put-away results that nothing ties to a key, such as a list kept by a summary."""
    known = set(paths(body).values())
    return [path for path in result_paths(body) if path not in known]


def noted(body: Body) -> str:
    """What was said by the assistant itself, and in the first message, where a summary stands."""
    first, *later = body["messages"]
    said = [m for m in later if m["role"] == "assistant"]
    blocks = (block for message in (first, *said) for block in blocks_of(message["content"]))
    return "\n".join(text_of(block) for block in blocks)


def searched(body: Body) -> frozenset[str]:
    """The files in which a search was answered already."""
    paths = (c.input.get("path") for c in calls(body) if c.name != "read_file" and c.result)
    return frozenset(path for path in paths if path is not None)


def read_back(body: Body, keys: list[str], limit: int) -> list[tuple[str, int]]:
    """Pages to read, as (path, first line), for the facts that are not to be seen; at most `limit`.

    Empty: every fact is there, or what is missing cannot be found.
    """
    seen, where = facts(body), paths(body)
    missing = [key for key in keys if key not in seen]
    if not missing:
        return []
    wanted = [where[key] for key in missing if key in where]
    if len(wanted) < len(missing):
        done = searched(body)
        wanted += [path for path in stray_paths(body) if path not in done]
    history = calls(body)
    pages = ((path, _next_page(history, path)) for path in dict.fromkeys(wanted))
    return [(path, page) for path, page in pages if page is not None][:limit]


def _next_page(history: list[Called], path: str) -> int | None:
    """The first line not read yet; `None`: the file ended, or cannot be read."""
    last = next(
        (c for c in reversed(history) if c.name == "read_file" and c.input.get("path") == path),
        None,
    )
    if last is None:
        return 1
    if last.is_error or last.result is None or FACT.search(last.result):
        return None
    here = int(last.input.get("offset", 1))
    following = [int(number) for number in _NEXT.findall(last.result) if int(number) > here]
    # A page that was put away in its turn is read again.
    again = here if last.result.startswith("[offloaded ") else None
    return max(following, default=again)
