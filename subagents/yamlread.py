"""A block of YAML → entries with their lines. Nodes are read, never constructed.

So no type of YAML's own (dates, octal numbers, tags) gets between a file and its text, a key
that is written twice is seen, and aliases cannot grow without bound.
"""

from functools import cache
from typing import TYPE_CHECKING

from subagents.block import Entry
from subagents.definition import JSON

if TYPE_CHECKING:
    from yaml import Node

_MOST_VALUES = 20_000
_DEEPEST = 40
_TAG = "tag:yaml.org,2002:"


class Unreadable(Exception):
    """Not YAML, or YAML that is not a list of fields. The text says why, in a few words."""


def entries(text: str, first_line: int) -> list[Entry]:
    """The top-level entries of a mapping, doubles included. Raises `Unreadable`."""
    from yaml import MappingNode

    root = _compose(text)
    if root is None:
        return []
    if not isinstance(root, MappingNode):
        raise Unreadable("not a list of fields")
    lines = text.split("\n")
    starts = [key.start_mark.line for key, _ in root.value] + [len(lines)]
    found, budget = [], _Budget()
    for index, (key, value) in enumerate(root.value):
        raw = "\n".join(lines[starts[index] : starts[index + 1]]).partition(":")[2].strip()
        found.append(Entry(_key(key), starts[index] + first_line, _convert(value, budget, 0), raw))
    return found


@cache
def _loader() -> type:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _compose(text: str) -> "Node | None":
    import yaml

    try:
        node: Node | None = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        raise Unreadable(error.problem or "no YAML") from None
    except (yaml.YAMLError, RecursionError):
        raise Unreadable("no YAML") from None
    return node


def _key(node: "Node") -> str:
    from yaml import ScalarNode

    if not isinstance(node, ScalarNode):
        raise Unreadable("a key is not a text")
    if node.tag == f"{_TAG}merge":
        raise Unreadable("merge keys are not read")
    return str(node.value)


class _Budget:
    def __init__(self) -> None:
        self.values = 0

    def spend(self, depth: int) -> None:
        self.values += 1
        if self.values > _MOST_VALUES or depth > _DEEPEST:
            raise Unreadable("too many or too deeply nested values")


def _convert(node: "Node", budget: _Budget, depth: int) -> JSON:
    from yaml import MappingNode, SequenceNode

    budget.spend(depth)
    if isinstance(node, MappingNode):
        return {str(key.value): _convert(value, budget, depth + 1) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_convert(item, budget, depth + 1) for item in node.value]
    return _scalar(str(node.value), node.tag)


def _scalar(text: str, tag: str) -> JSON:
    if tag == f"{_TAG}null":
        return None
    if tag == f"{_TAG}bool":
        return text.casefold() in ("true", "yes", "on")
    try:
        if tag == f"{_TAG}int":
            return int(text)
        if tag == f"{_TAG}float":
            return float(text)
    except ValueError:
        pass  # `0o7`, `1:30`, `.inf`: better their text than YAML's idea of them
    return text
