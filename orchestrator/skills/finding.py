"""Skill folders on disk: read them all, whatever state they are in, and say what is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from subagents import Entry, Problem, front_matter, project_folders
from workspace import WorkspaceError, read_confined

# Nearest to us first: where the same name stands in several, the first one holds.
FOLDERS = (".outrider/skills", ".claude/skills")
SKILL_FILE = "SKILL.md"
_LARGEST = 1_000_000  # bytes
_MOST = 1_000  # skills of one folder
_NAME = re.compile(r"[^\s/\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,99}")
_NO_FIELDS = "has no front matter – begin it with ---, name, description and ---"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. Its files are read within ``base`` only: the workspace, with ``path`` from there, or
    the skill's own folder elsewhere, where ``path`` is ``.``."""

    name: str
    description: str
    base: Path
    path: str
    source: str

    @property
    def is_inside(self) -> bool:
        """Whether it lies in the workspace, where file tools reach it."""
        return self.path != "."

    def file(self, name: str = SKILL_FILE) -> str:
        """The path of one of its files from ``base``."""
        return f"{self.path}/{name}"


@dataclass(slots=True)
class Skills:
    """Skills by name, and everything that is to be said about their files."""

    known: dict[str, Skill] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def get(known: Mapping[str, Skill], name: str) -> Skill | None:
    """By name, in any case."""
    folded = name.strip().casefold()
    return next((skill for key, skill in known.items() if key.casefold() == folded), None)


def find_skills(root: Path, user: Iterable[Path] = ()) -> Skills:
    """The skills in force: the project's, nearest folder first, then those of the folders ``user``.

    Blocking. Nothing is raised for what a file holds or for its state: that is in ``problems``.
    """
    found, done = Skills(), set[str]()
    for folder, project in _folders(root, user, found.problems):
        real = os.path.realpath(folder)
        if project is not None and not Path(real).is_relative_to(os.path.realpath(project)):
            message = "leads out of the project – put the folder itself here"
            found.problems.append(_wrong(str(folder / SKILL_FILE), message))
        elif real not in done:
            done.add(real)
            _add(found, *_read(folder, Path(real), root))
    return found


def _folders(
    root: Path, user: Iterable[Path], problems: list[Problem]
) -> Iterator[tuple[Path, Path | None]]:
    """The folders of skills, best first, each with the project's folder that it belongs to."""
    for project in project_folders(root):
        for name in FOLDERS:
            for folder in _in(project / name, problems):
                yield folder, project
    for place in user:
        for folder in _in(place, problems):
            yield folder, None


def _in(place: Path, problems: list[Problem]) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(place))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(_wrong(str(place), f"cannot be read ({error.strerror}) – check the folder"))
        return []
    folders = [place / name for name in names if os.path.lexists(place / name / SKILL_FILE)]
    if len(folders) > _MOST:
        problems.append(_wrong(str(place), f"has more than {_MOST:,} skills – remove some"))
    return folders[:_MOST]


def _read(folder: Path, real: Path, root: Path) -> tuple[Skill | None, list[Problem]]:
    source = str(folder / SKILL_FILE)
    whole = Path(os.path.realpath(root))
    inside = real != whole and real.is_relative_to(whole)
    base = whole if inside else real
    path = real.relative_to(base).as_posix()
    try:
        data = read_confined(base, f"{path}/{SKILL_FILE}")
    except WorkspaceError as error:
        return None, [_wrong(source, f"cannot be read ({error}) – check the file")]
    if len(data) > _LARGEST:
        return None, [_wrong(source, f"is larger than {_LARGEST:,} bytes – shorten it")]
    matter, problems = front_matter(data, source)
    if matter is None:
        # What is plainly no definition is here a skill that lacks its fields.
        return None, [_wrong(source, _NO_FIELDS) if p.severity == "info" else p for p in problems]
    name, more = _name(matter.fields.get("name"), folder, source)
    description = _text(matter.fields.get("description"))
    problems += [*more, *_remarks(matter.fields, source)]
    if not description:
        line = matter.fields["description"].line if "description" in matter.fields else 1
        missing = "is missing – say what the skill is for and when to use it"
        return None, [*problems, Problem(source, line, "description", "error", missing)]
    if _is_yes(matter.fields.get("disable_model_invocation")):
        return None, problems
    return Skill(name, description, base, path, source), problems


def _add(found: Skills, skill: Skill | None, problems: list[Problem]) -> None:
    found.problems += problems
    if skill is None:
        return
    if (other := get(found.known, skill.name)) is None:
        found.known[skill.name] = skill
        return
    message = f"{skill.name!r} of {skill.source} is hidden by {other.source} – rename one"
    found.problems.append(Problem(skill.source, 1, "name", "warning", message))


def _name(entry: Entry | None, folder: Path, source: str) -> tuple[str, list[Problem]]:
    text = _text(entry)
    if _NAME.fullmatch(text):
        return text, []
    fallback = re.sub(r"[^\w.-]+", "-", folder.name)[:100] or "skill"
    what = "is missing" if not text else f"{text!r:.60} is no legal name"
    message = f"{what}, the folder's is used – write name: {fallback}"
    line = entry.line if entry else 1
    return fallback, [Problem(source, line, "name", "warning", message)]


def _remarks(fields: Mapping[str, Entry], source: str) -> Iterator[Problem]:
    """What a field does not do here, so that nobody relies on it."""
    for key, message in (
        ("allowed_tools", "grants nothing – an agent's tools are those of its definition"),
        ("disable_model_invocation", "the skill is for people – models are not offered it"),
    ):
        if (entry := fields.get(key)) and (key == "allowed_tools" or _is_yes(entry)):
            yield Problem(source, entry.line, entry.key, "info", message)


def _text(entry: Entry | None) -> str:
    """The text of a field on one line; nothing for what has parts."""
    if entry is None or entry.value is None or isinstance(entry.value, bool):
        return ""
    if isinstance(entry.value, str | int | float):
        return " ".join((entry.value if isinstance(entry.value, str) else entry.raw).split())
    return ""


def _is_yes(entry: Entry | None) -> bool:
    return entry is not None and str(entry.value).strip().casefold() in ("true", "yes", "on")


def _wrong(source: str, message: str) -> Problem:
    return Problem(source, 1, "file", "error", message)
