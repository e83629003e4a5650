"""The public names: listed, documented, typed, and those that the pages use."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.test_docs import DOCUMENTS, ROOT, blocks

PACKAGES = (
    *("orchestrator", "orchestrator.context", "orchestrator.errors", "orchestrator.testing"),
    *("subagents", "todos", "workspace"),
)
# Their docstrings are part of what models are sent, and are written for them alone.
SENT = {"ChildTools", "DescribeTool", "TaskTool", "TodoChange"}
NAMES = [(package, name) for package in PACKAGES for name in import_module(package).__all__]


def described() -> Iterator[tuple[str, Any]]:
    """Every public class and function of ours, and the public methods of the classes."""
    for package, name in NAMES:
        thing = getattr(import_module(package), name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or name in SENT:
            continue
        yield f"{package}.{name}", thing
        if inspect.isclass(thing):
            for key, value in vars(thing).items():
                if inspect.isfunction(value) and value.__name__ == key and key[0] != "_":
                    yield f"{package}.{name}.{key}", value


DESCRIBED = dict(described())


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_each_public_thing_once_in_order_and_each_is_there(package: str) -> None:
    module = import_module(package)
    names = module.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(module, name) for name in names)
    # Constants, classes, functions, as the linter sorts them.
    kinds = [0 if n.isupper() else 1 if n[0].isupper() else 2 for n in names]
    assert names == [n for _, n in sorted(zip(kinds, names, strict=True))]


def imported() -> set[tuple[str, str]]:
    """What the pages and the examples import from the packages."""
    codes = [code for document in DOCUMENTS for code in blocks(document, "python")]
    codes += [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    nodes = (node for code in codes for node in ast.walk(ast.parse(textwrap.dedent(code))))
    return {
        (node.module or "", alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module or "").split(".")[0] in PACKAGES
    }


@pytest.mark.parametrize(("module", "name"), sorted(imported()))
def test_what_pages_import_is_public_where_they_import_it(module: str, name: str) -> None:
    assert name in import_module(module).__all__


def test_the_pages_import_something_of_each_kind() -> None:
    assert {"run", "resume", "stream", "tool"} <= {name for _, name in imported()}


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    said = DESCRIBED[name].__doc__
    assert said
    assert not re.match(r"\w+\(.*\)$", said), "made by dataclass"


def raised(function: Any) -> set[str]:
    """The errors that a function raises itself. Nested functions are apart."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found, nodes = set(), list(ast.iter_child_nodes(tree.body[0]))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found.add(ast.unparse(node.exc.func).rpartition(".")[2])
    return found


FUNCTIONS = [name for name, thing in DESCRIBED.items() if inspect.isfunction(thing)]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if raised(DESCRIBED[name])])
def test_a_docstring_names_the_errors_that_its_function_raises(name: str) -> None:
    said = DESCRIBED[name].__doc__ or ""
    assert {error for error in raised(DESCRIBED[name]) if error not in said} == set()


def test_every_package_of_the_wheel_says_that_it_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == [name for name in PACKAGES if "." not in name]
    assert all((ROOT / package / "py.typed").is_file() for package in packages)
