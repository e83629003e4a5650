"""Tools that people bring: ``--tools MODULE:NAME``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestrator.errors import ConfigError


def load_tools(specs: Sequence[str], root: Path) -> list[Any]:
    """The tools that ``specs`` name, each a function or a list of functions.

    Modules of the current folder and of the workspace's root are found too. Raises `ConfigError`.
    """
    if specs:
        _make_findable(specs, list(dict.fromkeys((os.getcwd(), str(root.absolute())))))
    return [made for spec in specs for made in _load(spec)]


@dataclass(frozen=True)
class _Beside:
    """Finds modules of these names in these folders. The folders themselves are not searched for whatever
    is imported: agents write there, and what they write must not become a part of this program."""

    folders: tuple[str, ...]
    names: frozenset[str]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in self.names:
            return None
        return PathFinder.find_spec(fullname, self.folders, target)


def _make_findable(specs: Sequence[str], folders: Sequence[str]) -> None:
    """A console command does not search the current folder by itself. The modules that were asked for go
    before installed ones, and what else is there now, which they may import, behind these."""
    asked = frozenset(spec.partition(":")[0].partition(".")[0] for spec in specs)
    there = frozenset(name.partition(".")[0] for f in folders for name in _names(f))
    first, last = _Beside(tuple(folders), asked), _Beside(tuple(folders), there)
    if first not in sys.meta_path:
        sys.meta_path.insert(0, first)
    if last not in sys.meta_path:
        sys.meta_path.append(last)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it cannot be read, so nothing of it can be imported
        return []


def _load(spec: str) -> list[Any]:
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f"--tools {spec}: write it as MODULE:NAME, for example mytools:search")
    found = _named(_module(module_name, spec), name, spec)
    return [_made(function, spec) for function in found]


def _module(name: str, spec: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        where = "" if error.name == name else f" (while importing {name})"
        raise ConfigError(
            f"--tools {spec}: no module {error.name}{where} in {os.getcwd()}"
        ) from None
    # It is somebody's code: anything can come out of it.
    except Exception as error:
        raise ConfigError(
            f"--tools {spec}: importing {name} failed: {type(error).__name__}: {error}"
        ) from error


def _named(module: ModuleType, name: str, spec: str) -> list[Callable[..., Any]]:
    value = getattr(module, name, None)
    if value is None:
        near = get_close_matches(name, dir(module), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"--tools {spec}: {module.__name__} has no {name}{hint}")
    found = list(value) if isinstance(value, list | tuple) else [value]
    for item in found:
        if not callable(item):
            raise ConfigError(f"--tools {spec}: {name} is no function and no list of functions")
    return found


def _made(function: Callable[..., Any], spec: str) -> Any:
    from orchestrator.tools import tool_of

    try:
        return tool_of(function)
    except ConfigError as error:
        raise ConfigError(f"--tools {spec}: {error}") from None
    # Annotations that cannot be resolved or described raise all kinds of errors.
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ConfigError(
            f"--tools {spec}: {name} cannot be described to a model: {said}"
        ) from error
