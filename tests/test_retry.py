"""When a failed call is made again."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import errors
from orchestrator.errors import (
    ConnectionDropped,
    ConnectionFailed,
    InvalidReply,
    ModelError,
    Overloaded,
    RateLimited,
    RequestRejected,
    StreamCut,
)
from orchestrator.retry import (
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    LONGEST_RETRY_AFTER,
    MAX_ATTEMPTS,
    MAX_ATTEMPTS_NOBODY_THERE,
    wait_before_retry,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ModelError) and kind is not ModelError
]
kinds = st.sampled_from(KINDS)
jitters = st.floats(0, 1)
attempts = st.integers(1, 10_000)
seconds = st.none() | st.floats(0, 1e9)


@given(kinds, seconds, attempts, jitters, seconds, st.integers(1, 10_000))
def test_a_wait_is_bounded_and_ends_before_the_deadline(
    kind: type[ModelError],
    retry_after: float | None,
    attempt: int,
    jitter: float,
    deadline_in: float | None,
    max_attempts: int,
) -> None:
    error = kind("x", retry_after=retry_after)
    wait = wait_before_retry(
        error, attempt, jitter=jitter, deadline_in=deadline_in, max_attempts=max_attempts
    )
    if wait is not None:
        assert error.retryable
        assert attempt < max_attempts
        assert wait <= LONGEST_RETRY_AFTER
        # Only a connection that the server had just closed is tried again at once, and only once.
        assert (wait == 0) == (kind is ConnectionDropped and attempt == 1)
        assert deadline_in is None or wait < deadline_in


@given(kinds, seconds, attempts, jitters)
def test_without_a_deadline_it_gives_up_only_for_its_three_reasons(
    kind: type[ModelError], retry_after: float | None, attempt: int, jitter: float
) -> None:
    """Not retryable, out of tries, or asked to stay away for longer than a call lasts."""
    error = kind("x", retry_after=retry_after)
    nobody_there = kind in (ConnectionFailed, InvalidReply)
    tries = MAX_ATTEMPTS_NOBODY_THERE if nobody_there else MAX_ATTEMPTS
    gives_up = wait_before_retry(error, attempt, jitter=jitter) is None
    reasons = (not kind.retryable, attempt >= tries, (retry_after or 0) > LONGEST_RETRY_AFTER)
    assert gives_up == any(reasons)


@given(st.integers(1, MAX_ATTEMPTS - 2), jitters)
def test_backoff_never_shrinks_from_try_to_try(attempt: int, jitter: float) -> None:
    earlier = wait_before_retry(Overloaded("x"), attempt, jitter=jitter)
    later = wait_before_retry(Overloaded("x"), attempt + 1, jitter=jitter)
    assert earlier is not None
    assert later is not None
    assert FIRST_BACKOFF / 2 <= earlier <= later <= LONGEST_BACKOFF


@given(st.floats(0.001, LONGEST_RETRY_AFTER), st.integers(1, MAX_ATTEMPTS - 1), jitters)
def test_a_time_to_come_back_is_obeyed_exactly(
    retry_after: float, attempt: int, jitter: float
) -> None:
    error = RateLimited("x", retry_after=retry_after)
    assert wait_before_retry(error, attempt, jitter=jitter) == retry_after


def test_backoff_doubles_up_to_its_cap() -> None:
    waits = [
        wait_before_retry(StreamCut("x"), attempt, jitter=0) for attempt in range(1, MAX_ATTEMPTS)
    ]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30]


def test_jitter_shortens_a_backoff_by_up_to_half() -> None:
    assert wait_before_retry(Overloaded("x"), 3, jitter=1) == 1.0


def test_coming_back_at_once_is_still_a_backoff() -> None:
    assert wait_before_retry(RateLimited("x", retry_after=0), 2, jitter=0) == 1.0


def test_a_service_that_is_away_for_weeks_is_not_waited_for() -> None:
    assert wait_before_retry(RateLimited("x", retry_after=49 * 86_400), 1, jitter=0) is None


@pytest.mark.parametrize("kind", [ConnectionFailed, InvalidReply])
def test_a_wrong_address_is_given_up_within_seconds(kind: type[ModelError]) -> None:
    waits = [wait_before_retry(kind("x"), attempt, jitter=0) for attempt in (1, 2, 3, 4)]
    assert waits == [0.5, 1, 2, None]


def test_a_dropped_connection_is_tried_again_at_once_and_then_with_pauses() -> None:
    """A server may close a kept connection just as the next request goes out on it."""
    error = ConnectionDropped("x")
    waits = [wait_before_retry(error, attempt, jitter=0) for attempt in (1, 2, 3, 4)]
    assert waits == [0.0, 1, 2, None]


def test_a_refused_request_is_never_sent_again() -> None:
    assert wait_before_retry(RequestRejected("x", retry_after=1), 1, jitter=0) is None


def test_a_wait_that_would_use_up_the_deadline_is_not_begun() -> None:
    assert wait_before_retry(Overloaded("x"), 3, jitter=0, deadline_in=2.0) is None
    assert wait_before_retry(Overloaded("x"), 3, jitter=0, deadline_in=2.1) == 2.0
