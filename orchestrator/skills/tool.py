"""`skill`: the text of a skill, and of the files beside it, on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from anyio.to_thread import run_sync

from orchestrator.errors import ToolError
from orchestrator.skills.finding import SKILL_FILE, Skill, get
from subagents import front_matter, listed
from workspace import Access, names_confined, read_confined

LISTING = 1_000  # tokens of all skills together, in the system prompt
PAGE_CHARS = 20_000
"""The most characters of one answer. A skill is there to be read, so it is more than other results."""
_MOST_NAMES = 50  # files that an answer names
_NAMED = 30  # skills that an error names

AccessOf = Callable[[Callable[[], Iterable[str]]], Access]


class SkillTool:
    """The tool over the skills that one agent may read. Stateless; works under asyncio and trio."""

    def __init__(self, skills: Mapping[str, Skill], access: Access) -> None:
        self._skills = skills
        self._access = access

    @property
    def folders(self) -> list[str]:
        """The skills' folders in the workspace, from its root: file tools may read there."""
        return [skill.path for skill in self._skills.values() if skill.is_inside]

    def listing(self, limit_tokens: int = LISTING) -> str:
        """Names with descriptions, ``limit_tokens`` in all."""
        return _listed(tuple((s.name, s.description) for s in self._skills.values()), limit_tokens)

    async def skill(self, name: str, file: str | None = None, offset: int = 0) -> str:
        """Read a skill, or a file of its folder.

        Args:
            offset: Characters to skip.
        """
        found = get(self._skills, name)
        if found is None:
            names = ", ".join(sorted(self._skills)[:_NAMED])
            more = f" and {len(self._skills) - _NAMED} more" if len(self._skills) > _NAMED else ""
            raise ToolError(f"no skill {name!r:.80}; there are: {names}{more}")
        if file is not None:
            text = await run_sync(self._text, found, file)
            return _page(text, offset, f"name={_quoted(found.name)}, file={_quoted(file)}")
        text, files = await run_sync(self._body, found)
        page = _page(text, offset, f"name={_quoted(found.name)}")
        return f"{_heading(found, files)}\n\n{page}"

    def _body(self, skill: Skill) -> tuple[str, list[str]]:
        access = self._access_to(skill)
        data = read_confined(skill.base, skill.file(), access)
        matter, _ = front_matter(data, skill.source)
        names = names_confined(skill.base, skill.path, _MOST_NAMES + 2, access)
        # Its fields may have gone since the run began: then all of it is text.
        text = data.decode("utf-8", "replace") if matter is None else matter.body
        return text, [name for name in names if name != SKILL_FILE]

    def _text(self, skill: Skill, file: str) -> str:
        data = read_confined(skill.base, skill.file(file), self._access_to(skill))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{file}: is not text ({len(data):,} bytes)") from None

    def _access_to(self, skill: Skill) -> Access | None:
        # The rules speak of paths in the workspace; elsewhere a skill has only its own folder.
        return self._access if skill.is_inside else None


@lru_cache(maxsize=16)
def _listed(texts: tuple[tuple[str, str], ...], limit_tokens: int) -> str:
    """Made once for all agents that see the same: fitting hundreds of descriptions takes a while."""
    return listed(dict(texts), limit_tokens)


def offered(
    known: Mapping[str, Skill], listing: AccessOf, reading: AccessOf | None = None
) -> SkillTool | None:
    """The tool for an agent, if there is a skill that it may read. ``listing`` gives the access that
    decides which are listed, ``reading`` (left out: the same) that of the tool, both from the folders
    of Outrider's own that may be read."""
    folders = [skill.path for skill in known.values() if skill.is_inside]
    access = listing(lambda: folders)
    visible = {
        name: skill
        for name, skill in known.items()
        if not (skill.is_inside and access.hides(tuple(skill.file().split("/"))))
    }
    return SkillTool(visible, (reading or listing)(lambda: folders)) if visible else None


def _heading(skill: Skill, files: list[str]) -> str:
    where = f"in {skill.path}" if skill.is_inside else "outside the workspace"
    if not files:
        return f"[skill {skill.name} · {where} · no other files]"
    names = ", ".join(files[:_MOST_NAMES]) + (" and more" if len(files) > _MOST_NAMES else "")
    how = "read_file, or file=" if skill.is_inside else "file="
    return f"[skill {skill.name} · {where} · other files ({how}): {names}]"


def _page(text: str, offset: int, arguments: str) -> str:
    start = max(offset, 0)
    if start and start >= len(text):
        raise ToolError(f"offset {offset} is past the end: there are {len(text):,} characters")
    end = start + PAGE_CHARS
    if end >= len(text):
        return text[start:] or "[empty]"
    note = f"[characters {start}–{end} of {len(text)} · go on: skill({arguments}, offset={end})]"
    return f"{text[start:end]}\n{note}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
