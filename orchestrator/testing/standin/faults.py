"""Faults by rule: which requests go wrong, how often, and in what way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from .errors import Rejection

Kind = Literal[
    "rate_limit",  # 429, with `retry_after` if given
    "spend_cap",  # 429 without retry-after, for ever
    "overloaded",  # 529
    "server_error",  # 500
    "status",  # any other `status`
    "html",  # a proxy's page instead of JSON, with `status` (502 unless given)
    "reset",  # connection reset before any byte
    "reset_after_headers",  # 200 and headers, then a reset
    "cut",  # the stream ends in the middle of the chunked body
    "silent_eof",  # the stream ends properly, but without message_stop
    "error_event",  # `event: error` after 200
    "stall",  # the stream stands still, for `seconds` or until the client leaves
    "garbage",  # an event that is no JSON
    "garbage_bytes",  # an event that is not even UTF-8
    "slow",  # `seconds` between events
    "wrong_usage",  # `usage` overrides the figures told
]

WEEKS = 7 * 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule. Of the requests that match, number `nth` (from 1) and the next ones fail.

    `times`: how many of them, `None` for all (a spend cap lasts anyway). `agent`, `purpose` and `model` are shell patterns.
    `after_events`: events of the stream that still arrive (`message_start` is the first).
    """

    kind: Kind
    agent: str = "*"
    purpose: str = "*"
    model: str = "*"
    nth: int = 1
    times: int | None = 1
    retry_after: float | str | None = None
    status: int | None = None
    after_events: int = 3
    seconds: float | None = None
    message: str | None = None
    error_code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=lambda: {"input_tokens": 0})

    def matches(self, agent: str, purpose: str, model: str) -> bool:
        return (
            fnmatchcase(agent, self.agent)
            and fnmatchcase(purpose, self.purpose)
            and fnmatchcase(model, self.model)
        )

    def hits(self, number: int) -> bool:
        """Whether the matching request of this number, counted from 1, fails."""
        last = self.nth + self.times if self.times is not None and not self._lasting else None
        return number >= self.nth and (last is None or number < last)

    @property
    def _lasting(self) -> bool:
        return self.kind == "spend_cap"

    def refusal(self) -> Rejection | None:
        """The error that is sent instead of an answer; `None`: the answer begins."""
        if self.kind not in _REFUSALS:
            return None
        status, message = _REFUSALS[self.kind]
        return Rejection(self.message or message, self.status or status, self.error_code)

    def sent_headers(self) -> dict[str, str]:
        """The headers that go with an error, such as `x-should-retry`."""
        retry = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**retry, **self.headers}


_REFUSALS: dict[str, tuple[int, str]] = {
    "rate_limit": (429, "This request would exceed your account's rate limit."),
    "spend_cap": (429, "You have reached your specified API usage limits."),
    "overloaded": (529, "Overloaded"),
    "server_error": (500, "Internal server error"),
    "status": (503, "Service unavailable"),
}

HTML = (
    b"<html><head><title>502 Bad Gateway</title></head>"
    b"<body><center><h1>502 Bad Gateway</h1></center></body></html>"
)
GARBAGE = {
    "garbage": b'event: content_block_delta\ndata: {"type": "content_block_delta", "ind{]\n\n',
    "garbage_bytes": b"event: content_block_delta\ndata: \xff\xfe\x00{\n\n",
}


class Faults:
    """The rules with their counts. The first rule that hits wins.

    A rule counts every request that matches it, those that another rule spoilt included, so that
    `nth` means the same whatever else is set.
    """

    def __init__(self, rules: Iterable[Fault] = ()) -> None:
        self.rules: list[Fault] = list(rules)
        self._seen = [0] * len(self.rules)

    def choose(self, agent: str, purpose: str, model: str) -> Fault | None:
        chosen = None
        for index, rule in enumerate(self.rules):
            if not rule.matches(agent, purpose, model):
                continue
            self._seen[index] += 1
            if chosen is None and rule.hits(self._seen[index]):
                chosen = rule
        return chosen
