"""Tools from plain typed functions: the schema from the signature, the words from the docstring.

A tool never raises into the loop: bad arguments, an expected error and an unexpected one all come
back as error results that tell the model what to do differently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_type_hints, overload
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import PydanticUndefined

from orchestrator.errors import ConfigError, ToolError
from orchestrator.messages import Block
from orchestrator.outputs import Output, as_output, framed

_ERROR_CHARS = 2_000
# What tools of these names bring comes from outside, whoever wrote them.
_FROM_OUTSIDE = ("fetch", "web_search")

# What becomes of a call that was under way when the process died: it is made again (it only reads, or
# making it twice is the same as once); the model is told that it may have happened; the agent fails.
AfterCrash = Literal["repeat", "ask", "fail"]


@dataclass(frozen=True)
class ThisCall:
    """The call that a tool's function is running for. ``root``: the workspace. ``key``: the same when
    the call is made again after a crash, and for no other call: for services that do a thing once."""

    root: Path
    run_id: str
    agent_id: str
    key: str


calling: ContextVar[ThisCall] = ContextVar("calling")


def this_call() -> ThisCall:
    """The call that is running; for functions that need to know whose it is, or where they work.

    Raises ``LookupError`` outside of a tool call.
    """
    return calling.get()


class Arguments(Protocol):
    """What a tool can be called with."""

    @property
    def names(self) -> Sequence[str]:
        """The arguments that there are, for a message."""
        ...

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them, by keyword. Raises ``ValidationError`` or
        `ToolError` for what does not fit."""
        ...


@dataclass(frozen=True)
class Typed:
    """The arguments of a function with types."""

    model: type[BaseModel]

    @property
    def names(self) -> Sequence[str]:
        return list(self.model.model_fields)

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fitting = self.model.model_validate(dict(given))
        return {name: getattr(fitting, name) for name in self.model.model_fields}


@dataclass(frozen=True)
class Tool:
    """A function that models can call. Make one with `tool`.

    ``arguments`` checks what a model gives; ``input_schema`` is what it is told about them.

    ``bounded``: the tool keeps its results within a limit of its own, so they are never offloaded at
    birth. ``expected``: exceptions whose text is written for the model. ``after_crash``: what becomes
    of a call that was under way when the process died; without a word, the model is told. ``seconds``:
    how long a call may take. ``untrusted``: what it returns is put under a line that says that it is data
    from outside. ``off``: arguments that are not offered in this run, each with what a model is told that
    gives one all the same.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    arguments: Arguments
    function: Callable[..., Any]
    bounded: bool = False
    expected: tuple[type[Exception], ...] = (ToolError,)
    after_crash: AfterCrash = "ask"
    seconds: float | None = None
    untrusted: bool = False
    off: Mapping[str, str] = field(default_factory=dict)

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

        Raises ``ValidationError`` or `ToolError` for arguments that do not fit, `ToolError` when its
        time is over, and whatever the function raises.
        """
        if refused := [why for name, why in self.off.items() if given.get(name)]:
            raise ToolError(refused[0])
        # To say that it is off is no mistake.
        arguments = self.arguments.checked({k: v for k, v in given.items() if k not in self.off})
        with anyio.move_on_after(self.seconds):
            value = await self._called(arguments)
            # Images are looked through, and large values take a while to write as JSON.
            output = value if isinstance(value, str) else await run_sync(as_output, value)
            return framed(self.name, output) if self.untrusted else output
        raise ToolError(f"{self.name}: stopped after {self.seconds:g} seconds")

    async def _called(self, arguments: Mapping[str, Any]) -> Any:
        call = partial(self.function, **arguments)
        try:
            if inspect.iscoroutinefunction(self.function):
                return await call()
            # Whoever gives a call a time wants to go on then, though a thread cannot be stopped.
            # In a tuple, since trio refuses a coroutine, which a wrapper may return.
            (value,) = await run_sync(lambda: (call(),), abandon_on_cancel=self.seconds is not None)
            return await value if inspect.isawaitable(value) else value
        except SystemExit as error:
            raise ToolError(f"{self.name} ended with exit({error.code!r})") from None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
    seconds: float | None = None,
    untrusted: bool | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
    seconds: float | None = None,
    untrusted: bool | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, async or not; also usable as a decorator.

    The docstring's first paragraph describes the tool to the model, its ``Args:`` section the
    parameters. ``after_crash="repeat"`` is for functions that only read, or that may run twice.
    ``seconds``: how long a call may take; what a plain function still does then is left to itself.
    ``untrusted``: whether what it returns comes from outside and is put under a line that says that it is
    data, as pages and results of MCP servers are; if not given, it is for tools named ``web_search`` and
    ``fetch``.
    Raises `ConfigError` for a function whose parameters have no types.
    """
    if function is None:
        return partial(
            tool_of,
            name=name,
            bounded=bounded,
            expected=expected,
            after_crash=after_crash,
            seconds=seconds,
            untrusted=untrusted,
        )
    return tool_of(
        function,
        name=name,
        bounded=bounded,
        expected=expected,
        after_crash=after_crash,
        seconds=seconds,
        untrusted=untrusted,
    )


def tool_of(
    function: Callable[..., Any] | Tool,
    *,
    name: str | None = None,
    bounded: bool = False,
    expected: tuple[type[Exception], ...] = (),
    after_crash: AfterCrash = "ask",
    seconds: float | None = None,
    untrusted: bool | None = None,
    off: Mapping[str, str] | None = None,
) -> Tool:
    """`tool`, for a function that may be a tool already."""
    if isinstance(function, Tool):
        return function
    name = name or _name_of(function)
    face = _face_of(function, name)
    return Tool(
        name=name,
        description=face.description,
        input_schema=face.input_schema,
        arguments=Typed(face.arguments),
        function=function,
        bounded=bounded,
        expected=(ToolError, *expected),
        after_crash=after_crash,
        seconds=seconds,
        untrusted=name in _FROM_OUTSIDE if untrusted is None else untrusted,
        off=off or {},
    )


def _written(function: Callable[..., Any]) -> Any:
    """What somebody wrote types and a docstring at."""
    while isinstance(function, partial):
        function = function.func
    return function


def _name_of(function: Callable[..., Any]) -> str:
    plain = _written(function)
    name = getattr(plain, "__name__", None)
    if not isinstance(name, str):
        raise ConfigError(f"{plain!r} has no name that a model could call: use tool(name=…)")
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise ConfigError(f"tool {name}: it yields; return one value, such as a list")
    return name


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

    doc = parse(inspect.getdoc(_written(function)) or "")
    words = [doc.short_description or "", doc.long_description or ""]
    arguments = _arguments_of(function, name, {p.arg_name: p.description for p in doc.params})
    return _Face("\n".join(w for w in words if w), _schema_of(arguments), arguments)


def _arguments_of(
    function: Callable[..., Any], name: str, described: Mapping[str, str | None]
) -> type[BaseModel]:
    written = _written(function)
    if not inspect.isroutine(written):
        written = type(written).__call__
    # What a partial has filled in is nobody else's to give.
    given = function.keywords if isinstance(function, partial) else {}
    try:
        hints = get_type_hints(written, include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"tool {name}: {error}; types of parameters must be importable names of its module"
        ) from None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in given:
            continue
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


def explain(error: Exception, used: Tool) -> str:
    """The text of an error result, for the model."""
    error = _first(error)
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


def _first(error: Exception) -> Exception:
    """What went wrong first, where a task group wrapped it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _explain_arguments(error: ValidationError, used: Tool) -> str:
    known = ", ".join(used.arguments.names) or "none"
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
