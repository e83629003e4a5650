"""What the main agent knows of the workspace's files, and the calls that tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.rehearsal import formats
from orchestrator.rehearsal.areas import Area, areas_of
from orchestrator.rehearsal.conversation import READ, Conversation, Wish
from orchestrator.rehearsal.reading import Answer, answers, is_within_reach, read_back
from orchestrator.rehearsal.scope import is_left_out

_ALL = Wish("glob", {"pattern": "*"})
_TOP = Wish("ls", {"path": "."})
_MOST_FOLDERS = 16


@dataclass(frozen=True, slots=True)
class Tree:
    """``files`` by the number of files that each name stands for: a folder (with a final slash)
    whose files were not listed stands for several. ``whole`` if nothing is missing.
    """

    files: Mapping[str, int]
    whole: bool

    def areas(self) -> list[Area]:
        return areas_of(self.files)


def look(conversation: Conversation) -> list[Wish]:
    """The calls that are still worth making to see the tree; a large tree folder by folder."""
    wishes = [_TOP, _ALL]
    if (listing := _find(conversation, _ALL)) and not _is_whole(conversation, listing):
        folders = _top_folders(conversation)[:_MOST_FOLDERS]
        wishes += [Wish("ls", {"path": folder}) for folder in folders]
        wishes += [_below(folder) for folder in folders]
    else:
        wishes += read_back(conversation.calls)
    return conversation.fresh(wishes)


def tree_of(conversation: Conversation) -> Tree | None:
    """The tree as far as it was listed; ``None`` where no tool could list it."""
    tree = _listed(conversation)
    if tree is None:
        return None
    return Tree({f: size for f, size in tree.files.items() if not is_left_out(f)}, tree.whole)


def _listed(conversation: Conversation) -> Tree | None:
    listing = _find(conversation, _ALL)
    if listing and listing.whole:
        return Tree(dict.fromkeys(formats.paths(listing.text), 1), whole=True)
    top = _find(conversation, _TOP)
    if top is None:
        known = formats.paths(listing.text) if listing else []
        return Tree(dict.fromkeys(known, 1), whole=False) if listing else None
    names = formats.folder_entries(top.text)[1]
    files = dict.fromkeys(names, 1)
    for folder in _top_folders(conversation):
        files |= _in_folder(conversation, folder)
    # A folder that was not listed is taken as one: nothing in it is missed.
    return Tree(files, top.whole)


def _in_folder(conversation: Conversation, folder: str) -> dict[str, int]:
    """The files below a top-level folder; else the names in it; else the folder itself."""
    below = _find(conversation, _below(folder))
    if below and below.whole:
        return dict.fromkeys(formats.paths(below.text), 1)
    direct = _find(conversation, Wish("ls", {"path": folder}))
    moved = below and formats.placeholder(below.call.answer)
    size = moved.lines if moved else 1
    if direct is None or not direct.whole:
        return {f"{folder}/": size}
    folders, files = formats.folder_entries(direct.text)
    each = max(1, (size - len(files)) // max(len(folders), 1))
    inner = dict.fromkeys((f"{folder}/{name}/" for name in folders), each)
    return inner | dict.fromkeys((f"{folder}/{name}" for name in files), 1)


def _below(folder: str) -> Wish:
    # From the root, so that folders which .gitignore names stay out of it.
    return Wish("glob", {"pattern": f"/{folder}/**"})


def _top_folders(conversation: Conversation) -> list[str]:
    top = _find(conversation, _TOP)
    names = formats.folder_entries(top.text)[0] if top else []
    return [name for name in names if not is_left_out(f"{name}/")]


def _find(conversation: Conversation, wish: Wish) -> Answer | None:
    """The answer to a call, if it was made and was no error."""
    can = conversation.adapted(wish)
    if can is None:
        return None
    return next((a for a in answers(conversation.calls) if a.call.key == can.key), None)


def _is_whole(conversation: Conversation, answer: Answer) -> bool:
    """Whether an answer is, or by reading it back can be, the whole listing."""
    moved = formats.placeholder(answer.call.answer)
    if moved is None or answer.text:
        return not formats.is_incomplete(answer.text or answer.call.answer)
    return is_within_reach(moved) and READ in conversation.tools
