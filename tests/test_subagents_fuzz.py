"""D5: whatever happens to a definition file, loading it never fails and never grants more."""

import sys
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subagents import parse, resolve

TOOLS = "tools: Read, Grep"
LINES = [
    "---",
    "name: helper",
    "description: Use this agent for questions about the code.",
    TOOLS,
    "model: fast",
    "---",
    "",
    "You answer questions.",
]
FENCES = {"---", "...", "—"}  # below one of these the list is text of the body
HAVE = ("ls", "read_file", "write_file", "edit_file", "glob", "grep", "bash", "task", "mcp__x__do")
STRANGE = [
    "",
    " ",
    "\t",
    "#",
    "---",
    "...",
    "—",
    '"',
    "'",
    "[",
    "{",
    "|",
    ">",
    ": ",
    "- ",
    "*",
    "`",
    "@",
    "%",
    "&a ",
    "!!x ",
    "? ",
    "<<: *a",
    "{{x}}",
    "\r",
    "\u2028",
    "\x85",
    "\x00",
    "\x0c",
    "é",
    "tools: *",
    "tools:",
    "tools: all",
    "allowedTools: Bash",
    "  tools: Bash",
    "description: |",
    'description: "open',
    "name: [",
    "permissions: {bash: deny}",
    "extra: {",
    "Bash",
    "- Bash",
]
edits = st.lists(
    st.tuples(
        st.integers(0, 200), st.sampled_from(["insert", "line", "cut", "double", "drop"]),
        st.one_of(st.sampled_from(STRANGE), st.text(st.characters(exclude_categories=["Lu", "Ll"]), max_size=4)),
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


def mutated(changes: list[tuple[int, str, str]]) -> list[str]:
    """The lines after some edits, none of which touches the line that lists the tools."""
    lines = list(LINES)
    for place, kind, text in changes:
        index = place % len(lines)
        line = lines[index]
        column = place % (len(line) + 1)
        if kind == "line":
            lines.insert(index, text)
        elif line != TOOLS and kind == "insert":
            lines[index] = line[:column] + text + line[column:]
        elif line != TOOLS and kind == "cut":
            lines[index] = line[:column]
        elif line != TOOLS and kind == "drop":
            del lines[index]
        elif kind == "double":
            lines.insert(place % 5, line)
    return lines


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@given(edits, st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=600)
def test_no_edit_around_the_tool_list_widens_it(
    changes: list[tuple[int, str, str]], newline: str
) -> None:
    """D5: as long as the line that lists the tools stands, no tool beyond it is granted."""
    lines = mutated(changes)
    definition, problems = parse(encoded(newline.join(lines)), PurePath("helper.md"))
    if definition is None:
        assert [p for p in problems if p.severity in ("error", "info")]
    elif not any(line.strip() in FENCES for line in lines[1 : lines.index(TOOLS)]):
        assert set(resolve(definition, HAVE).tools) <= {"read_file", "grep"}


@given(st.binary(max_size=200))
@pytest.mark.parametrize("name", ["helper.md", "helper.agent.md", "helper.toml"])
def test_any_bytes_load_without_an_exception(name: str, data: bytes) -> None:
    """D5: one bad file never stops the others."""
    definition, problems = parse(data, PurePath(name))
    assert definition is not None or problems


@given(st.binary(max_size=120))
def test_any_bytes_as_front_matter_load_without_an_exception(data: bytes) -> None:
    """D5: also where the fences stand; every message names file, line, key, what and fix."""
    text = b"---\ndescription: x\n" + data + b"\n---\nbody"
    _, problems = parse(text, PurePath("helper.md"))
    for problem in problems:
        head, _, message = str(problem).partition(": ")
        assert head.startswith("helper.md:")
        assert head.rpartition(":")[2].isdecimal()
        assert " – " in message


@given(st.text("[]{}&*!|>\"'%@`:-,#? \n\tab<", max_size=80))
@settings(max_examples=300)
def test_any_yaml_as_front_matter_loads_without_an_exception(text: str) -> None:
    parse(encoded(f"---\ndescription: x\ntools: {text}\n---\nbody"), PurePath("helper.md"))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`benchmarks/fuzz_definitions.py`, which belongs to no package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    yield import_module("fuzz_definitions")
    del sys.modules["fuzz_definitions"]


def test_a_sample_of_the_mutated_files_neither_fails_nor_grants_more(
    benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """D5: never a crash, never wider tools than written, no good file hidden by a bad one; and 200
    definitions load in half a second of CPU."""
    code = benchmark.main(["--count", "300", "--seed", "7"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "\n0 faults\n" in out


def test_every_seed_of_the_mutated_files_is_a_definition_that_keeps_what_it_says(
    benchmark: Any,
) -> None:
    for of in benchmark.SEEDS:
        kind, fault = benchmark.judged(of, of.text.encode(), True)
        assert (kind in ("read", "repaired"), fault) == (True, None), of.path
        assert benchmark.stands(of, of.text.encode())


def test_a_definition_that_grants_more_than_its_file_is_noticed(benchmark: Any) -> None:
    definition, _ = parse(b"---\ndescription: b\ntools: Read, Bash\n---\nx", PurePath("helper.md"))
    assert benchmark.wider(benchmark.SEEDS[0], definition) == "grants bash"
    assert benchmark.unnamed(b"tools: Read", definition) == "grants bash, which it does not name"
