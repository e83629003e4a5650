"""``outrider agents``: the definitions in force, and what is wrong with their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FINISHED, WRONG_USAGE, say
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.config import Settings
    from subagents import Loaded, Problem

app: typer.Typer = typer.Typer(rich_markup_mode=None)

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH]...", help="Definition files or folders, before all others."),
]
Only = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH]...", help="Only these files or folders."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A definition's name, in any case.")]
New = Annotated[
    str, typer.Argument(metavar="[NAME|PATH]", help="A name, or a path that ends in .md.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Repairs and other warnings are errors.")]


@app.callback()
def _agents() -> None:
    """Definitions of subagents, and what is wrong with their files.

    \b
    Examples:
      outrider agents list
      outrider agents new log-reader
    """


@app.command("list")
def list_(
    paths: Paths = None, strict: Strict = False, root: opt.Root = Path(), as_json: opt.Json = False
) -> None:
    """The definitions in force: the command line's, the project's, the user's, the built-in ones.

    Sizes are tokens: the working window, the prompt, and the schemas of the tools.

    \b
    Examples:
      outrider agents list
      outrider agents list ./team --json
    """
    from orchestrator.cli.agents_shown import listing
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width

    settings, found = _discovered(root, paths)
    kinds = _described(found, settings, root)
    if as_json:
        print_json([{k: v for k, v in kind.items() if k != "prompt"} for kind in kinds])
    else:
        print_lines(listing(kinds, width()))
    raise typer.Exit(_code(found.problems, strict) if strict else FINISHED)


@app.command("show")
def show(
    name: Name,
    paths: Paths = None,
    strict: Strict = False,
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """One definition: what it may do, with which model, within which limits, and its whole prompt.

    \b
    Examples:
      outrider agents show explorer
      outrider agents show my-agent ./team --json
    """
    from orchestrator.cli.agents_facts import available, described
    from orchestrator.cli.agents_shown import page, problem_json
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines

    settings, found = _discovered(root, paths)
    definition = found.get(name)
    if definition is None:
        raise ConfigError(f"no definition is called {name!r}; {_names(found, name)}")
    kind = described(definition, settings, root, available(settings, root, found))
    of_it = [p for p in found.problems if p.path == definition.source]
    problems = _shown(of_it, root)
    if as_json:
        print_json(kind | {"problems": [problem_json(p) for p in problems]})
    else:
        print_lines(page(kind, problems))
    raise typer.Exit(_code(of_it, strict))


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
    from orchestrator.cli.agents_shown import problem_json, verdict
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines, width
    from subagents import load

    settings, found = (_settings(root), load(*paths)) if paths else _discovered(root, None)
    kinds = _described(found, settings, root)
    code = _code(found.problems, strict)
    problems = _shown(found.problems, root)
    if as_json:
        listed = [problem_json(p) for p in problems]
        print_json({"schema": 1, "ok": code == FINISHED, "problems": listed, "definitions": kinds})
    else:
        print_lines(verdict(problems, kinds, width()))
    raise typer.Exit(code)


@app.command("new")
def new(target: New = "my-agent", root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """Write a definition file to begin with: every field with its meaning, and a prompt to change.

    A name makes .outrider/agents/NAME.md. A file that is there already is left alone.

    \b
    Examples:
      outrider agents new log-reader
      outrider agents new team/log-reader.md
    """
    from orchestrator.cli.agents_new import next_step, write_new
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines

    path, name = write_new(target, root)
    if as_json:
        print_json({"schema": 1, "path": str(path), "name": name})
    else:
        print_lines([str(path)])
    _, found = _discovered(root, [str(path)])
    for problem in found.problems:
        if problem.key == "name" and f"is hidden by {path}" in problem.message:
            say(str(problem))
    if not as_json:
        _, without = _discovered(root, None)
        say(f"edit it, then: {next_step(path, name, is_found=name in without.definitions)}")


# ── what there is ──


def _settings(root: Path) -> Settings:
    from orchestrator.config import load_settings

    return load_settings(root).settings


def _discovered(root: Path, paths: Sequence[str] | None) -> tuple[Settings, Loaded]:
    from orchestrator.places import user_agent_folders
    from subagents import discover

    settings = _settings(root)
    return settings, discover(root, (*(paths or ()), *settings.agents), user_agent_folders())


def _described(found: Loaded, settings: Settings, root: Path) -> list[dict[str, Any]]:
    from orchestrator.cli.agents_facts import available, described

    have = available(settings, root, found)
    return [described(kind, settings, root, have) for kind in found.definitions.values()]


def _code(problems: Iterable[Problem], strict: bool) -> int:
    bad = {"error", "warning"} if strict else {"error"}
    return WRONG_USAGE if any(problem.severity in bad for problem in problems) else FINISHED


def _names(found: Loaded, name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(found.definitions), 1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(found.definitions)}"


def _shown(problems: Iterable[Problem], root: Path) -> list[Problem]:
    from orchestrator.cli.agents_facts import shown_problem

    return [shown_problem(problem, root) for problem in problems]
