"""Tools from plain typed functions: the schema from the signature, the words from the docstring.

A tool never raises into the loop: bad arguments, an expected error and an unexpected one all come
back as error results that tell the model what to do differently.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast, get_type_hints, overload
from weakref import WeakKeyDictionary

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import PydanticUndefined, to_json

from orchestrator.errors import ConfigError, ToolError
from orchestrator.messages import Block

_ERROR_CHARS = 2_000

# What becomes of a call that was under way when the process died: it is made again (it only reads, or
# making it twice is the same as once); the model is told that it may have happened; the agent fails.
AfterCrash = Literal["repeat", "ask", "fail"]

# What a tool may return: text, content blocks, or any JSON value, which becomes JSON text.
Output = str | list[Block]


@dataclass(frozen=True)
class Tool:
    """A function that models can call. Make one with `tool`.

    ``bounded``: the tool keeps its results within a limit of its own, so they are never offloaded at
    birth. ``expected``: exceptions whose text is written for the model. ``after_crash``: what becomes
    of a call that was under way when the process died; without a word, the model is told.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    arguments: type[BaseModel]
    function: Callable[..., Any]
    bounded: bool = False
    expected: tuple[type[Exception], ...] = (ToolError,)
    after_crash: AfterCrash = "ask"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function."""
        return self.function(*args, **kwargs)

    @property
    def schema(self) -> Block:
        """The tool as a request declares it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }

    async def run(self, given: Mapping[str, Any]) -> Output:
        """Call the function with a model's arguments.

        Raises ``ValidationError`` for arguments that do not fit, and whatever the function raises.
        """
        checked = self.arguments.model_validate(dict(given))
        arguments = {name: getattr(checked, name) for name in type(checked).model_fields}
        if inspect.iscoroutinefunction(self.function):
            return as_output(await cast(Awaitable[Any], self.function(**arguments)))
        return as_output(await anyio.to_thread.run_sync(partial(self.function, **arguments)))


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, async or not; also usable as a decorator.

    The docstring's first paragraph describes the tool to the model, its ``Args:`` section the
    parameters. ``after_crash="repeat"`` is for functions that only read, or that may run twice. Raises `ConfigError` for a function whose parameters have no types.
    """
    if function is None:
        return partial(
            tool_of, name=name, bounded=bounded, expected=expected, after_crash=after_crash
        )
    return tool_of(function, name=name, bounded=bounded, expected=expected, after_crash=after_crash)


def tool_of(
    function: Callable[..., Any] | Tool,
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
) -> Tool:
    """`tool`, for a function that may be a tool already."""
    if isinstance(function, Tool):
        return function
    name = name or function.__name__
    face = _face_of(function, name)
    return Tool(
        name=name,
        description=face.description,
        input_schema=face.input_schema,
        arguments=face.arguments,
        function=function,
        bounded=bounded,
        expected=(ToolError, *expected),
        after_crash=after_crash,
    )


@dataclass(frozen=True, slots=True)
class _Face:
    """What a function looks like to a model."""

    description: str
    input_schema: dict[str, Any]
    arguments: type[BaseModel]


# Methods of different objects are one function: every agent of a run has tools of its own, and reading
# a signature costs a hundred times what calling it does.
_FACES: WeakKeyDictionary[Any, dict[str, _Face]] = WeakKeyDictionary()


def _face_of(function: Callable[..., Any], name: str) -> _Face:
    plain = getattr(function, "__func__", function)
    try:
        faces = _FACES.setdefault(plain, {})
    except TypeError:  # a callable that cannot be referred to weakly
        faces = {}
    if name not in faces:
        faces[name] = _read_face(function, name)
    return faces[name]


def _read_face(function: Callable[..., Any], name: str) -> _Face:
    from docstring_parser import parse

    doc = parse(inspect.getdoc(function) or "")
    words = [doc.short_description or "", doc.long_description or ""]
    arguments = _arguments_of(function, name, {p.arg_name: p.description for p in doc.params})
    return _Face("\n".join(w for w in words if w), _schema_of(arguments), arguments)


def _arguments_of(
    function: Callable[..., Any], name: str, described: Mapping[str, str | None]
) -> type[BaseModel]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"tool {name}: {error}; types of parameters must be importable names of its module"
        ) from None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"tool {name}: *{parameter.name} cannot be described to a model")
        if parameter.name not in hints:
            raise ConfigError(f"tool {name}: parameter {parameter.name} needs a type annotation")
        required = parameter.default is parameter.empty
        default = PydanticUndefined if required else parameter.default
        field = Field(default, description=described.get(parameter.name))
        fields[parameter.name] = (hints[parameter.name], field)
    # Unknown arguments are refused by name rather than ignored: ignoring them hides a typo.
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return create_model(name, __config__=config, **fields)


def _schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema without what only costs tokens: titles, null alternatives, defaults that
    are nothing anyway (null, false, an empty text)."""
    schema = cast(dict[str, Any], _lean(arguments.model_json_schema()))
    schema.pop("additionalProperties", None)
    return schema


def _lean(node: Any) -> Any:
    if isinstance(node, list):
        return [_lean(item) for item in node]
    if not isinstance(node, dict):
        return node
    options = [o for o in node.get("anyOf", ()) if o != {"type": "null"}]
    if len(options) == 1:
        node = {**{k: v for k, v in node.items() if k != "anyOf"}, **options[0]}
    return {
        key: {name: _lean(value) for name, value in item.items()}
        if key == "properties"
        else _lean(item)
        for key, item in node.items()
        if not (key == "title" and isinstance(item, str))
        and not (key == "default" and (item is None or item is False or item == ""))
    }


# What the API takes inside a tool result, with the field that each needs.
_RESULT_BLOCKS = {
    "text": "text",
    "image": "source",
    "document": "source",
    "search_result": "source",
}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and _RESULT_BLOCKS.get(value.get("type", "")) in value


def as_output(value: Any) -> Output:
    """A function's return value as a tool result."""
    if isinstance(value, str):
        return value
    if value is None:
        return "(no output)"
    if isinstance(value, list) and value and all(map(_is_block, value)):
        return value
    return to_json(value, fallback=str).decode()


def explain(error: Exception, used: Tool) -> str:
    """The text of an error result, for the model."""
    if isinstance(error, ValidationError):
        text = _explain_arguments(error, used)
    elif isinstance(error, used.expected):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    rule = getattr(error, "rule", None)
    if isinstance(rule, str):
        said = f"[denied by {rule}] {text.removeprefix(f'denied by {rule}: ')}"
    else:
        said = f"[error] {text}"
    return said if len(said) <= _ERROR_CHARS else f"{said[:_ERROR_CHARS]}…"


def _explain_arguments(error: ValidationError, used: Tool) -> str:
    known = ", ".join(used.arguments.model_fields) or "none"
    problems = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(map(str, item["loc"])) or "arguments"
        what = "unknown argument" if item["type"] == "extra_forbidden" else item["msg"]
        problems.append(f"{where}: {what}")
    return f"{used.name}: {'; '.join(problems)}. Its arguments are: {known}."


def by_name(tools: Iterable[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """Tools by name. Raises `ConfigError` where two have the same."""
    named: dict[str, Tool] = {}
    for item in tools:
        made = tool_of(item)
        if made.name in named:
            raise ConfigError(f"two tools are named {made.name}: rename one")
        named[made.name] = made
    return named
