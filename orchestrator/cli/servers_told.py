"""What happens to MCP servers, said on stderr: a tool that is missing without a word costs hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.events import McpServer, Record

# A server may offer a hundred tools that cannot be used; the journal names them all.
_MOST_CHARS = 600


class ServersTold:
    """An observer that says what a person should know of the run's servers."""

    def __init__(self, say: Callable[[str], None], *, quiet: bool) -> None:
        self._say = say
        self._quiet = quiet

    def __call__(self, records: Sequence[Record]) -> None:
        facts = [record.fact for record in records if isinstance(record.fact, McpServer)]
        if skipped := [fact for fact in facts if fact.status == "skipped"]:
            self._say(_of_skipped(skipped))
        for fact in facts:
            if (text := self._of(fact)) is not None:
                self._say(text)

    def _of(self, fact: McpServer) -> str | None:
        who = f"MCP server {fact.server}" + (f" ({fact.address})" if fact.address else "")
        match fact.status:
            case "failed":
                return f"{who}: {fact.text}; the run goes on without it"
            case "given_up":
                return f"{who}: {fact.text}; its tools answer with errors from now on"
            case "started" | "changed" if fact.text and not self._quiet:
                return f"{who}: {_short(fact.text)}"
            case "lost" if not self._quiet:
                return f"{who}: {fact.text}"
            case _:
                return None


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"


def _of_skipped(skipped: Sequence[McpServer]) -> str:
    names = ", ".join(fact.server for fact in skipped)
    rules = " ".join(f'--allow "mcp({fact.server})"' for fact in skipped)
    return f"not started, since no rule names them: MCP servers {names}; to start them: {rules}"
