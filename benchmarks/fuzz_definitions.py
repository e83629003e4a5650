"""Mutated definition files: reading one never fails, and never grants more than was written.

    python benchmarks/fuzz_definitions.py [--count N] [--seed N]

Each file is a seed below with some edits. Two kinds of damage alternate: edits around the lines that
restrict (these stand as they were written, so what they withhold must stay withheld), and edits
anywhere, raw bytes included (a tool that is granted must at least be named in the file). Files are
also loaded from a folder, where none may keep a good one from being read; at the end 200 definitions
are loaded against the clock. The exit code is 1 if anything of this does not hold.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from random import Random

from subagents import Definition, Problem, load, parse, resolve

HAVE = (
    *("ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep", "bash"),
    *("fetch", "write_todos", "task", "remember", "mcp__docs__find"),
)
# The words by which files name each tool here; no list that the reader itself uses.
WORDS = {
    "ls": "ls list",
    "read_file": "read view",
    "write_file": "write create",
    "edit_file": "edit replace patch",
    "delete_file": "delete",
    "glob": "glob search find",
    "grep": "grep search",
    "bash": "bash shell execute terminal command",
    "fetch": "fetch web",
    "write_todos": "todo",
    "task": "task agent",
    "remember": "remember memory",
    "mcp__docs__find": "mcp",
}
CPU_SECONDS = 0.5
BATCH = 500


@dataclass(frozen=True)
class Seed:
    """A file, the lines of it that restrict, and the tools that these leave."""

    path: str
    text: str
    keeps: tuple[str, ...]
    leaves: frozenset[str]
    denies: tuple[str, ...] = ()  # rules about paths
    values: dict[str, object] = field(default_factory=dict)  # fields that keep their value
    is_list: bool = False  # a list over several lines: an item put below it is written too


def seed(path: str, *lines: str, leaves: str = "", without: str = "", **more: object) -> Seed:
    """``lines`` of the front matter; those that begin with ``!`` restrict."""
    kept = tuple(line[1:] for line in lines if line.startswith("!"))
    toml = path.endswith(".toml")
    plain = [line.removeprefix("!") for line in lines]
    text = "\n".join(plain if toml else ["---", *plain, "---", "", "You answer questions.", ""])
    left = set(leaves.split()) if leaves else set(HAVE) - set(without.split())
    return Seed(path, text, kept, frozenset(left), **more)  # type: ignore[arg-type]


_ABOUT = "description: Answers questions about the code, as: where is this done."
SEEDS = (
    seed(
        *("helper.md", "name: helper", "description: Answers questions.", "!tools: Read, Grep"),
        *("model: fast", "color: red"),
        leaves="read_file grep",
    ),
    seed(
        ".outrider/agents/helper.md",
        *("name: helper", "description: >-", "  Answers questions", "  about the code.", "!tools:"),
        *("!  - ls", "!  - read_file", "max_cost: 2.5", "returns: {verdict: [good, bad]}"),
        leaves="ls read_file",
        is_list=True,
    ),
    seed(
        ".claude/agents/helper.md",
        *("name: helper", _ABOUT, "<example>", "user: do it: now", "</example>"),
        *("!disallowedTools: Write, Bash(rm:*)", "model: opus"),
        without="write_file delete_file bash",
    ),
    seed(
        "planner.agent.md",
        *("description: 'Plans work.'", "!tools: ['search', 'edit/editFiles']"),
        *("model: ['GPT-5', 'other']", "handoffs: []"),
        leaves="glob grep edit_file",
    ),
    seed(
        ".opencode/agent/review.md",
        *("description: Reviews changes.", "mode: subagent", "!tools: {bash: false, write: false}"),
        "temperature: 0.1",
        without="bash write_file delete_file",
    ),
    seed(
        ".opencode/agents/review.md",
        *("description: Reviews changes.", "mode: all", "!permission: {edit: deny, bash: ask}"),
        without="edit_file write_file delete_file bash",
    ),
    seed(
        ".gemini/agents/helper.md",
        *("name: helper", "description: Answers.", "kind: local"),
        *("!tools: [read_many_files, search_file_content]", "timeout_mins: 2"),
        leaves="read_file grep",
    ),
    seed(
        ".claude/agents/careful.md",
        *("name: careful", "description: Looks only.", "!permissionMode: plan", "skills: [x]"),
        without="write_file edit_file delete_file bash",
    ),
    seed(
        ".outrider/agents/guarded.md",
        *("name: guarded", "description: Stays out of some folders.", "effort: low"),
        "!permissions: {deny: [read(secret/**), bash]}",
        without="bash",
        denies=("read(secret/**)",),
    ),
    seed(
        ".outrider/agents/leaf.md",
        *("name: leaf", "description: Works alone.", "!can_spawn: false", "!max_turns: 5"),
        "!tools: none",
        leaves="-",
        values={"can_spawn": False, "max_turns": 5},
    ),
    seed(
        ".codex/agents/helper.toml",
        *('name = "helper"', 'description = "Answers."', '!sandbox_mode = "read-only"'),
        *('developer_instructions = """', "Work.", '"""', "[mcp_servers.x]", 'args = ["y"]'),
        without="write_file edit_file delete_file bash",
    ),
)

# Put into lines.
BITS = (
    *("", " ", "\t", "#", '"', "'", "[", "]", "{", "}", "|", ">", ": ", "- ", "*", "`", "@", "%"),
    *("&a ", "*a", "!!str ", "? ", "{{x}}", "\r", "\u2028", "\x85", "\x00", "\x0c", "é", "’"),
    *("\ud7ff", "🙂", "\\n", " #", ",", "\x1b[2J", "true", "null", "0o7", "1e999", "x" * 3_000),
)
# Put between lines.
LINES = (
    *("---", "...", "—", "--", "", "   ", "# a comment", "tools: *", "tools:", "tools: all"),
    *("allowedTools: Bash", "  tools: Bash", "tools: [Bash", "disallowedTools:", "description: |"),
    *('description: "open', "description: 'open", "name: [", "name: 7", "extra: {", "<<: *a"),
    *("permissions: {allow: ['*']}", "permissions:", "permissionMode: bypassPermissions", "Bash"),
    *(
        "model: [",
        "max_turns:",
        "can_spawn:",
        "returns: {a: string}",
        "returns: {type: [",
        "x: &x [*x]",
    ),
    *(
        "user: use the tool: Bash",
        "\ttools: Bash",
        "a:\n  b:\n    c: [1, {d: e}]",
        "[table]",
        "'''",
    ),
    *("? [a]\n: b", "returns: {$ref: 'file:///etc/passwd'}", "effort: 3", "memory: {a: b}", '"""'),
)
ITEMS = ("- Bash", "  - Bash")
_FENCE = re.compile(r"[-–—.]{1,}[ \t]*")


