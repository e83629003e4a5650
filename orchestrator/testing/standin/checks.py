"""Every rule that a request can break on its own, in the order in which it is looked at.

A rule is a function from the question to a `Rejection` or `None`; the first one that objects wins.
Rules about the conversation are in `turns`, those about returned thinking in `thinking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import betas, turns
from .errors import Rejection
from .models import Model
from .settings import Body, Settings
from .tokens import blocks_of, nested

Headers = Mapping[str, str]

_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_SAMPLING = ("temperature", "top_p", "top_k")
_PARAMETERS = frozenset(
    [
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
        "user_profile_id",
        "workspace_id",
    ]
)
MAX_BREAKPOINTS = 4
MIN_BUDGET = 1_024


@dataclass(frozen=True, slots=True)
class Question:
    """A request with what is needed to judge it."""

    body: Body
    model: Model
    betas: frozenset[str]
    settings: Settings
    counting: bool = False


def check_headers(headers: Headers) -> Rejection | None:
    """A key in either form, and the version."""
    _, _, token = headers.get("authorization", "").partition("Bearer ")
    if not headers.get("x-api-key") and not token.strip():
        return Rejection("x-api-key header is required", 401)
    if not headers.get("anthropic-version"):
        return Rejection("anthropic-version: header is required")
    return None


def check(
    body: Any, headers: Headers, settings: Settings, *, counting: bool = False
) -> Rejection | None:
    """The first objection to this request, or `None`. Returned thinking is checked elsewhere."""
    if not isinstance(body, dict):
        return Rejection("Input should be a valid dictionary")
    for key in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if key not in body:
            return Rejection(f"{key}: Field required")
    model = settings.model(str(body["model"]))
    if model is None:
        return Rejection(f"model: {body['model']}", 404)
    asked = frozenset(part.strip() for part in headers.get("anthropic-beta", "").split(",") if part)
    question = Question(body, model, asked, settings, counting)
    return next((found for rule in RULES if (found := rule(question)) is not None), None)


def _parameters(question: Question) -> Rejection | None:
    """Version 2026-10-21 has no sampling parameters, not even at their defaults."""
    for key in question.body:
        if key in _SAMPLING:
            return Rejection(f"{key}: `{key}` is not supported in this API version")
        if key not in _PARAMETERS and not betas.allows(key, question.betas):
            return Rejection(f"{key}: Extra inputs are not permitted")
    return None


def _max_tokens(question: Question) -> Rejection | None:
    if question.counting:
        return None
    asked = question.body["max_tokens"]
    if not isinstance(asked, int) or isinstance(asked, bool):
        return Rejection("max_tokens: Input should be a valid integer")
    if asked < 0:
        return Rejection("max_tokens: must be greater than or equal to 0")
    cap = question.model.output_cap
    if asked > cap:
        return Rejection(
            f"max_tokens: {asked} > {cap}, which is the maximum allowed number of output tokens "
            f"for {question.model.name}"
        )
    return _warm_up(question.body) if asked == 0 else None


def _warm_up(body: Body) -> Rejection | None:
    """`max_tokens: 0` fills the cache and can do nothing else."""
    clashes = {
        "stream": bool(body.get("stream")),
        "tool_choice": (body.get("tool_choice") or {}).get("type") in ("any", "tool"),
        "output_config.format": bool((body.get("output_config") or {}).get("format")),
        "thinking": (body.get("thinking") or {}).get("type") == "enabled",
    }
    for name, clash in clashes.items():
        if clash:
            return Rejection(f"max_tokens: 0 cannot be combined with `{name}`")
    return None


def _thinking(question: Question) -> Rejection | None:
    thinking = question.body.get("thinking")
    if thinking is None:
        return None
    kind = thinking.get("type")
    if kind not in question.model.thinking:
        return Rejection(f"thinking.type: `{kind}` is not supported by {question.model.name}")
    if thinking.get("block_binding") is not None and not betas.allows(
        "block_binding", question.betas
    ):
        return Rejection(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
    return _budget(question.body, thinking) if kind == "enabled" else None


def _budget(body: Body, thinking: Mapping[str, Any]) -> Rejection | None:
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int):
        return Rejection("thinking.enabled.budget_tokens: Field required")
    if budget < MIN_BUDGET:
        return Rejection(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        )
    if budget >= body.get("max_tokens", budget + 1):
        return Rejection("`max_tokens` must be greater than `thinking.budget_tokens`")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return Rejection("Thinking may not be enabled when tool_choice forces tool use.")
    return None


def _tools(question: Question) -> Rejection | None:
    names: set[str] = set()
    tools = question.body.get("tools") or []
    if len(tools) > question.settings.tool_limit:
        limit = question.settings.tool_limit
        message = f"tools: {len(tools)} tools are available, the limit is {limit}"
        return Rejection(message, error_code="available_tools_limit_exceeded")
    for index, tool in enumerate(tools):
        name = tool.get("name")
        if not isinstance(name, str) or not _NAME.match(name):
            pattern = "^[a-zA-Z0-9_-]{1,64}$"
            return Rejection(f"tools.{index}.name: String should match pattern '{pattern}'")
        if name in names:
            return Rejection("tools: Tool names must be unique.")
        names.add(name)
        rejection = _tool(f"tools.{index}", tool)
        if rejection is not None:
            return rejection
    return _tool_choice(question.body.get("tool_choice"), names)


def _tool(path: str, tool: Mapping[str, Any]) -> Rejection | None:
    if tool.get("type", "custom") != "custom":
        return None  # a server tool or a client tool with a schema of its own
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        return Rejection(f"{path}.custom.input_schema: Field required")
    if schema.get("type") != "object":
        return Rejection(f"{path}.custom.input_schema.type: Input should be 'object'")
    for index, example in enumerate(tool.get("input_examples") or []):
        fault = _example_fault(example, schema)
        if fault:
            return Rejection(f"{path}.custom.input_examples.{index}: {fault}")
    return None


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _example_fault(example: Any, schema: Mapping[str, Any]) -> str | None:
    """The first level of a JSON schema: required keys, unknown keys, plain types."""
    if not isinstance(example, dict):
        return "is not of type 'object'"
    missing = [key for key in schema.get("required") or [] if key not in example]
    if missing:
        return f"'{missing[0]}' is a required property"
    properties = schema.get("properties") or {}
    for key, value in example.items():
        if key not in properties:
            if schema.get("additionalProperties") is False:
                return f"'{key}' was unexpected"
            continue
        expected = properties[key].get("type")
        if isinstance(expected, str) and not isinstance(
            value, _JSON_TYPES.get(expected, (object,))
        ):
            return f"'{key}' is not of type '{expected}'"
    return None


def _tool_choice(choice: Mapping[str, Any] | None, names: set[str]) -> Rejection | None:
    if choice is None:
        return None
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        return Rejection("tool_choice: Input should be 'auto', 'any', 'tool' or 'none'")
    if kind == "tool" and choice.get("name") not in names:
        return Rejection(f"Tool '{choice.get('name')}' not found in provided tools")
    if kind in ("auto", "any") and not names:
        return Rejection("tool_choice may only be specified while providing tools.")
    return None


def _marks(body: Body) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Every explicit `cache_control` in prompt order: its path, its block, its lifetime."""
    for index, tool in enumerate(body.get("tools") or []):
        yield from _marks_of(f"tools.{index}", tool)
    system = body.get("system")
    for index, block in enumerate(system if isinstance(system, list) else []):
        yield from _marks_of(f"system.{index}", block)
    for at, message in enumerate(body["messages"]):
        for index, block in enumerate(blocks_of(message.get("content"))):
            path = f"messages.{at}.content.{index}"
            for part in nested(block):
                yield from _marks_of(path, part)
            yield from _marks_of(path, block)


