"""What the stand-in says no with: one value that every rule returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

#: The `error.type` that goes with each status, as the service's documentation lists them.
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A request refused: the HTTP status, the message, and the typed code where one exists."""

    message: str
    status: int = 400
    error_code: str | None = None

    @property
    def type(self) -> str:
        return TYPES.get(self.status, "api_error")

    def body(self, request_id: str) -> bytes:
        """The error envelope as JSON, with the request id that the header also carries."""
        error: dict[str, Any] = {"type": self.type, "message": self.message}
        if self.error_code is not None:
            error["details"] = {"error_code": self.error_code}
        envelope = {"type": "error", "error": error, "request_id": request_id}
        return json.dumps(envelope, ensure_ascii=False).encode()
