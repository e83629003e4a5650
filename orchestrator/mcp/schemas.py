"""Schemas that servers bring: whether the Messages API takes them, and whether arguments fit.

A server's schema is somebody else's text. It is sent to the model as it is; here it is never compiled to
code, nothing that it refers to is fetched, and its regular expressions are not run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.errors import ToolError

MOST_CHARS = 20_000
_DEEPEST = 32
# What the Messages API asks of the names of arguments.
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What it does not take at the top.
_NOT_AT_THE_TOP = ("oneOf", "anyOf", "allOf")
# What is checked here before a call goes out: all of it is quick whatever the schema says. The rest
# (patterns, references, alternatives, …) is the server's to check.
_CHECKED = frozenset(
    {
        *("type", "enum", "const", "properties", "required", "items", "additionalProperties"),
        *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    }
)
_MOST_SAID = 5


def problem_of(schema: object) -> str | None:
    """Why a schema cannot be sent to the model, in words; ``None``: it can."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "its input schema is no object schema"
    if _is_too_deep(schema, _DEEPEST):
        return "its input schema is nested too deeply"
    if len(json.dumps(schema)) > MOST_CHARS:
        return f"its input schema has over {MOST_CHARS:,} characters"
    if banned := [key for key in _NOT_AT_THE_TOP if key in schema]:
        return f"its input schema has {banned[0]} at the top"
    properties = schema.get("properties", {})
    if isinstance(properties, dict):
        for name in properties:
            if not _ARGUMENT.fullmatch(name):
                return f"its argument {name!r:.40} has a name that models cannot be given"
    return _misfit(schema)


def _misfit(schema: dict[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "the top"
        return f"its input schema is no JSON Schema: {where}: {error.message:.200}"
    if any(not ref.startswith("#") for ref in _references(schema)):
        return "its input schema refers to another document"
    return None


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _is_too_deep(node: object, left: int) -> bool:
    if not isinstance(node, dict | list):
        return False
    inner = node.values() if isinstance(node, dict) else node
    return left == 0 or any(_is_too_deep(item, left - 1) for item in inner)


@dataclass(frozen=True)
class SchemaArguments:
    """The arguments of a server's tool, as its schema (without `problem_of`) says."""

    tool: str
    schema: Mapping[str, Any]

    @property
    def names(self) -> Sequence[str]:
        return list(self.schema.get("properties", {}))

    @cached_property
    def _reduced(self) -> Any:
        return _reduced(self.schema)

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments. Raises `ToolError` that names what does not fit."""
        from jsonschema import Draft202012Validator

        arguments = dict(given)
        errors = Draft202012Validator(self._reduced).iter_errors(arguments)
        said = [
            f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message:.200}"
            for error, _ in zip(errors, range(_MOST_SAID), strict=False)
        ]
        if said:
            known = ", ".join(self.names) or "none"
            raise ToolError(f"{self.tool}: {'; '.join(said)}. Its arguments are: {known}.")
        return arguments


def _reduced(node: Any) -> Any:
    """What of a schema is checked here. Where a schema refers to another, anything fits."""
    if not isinstance(node, Mapping):
        return node
    kept = {key: value for key, value in node.items() if key in _CHECKED}
    if isinstance(properties := kept.get("properties"), Mapping):
        kept["properties"] = {name: _reduced(value) for name, value in properties.items()}
    if "items" in kept:
        kept["items"] = _reduced(kept["items"])
    # Names that a pattern would allow are not refused.
    if "patternProperties" in node or "$ref" in node:
        kept.pop("additionalProperties", None)
    elif "additionalProperties" in kept:
        kept["additionalProperties"] = _reduced(kept["additionalProperties"])
    return kept
