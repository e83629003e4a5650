"""The page as one file that needs nothing else: data, style and script inside. Pure.

Scripts are the page's own modules, joined: a file opened from disk may not load others. The policy
in the file allows exactly that script and that style, by their hashes, and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from orchestrator.viewer.pagefiles import bundle, text
from orchestrator.viewer.security import POLICY


def exported(story: Any, told: Any, details: Iterable[Any]) -> Iterator[str]:
    """The file's text in pieces. ``story``: what `Story.whole` gave; ``told``: the run's `accounts`;
    ``details``: each agent's `detail`. All must be clean already."""
    style, script = text("style.css"), bundle()
    policy = POLICY.format(
        script=f"'{_hash(script)}'", style=f"'{_hash(style)}'", connect="'none'", image="'none'"
    )
    head, body = text("index.html").split("<!-- here -->")
    kept = [line for line in head.splitlines() if "<link" not in line and "<script" not in line]
    yield "\n".join(kept).replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '\n<meta name="referrer" content="no-referrer">',
    )
    yield f"\n<style>{style}</style>\n"
    yield _data("story", story)
    yield _data("accounts", told)
    for detail in details:
        yield _data(f"agent:{detail['id']}", detail)
    yield f'<script type="module">{script}</script>\n{body}'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(name: str, value: Any) -> str:
    """A data block. ASCII, and without ``<``: nothing in it can end the block or be a tag."""
    data = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    label = json.dumps(name).replace("<", "\\u003c").replace("&", "&amp;").replace("'", "&#39;")
    return f"<script type=\"application/json\" data-name='{label}'>{data}</script>\n"
