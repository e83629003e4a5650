"""Subagents: their definitions, tolerant of how people write them, and how work is handed to one."""

from subagents.block import Entry
from subagents.children import DELEGATING, IN_BACKGROUND, ChildTools
from subagents.conclusion import (
    CONCLUSION_TOKENS,
    Conclusion,
    Status,
    estimate,
    limit_each,
    render,
)
from subagents.contract import instruction, named_files, problem_of, schema_of
from subagents.definition import JSON, Definition, Problem
from subagents.describe import DescribeTool, is_shortened
from subagents.loader import FOLDERS, Loaded, builtin, discover, load, parse, project_folders
from subagents.matter import FrontMatter, front_matter
from subagents.spawn import Brief, Finished, SpawnError, TaskTool, find, listed, listing
from subagents.starting import starting_file
from subagents.toolnames import Resolved, resolve

__all__ = [
    "CONCLUSION_TOKENS",
    "DELEGATING",
    "FOLDERS",
    "IN_BACKGROUND",
    "JSON",
    "Brief",
    "ChildTools",
    "Conclusion",
    "Definition",
    "DescribeTool",
    "Entry",
    "Finished",
    "FrontMatter",
    "Loaded",
    "Problem",
    "Resolved",
    "SpawnError",
    "Status",
    "TaskTool",
    "builtin",
    "discover",
    "estimate",
    "find",
    "front_matter",
    "instruction",
    "is_shortened",
    "limit_each",
    "listed",
    "listing",
    "load",
    "named_files",
    "parse",
    "problem_of",
    "project_folders",
    "render",
    "resolve",
    "schema_of",
    "starting_file",
]