def _marks_of(path: str, block: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    control = block.get("cache_control")
    if control:
        yield path, block, str(control.get("ttl") or "5m")


def _cache_control(question: Question) -> Rejection | None:
    body = question.body
    automatic = body.get("cache_control")
    marks = list(_marks(body))
    total = len(marks) + bool(automatic)
    if total > MAX_BREAKPOINTS:
        return Rejection(
            f"A maximum of 4 blocks with cache_control may be provided. Found {total}."
        )
    short = False
    for path, block, ttl in marks:
        rejection = _mark(path, block, ttl, after_short=short)
        if rejection is not None:
            return rejection
        short = short or ttl == "5m"
    return _automatic(body, automatic, marks) if automatic else None


def _mark(path: str, block: Mapping[str, Any], ttl: str, after_short: bool) -> Rejection | None:
    kind = block.get("type")
    if ttl not in ("5m", "1h"):
        return Rejection(f"{path}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    if kind in ("thinking", "redacted_thinking"):
        return Rejection(f"{path}.{kind}.cache_control: Extra inputs are not permitted")
    if kind == "text" and block.get("text") == "":
        return Rejection(f"{path}.text: cache_control cannot be set for empty text blocks")
    if ttl == "1h" and after_short:
        return Rejection(
            f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a "
            "ttl='5m' cache_control block."
        )
    return None


def _automatic(
    body: Body, automatic: Mapping[str, Any], marks: list[tuple[str, Mapping[str, Any], str]]
) -> Rejection | None:
    """The automatic mark goes to the last block, where an explicit one may already be."""
    ttl = str(automatic.get("ttl") or "5m")
    last = blocks_of(body["messages"][-1].get("content"))[-1:]
    if marks and last and marks[-1][1] is last[0] and marks[-1][2] != ttl:
        return Rejection(
            "cache_control: the last block already has a cache_control with a different ttl"
        )
    if ttl == "1h" and any(mark[2] == "5m" for mark in marks):
        return Rejection(
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
            "cache_control block."
        )
    return None


def _messages(question: Question) -> Rejection | None:
    return turns.check(question.body, question.model)


def _betas(question: Question) -> Rejection | None:
    return betas.check(question.body)


RULES = (_parameters, _max_tokens, _messages, _betas, _thinking, _tools, _cache_control)
