"""Skills: folders with a `SKILL.md`, instructions for kinds of tasks that agents read when they need
them. Their names and descriptions stand in the prompt, their texts come through a tool."""

from orchestrator.skills.finding import FOLDERS, Skill, Skills, find_skills
from orchestrator.skills.tool import SkillTool, offered

__all__ = ["FOLDERS", "Skill", "SkillTool", "Skills", "find_skills", "offered"]