@dataclass
class Found:
    """What came of the files."""

    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def edited(lines: list[str], keeps: Sequence[str], random: Random, between: Sequence[str]) -> None:
    """One edit, which leaves the kept lines as they are."""
    at = random.randrange(len(lines) + 1)
    what = random.choice(("put", "put", "cut", "drop", "line", "line", "double", "indent"))
    if what == "line" or at == len(lines):
        # Not into the midst of what restricts: that would be another restriction.
        while 0 < at < len(lines) and lines[at] in keeps and lines[at - 1] in keeps:
            at -= 1
        lines.insert(at, random.choice(between))
    elif lines[at] not in keeps:
        lines[at : at + 1] = damaged(lines[at], what, random)
    elif what == "double":
        lines[at:at] = keeps


def damaged(line: str, how: str, random: Random) -> list[str]:
    """What stands in a line's place."""
    column = random.randrange(len(line) + 1)
    return {
        "put": [line[:column] + random.choice(BITS) + line[column:]],
        "cut": [line[:column]],
        "drop": [],
        "double": [line, line],
        "indent": [random.choice(("  ", "\t", " ")) + line],
    }[how]


def around(of: Seed, random: Random) -> bytes:
    """The seed with edits around what restricts."""
    lines = of.text.split("\n")
    between = LINES if of.is_list else (*LINES, *ITEMS)
    for _ in range(random.randint(1, 4)):
        edited(lines, of.keeps, random, between)
    return encoded(random.choice(("\n", "\n", "\r\n")).join(lines), random)


def anywhere(of: Seed, random: Random) -> bytes:
    """The seed with edits of any part of it, of its bytes too."""
    lines = of.text.split("\n")
    for _ in range(random.randint(1, 4)):
        edited(lines, (), random, LINES)
    data = bytearray(encoded("\n".join(lines), random))
    for _ in range(random.choice((0, 0, 1, 3, 20))):
        at = random.randrange(len(data) + 1)
        data[at : at + random.randint(0, 2)] = random.randbytes(random.randint(0, 2))
    return bytes(data)


def encoded(text: str, random: Random) -> bytes:
    encoding = random.choice(("utf-8",) * 6 + ("utf-8-sig", "utf-16", "cp1252"))
    return text.encode(encoding, "replace")


def decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def stands(of: Seed, data: bytes) -> bool:
    """Whether what restricts is still part of the fields: no fence and no other value around it."""
    lines = decoded(data).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not set(of.keeps) <= set(lines):
        return False
    first = lines.index(of.keeps[0])
    if of.path.endswith(".toml"):
        above = "\n".join(lines[:first])
        return '"""' not in above and "'''" not in above and "[" not in above
    written = [line for line in lines[:first] if line.strip()]
    return not any(_FENCE.fullmatch(line.strip()) for line in written[1:])


