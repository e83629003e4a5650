"""What a reply's figures say that nobody said in words: a broken cache, a prompt cut silently. Pure."""

from __future__ import annotations

# Servers round to blocks, and a cache holds whole prefixes only: a little less read is no break.
_READ_SHARE = 0.9
# Below this a prefix may not have been cached at all: the smallest minimum of the service.
_LEAST_CACHED_TOKENS = 512
# A prompt whose reported size shrank by more than this, though nothing was taken out of it, was cut.
_KEPT_SHARE = 0.9


def cache_is_broken(cached_tokens: int, read_tokens: int) -> bool:
    """Whether a request that should have read ``cached_tokens`` from the cache read far less."""
    return cached_tokens >= _LEAST_CACHED_TOKENS and read_tokens < _READ_SHARE * cached_tokens


def was_truncated(before_tokens: int | None, now_tokens: int) -> bool:
    """Whether a server cut the prompt without a word: the reported input is smaller than for the
    request before, to which this one only added. Without such a report nothing can be told."""
    if before_tokens is None or now_tokens <= 0:
        return False
    return now_tokens < _KEPT_SHARE * before_tokens
