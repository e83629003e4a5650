"""The files an agent works with: confined paths, file tools, the result store, the memory file."""

from workspace.access import PRIVATE, Access, Rule, Use, is_private
from workspace.confined import names_confined, read_confined
from workspace.entries import MemoryEntry, duplicates
from workspace.errors import (
    BadEntry,
    BadPattern,
    Conflict,
    Denied,
    EditFailed,
    NotFound,
    NotText,
    OutOfRange,
    Refused,
    ShellRefused,
    Unavailable,
    WorkspaceError,
    WrongKind,
)
from workspace.instructions import project_instructions
from workspace.media import blocks as media_blocks
from workspace.media import media_type
from workspace.memory import MEMORY_FILE, Memory
from workspace.pages import Page, page
from workspace.paths import Parts, Root, parse
from workspace.remember import MEMORY_TOOLS, MemoryTools
from workspace.shell import (
    Bounds,
    Job,
    JobWords,
    Ran,
    Shell,
    job_words,
    seconds_for,
    why_no_sandbox,
)
from workspace.store import ResultStore, StoredFile
from workspace.text import SNAPSHOT_CHARS
from workspace.tools import READ_ONLY, FileTools

__all__ = [
    "MEMORY_FILE",
    "MEMORY_TOOLS",
    "PRIVATE",
    "READ_ONLY",
    "SNAPSHOT_CHARS",
    "Access",
    "BadEntry",
    "BadPattern",
    "Bounds",
    "Conflict",
    "Denied",
    "EditFailed",
    "FileTools",
    "Job",
    "JobWords",
    "Memory",
    "MemoryEntry",
    "MemoryTools",
    "NotFound",
    "NotText",
    "OutOfRange",
    "Page",
    "Parts",
    "Ran",
    "Refused",
    "ResultStore",
    "Root",
    "Rule",
    "Shell",
    "ShellRefused",
    "StoredFile",
    "Unavailable",
    "Use",
    "WorkspaceError",
    "WrongKind",
    "duplicates",
    "is_private",
    "job_words",
    "media_blocks",
    "media_type",
    "names_confined",
    "page",
    "parse",
    "project_instructions",
    "read_confined",
    "seconds_for",
    "why_no_sandbox",
]
