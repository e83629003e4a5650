"""From everything that can go wrong at the wire to the errors of `orchestrator.errors`. Pure.

``ERRORS`` is the one table. Rows are found by name, so that it can be read, and tested to be
complete, without importing the SDK here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from orchestrator.context.overflow import is_context_overflow
from orchestrator.errors import (
    CallTimedOut,
    ConnectionDropped,
    ConnectionFailed,
    ContextOverflow,
    InvalidReply,
    ModelError,
    NotPermitted,
    OutOfCredit,
    Overloaded,
    RateLimited,
    RequestRejected,
    RequestTooLarge,
    ServerFailed,
    StreamCut,
    Unauthenticated,
    UnknownModel,
)
from orchestrator.ledger import Usage

# Keys are an HTTP status; a word by which an error's body names itself (`error.details.error_code`
# or `error.type`); or an exception's top-level module and class, whose subclasses it stands for.
ERRORS: tuple[tuple[int | str, type[ModelError]], ...] = (
    (400, RequestRejected),
    (401, Unauthenticated),
    (402, OutOfCredit),
    (403, NotPermitted),
    (404, UnknownModel),
    (408, CallTimedOut),
    (409, ServerFailed),  # a conflict with something that is happening there now
    (412, RequestRejected),
    (413, RequestTooLarge),
    (422, RequestRejected),
    (425, ServerFailed),
    (429, RateLimited),
    (431, RequestRejected),
    (499, ConnectionFailed),  # a proxy's word for a connection that broke
    (504, CallTimedOut),
    (524, CallTimedOut),  # Cloudflare's 504
    (529, Overloaded),
    ("contract_spend_limit_reached", OutOfCredit),
    ("enforced_spend_limit_reached", OutOfCredit),
    ("invalid_request_error", RequestRejected),
    ("authentication_error", Unauthenticated),
    ("billing_error", OutOfCredit),
    ("permission_error", NotPermitted),
    ("not_found_error", UnknownModel),
    ("request_too_large", RequestTooLarge),
    ("rate_limit_error", RateLimited),
    ("timeout_error", CallTimedOut),
    ("api_error", ServerFailed),
    ("overloaded_error", Overloaded),
    ("conflict_error", ServerFailed),
    ("exceed_context_size_error", ContextOverflow),  # llama.cpp
    ("unavailable_error", Overloaded),  # llama.cpp while it loads the model
    ("server_error", ServerFailed),  # llama.cpp
    ("anthropic.APITimeoutError", CallTimedOut),
    ("anthropic.APIConnectionError", ConnectionFailed),
    ("anthropic.APIError", InvalidReply),
    ("anthropic.RetryableError", ServerFailed),
    ("anthropic.CredentialsError", Unauthenticated),
    ("anthropic.WorkloadIdentityError", Unauthenticated),
    ("anthropic.AnthropicError", RequestRejected),
    # A host that drops packets never answered: that is no slow model, but a wrong address.
    ("httpx2.ConnectTimeout", ConnectionFailed),
    ("httpx2.TimeoutException", CallTimedOut),
    ("httpx2.UnsupportedProtocol", UnknownModel),
    ("httpx2.InvalidURL", UnknownModel),
    ("httpx2.TooManyRedirects", UnknownModel),
    ("httpx2.DecodingError", InvalidReply),
    ("httpx2.HTTPStatusError", ServerFailed),
    ("httpx2.RemoteProtocolError", ConnectionDropped),
    ("httpx2.HTTPError", ConnectionFailed),
    ("json.JSONDecodeError", InvalidReply),
)
_BY_KEY = dict(ERRORS)
# A status without a row of its own goes by its first digit.
_BY_FAMILY: dict[int, type[ModelError]] = {4: RequestRejected, 5: ServerFailed}

# One sentence per class, with the fix where there is one.
SENTENCES: dict[type[ModelError], str] = {
    ContextOverflow: "the request is larger than the window of {model} at {url}",
    RequestRejected: "{url} refused the request for {model}",
    RequestTooLarge: "the request for {model} has more bytes than {url} accepts",
    Unauthenticated: "{url} did not accept the API key: set ANTHROPIC_API_KEY to a valid one",
    NotPermitted: "the API key may not use {model} at {url}: use another key or another model",
    OutOfCredit: "the account at {url} is out of credit or at its spend limit: raise that, then "
    "resume the run",
    UnknownModel: "{url} has no model {model}, or that is not the address of a Messages API: check "
    "--model and --base-url",
    RateLimited: "{url} accepts no more requests for {model} for now",
    Overloaded: "{url} has no room for {model} for now: try again later",
    ServerFailed: "{url} failed while it worked for {model}: try again later",
    CallTimedOut: "no answer in time from {model} at {url}: try again later",
    ConnectionFailed: "no connection to {url}: check the network and --base-url",
    ConnectionDropped: "{url} closed the connection without an answer: check --base-url",
    StreamCut: "the answer of {model} at {url} broke off before its end",
    InvalidReply: "what {url} answered for {model} is no valid Messages API reply",
}

# The longest text of a server that a message repeats; the figures of an overflow come well before.
DETAIL_CHARS = 400

# Said in place of a rate limit, or as a plain 400, when waiting will not help.
_SPENT = re.compile(
    r"credit balance|out of credit|insufficient.(?:credit|balance|quota|funds)"
    r"|spend(?:ing)?[ -](?:limit|cap)|usage limits?\b(?!.*\bper\b)|current quota|good standing"
    r"|欠费|余额不足",
    re.IGNORECASE,
)
_SECRET = re.compile(r"\bsk-[\w*-]{6,}|\bBearer\s+\S{12,}|(?<=//)[^/\s@]+@")


@dataclass(frozen=True, slots=True)
class Target:
    """Who is called: what an error's sentence names, and the secret that it must never repeat."""

    url: str
    model: str
    secret: str = field(default="", repr=False)

    def sentence(self, kind: type[ModelError], detail: str = "") -> str:
        parts = urlsplit(self.url)
        # Neither user information nor a query belongs in a message: both can hold secrets.
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        text = SENTENCES[kind].format(url=url, model=self.model)
        detail = self._without_secrets(" ".join(detail.split()))
        if len(detail) > DETAIL_CHARS:
            detail = detail[: DETAIL_CHARS - 1] + "…"
        return f"{text} ({detail})" if detail else text

    def _without_secrets(self, text: str) -> str:
        if self.secret:
            text = text.replace(self.secret, "[key]")
        return _SECRET.sub("[key]", text)


