"""The tool `fetch`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from orchestrator.messages import Block, text_block
from orchestrator.web.client import Bounds, Client, Resolve, resolved
from orchestrator.web.content import Answer, Text, first_line, understood
from orchestrator.web.guard import FetchFailed, Guard
from orchestrator.web.markdown import to_markdown

if TYPE_CHECKING:
    import ssl

_ERROR_CHARS = 1_500  # of what an error page says; an error result has at most 2,000


@dataclass(frozen=True)
class Fetch:
    """`fetch` for one agent. ``guard``: what its rules let it reach.

    ``bounds``, ``resolve`` and ``verify`` are seams for limits, name servers and certificates of
    one's own.
    """

    guard: Guard
    bounds: Bounds = field(default_factory=Bounds)
    resolve: Resolve = resolved
    verify: ssl.SSLContext | None = None

    async def fetch(self, url: str) -> str | list[Block]:
        """Get a web page as Markdown, or text, JSON, an image or a PDF as it is.

        Args:
            url: http or https.
        """
        client = Client(self.guard, self.bounds, self.resolve, self.verify)
        answer = await client.get(url)
        if answer.status >= 400:
            raise FetchFailed(await self._excerpt(answer))
        return await self._shown(answer)

    async def _shown(self, answer: Answer) -> str | list[Block]:
        """The answer for a model, under a line that says where it is from."""
        content = await run_sync(understood, answer)
        if not isinstance(content, Text):
            return [text_block(first_line(answer)), *content]
        text, notes = content.text, content.notes
        if content.is_html:
            text, more = await to_markdown(text, answer.url, self.bounds.text_bytes)
            notes = (*notes, *more)
        return f"{first_line(answer, notes)}\n{text}"

    async def _excerpt(self, answer: Answer) -> str:
        """The beginning of what an error page says."""
        try:
            shown = await self._shown(answer)
        except FetchFailed as error:
            shown = f"{first_line(answer)}\n{error}"
        if not isinstance(shown, str):
            return first_line(answer)
        return shown if len(shown) <= _ERROR_CHARS else f"{shown[:_ERROR_CHARS]}…"
