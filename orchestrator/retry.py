"""When a failed call is made again: the one place that decides it. Pure.

The SDK's own retries are off. They obey a ``retry-after`` of weeks, never retry a stream that was
cut, and know neither deadlines nor budgets.
"""

from __future__ import annotations

from orchestrator.errors import ConnectionDropped, ConnectionFailed, InvalidReply, ModelError

# Tries of one call, the first included: about a minute of waiting in all.
MAX_ATTEMPTS = 8
# Where nobody answered, or not a Messages API, the address is probably wrong: a person should hear
# of that within seconds.
MAX_ATTEMPTS_NOBODY_THERE = 4
# Seconds. A service that asks for a longer pause will not be back within this call.
LONGEST_RETRY_AFTER = 60.0
FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 30.0


def wait_before_retry(
    error: ModelError,
    attempt: int,
    *,
    jitter: float,
    deadline_in: float | None = None,
    max_attempts: int = MAX_ATTEMPTS,
) -> float | None:
    """Seconds to wait before try ``attempt`` + 1; ``None``: give up, ``error`` says why.

    ``attempt``: tries made so far, 1 or more. ``jitter``: a random number from 0 to 1, which shortens
    a backoff by up to half, so that many agents do not come back at once. ``deadline_in``: seconds
    left; a wait that would use them up is not begun.
    """
    if not error.retryable or attempt >= _attempts(error, max_attempts):
        return None
    # A kept connection that the server had just closed: the next one is new, nothing is to wait for.
    at_once = attempt == 1 and isinstance(error, ConnectionDropped)
    wait = 0.0 if at_once else error.retry_after or _backoff(attempt, jitter)
    if wait > LONGEST_RETRY_AFTER:
        return None
    if deadline_in is not None and wait >= deadline_in:
        return None
    return wait


def _attempts(error: ModelError, max_attempts: int) -> int:
    if isinstance(error, ConnectionFailed | InvalidReply):
        return min(max_attempts, MAX_ATTEMPTS_NOBODY_THERE)
    return max_attempts


def _backoff(attempt: int, jitter: float) -> float:
    """Doubles from try to try up to its cap."""
    # The exponent is bounded so that no number of tries can overflow a float.
    longest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt - 1, 16))
    return longest * (1 - jitter / 2)
