"""What can go wrong, by situation.

::

    OutriderError
    ├── ConfigError              usage, settings or definitions are wrong; nothing was run
    │   └── NoModelChosen        neither a key, nor a base URL, nor a model was given
    ├── JournalError             the run's journal cannot be written or read
    │   └── RunInUse             another process holds the run
    ├── ToolError                a tool says what the model should know; becomes an error result
    └── ModelError               a model call failed (``kind``, ``retryable``)
        ├── ContextOverflow      the request is larger than the window
        ├── RequestRejected      the service refuses this request as it is
        │   └── RequestTooLarge  its bytes are over the service's limit
        ├── Unauthenticated      the key is missing or wrong
        ├── NotPermitted         the key may not do this
        ├── OutOfCredit          the account cannot pay, or its spend cap is reached
        ├── UnknownModel         no model (or address) of that name
        ├── RateLimited          too many requests; may say when to come back
        ├── Overloaded           the service has no room now
        ├── ServerFailed         the service broke
        ├── CallTimedOut         no answer in time
        ├── ConnectionFailed     no connection, or it broke before the answer began
        │   └── ConnectionDropped  a server closed it as the request went out
        ├── StreamCut            the answer began and did not end
        └── InvalidReply         the answer is not what the API promises
"""

from __future__ import annotations

from typing import ClassVar

from orchestrator.ledger import Usage

__all__ = [
    "CallTimedOut",
    "ConfigError",
    "ConnectionDropped",
    "ConnectionFailed",
    "ContextOverflow",
    "InvalidReply",
    "JournalError",
    "ModelError",
    "NoModelChosen",
    "NotPermitted",
    "OutOfCredit",
    "OutriderError",
    "Overloaded",
    "RateLimited",
    "RequestRejected",
    "RequestTooLarge",
    "RunInUse",
    "ServerFailed",
    "StreamCut",
    "ToolError",
    "Unauthenticated",
    "UnknownModel",
]


class OutriderError(Exception):
    """Base of everything that Outrider raises on purpose. The message is for a person."""


class ConfigError(OutriderError):
    """Usage, settings or a definition are wrong; nothing was run."""


class NoModelChosen(ConfigError):
    """Raised when nothing says which model to call."""

    def __init__(self) -> None:
        super().__init__(
            "no model to call: set ANTHROPIC_API_KEY, or give --base-url with --model for a local "
            "server, or use --model rehearsal, which needs neither key nor network"
        )


class JournalError(OutriderError):
    """The run's journal cannot be written or read."""


class RunInUse(JournalError):
    """Another process holds the run's lock."""


class ToolError(OutriderError):
    """Raise this in a tool to tell the model what went wrong; the text becomes an error result."""


class ModelError(OutriderError):
    """A model call failed.

    ``status``: the HTTP status, where there was one. ``retry_after``: seconds the service asked us to
    wait. ``usage``: what the service had reported when the call failed (``None``: nothing).
    """

    kind: ClassVar[str] = "unknown"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.usage = usage
        self.request_id = request_id


class ContextOverflow(ModelError):
    """The request is larger than the model's window."""

    kind = "overflow"


class RequestRejected(ModelError):
    """The service refuses this request as it is; sending it again would change nothing."""

    kind = "rejected"


class RequestTooLarge(RequestRejected):
    """The request's bytes are over the service's limit."""

    kind = "too_large"


class Unauthenticated(ModelError):
    """The key is missing or wrong."""

    kind = "authentication"


class NotPermitted(ModelError):
    """The key may not do this."""

    kind = "permission"


class OutOfCredit(ModelError):
    """The account cannot pay, or its spend cap is reached."""

    kind = "billing"


class UnknownModel(ModelError):
    """No model, or no such address, by that name."""

    kind = "not_found"


class RateLimited(ModelError):
    """Too many requests; ``retry_after`` may say when to come back."""

    kind = "rate_limit"
    retryable = True


class Overloaded(ModelError):
    """The service has no room now."""

    kind = "overloaded"
    retryable = True


class ServerFailed(ModelError):
    """The service broke."""

    kind = "server"
    retryable = True


class CallTimedOut(ModelError):
    """No answer in time."""

    kind = "timeout"
    retryable = True


class ConnectionFailed(ModelError):
    """No connection, or it broke before the answer began."""

    kind = "connection"
    retryable = True


class ConnectionDropped(ConnectionFailed):
    """The server closed the connection as the request went out, without a word of answer: what
    happens to a connection that was kept open a moment too long."""


class StreamCut(ModelError):
    """The answer began and did not end; what had come is discarded."""

    kind = "stream_cut"
    retryable = True


class InvalidReply(ModelError):
    """The answer is not what the API promises (a proxy's HTML page, broken JSON)."""

    kind = "invalid_reply"
    retryable = True