def from_exception(
    error: Exception,
    target: Target,
    *,
    usage: Usage | None = None,
    request_id: str | None = None,
    began: bool = False,
) -> ModelError | None:
    """Our error for one of the SDK, its transport or its JSON; ``None`` for anything else, a bug.

    ``began``: the answer had begun, so a connection that broke has cut it.
    """
    if "anthropic.APIStatusError" in _names(error):
        status_error: Any = error
        response = status_error.response
        return from_answer(
            response.status_code, status_error.body, response.headers, target, usage=usage
        )
    # The SDK wraps what its transport raised; such a cause tells more.
    for told in (error.__cause__, error):
        kind = next((_BY_KEY[name] for name in _names(told) if name in _BY_KEY), None)
        if kind is not None:
            if issubclass(kind, ConnectionFailed) and began:
                kind = StreamCut
            detail = str(told) or type(told).__name__
            return kind(target.sentence(kind, detail), usage=usage, request_id=request_id)
    return None


def from_answer(
    status: int,
    body: object,
    headers: Mapping[str, str],
    target: Target,
    *,
    usage: Usage | None = None,
) -> ModelError:
    """Our error for an answer that says it is one: by its status, or an ``error`` event after 200."""
    words, text = _read(body)
    wait = retry_after(headers, datetime.now(UTC))
    kind = _classify(status, words, text, wait)
    if kind.retryable and headers.get("x-should-retry") == "false":
        kind = RequestRejected
    detail = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if wait is not None:
        detail = f"it asks to wait {wait:.0f} s; {detail}"
    return kind(
        target.sentence(kind, detail),
        status=status,
        retry_after=wait,
        usage=usage,
        request_id=headers.get("request-id"),
    )


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the service asks us to wait: ``retry-after-ms``, or ``retry-after`` in seconds or
    as a date. ``None`` where it does not say, or nothing that can be read."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    # A date without a zone, which the standard forbids, is taken for UTC.
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if isfinite(number) else None


def _names(error: BaseException | None) -> Iterator[str]:
    """``error``'s class and its bases, nearest first, as the table names them."""
    for cls in type(error).__mro__:
        yield f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


def _classify(
    status: int, words: tuple[str, ...], text: str, wait: float | None
) -> type[ModelError]:
    kind = _by_row(status, words)
    # Servers report an overflow as 400, 413, 422 or 500; only its text tells.
    unclear = kind in (RequestRejected, RequestTooLarge, ServerFailed)
    if unclear and is_context_overflow(text):
        return ContextOverflow
    # A spend cap can come as a rate limit without a time to come back: it never recovers.
    if kind in (RequestRejected, RateLimited) and wait is None and _SPENT.search(text):
        return OutOfCredit
    return kind


def _by_row(status: int, words: tuple[str, ...]) -> type[ModelError]:
    named = next((_BY_KEY[word] for word in words if word in _BY_KEY), None)
    by_status = _BY_KEY.get(status) or _BY_FAMILY.get(status // 100)
    # "Invalid request" and "API error" are said with any status, which then tells more.
    if named in (None, RequestRejected, ServerFailed):
        return by_status or named or ServerFailed
    return named


def _read(body: object) -> tuple[tuple[str, ...], str]:
    """The words by which an error's body names itself, most specific first, and its text."""
    if not isinstance(body, Mapping):
        text = str(body or "")
        return (), "an HTML page" if text.lstrip().startswith("<") else text
    error = body.get("error", body)
    if not isinstance(error, Mapping):
        return (), str(error)
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else None
    text = str(error.get("message") or error.get("detail") or "")
    if "n_ctx" in error:  # llama.cpp: the window of this server
        text += f" (n_ctx {error['n_ctx']})"
    return tuple(word for word in (code, error.get("type")) if isinstance(word, str)), text
