"""`task`, the tool by which an agent hands work to another. Who runs the other is not known here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio

from subagents.conclusion import (
    CONCLUSION_TOKENS,
    TOTAL,
    Conclusion,
    Status,
    estimate,
    limit_each,
    render,
    shorten,
)
from subagents.definition import Definition
from subagents.loader import Loaded

Definitions = Loaded | Mapping[str, Definition]

LISTING = 1_500  # tokens of all kinds of subagents together, in the system prompt

_OUTCOME: dict[Status, str] = {"finished": "completed", "cancelled": "cancelled"}


Finished = Callable[[Conclusion], Awaitable[str]]
Launch = Callable[[Definition, "Brief", Finished], Awaitable[str]]


class SpawnError(ValueError):
    """A subagent that cannot be started as asked. The text says what to ask for instead."""


@dataclass(frozen=True, slots=True)
class Brief:
    """All that a subagent gets from its parent."""

    prompt: str
    description: str = ""
    todo: str | None = None


class TaskTool:
    """`task` for one parent, with the kinds of subagents that it may start.

    `start` runs a subagent to its end and answers with a conclusion whatever happened. `launch` starts
    one and answers with its id; it awaits what it is handed when the subagent has ended, which gives
    the text that the parent is told then. `bind` sets
    the status of a to-do item (`ValueError` for an unknown one). Conclusions of children that run at the same time share `total`
    tokens of the parent's context.
    """

    def __init__(
        self,
        definitions: Definitions,
        start: Callable[[Definition, Brief], Awaitable[Conclusion]],
        bind: Callable[[str, str], Awaitable[None]],
        *,
        launch: Launch | None = None,
        total: int = TOTAL,
    ) -> None:
        self._launch = launch
        self._definitions = definitions
        self._start = start
        self._bind = bind
        self._total = total
        self._room = total
        self._running = 0

    async def task(
        self,
        prompt: str,
        subagent_type: str = "general",
        description: str = "",
        todo: str | None = None,
        background: bool = False,
    ) -> str:
        """Hand work to a subagent with a fresh context; only its conclusion comes back.

        Several calls in one message run in parallel.

        Args:
            prompt: Everything it needs: goal, paths, constraints, what to report. It sees nothing else.
            subagent_type: Its kind.
            description: Three to five words, for people.
            todo: Id of the plan item that follows its outcome.
            background: Go on meanwhile; you are told when it ends.
        """
        definition = find(self._definitions, subagent_type)
        if not prompt.strip():
            raise SpawnError("The prompt is empty: a subagent sees nothing but its prompt.")
        if todo is not None:
            await self._bind(todo, "in_progress")
        brief = Brief(prompt, description, todo)
        if background:
            return await self._start_in_background(definition, brief)
        conclusion = await self._run(definition, brief)
        text = self._share(conclusion, definition.conclusion_tokens or CONCLUSION_TOKENS)
        return text + await self._settle(todo, conclusion.status)

    def told(self, definition: Definition, todo: str | None) -> Finished:
        """What gives the text by which the parent is told of a child in the background."""

        async def finished(conclusion: Conclusion) -> str:
            text = render(conclusion, definition.conclusion_tokens or CONCLUSION_TOKENS)
            return text + await self._settle(todo, conclusion.status)

        return finished

    async def _start_in_background(self, definition: Definition, brief: Brief) -> str:
        if self._launch is None:
            raise SpawnError("Subagents cannot run in the background here: leave it out.")

        try:
            agent_id = await self._launch(definition, brief, self.told(definition, brief.todo))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._settle(brief.todo, "failed")
            raise
        return f"[{definition.name} {agent_id} · running]\nYou are told when it ends."

    async def _run(self, definition: Definition, brief: Brief) -> Conclusion:
        if self._running == 0:
            self._room = self._total
        self._running += 1
        try:
            return await self._start(definition, brief)
        except BaseException:
            # Cancelled from outside, most likely: the item is open again for whoever resumes.
            self._running -= 1
            with anyio.CancelScope(shield=True):
                await self._settle(brief.todo, "failed")
            raise

    def _share(self, conclusion: Conclusion, each: int) -> str:
        text = render(conclusion, limit_each(self._running, each, self._room))
        self._running -= 1
        self._room = max(self._room - estimate(text), 0)
        return text

    async def _settle(self, todo: str | None, status: Status) -> str:
        if todo is None:
            return ""
        try:
            await self._bind(todo, _OUTCOME.get(status, "pending"))
        except (ValueError, OSError) as error:
            # A person may have removed the item meanwhile: no reason to lose a conclusion.
            return f"\n[todo {todo} was not updated: {error}]"
        return ""


def find(definitions: Definitions, name: str) -> Definition:
    """The definition of that name, in any case. Raises `SpawnError` that lists the names."""
    loaded = definitions if isinstance(definitions, Loaded) else Loaded(dict(definitions))
    if (definition := loaded.get(name.strip())) is not None:
        return definition
    names = ", ".join(sorted(loaded.definitions)) or "none"
    raise SpawnError(f"No subagent_type {name!r:.80}; there are: {names}.")


def listing(definitions: Definitions, limit_tokens: int = LISTING) -> str:
    """The kinds of subagents for the main prompt: names with descriptions, `limit_tokens` in all.

    Long descriptions are shortened to one length, the largest that fits; the last line says so.
    """
    known = definitions.definitions if isinstance(definitions, Loaded) else definitions
    return listed({name: known[name].description for name in known}, limit_tokens)


def listed(descriptions: Mapping[str, str], limit_tokens: int) -> str:
    """The same for anything that has names and descriptions."""
    texts = {name: " ".join(text.split()) for name, text in descriptions.items()}
    full = _lines(texts)
    if estimate(full) <= limit_tokens:
        return full
    note = "(descriptions shortened)\n"
    low, high = 0, max(map(len, texts.values()))
    while low < high:
        middle = (low + high + 1) // 2
        fits = estimate(_lines(texts, middle) + note) <= limit_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    if low > 0:
        return _lines(texts, low) + note
    names = shorten(", ".join(texts), limit_tokens - estimate(note) - 5)
    left_out = "" if names == ", ".join(texts) else ", and more"
    return f"{names}{left_out}\n(descriptions left out)\n"


def _lines(texts: Mapping[str, str], tokens: int | None = None) -> str:
    return "".join(f"- {name}: {_short(text, tokens)}\n" for name, text in texts.items())


def _short(text: str, tokens: int | None) -> str:
    if tokens is None or estimate(text) <= tokens:
        return text
    return shorten(text, tokens) + "…"
