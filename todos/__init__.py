"""The to-do list of an agent: a file outside the history, changed by id."""

from todos.items import STATUSES, Status, Todo, TodoChange, TodoError, parse, render, update
from todos.tool import TodoTool, summary

__all__ = [
    "STATUSES",
    "Status",
    "Todo",
    "TodoChange",
    "TodoError",
    "TodoTool",
    "parse",
    "render",
    "summary",
    "update",
]
