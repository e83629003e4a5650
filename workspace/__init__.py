"""The files an agent works with: confined paths, file tools, the result store, the memory file."""

from workspace.access import Access, Rule
from workspace.errors import (
    BadPattern,
    Conflict,
    Denied,
    EditFailed,
    NotFound,
    NotText,
    OutOfRange,
    Refused,
    Unavailable,
    WorkspaceError,
    WrongKind,
)
from workspace.memory import project_instructions, read_memory
from workspace.pages import Page, page
from workspace.store import ResultStore, StoredFile
from workspace.tools import READ_ONLY, FileTools

__all__ = [
    "READ_ONLY",
    "Access",
    "BadPattern",
    "Conflict",
    "Denied",
    "EditFailed",
    "FileTools",
    "NotFound",
    "NotText",
    "OutOfRange",
    "Page",
    "Refused",
    "ResultStore",
    "Rule",
    "StoredFile",
    "Unavailable",
    "WorkspaceError",
    "WrongKind",
    "page",
    "project_instructions",
    "read_memory",
]
