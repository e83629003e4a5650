"""Tool names of other vocabularies, and which of an agent's tools a definition grants."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from subagents.definition import Definition

READ = ("ls", "read_file", "glob", "grep")
WRITE = ("write_file", "edit_file", "delete_file", "bash")

# Looked up without case, `_` and `-`: `WebFetch`, `web_fetch` and `webfetch` are one name.
_OURS: dict[str, tuple[str, ...]] = {
    "read_file": ("read", "readfile", "readmanyfiles", "notebookread", "viewfile", "view"),
    "write_file": ("write", "writefile", "create", "createfile", "notebookwrite"),
    "edit_file": (
        *("edit", "multiedit", "editfile", "editfiles", "replace", "patch", "applypatch"),
        *("notebookedit", "strreplace", "strreplaceeditor"),
    ),
    "delete_file": ("delete", "deletefile"),
    "ls": ("ls", "list", "listdir", "listdirectory", "listfiles"),
    "glob": ("glob", "filesearch", "findfiles"),
    "grep": ("grep", "grepsearch", "searchfilecontent", "textsearch", "search", "codebase"),
    "bash": (
        *("bash", "shell", "execute", "terminal", "runshellcommand", "runcommand", "runcommands"),
        *("runinterminal", "localshell"),
    ),
    "fetch": ("fetch", "webfetch", "fetchwebpage"),
    "web_search": ("websearch", "googlewebsearch"),
    "write_todos": ("writetodos", "todowrite", "todo", "todos", "managetodolist", "updateplan"),
    "task": ("task", "agent", "agents", "runsubagent", "customagent"),
    "check_task": ("checktask", "taskoutput", "agentoutput", "bashoutput"),
    "cancel_task": ("canceltask", "taskstop", "killbash", "killshell"),
    "ask_task": ("asktask", "sendmessage"),
    "describe_subagent": ("describesubagent",),
    "skill": ("skill", "activateskill"),
    "remember": ("remember", "savememory", "memory"),
    "update_memory": ("updatememory",),
    "forget": ("forget",),
}
# One foreign name that stands for several of ours.
_SETS: dict[str, tuple[str, ...]] = {
    "search": ("glob", "grep"),
    "web": ("fetch", "web_search"),
    "readonly": READ,
}
# Names that exist elsewhere and that nothing here answers to: no typing errors.
_FOREIGN_NAMES = """
    askuserquestion exitplanmode enterplanmode enterworktree exitworktree todoread taskcreate
    taskget tasklist taskupdate toolsearch slashcommand lsp monitor workflow structuredoutput
    listmcpresources readmcpresource mcpsearch question codesearch vscode vscodeapi usages problems
    changes testfailure terminalselection terminallastcommand opensimplebrowser findtestfiles
    searchresults githubrepo extensions runtests runtasks runnotebooks new newworkspace think
    plan browser image sequentialthinking askuser getinternaldocs
"""
_FOREIGN = frozenset(_FOREIGN_NAMES.split())
# Tools of MCP servers are called `mcp__<server>__<tool>`.
_SERVER = "mcp__"
_COPILOT_SETS = frozenset({"read", "edit", "search", "execute", "web", "agent", "todo"})
_MEANING = {alias: ours for ours, aliases in _OURS.items() for alias in aliases}
_NAME = re.compile(r"(?:[^\W\d]|\*)[\w.*/:@+-]*(?:\(.*\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a definition grants. `tools` stand in the order of what was available.

    `patterns` holds, per tool, what entries such as `Bash(git:*)` restrict it to, for whoever
    checks permissions; `unknown` the entries that name nothing, as written.
    """

    tools: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: bool = False  # entries were written and none is known: do not spawn


