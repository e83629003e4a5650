"""What a definition's text about tools grants. Text that cannot be read grants nothing."""

import re
from collections.abc import Iterable, Mapping, Sequence

from subagents.block import Entry, Notes
from subagents.definition import JSON
from subagents.toolnames import base, is_name, meaning, misspelled

Tools = tuple[str, ...] | None

_ALL = frozenset({"*", "all", "all tools"})
_NONE = frozenset({"", "none", "[]", "{}", "~", "null"})
_PARENS = r"\([^()]*(?:\([^()]*\)[^()]*)*\)"
BY_COMMA = re.compile(rf"(?:{_PARENS}|[^,\n(]|\()+")
_WORD = re.compile(r"[A-Za-z*][\w.*/:@+-]*")
_BY_SPACE = re.compile(rf"(?:{_PARENS}|[^\s(]|\()+")


def read_tools(entry: Entry, notes: Notes, *, inherits_rest: bool) -> tuple[Tools, Tools]:
    """(granted, denied) of a `tools` field. Granted `None` means all, `()` none.

    `inherits_rest`: in OpenCode a map only switches tools on and off, the others stay.
    """
    value = entry.value
    if isinstance(value, Mapping):
        return _from_map(value, entry, notes, inherits_rest)
    if isinstance(value, str) and value.strip().casefold() in _ALL:
        if value.strip() != "*":
            notes.add(entry.line, entry.key, f"{value!r} is read as all – leave the field out")
        return None, ()
    names = names_of(entry, notes)
    if names == ("*",):
        return None, ()
    if "*" in names:
        notes.add(entry.line, entry.key, "'*' beside names is passed over – write one or the other")
        names = tuple(name for name in names if name != "*")
    return names, ()


def names_of(entry: Entry, notes: Notes) -> tuple[str, ...]:
    """The entries of a list of names, in whatever form it was written."""
    return tuple(dict.fromkeys(_named(_texts_of(entry, notes), entry, notes)))


def denied_names(entry: Entry, notes: Notes) -> tuple[str, ...]:
    """The entries of a list of denials. Of one that cannot be read every word counts, and where there
    is none everything is denied: passed over, it would grant."""
    texts = _texts_of(entry, notes)
    if not texts and not _is_blank(entry.value) and entry.value != []:
        return ("*",)
    names: list[str] = []
    for text in texts:
        if is_name(text):
            names.append(text)
        else:
            message = f"{text!r:.60} is no tool name, every word of it is denied – mend it"
            notes.add(entry.line, entry.key, message)
            names += _WORD.findall(text) or ["*"]
    return tuple(dict.fromkeys(names))


def stricter(first: Tools, second: Tools) -> Tools:
    """What both grant; a tool counts as the same in every vocabulary."""
    if first is None or second is None:
        return second if first is None else first
    both = {_sense(name) for name in first} & {_sense(name) for name in second}
    return tuple(name for name in (*second, *first) if _sense(name) in both and name in second)


def check_names(names: Iterable[str], entry: Entry, notes: Notes) -> None:
    """Say which names come close to a tool, and which are unknown everywhere."""
    for name in names:
        if near := misspelled(name):
            notes.add(entry.line, entry.key, f"unknown tool {name!r:.60} – did you mean {near}?")
        elif not meaning(base(name)) and name.isalpha():
            text = f"{name!r:.60} is no tool of Outrider – it counts only if a server brings it"
            notes.add(entry.line, entry.key, text, "info")


def _texts_of(entry: Entry, notes: Notes) -> list[str]:
    value = entry.value
    if _is_blank(value):
        notes.add(entry.line, entry.key, "is blank, read as none – name the tools or write []")
        return []
    if isinstance(value, str):
        return _split(value.strip(), entry, notes)
    if isinstance(value, Sequence):
        return [text for item in value for text in _item(item, entry, notes)]
    notes.add(entry.line, entry.key, f"{value!r:.40} is no list of names – write a, b")
    return []


def _is_blank(value: JSON) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in _NONE)


def _from_map(
    value: Mapping[str, JSON], entry: Entry, notes: Notes, inherits_rest: bool
) -> tuple[Tools, Tools]:
    on = tuple(name for name, rule in value.items() if rule is True or rule == "allow")
    off = tuple(name for name in value if name not in on)
    odd = [name for name in off if value[name] is not False and value[name] != "deny"]
    for name in odd:
        message = f"{name!r:.40} is neither true nor false, read as false – write one of them"
        notes.add(entry.line, entry.key, message)
    if "*" in on or (not on and off) or (inherits_rest and "*" not in off):
        return None, off
    return on, tuple(name for name in off if name != "*")


def _split(text: str, entry: Entry, notes: Notes) -> list[str]:
    text = text.removeprefix("[").removesuffix("]")
    parts = [_bare(part) for part in BY_COMMA.findall(text)]
    if len(parts) == 1 and not is_name(parts[0]):
        words = [_bare(word) for word in _BY_SPACE.findall(parts[0])]
        if len(words) > 1 and all(map(is_name, words)):
            notes.add(entry.line, entry.key, "is separated by spaces – write commas")
            return words
    return [part for part in parts if part]


def _item(item: JSON, entry: Entry, notes: Notes) -> list[str]:
    if isinstance(item, Mapping):
        item = item.get("name")
    return _split(item.strip(), entry, notes) if isinstance(item, str) else [repr(item)[:40]]


def _named(texts: Iterable[str], entry: Entry, notes: Notes) -> list[str]:
    names = []
    for text in texts:
        if is_name(text):
            names.append(text)
        else:
            notes.add(
                entry.line, entry.key, f"{text!r:.60} is no tool name, passed over – remove it"
            )
    return names


def _bare(text: str) -> str:
    return text.strip().removeprefix("- ").strip().strip("\"'`").strip()


def _sense(name: str) -> tuple[str, ...] | str:
    # An entry with a pattern grants less than its tool: it is the same only as itself.
    return name if "(" in name else meaning(name) or name.casefold()
