"""Every message that docs/troubleshooting.md explains is one that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE.split("## How a run ended")[0], re.MULTILINE)


@cache
def texts() -> str:
    """Every text of the code, one a line, with a gap where an f-string or a format has a value."""
    found = []
    for package in ("orchestrator", "subagents", "workspace"):
        for file in (ROOT / package).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found += [_text(node) for node in ast.walk(tree) if isinstance(node, _TEXTS)]
    return "\n".join(found)


_TEXTS = (ast.Constant, ast.JoinedStr)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    text = node.value if isinstance(node, ast.Constant) else "…"
    return re.sub(r"\{\w+\}", "…", text).replace("\n", " ") if isinstance(text, str) else ""


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_is_explained_is_a_text_of_the_code(message: str) -> None:
    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    assert re.search(pattern, texts()), message


def test_there_are_messages_of_every_kind() -> None:
    assert len(MESSAGES) >= 30
