"""``outrider agents``: the definitions in force, and what is wrong with their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FINISHED, WRONG_USAGE
from orchestrator.cli.table import Column, number, table
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.config import Settings
    from subagents import Definition, Loaded, Problem

app = typer.Typer(help="Definitions of subagents, and their problems.", rich_markup_mode=None)

_LIST = (
    Column("name"),
    Column("model", least=7),
    Column("tools", least=12),
    Column("source", least=12),
    Column("description", least=16),
)
_CHECK = (
    Column("name"),
    Column("model", least=7),
    Column("prompt", right=True),
    Column("tools", least=20),
    Column("source", least=12),
)
_PLAN = ("write_todos", "task")

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH]...", help="Definition files or folders, before all others."),
]
Only = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH]...", help="Only these files or folders."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A definition's name, in any case.")]
Strict = Annotated[bool, typer.Option("--strict", help="Repairs and other warnings are errors.")]


@app.callback()
def _agents() -> None:
    """Definitions of subagents, and what is wrong with their files."""


@app.command("list")
def list_(paths: Paths = None, root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """The definitions in force: the command line's, the project's, then the built-in ones.

    \b
    Examples:
      outrider agents list
      outrider agents list ./team --json
    """
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width

    settings, found = _discovered(root, paths)
    kinds = [_described(kind, settings, root) for kind in found.definitions.values()]
    if as_json:
        print_json([{k: v for k, v in kind.items() if k != "prompt"} for kind in kinds])
        return
    rows = [
        [kind["name"], kind["model"], _tools(kind), kind["source"], _short(kind["description"])]
        for kind in kinds
    ]
    print_lines(table(_LIST, rows, width()))


@app.command("show")
def show(
    name: Name, paths: Paths = None, root: opt.Root = Path(), as_json: opt.Json = False
) -> None:
    """One definition: what it may do, with which model, and its whole prompt.

    \b
    Examples:
      outrider agents show explorer
      outrider agents show my-agent ./team --json
    """
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines

    settings, found = _discovered(root, paths)
    definition = found.get(name)
    if definition is None:
        raise ConfigError(f"no definition is called {name!r}; {_names(found, name)}")
    kind = _described(definition, settings, root)
    problems = [p for p in found.problems if p.path == definition.source]
    if as_json:
        print_json(kind | {"problems": [_problem(p) for p in problems]})
        return
    print_lines(_page(kind, problems))


@app.command("check")
def check(
    paths: Only = None,
    strict: Strict = False,
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """Read definition files and say what is wrong with them, and what they grant.

    Exit code 2 if a file gives no definition; with --strict also if one had to be repaired.

    \b
    Examples:
      outrider agents check
      outrider agents check .claude/agents --strict
    """
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width
    from subagents import load

    settings = _settings(root)
    found = load(*paths) if paths else _discovered(root, None)[1]
    kinds = [_described(kind, settings, root) for kind in found.definitions.values()]
    bad = {"error", "warning"} if strict else {"error"}
    failed = any(problem.severity in bad for problem in found.problems)
    if as_json:
        problems = [_problem(p) for p in found.problems]
        print_json({"schema": 1, "ok": not failed, "problems": problems, "definitions": kinds})
    else:
        print_lines(_verdict(found.problems, kinds, width()))
    raise typer.Exit(WRONG_USAGE if failed else FINISHED)


# ── what there is ──


def _settings(root: Path) -> Settings:
    from orchestrator.config import load_settings

    return load_settings(root).settings


def _discovered(root: Path, paths: Sequence[str] | None) -> tuple[Settings, Loaded]:
    from subagents import discover

    settings = _settings(root)
    return settings, discover(root, (*(paths or ()), *settings.agents))


def _described(definition: Definition, settings: Settings, root: Path) -> dict[str, Any]:
    """A definition as JSON, with the tools that it really gets under a main agent that has all."""
    from subagents import estimate, resolve

    granted = resolve(definition, available(settings, root))
    withheld = {
        name
        for name, no in (("write_todos", definition.todos), ("task", definition.can_spawn))
        if no is False
    }
    return {
        "name": definition.name,
        "description": definition.description,
        "tools": [t for t in granted.tools if t not in {*withheld, *granted.patterns}],
        "unknown_tools": list(granted.unknown),
        "model": _model(definition, settings),
        "prompt_tokens": estimate(definition.prompt),
        "source": definition.source,
        "prompt": definition.prompt,
    }


def available(settings: Settings, root: Path) -> list[str]:
    """The tools of a main agent in this workspace, under the settings' denials."""
    from workspace import Access, FileTools

    files = [function.__name__ for function in FileTools(root, Access()).functions()]
    # By name only: looking at a project must not run its code.
    own = [spec.rpartition(":")[2] for spec in settings.tools]
    denied = settings.permissions().denies_tool
    return [name for name in (*files, *_PLAN, *own) if not denied(name)]


def _model(definition: Definition, settings: Settings) -> str:
    from orchestrator.compose import MODEL_ALIASES, model_name

    return model_name(definition, "inherit", {**MODEL_ALIASES, **settings.models})


def _names(found: Loaded, name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(found.definitions), 1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(found.definitions)}"


# ── how it is shown ──


def _short(text: str) -> str:
    from orchestrator.progress import one_line

    return one_line(text, 120)


def _tools(kind: dict[str, Any]) -> str:
    return ", ".join(kind["tools"]) or "none"


def _problem(problem: Problem) -> dict[str, Any]:
    names = ("path", "line", "key", "severity", "message")
    return {name: getattr(problem, name) for name in names}


def _page(kind: dict[str, Any], problems: Iterable[Problem]) -> list[str]:
    facts = [
        f"name         {kind['name']}",
        f"description  {_short(kind['description'])}",
        f"model        {kind['model']}",
        f"tools        {_tools(kind)}",
        f"prompt       {number(kind['prompt_tokens'])} tokens",
        f"source       {kind['source']}",
    ]
    if kind["unknown_tools"]:
        facts.append(f"unknown      {', '.join(kind['unknown_tools'])}")
    facts += [f"{problem.severity:<11}  {problem}" for problem in problems]
    return [*facts, "", kind["prompt"]]


def _verdict(
    problems: Sequence[Problem], kinds: Sequence[dict[str, Any]], width: int | None
) -> list[str]:
    lines = [f"{problem.severity}: {problem}" for problem in problems]
    if kinds:
        rows = [
            [k["name"], k["model"], number(k["prompt_tokens"]), _tools(k), k["source"]]
            for k in kinds
        ]
        lines += [*([""] if lines else []), *table(_CHECK, rows, width)]
    counts = {s: sum(p.severity == s for p in problems) for s in ("error", "warning", "info")}
    said = ", ".join(
        f"{n} {s}{'s' if n != 1 and s != 'info' else ''}" for s, n in counts.items() if n
    )
    return [*lines, "", f"{len(kinds)} definitions; {said or 'no problems'}"]
