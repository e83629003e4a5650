"""What a conclusion must be: something said, and, where a definition asks for it, JSON of a shape. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from subagents.definition import JSON

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)
# A short text that sends its reader somewhere else instead of saying what was found.
_ELSEWHERE = re.compile(
    r"""
      \b(?:see|refer\ to|as|described|given|listed|reported|provided|mentioned)\b[^.]{0,60}
        \b(?:above|earlier|previous(?:ly)?|file|report|message|conversation)\b
    | \b(?:written|saved|stored|put|placed|created)\b[^.]{0,80}\b(?:to|in|at|as)\b\s+[`"']?[\w./-]+\.\w{1,5}
    | (?:见|参见|详见|已(?:写入|保存|存入)).{0,40}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_POINTER_CHARS = 240
_WORDS_BESIDE_A_POINTER = 25
_PATH = re.compile(
    r"(?<![\w/.])(?:\./)?(?:[\w@+-][\w.@+-]{0,99}/){0,12}[\w@+-][\w.@+-]{0,99}\.\w{1,8}(?![\w/])"
)
_MOST_ARTIFACTS = 20
# What fastjsonschema raises for JSON that is no schema, found by feeding it such.
_NO_SCHEMA = (
    *(ArithmeticError, AttributeError, LookupError, OSError, RecursionError, SyntaxError),
    *(TypeError, ValueError, re.error),
)
# All that `urllib` opens: a file that is only looked at must neither reach the network nor a disk.
_SCHEMES = ("", "data", "file", "ftp", "http", "https")


def schema_of(returns: Mapping[str, JSON]) -> dict[str, Any]:
    """The JSON Schema of a definition's `returns`: a schema as it is, or fields with their types.

    A field list such as `{verdict: string, places: [string], count: integer}` asks for an object
    with all of these fields. Raises `ValueError` for a schema that cannot be used.
    """
    is_schema = "type" in returns and ("properties" in returns or returns["type"] != "object")
    schema: dict[str, Any] = dict(returns) if is_schema or "$ref" in returns else _fields(returns)
    _validator(json.dumps(schema))
    return schema


def instruction(schema: Mapping[str, Any]) -> str:
    """The sentence that goes with a brief: how the conclusion must look."""
    return (
        "Your last message must hold one JSON value that fits this schema, in a ```json block; "
        f"short text may stand before it:\n{json.dumps(schema, ensure_ascii=False)}"
    )


def value_in(text: str) -> Any:
    """The JSON value of a conclusion: its last fenced block, or all of it. Raises `ValueError`."""
    fenced: list[str] = _FENCED.findall(text)
    for candidate in (*reversed(fenced), text.strip()):
        try:
            return json.loads(candidate)
        except ValueError:
            continue
    raise ValueError("there is no JSON value in it")


def problem_of(text: str, schema: Mapping[str, Any] | None, *, is_child: bool) -> str | None:
    """What is wrong with a conclusion, in words for its author; `None`: nothing."""
    if not text.strip():
        return "it is empty"
    if schema is not None:
        return _misfit(text, schema)
    if is_child and points_elsewhere(text):
        return "it only points elsewhere, but your reader sees nothing except this message"
    return None


def points_elsewhere(text: str) -> bool:
    """Whether a short text sends its reader to a file or to earlier words and says nothing itself."""
    stripped = text.strip()
    if len(stripped) > _POINTER_CHARS or not _ELSEWHERE.search(stripped):
        return False
    rest = _ELSEWHERE.sub(" ", stripped)
    return len(rest.split()) < _WORDS_BESIDE_A_POINTER


def named_files(text: str, exists: Callable[[str], bool]) -> tuple[str, ...]:
    """The files that a conclusion names and that are there: what came of the work."""
    found = dict.fromkeys(match[0].removeprefix("./") for match in _PATH.finditer(text))
    return tuple(path for path in list(found)[: 10 * _MOST_ARTIFACTS] if exists(path))[
        :_MOST_ARTIFACTS
    ]


def _misfit(text: str, schema: Mapping[str, Any]) -> str | None:
    try:
        value = value_in(text)
        _validator(json.dumps(schema))(value)
    except ValueError as error:
        return f"it does not fit the schema: {error}"
    return None


def _fields(returns: Mapping[str, JSON]) -> dict[str, Any]:
    properties = {name: _field(name, kind) for name, kind in returns.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _field(name: str, kind: JSON) -> dict[str, Any]:
    names = {
        "str": "string",
        "int": "integer",
        "float": "number",
        "bool": "boolean",
        "list": "array",
    }
    if isinstance(kind, str):
        word = kind.strip().removesuffix("[]")
        plain = {"type": names.get(word, word)}
        return {"type": "array", "items": plain} if kind.strip().endswith("[]") else plain
    if isinstance(kind, list) and len(kind) == 1:
        return {"type": "array", "items": _field(name, kind[0])}
    if isinstance(kind, list):
        return {"enum": kind}
    if isinstance(kind, Mapping):
        return dict(kind) if "type" in kind or "enum" in kind else _fields(kind)
    raise ValueError(
        f"returns: {name}: {kind!r} is no type – write string, integer, [string] or a schema"
    )


def _refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"{uri!r:.80} is not fetched, write the schema out")


@lru_cache(maxsize=64)
def _validator(schema_json: str) -> Callable[[Any], Any]:
    # Late: it compiles schemas to code, and most runs have none.
    import fastjsonschema

    try:
        # Defaults are the author's to write; formats by regular expressions of a file's are not run.
        checked: Callable[[Any], Any] = fastjsonschema.compile(
            json.loads(schema_json),
            handlers=dict.fromkeys(_SCHEMES, _refuse_to_fetch),
            use_default=False,
            use_formats=False,
        )
    except (fastjsonschema.JsonSchemaDefinitionException, *_NO_SCHEMA) as error:
        raise ValueError(f"returns is no usable JSON Schema: {error}") from None

    def check(value: Any) -> Any:
        try:
            return checked(value)
        except fastjsonschema.JsonSchemaValueException as error:
            raise ValueError(str(error).replace("data", "the value", 1)) from None

    return check