def wider(of: Seed, definition: Definition) -> str | None:
    """What the definition grants although the seed's restricting lines stand."""
    more = set(resolve(definition, HAVE).tools) - of.leaves
    if more:
        return f"grants {', '.join(sorted(more))}"
    rules = (definition.permissions or {}).get("deny", ())
    if any(not any(rule in (kept, "read(**)") for kept in rules) for rule in of.denies):
        return f"keeps only the rules {rules}" if "*" not in definition.disallowed_tools else None
    for key, value in of.values.items():
        if getattr(definition, key) != value:
            return f"has {key} {getattr(definition, key)!r}"
    return None


def unnamed(data: bytes, definition: Definition) -> str | None:
    """A tool that is granted by a list in which nothing names it."""
    if definition.tools is None:
        return None
    text = " ".join(data.replace(b"\0", b"").decode("utf-8", "replace").casefold().split())
    granted = resolve(definition, HAVE).tools
    missing = [tool for tool in granted if not any(word in text for word in WORDS[tool].split())]
    return f"grants {', '.join(missing)}, which it does not name" if missing else None


def malformed(path: str, definition: Definition | None, problems: Sequence[Problem]) -> str | None:
    """What is wrong with an answer, whatever the file holds."""
    if definition is None and not any(p.severity in ("error", "info") for p in problems):
        return "gives no definition and says nothing"
    if definition is not None and not (definition.name.strip() and definition.description.strip()):
        return "has no name or no description"
    for problem in problems:
        if not re.fullmatch(rf"{re.escape(path)}:[1-9]\d*: [^\n]*? – .+", str(problem), re.DOTALL):
            return f"says {str(problem)!r}"
    return None


def judged(of: Seed, data: bytes, kept: bool) -> tuple[str, str | None]:
    """(what kind of outcome, what is wrong with it)."""
    try:
        definition, problems = parse(data, PurePath(of.path))
    except Exception as error:  # noqa: BLE001
        return "crash", f"raises {type(error).__name__}: {error}"
    if fault := malformed(of.path, definition, problems):
        return "malformed", fault
    if definition is None:
        return "refused", None
    fault = wider(of, definition) if kept and stands(of, data) else unnamed(data, definition)
    if fault:
        return "wider", fault
    return ("repaired" if any(p.severity == "warning" for p in problems) else "read"), None


def files(which: range, number: int) -> Iterator[tuple[int, Seed, bytes, bool]]:
    """Mutated files; the same ones for the same ``number``."""
    for index in which:
        random = Random(f"{number}:{index}")
        of = SEEDS[index % len(SEEDS)]
        kept = random.random() < 0.6
        yield index, of, (around if kept else anywhere)(of, random), kept


def fuzz(count: int, number: int) -> Found:
    """Judge ``count`` files one by one, then load them as the files of folders."""
    found = Found()
    for index, of, data, kept in files(range(count), number):
        kind, fault = judged(of, data, kept)
        found.kinds[kind] += 1
        if fault is not None:
            found.faults.append(f"file {index} ({of.path}) {fault}\n    {data!r}")
    for start in range(0, count, BATCH):
        found.faults += in_folder(range(start, min(start + BATCH, count)), number)
    return found


def in_folder(which: range, number: int) -> list[str]:
    """Load some of the files from one folder with a good one among them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, of, data, _ in files(which, number):
            (folder / f"{index}{PurePath(of.path).suffix}").write_bytes(data)
        (folder / "good.md").write_text("---\nname: the-good-one\ndescription: Good.\n---\nWork.\n")
        loaded = load(folder)
    is_there = loaded.get("the-good-one") is not None
    return [] if is_there else [f"one of {which} hides a good file"]


def load_seconds(count: int = 200) -> float:
    """CPU seconds to load so many definitions, every second one in need of repair."""
    with tempfile.TemporaryDirectory() as name:
        for index in range(count):
            broken = ": so\nuser: do it: now" * (index % 2)
            about = f"Use it for the work of kind {index}{broken}"
            text = f"---\nname: agent-{index}\ndescription: {about}\ntools: Read, Grep\n---\n"
            (Path(name) / f"{index}.md").write_text(text + "You do the work.\n" * 40)
        start = time.process_time()
        loaded = load(name)
        spent = time.process_time() - start
    if len(loaded.definitions) != count:
        raise RuntimeError(f"{len(loaded.definitions)} of {count} definitions were loaded")
    return spent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Read mutated definition files.")
    parser.add_argument("--count", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    asked = parser.parse_args(arguments)
    start = time.process_time()
    found = fuzz(asked.count, asked.seed)
    spent = time.process_time() - start
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in found.kinds.most_common())
    seconds = load_seconds()
    lines = [
        f"{asked.count:,} files of {len(SEEDS)} seeds, seed {asked.seed}: {kinds}; {spent:.1f} s of CPU",
        f"{len(found.faults)} faults",
        *found.faults[:20],
        f"200 definitions from a folder: {seconds:.2f} s of CPU (at most {CPU_SECONDS})",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if found.faults or seconds > CPU_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
