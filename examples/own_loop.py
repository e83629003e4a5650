"""The context pipeline in front of a loop that is not Outrider's.

A hand-written agent loop reads a long log, page by page, with a window far smaller than the log. The
pipeline's pure functions say what to do before each call; storing, archiving and calling the model
stay with the loop. The model here is a script, so that the example runs offline: put your own client
in `ask`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.context import (
    Compact,
    Context,
    Full,
    Offload,
    compacted,
    decide,
    facts_of,
    offloaded,
    placeholder,
    summary_question,
)

Message = dict[str, Any]
Ask = Callable[[list[Any]], list[dict[str, Any]]]

SETTINGS = Context(window=16_000, keep_turns=3, offload_at=4_000)
MODEL = "my-local-model"


class Files:
    """Where this loop keeps what leaves its context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def store(self, text: str) -> str:
        self.count += 1
        path = self.folder / f"{self.count:04d}.txt"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def archive(self, messages: list[Any]) -> str:
        path = self.folder / "history.txt"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{message}\n" for message in messages)
        return str(path)


def make_room(messages: list[Any], files: Files, ask: Ask, facts: list[str]) -> list[Any]:
    """Everything that the pipeline adds to a loop: one call of this before each model call."""
    while (step := decide(messages, SETTINGS, model=MODEL)) is not None:
        match step:
            case Offload(parts=parts):
                paths = [files.store(part.text) for part in parts]
                facts[:] = facts_of(parts, facts)
                messages = offloaded(messages, parts, paths)
            case Compact(cut=cut):
                dropped = messages[1 : 1 + cut.dropped]
                archive = files.archive(dropped)
                reply = ask(summary_question(messages, cut, SETTINGS))
                summary = "".join(b["text"] for b in reply if b["type"] == "text")
                facts[:] = facts_of(dropped, facts)
                messages = compacted(messages, cut, summary, archive=archive, known_facts=facts)
            case Full():
                raise RuntimeError("the context is full and nothing more can leave it")
    return messages


def run(task: str, ask: Ask, tool: Callable[..., str], files: Files) -> str:
    """An agent loop of the plainest kind."""
    messages: list[Any] = [{"role": "user", "content": task}]
    facts: list[str] = []
    while True:
        messages = make_room(messages, files, ask, facts)
        reply = ask(messages)
        messages.append({"role": "assistant", "content": reply})
        calls = [block for block in reply if block["type"] == "tool_use"]
        if not calls:
            return "".join(b["text"] for b in reply if b["type"] == "text")
        results = []
        for use in calls:
            text = tool(**use["input"])
            if SETTINGS.offload_at and len(text) > SETTINGS.offload_at:
                text = placeholder(files.store(text), text)
            results.append({"type": "tool_result", "tool_use_id": use["id"], "content": text})
        messages.append({"role": "user", "content": results})


PAGES = 60


def page(number: int) -> str:
    """A page of the log."""
    lines = [f"2026-11-30 12:{number % 60:02d} worker {n}: ok" for n in range(90)]
    if number == 7:
        lines[50] = "2026-11-30 12:07 ERROR order PROJ-4711 lost at src/queue.py:88"
    return "\n".join(lines)


def scripted(messages: list[Any]) -> list[dict[str, Any]]:
    """A stand-in for a model: asks for page after page; summarises badly; answers at the end."""
    text = str(messages)
    if "will be replaced by what you write now" in text:
        return [{"type": "text", "text": "Pages were read one after the other."}]
    calls = [b for m in messages for b in m["content"] if isinstance(b, dict) and "input" in b]
    number = 1 + max((call["input"]["number"] for call in calls), default=0)
    if number <= PAGES:
        call = {"type": "tool_use", "id": f"call_{number}", "name": "page"}
        return [call | {"input": {"number": number}}]
    found = "PROJ-4711" if "PROJ-4711" in text else "nothing"
    return [{"type": "text", "text": f"Read {PAGES} pages; what was lost: {found}."}]


def main() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return run("Find what was lost.", scripted, page, Files(Path(folder)))


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{main()}\n")
