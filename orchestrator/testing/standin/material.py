"""Bulk data with a fact in it, derived from its key: both ends know the facts and share no state.

A key is `NAME/KILOBYTES`, such as `haul-017/32`. Give the tool to a run with
`--tools orchestrator.testing.standin.material:lookup`.
"""

from __future__ import annotations

import hashlib
import random
import re

DEFAULT_KILOBYTES = 8
FACT = re.compile(r"FACT (\S+) = ([0-9a-f]{12})")
#: The first line of a text names its key, so that a preview of it says what it is.
TITLE = re.compile(r"# record (\S+)")

_WORDS = [
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "glacier",
    "harbor",
    "island",
    "juniper",
    "kestrel",
    "lagoon",
    "meadow",
    "nectar",
    "orchard",
    "prairie",
    "quarry",
    "river",
    "summit",
    "timber",
    "upland",
    "valley",
    "willow",
    "yarrow",
    "zephyr",
]
_WORDS_A_LINE = 12


def fact(key: str) -> str:
    """The value planted in the text of this key."""
    return hashlib.blake2b(key.encode(), digest_size=6).hexdigest()


def fact_line(key: str) -> str:
    return f"FACT {key} = {fact(key)}"


def lookup(key: str) -> str:
    """Look up a record.

    Args:
        key: Name of the record and its size, such as "alpha/8".
    """
    size = _kilobytes(key) * 1024
    source = random.Random(key)
    lines = [f"# record {key}"]
    length = len(lines[0]) + len(fact_line(key)) + 2
    while length < size:
        line = " ".join(source.choices(_WORDS, k=_WORDS_A_LINE))
        lines.append(line)
        length += len(line) + 1
    lines.insert(1 + len(lines) // 3, fact_line(key))
    return "\n".join(lines)[:size]


def _kilobytes(key: str) -> int:
    size = key.rpartition("/")[2]
    return int(size) if size.isdigit() else DEFAULT_KILOBYTES
