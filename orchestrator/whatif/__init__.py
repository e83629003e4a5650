"""What if: a recorded conversation played again through the loop's own decisions. Pure, no model.

What a model said and what tools returned is taken as it was; what the context pipeline made of it is
decided anew, by `steps`, `context` and `state.apply`, the functions that a run goes through. So other
thresholds, windows and models can be compared on real work without paying for it.

::

    recorded = of_messages(messages)
    now = play(recorded, Context(), window=200_000)
    leaner = play(recorded, Context(offload_at=2_000), window=200_000)
    print(now.billed, leaner.billed, leaner.peak)

The replies are the recorded ones, whatever they were shown: a model that sees less may ask again.
``read_back`` prices that: the share of offloaded results that are read back, page by page.
"""

from orchestrator.whatif.figures import (
    Call,
    Compaction,
    Exhausted,
    Moment,
    Played,
    Stored,
    gather,
)
from orchestrator.whatif.playing import PAGE_CHARS, append_only, moments, play
from orchestrator.whatif.recorded import (
    PREFIX_TOKENS,
    Conversation,
    of_messages,
    of_records,
    on_model,
)

__all__ = [
    "PAGE_CHARS",
    "PREFIX_TOKENS",
    "Call",
    "Compaction",
    "Conversation",
    "Exhausted",
    "Moment",
    "Played",
    "Stored",
    "append_only",
    "gather",
    "moments",
    "of_messages",
    "of_records",
    "on_model",
    "play",
]
