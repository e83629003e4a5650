"""The to-do list as a value: its rules, and its form as a Markdown task list that people may edit."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NotRequired, cast, get_args

from typing_extensions import TypedDict

Status = Literal["pending", "in_progress", "completed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)

_MARKS: dict[Status, str] = {"pending": " ", "in_progress": "~", "completed": "x", "cancelled": "-"}
_STATUS_OF: dict[str, Status] = {mark: status for status, mark in _MARKS.items()} | {
    "": "pending",
    "X": "completed",
}
_ID = r"[A-Za-z0-9_.-]{1,40}"
_LINE = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\[([ ~xX-]?)\]\s+(\S.*)")
# Greedy: only the last comment of a line is its id, so a comment inside the text stays text.
_WITH_ID = re.compile(rf"(.*?)\s*<!--\s*({_ID})\s*-->")


class TodoError(ValueError):
    """A change that the list cannot take. The list stays as it was; the text says what to send."""


class TodoChange(TypedDict):
    content: NotRequired[str]
    status: Status
    id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Todo:
    """An item of the list, as it stands. ``id``: by which a later change names it."""

    content: str
    status: Status
    id: str


def update(
    items: Iterable[Todo], changes: Iterable[TodoChange], *, used: int = 0
) -> tuple[Todo, ...]:
    """The list after `changes`: each updates by id, else by equal content, else adds an item.

    What the changes leave out stays. Either all of them are made or, with `TodoError`, none.
    New ids are numbers above `used` and above every number in the list.
    """
    todos = list(items)
    for change in changes:
        used = max(used, highest_id(todos))
        _apply(todos, change, str(used + 1))
    return tuple(todos)


def highest_id(items: Iterable[Todo]) -> int:
    """The largest number among the ids, 0 without one."""
    return max((int(todo.id) for todo in items if todo.id.isdecimal()), default=0)


def render(items: Iterable[Todo]) -> str:
    """The list as Markdown, one item a line: `- [x] text <!-- id -->`."""
    return "".join(
        f"- [{_MARKS[todo.status]}] {todo.content} <!-- {todo.id} -->\n" for todo in items
    )


def parse(text: str) -> tuple[Todo, ...]:
    """Read a list that people may have edited: lines that are no task lines are passed over.

    A line without an id, or with one that an earlier line has, gets a new id.
    """
    found: list[Todo] = []
    for line in text.splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            continue
        content, id = _split_id(_clean(match[2]))
        if content:
            taken = any(todo.id == id for todo in found)
            found.append(Todo(content, _STATUS_OF[match[1]], "" if taken else id))
    number = highest_id(found)
    for index, todo in enumerate(found):
        if not todo.id:
            number += 1
            found[index] = replace(todo, id=str(number))
    return tuple(found)


def _split_id(text: str) -> tuple[str, str]:
    match = _WITH_ID.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def _apply(todos: list[Todo], change: TodoChange, new_id: str) -> None:
    content, status, id = _checked(change)
    index = _index(todos, content, id)
    if index is not None:
        old = todos[index]
        todos[index] = Todo(content or old.content, status or old.status, old.id)
    elif not content:
        raise TodoError(f"No item has the id {id!r}; known ids: {_ids(todos)}.")
    else:
        todos.append(Todo(content, status or "pending", id or new_id))


def _checked(change: TodoChange) -> tuple[str, Status | None, str]:
    # Models send what they like: the declared types hold only once they are checked here.
    content, status, id = change.get("content", ""), change.get("status"), change.get("id") or ""
    if status is not None and status not in STATUSES:
        raise TodoError(f"Status {status!r:.60} is not one of {', '.join(STATUSES)}.")
    if not isinstance(content, str) or not isinstance(id, str):
        raise TodoError("The content and the id of an item are texts.")
    if id and not re.fullmatch(_ID, id):
        raise TodoError(f"Id {id!r:.60} is not 1 to 40 letters, digits, dots, dashes, underscores.")
    cleaned = _clean(content)
    if not cleaned and ("content" in change or not id):
        raise TodoError("An item needs a content that is not empty, or the id of a known item.")
    return cleaned, cast("Status | None", status), id


def _index(todos: Sequence[Todo], content: str, id: str) -> int | None:
    for index, todo in enumerate(todos):
        if id and todo.id == id:
            return index
    for index, todo in enumerate(todos):
        if content and todo.content == content:
            return index
    return None


def _clean(content: str) -> str:
    """One line, and text that can be written as UTF-8."""
    return " ".join(content.encode("utf-8", "replace").decode().split())


def _ids(todos: Sequence[Todo]) -> str:
    return ", ".join(todo.id for todo in todos[:50]) or "none"
