"""``outrider skills``: the skills in force, and what is wrong with their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FINISHED, WRONG_USAGE

if TYPE_CHECKING:
    from orchestrator.skills import Skill


def skills(root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """The skills that agents are offered: the project's, nearest folder first, then the user's.

    A skill is a folder with a SKILL.md in .outrider/skills or .claude/skills. Exit code 2 if a file
    gives none.

    \b
    Examples:
      outrider skills
      outrider skills --json | jq '.problems'
    """
    from orchestrator.cli.agents_facts import shown_path, shown_problem
    from orchestrator.cli.agents_shown import problem_json
    from orchestrator.cli.output import print_json
    from orchestrator.cli.table import Column, table
    from orchestrator.cli.terminal import print_lines, width
    from orchestrator.places import user_skill_folders
    from orchestrator.skills import find_skills

    found = find_skills(root, user_skill_folders())
    problems = [shown_problem(problem, root) for problem in found.problems]
    is_well = all(problem.severity != "error" for problem in problems)
    known = [_facts(skill, shown_path(skill.source, root)) for skill in found.known.values()]
    if as_json:
        listed = [problem_json(problem) for problem in problems]
        print_json({"schema": 1, "ok": is_well, "problems": listed, "skills": known})
    else:
        columns = (Column("name"), Column("source", least=20), Column("description", least=20))
        rows = [[facts[column.title] for column in columns] for facts in known]
        lines = [f"{problem.severity}: {problem}" for problem in problems]
        lines += table(columns, rows, width()) if rows else ["no skills"]
        print_lines(lines)
    raise typer.Exit(FINISHED if is_well else WRONG_USAGE)


def _facts(skill: Skill, source: str) -> dict[str, Any]:
    return {"name": skill.name, "description": skill.description, "source": source}
