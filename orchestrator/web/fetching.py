"""The tool `fetch`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from orchestrator.messages import Block
from orchestrator.web.client import Bounds, Client, Resolve, resolved
from orchestrator.web.content import excerpt, readable
from orchestrator.web.guard import FetchFailed, Guard

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
            raise FetchFailed(await run_sync(excerpt, answer, _ERROR_CHARS))
        # Half a second for the largest page.
        return await run_sync(readable, answer)