def resolve(definition: Definition, available: Iterable[str]) -> Resolved:
    """The tools that a definition grants out of `available`, the parent's own.

    No `tools` inherits all of them; nothing outside them is ever granted.
    """
    have = tuple(dict.fromkeys(available))
    servers = definition.mcp_servers
    if servers is not None and definition.tools is None:
        # Of servers it has those that it names, and beside them what every agent has.
        have = tuple(name for name in have if not _is_of_server(name) or _is_of(name, servers))
    denials = {text: _denied(text, have) for text in definition.disallowed_tools}
    denied = {name for names in denials.values() for name in names}
    if "write_file" in denied:
        denied.add("delete_file")  # other vocabularies have no word for it
    # A denial of a tool that the parent does not have either is no mistake.
    unknown = tuple(text for text in denials if not denials[text] and not meaning(base(text)))
    if definition.tools is None:
        return Resolved(tuple(name for name in have if name not in denied), unknown)
    found = {text: granted(text, have) for text in definition.tools}
    for server in servers or ():
        if of_server := tuple(name for name in have if _is_of(name, (server,))):
            found[f"{_SERVER}{server}"] = of_server
    names = {name for names in found.values() for name in names}
    tools = tuple(name for name in have if name in names - denied)
    return Resolved(
        tools,
        tuple(text for text, names in found.items() if not names) + unknown,
        {name: patterns for name in tools if (patterns := _patterns(name, found))},
        bool(found) and not names,
    )


def granted(text: str, available: Iterable[str]) -> tuple[str, ...]:
    """The available tools that one entry names; `Bash(git:*)` names `bash`."""
    name = base(text)
    have = tuple(available)
    if "*" in name:
        # Only tools of servers are matched: `*` as one entry among others grants nothing.
        return tuple(tool for tool in have if "__" in name and fnmatchcase(tool, name))
    exact = tuple(tool for tool in have if tool.casefold() == name.casefold())
    return exact or _of_servers(name, have) or tuple(tool for tool in have if tool in meaning(name))


def _of_servers(name: str, have: tuple[str, ...]) -> tuple[str, ...]:
    """`mcp__docs` is all of a server's tools; Copilot writes `docs/find` for one of them."""
    if name.startswith(_SERVER) and "__" not in name.removeprefix(_SERVER):
        return tuple(tool for tool in have if tool.startswith(f"{name}__"))
    server, slash, tool = name.partition("/")
    wanted = f"{_SERVER}{server}__{tool}"
    return tuple(each for each in have if slash and each.casefold() == wanted.casefold())


def _is_of_server(name: str) -> bool:
    return name.startswith(_SERVER)


def _is_of(name: str, servers: Iterable[str]) -> bool:
    return any(name.startswith(f"{_SERVER}{re.sub(r'[^A-Za-z0-9_-]', '_', s)}__") for s in servers)


def _denied(text: str, have: tuple[str, ...]) -> tuple[str, ...]:
    name = base(text)
    if "*" in name:
        return tuple(tool for tool in have if fnmatchcase(tool, name))
    return granted(text, have)


def _patterns(tool: str, found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What its entries restrict a tool to; nothing if one of them grants it whole."""
    patterns = [text.partition("(")[2].rpartition(")")[0] for text in found if tool in found[text]]
    return tuple(patterns) if all(p.strip(" *:") for p in patterns) else ()


@lru_cache(maxsize=4096)
def meaning(name: str) -> tuple[str, ...]:
    """Our names for a tool's name in any vocabulary; empty if there is none."""
    for part in (name, *_namespaced(name)):
        key = re.sub(r"[_-]", "", part).casefold()
        if key in _SETS:
            return _SETS[key]
        if key in _MEANING:
            return (_MEANING[key],)
    return ()


def base(text: str) -> str:
    """An entry without its pattern: `Bash(git:*)` → `Bash`."""
    return text.partition("(")[0].strip()


def is_name(text: str) -> bool:
    """Whether a text can be an entry of a tool list at all."""
    return _NAME.fullmatch(text) is not None


@lru_cache(maxsize=1024)
def misspelled(text: str) -> str | None:
    """The tool whose name an unknown one comes close to."""
    from difflib import get_close_matches

    key = re.sub(r"[_-]", "", base(text)).casefold()
    if not key.isalpha() or key in _MEANING or key in _SETS or key in _FOREIGN:
        return None
    near = get_close_matches(key, list(_MEANING), 1, 0.75) if len(key) > 3 else []
    return _MEANING[near[0]] if near else None


def _namespaced(name: str) -> tuple[str, ...]:
    # Copilot writes `edit/editFiles`: the last part is the tool. The first part is a whole set and
    # so never stands in for a tool that we do not have; in `server/execute` it is somebody else's.
    owner, slash, tool = name.partition("/")
    return (tool,) if slash and owner.casefold() in _COPILOT_SETS else ()
