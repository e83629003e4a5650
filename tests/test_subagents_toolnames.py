"""S10: the tool list shown is the tool list granted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents import Definition, Resolved, resolve

HAVE = (
    *("ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep", "bash", "fetch"),
    *("write_todos", "task", "mcp__docs__find", "mcp__docs__get", "mcp__git__log"),
)


def grants(*tools: str, without: tuple[str, ...] = ()) -> Resolved:
    return resolve(Definition("a", "b", "c", tools, without), HAVE)


def test_without_a_list_all_are_inherited() -> None:
    assert resolve(Definition("a", "b", "c"), HAVE) == Resolved(HAVE)


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("Read", ["read_file"]),
        ("MultiEdit", ["edit_file"]),
        ("LS", ["ls"]),
        ("WebFetch", ["fetch"]),
        ("TodoWrite", ["write_todos"]),
        ("Agent(claude:explore)", ["task"]),
        ("search/codebase", ["grep"]),
        ("search", ["glob", "grep"]),
        ("execute", ["bash"]),
        ("run_shell_command", ["bash"]),
        ("replace", ["edit_file"]),
        ("READ_FILE", ["read_file"]),
        ("mcp__docs__*", ["mcp__docs__find", "mcp__docs__get"]),
        ("mcp__git__log", ["mcp__git__log"]),
    ],
)
def test_names_of_other_vocabularies(written: str, ours: list[str]) -> None:
    """D3: Claude tool names mapped to ours, and those of Copilot, Gemini and OpenCode."""
    assert list(grants(written).tools) == ours


@pytest.mark.parametrize("written", ["*", "some/execute", "mcp__docs__read", "execute/getOutput"])
def test_names_that_grant_nothing_by_likeness(written: str) -> None:
    """D5: another server's `execute` is not our shell, a stray `*` is not everything."""
    assert grants(written) == Resolved((), (written,), refused=True)


def test_unknown_names_warn_and_refuse_only_when_none_is_known() -> None:
    """S10: unknown tool names warn; refused only if none of a non-empty list resolves."""
    assert grants("Read", "Frobnicate") == Resolved(("read_file",), ("Frobnicate",))
    assert grants("Frobnicate").refused
    assert not grants().refused
    assert grants().tools == ()


def test_a_pattern_names_its_tool_and_is_handed_on() -> None:
    """S10: `Bash(git:*)` is the tool `bash`, with what it is restricted to."""
    assert grants("Bash(git:*)", "Bash(npm test)").patterns == {"bash": ("git:*", "npm test")}
    assert grants("Bash(git:*)", "Bash").patterns == {}
    assert grants("Bash(*)").patterns == {}


def test_denials_are_taken_away_last() -> None:
    assert grants("Read", "Bash", without=("bash",)).tools == ("read_file",)
    assert grants("Bash", without=("Bash(rm:*)",)) == Resolved(())
    assert grants("mcp__git__log", without=("mcp__*",)).tools == ()
    assert grants("Read", without=("*",)).tools == ()
    assert "delete_file" not in resolve(Definition("a", "b", "c", None, ("Write",)), HAVE).tools


def test_a_denial_that_names_nothing_is_unknown() -> None:
    """D5: a misspelled denial would widen: it is reported; a denied tool we lack is not."""
    assert grants("Read", without=("Bsh", "WebSearch")).unknown == ("Bsh",)


@given(
    st.one_of(st.none(), st.lists(st.sampled_from([*HAVE, "Read", "search", "*", "x"]))),
    st.lists(st.sampled_from([*HAVE, "Write", "*", "mcp__*"])),
    st.lists(st.sampled_from(HAVE)),
)
def test_a_child_never_has_more_than_its_parent(
    tools: list[str] | None, denied: list[str], available: list[str]
) -> None:
    """P6: nothing outside what was available, and nothing that is denied by its own name."""
    definition = Definition("a", "b", "c", None if tools is None else tuple(tools), tuple(denied))
    assert set(resolve(definition, available).tools) <= set(available) - set(denied)
