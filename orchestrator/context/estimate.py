"""How many tokens a request will have: last reported usage plus what came since, calibrated. Pure.

Sizes are weights in bytes of the JSON that is sent; images and documents, whose base64 says nothing
of their tokens, weigh a fixed amount.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.messages import Block, encode

# English prose and code measure 3.3–4.5 bytes a token, Chinese text about 3.
BYTES_PER_TOKEN = 4.0
# The Messages API bills an image by its pixels, up to about 1,600 tokens.
MEDIA_TOKENS = 1_600
MEDIA_TYPES = frozenset({"image", "document"})
_DOCUMENT_SHARE = 0.4
# Weight of a new report against what was learnt before, once enough were seen.
_LEARNING_SHARE = 0.3


def weigh(blocks: Iterable[Block], encoded_bytes: int) -> int:
    """The weight of content whose JSON has ``encoded_bytes``: media count by fixed estimate."""
    weight = encoded_bytes
    for block in blocks:
        if block.get("type") in MEDIA_TYPES:
            size = len(encode(block))
            weight += _media_weight(block, size) - size
        elif isinstance(inner := block.get("content"), list):
            weight += weigh(inner, 0)
    return weight


def _media_weight(block: Block, encoded_bytes: int) -> int:
    fixed = int(MEDIA_TOKENS * BYTES_PER_TOKEN)
    if block["type"] == "image":
        return fixed
    if block.get("source", {}).get("type") == "text":
        return encoded_bytes
    # A page is billed as its text and as an image, about 3,000 tokens; 30 KB of base64 are one.
    return max(fixed, int(encoded_bytes * _DOCUMENT_SHARE))


@dataclass(frozen=True, slots=True)
class Estimator:
    """What one agent's reports have taught: tokens a byte, and the last report to build on.

    A report counts only for the context it was made for: `forget_report` after any edit.
    """

    tokens_per_byte: float = 1 / BYTES_PER_TOKEN
    reports: int = 0
    reported_tokens: int | None = None
    reported_weight: int = 0

    def tokens(self, weight: int) -> int:
        """Tokens of a request of ``weight`` bytes."""
        if self.reported_tokens is None:
            return round(weight * self.tokens_per_byte)
        grown = weight - self.reported_weight
        return max(0, self.reported_tokens + round(grown * self.tokens_per_byte))

    def learn(self, weight: int, tokens: int) -> Estimator:
        """After a request of ``weight`` bytes was reported to have ``tokens``."""
        if weight <= 0 or tokens <= 0:
            return self
        share = max(1 / (self.reports + 1), _LEARNING_SHARE)
        learnt = self.tokens_per_byte * (1 - share) + share * tokens / weight
        return Estimator(learnt, self.reports + 1, tokens, weight)

    def forget_report(self) -> Estimator:
        """After an edit: the factor stays, the base does not."""
        return Estimator(self.tokens_per_byte, self.reports)
