"""D1: Claude Code, our own, Copilot, OpenCode, Gemini and Codex forms."""

from pathlib import PurePath

import pytest

from subagents import Definition, parse, resolve, schema_of

HAVE = ("ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep", "bash")


def defined(path: str, *lines: str) -> Definition:
    definition, problems = parse("\n".join(lines).encode(), PurePath(path))
    assert [str(p) for p in problems if p.severity != "info"] == []
    assert definition is not None
    return definition


def refused(path: str, *lines: str) -> tuple[int, str, str]:
    definition, problems = parse("\n".join(lines).encode(), PurePath(path))
    assert definition is None
    return problems[-1].line, problems[-1].key, problems[-1].severity


def granted(definition: Definition) -> tuple[str, ...]:
    return resolve(definition, HAVE).tools


def test_our_own_fields_have_types() -> None:
    definition = defined(
        ".outrider/agents/a.md",
        *("---", "name: a", "description: b", "max_turns: 20", "max-tokens: '5000'"),
        *("maxSeconds: 1.5", "max_cost: 2", "conclusion_tokens: 500", "offload_at: 9000"),
        *("compact_at: 0.8", "can_spawn: [explorer]", "memory: off", "todos: true"),
        *("effort: high", "returns: {type: object}", "model:", "---", "x"),
    )
    assert (definition.max_turns, definition.max_tokens, definition.max_seconds) == (20, 5000, 1.5)
    assert (definition.max_cost, definition.conclusion_tokens) == (2.0, 500)
    assert (definition.offload_at, definition.compact_at) == (9000, 0.8)
    assert (definition.can_spawn, definition.memory, definition.todos) == (
        ("explorer",), False, True,
    )  # fmt: skip
    assert (definition.effort, definition.returns) == ("high", {"type": "object"})
    assert definition.model is None
    assert definition.model_for("parent", {}) == "parent"


@pytest.mark.parametrize(
    "line", ["compact_at: 2", "max_cost: $5", "max_turns: 0", "max_turns: 1.5", "max_turns: [1]"]
)
def test_a_limit_that_cannot_be_read_is_refused(line: str) -> None:
    """D5: it must not turn into no limit."""
    text = ("---", "name: a", "description: b", line, "---", "x")
    assert refused("a.md", *text) == (4, line.partition(":")[0], "error")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("can_spawn: explorer, Reviewer", ("explorer", "Reviewer")),
        ("can_spawn: 'true'", True),
        ("can_spawn: none", False),
        ("can_spawn: []", False),
        ("todos: 'off'", False),
        ("memory: project", "project"),
        ("memory: 'no'", False),
        ("effort: Max", "max"),
        ("effort: minimal", "low"),
        ("returns: [a, {b: [integer]}]", {"a": "string", "b": ["integer"]}),
        ('returns: \'{"a": "integer"}\'', {"a": "integer"}),
        ("model: [a, b]", ("a", "b")),
        ("model: []", None),
    ],
)
def test_forms_in_which_our_fields_are_written(line: str, value: object) -> None:
    definition = defined("a.md", "---", "name: a", "description: b", line, "---", "x")
    assert getattr(definition, line.partition(":")[0]) == value


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("can_spawn:", "can_spawn", False),
        ("can_spawn: 7", "can_spawn", False),
        ("can_spawn: {a: b}", "can_spawn", False),
        ("memory: maybe", "memory", None),
        ("effort: enormous", "effort", None),
        ("todos: 3", "todos", None),
        ("returns: a short summary", "returns", None),
        ("returns: [3]", "returns", None),
        ("model: {a: b}", "model", None),
        ("model: [a, 3]", "model", ("a",)),
    ],
)
def test_a_field_that_cannot_be_used_says_what_to_write(line: str, key: str, value: object) -> None:
    """D5: with file, line, key, what and fix; what permits is read as a no."""
    text = f"---\nname: a\ndescription: b\n{line}\n---\nx".encode()
    definition, [problem] = parse(text, PurePath("a.md"))
    assert definition is not None
    assert getattr(definition, key) == value
    assert str(problem).startswith(f"a.md:4: {key}: ")
    assert " – " in problem.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("returns: {a: 3}", "a: 3 is no type"),
        ("returns: {a: thing}", "is no usable JSON Schema: Unknown type"),
        ("returns: {type: object, properties: 3}", "is no usable JSON Schema"),
        ("returns: {$ref: 'http://127.0.0.1:9/x'}", "is not fetched"),
        ("returns: {$ref: 'file:///etc/hostname'}", "is not fetched"),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_and_stays_one(line: str, said: str) -> None:
    """S6, D5: a declared form must not turn into none; nothing is fetched for it."""
    text = f"---\nname: a\ndescription: b\n{line}\n---\nx".encode()
    definition, [problem] = parse(text, PurePath("a.md"))
    assert str(problem).startswith("a.md:4: returns: ")
    assert said in problem.message
    assert problem.severity == "error"
    assert definition is not None
    with pytest.raises(ValueError, match="returns"):
        schema_of(definition.returns or {})


def test_a_schema_that_is_no_json_is_refused() -> None:
    """S6."""
    text = ("---", "name: a", "description: b", "returns: '{no json'", "---", "x")
    assert refused("a.md", *text) == (4, "returns", "error")


def test_of_several_models_the_first_that_the_settings_know_is_used() -> None:
    """S11: in the file's own order of preference, never one that it does not name."""
    aliases = {"sonnet": "claude-sonnet-5-5", "gpt-5": "my-gpt"}
    several = defined(
        "a.agent.md", "---", "description: b", "model: [Other, GPT-5, sonnet]", "---", "x"
    )
    assert several.model_for("parent", aliases) == "my-gpt"
    assert several.model_for("parent", {}) == "Other"
    assert several.model_for("parent", {"x": "other"}) == "Other"
    inherits = defined("a.agent.md", "---", "description: b", "model: [A, Inherit]", "---", "x")
    assert inherits.model_for("parent", aliases) == "parent"
    assert Definition("a", "b", "c").model_for("parent", aliases) == "parent"
    assert Definition("a", "b", "c", model="Sonnet").model_for("p", aliases) == "claude-sonnet-5-5"


def test_a_typed_field_with_another_type_is_kept_aside() -> None:
    text = b"---\nname: a\ndescription: b\ntodos: maybe\nmax_turns:\nmodel: 4\n---\nx"
    definition, problems = parse(text, PurePath("a.md"))
    assert definition is not None
    assert (definition.todos, definition.extra) == (None, {"todos": "maybe"})
    assert (definition.max_turns, definition.model) == (None, "4")
    assert [(p.severity, p.line) for p in problems] == [("warning", 4), ("warning", 6)]


def test_claude_code_fields() -> None:
    definition = defined(
        ".claude/agents/deep/a.md",
        *("---", "name: a", "description: b", "disallowedTools: Write, Bash(rm:*)"),
        *("maxTurns: 5", "permissionMode: acceptEdits", "color: red", "model: inherit"),
        *("skills: [x]", "---", "x"),
    )
    assert granted(definition) == ("ls", "read_file", "edit_file", "glob", "grep")
    assert (definition.max_turns, definition.permissions) == (5, None)
    assert definition.model_for("parent", {}) == "parent"
    assert definition.extra == {
        "color": "red",
        "skills": ["x"],
        "permissionMode": "acceptEdits",
    }


def test_plan_mode_takes_the_writing_tools_away() -> None:
    """P6, D5: a mode that restricts is kept as a restriction."""
    text = ("---", "name: a", "description: b", "permissionMode: plan", "---", "x")
    assert granted(defined("a.md", *text)) == ("ls", "read_file", "glob", "grep")


@pytest.mark.parametrize("path", ["x/planner.agent.md", ".github/agents/planner.md"])
def test_copilot(path: str) -> None:
    """D1: the name may come from the file; tools are sets and paths; models are in order."""
    definition = defined(
        path,
        *("---", "description: b", "tools: ['search', 'edit/editFiles', 'github/read', 'web']"),
        *("model: ['GPT-5', 'other']", "handoffs: []", "---", "x"),
    )
    assert (definition.name, definition.model) == ("planner", ("GPT-5", "other"))
    assert "model" not in definition.extra
    assert granted(definition) == ("edit_file", "glob", "grep")


def test_opencode_maps_switch_single_tools() -> None:
    """D1: OpenCode: the file's name, a map of tools, permissions."""
    definition = defined(
        ".opencode/agent/review.md",
        *("---", "description: b", "mode: subagent", "tools:", "  write: false", "  read: true"),
        *("steps: 9", "permission:", "  edit: deny", "  bash: {'git *': allow, '*': ask}"),
        *("---", "x"),
    )
    assert (definition.name, definition.max_turns) == ("review", 9)
    assert definition.tools is None
    assert granted(definition) == ("ls", "read_file", "glob", "grep")
    assert definition.extra == {
        "mode": "subagent",
        "permission": {"edit": "deny", "bash": {"git *": "allow", "*": "ask"}},
    }
    assert definition.permissions is None


def test_an_opencode_file_is_known_by_its_mode_wherever_it_is() -> None:
    text = ("---", "description: b", "mode: all", "tools: {'*': false, read: true}", "---", "x")
    definition = defined("agents/review.md", *text)
    assert (definition.name, granted(definition)) == ("review", ("read_file",))


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        ("{Read: true, Grep: true}", ("read_file", "grep")),
        ("{Read: true, Bash: false}", ("read_file",)),
        ("{'*': true, bash: deny, write: false}", ("ls", "read_file", "edit_file", "glob", "grep")),
        ("{bash: false}", HAVE[:-1]),
        ("{}", ()),
    ],
)
def test_maps_elsewhere_list_what_is_granted(tools: str, left: tuple[str, ...]) -> None:
    """D5: of two readings of a map the stricter one."""
    text = ("---", "name: a", "description: b", f"tools: {tools}", "---", "x")
    assert granted(defined("a.md", *text)) == left


def test_a_map_value_that_is_neither_yes_nor_no_is_no() -> None:
    text = b"---\nname: a\ndescription: b\ntools: {bash: ask, read: true}\n---\nx"
    definition, problems = parse(text, PurePath("a.md"))
    assert definition is not None
    assert granted(definition) == ("read_file",)
    assert "read as false" in problems[0].message


def test_what_permissions_allow_counts_for_nothing() -> None:
    """P6: a child has at most what its parent has."""
    text = ("---", "name: a", "description: b", "permissions: {allow: ['bash(git *)']}", "---", "x")
    definition = defined("a.md", *text)
    assert (granted(definition), definition.disallowed_tools) == (HAVE, ())
    assert definition.permissions is None
    assert definition.extra == {"permissions": {"allow": ["bash(git *)"]}}


def with_permissions(text: str) -> tuple[Definition, list[str]]:
    file = f"---\nname: a\ndescription: b\n{text}\n---\nx"
    definition, problems = parse(file.encode(), PurePath("a.md"))
    assert definition is not None
    return definition, [p.message for p in problems if p.severity == "warning"]


@pytest.mark.parametrize(
    ("rules", "deny", "tools"),
    [
        ("[read(secret/**), bash]", ["read(secret/**)"], ["bash"]),
        ("read(a.txt), write(b/**), Bash", ["read(a.txt)", "write(b/**)"], ["Bash"]),
        ("['Read(./.env)', 'Edit(docs/**)']", ["read(.env)", "write(docs/**)"], []),
        ("['Bash(*)', 'mcp__x__*']", None, ["Bash", "mcp__x__*"]),
        ("['Bash(rm:*)', 'shell(git push)']", ["bash(rm:*)", "bash(git push)"], []),
        ("['WebFetch(domain:x.org)', mcp(a/b)]", ["fetch(domain:x.org)", "mcp(a/b)"], []),
        ("['Task(explorer)']", None, ["Task"]),
        ("[read, 'Write()']", ["read(**)", "write(**)"], []),
        ("", None, []),
    ],
)
def test_our_deny_rules(rules: str, deny: list[str] | None, tools: list[str]) -> None:
    """P6, P7: rules about paths in one spelling, tools by their names; what would have to be asked
    is denied."""
    for kind in ("deny", "ask"):
        definition, warnings = with_permissions(f"permissions:\n  {kind}: {rules}")
        assert warnings == []
        assert definition.permissions == (None if deny is None else {"deny": deny})
        assert list(definition.disallowed_tools) == tools


@pytest.mark.parametrize(
    "text",
    [
        "permissions: nonsense",
        "permissions: [bash]",
        "permissions: 7",
        "permissions: {deny: 7}",
        "permissions: {deny: [[bash]]}",
        "permissions: {deny: ['read(secret']}",
        "permissions: {deny: ['no such thing']}",
        "permissions: {deny: {read: secret}}",
        "permissions: {deny: ['rm(x)']}",
    ],
)
def test_permissions_that_cannot_be_read_deny_every_tool(text: str) -> None:
    """P6: unreadable permission text falls to the stricter side, with a warning that says so."""
    definition, warnings = with_permissions(text)
    assert granted(definition) == ()
    assert any("every tool is denied" in message for message in warnings)
    # And a rule that nobody can read: a permission check refuses it.
    assert any(": " in rule for rule in (definition.permissions or {})["deny"])


@pytest.mark.parametrize("pattern", ["!a", "~/x", "//x", "../x", "#x"])
def test_a_pattern_that_is_none_below_the_workspace_denies_all_paths(pattern: str) -> None:
    """P6: it could not be kept as it is written."""
    definition, warnings = with_permissions(f"permissions: {{deny: ['read({pattern})']}}")
    assert definition.permissions == {"deny": ["read(**)"]}
    assert "all paths are denied" in warnings[0]


@pytest.mark.parametrize("key", ["permissionMode", "sandbox_mode"])
def test_an_unknown_mode_is_read_as_the_strict_one(key: str) -> None:
    """P6."""
    definition, warnings = with_permissions(f"{key}: whatever")
    assert granted(definition) == ("ls", "read_file", "glob", "grep")
    assert "no known mode" in warnings[0]


def test_permissions_that_are_one_word() -> None:
    """P6: what has to be asked counts as denied; nobody is known here who could be asked."""
    text = ("---", "description: b", "mode: all", "permission: {}", "permission: ask", "---", "x")
    definition, problems = parse("\n".join(text).encode(), PurePath(".opencode/agents/a.md"))
    assert definition is not None
    assert granted(definition) == ()
    assert "both hold" in problems[0].message


def test_gemini() -> None:
    """D1: Gemini's names of tools and its time limit."""
    definition = defined(
        ".gemini/agents/a.md",
        *("---", "name: a", "description: b", "kind: local", "timeout_mins: 2", "tools:"),
        *("  - read_many_files", "  - list_directory", "  - search_file_content"),
        *("  - name: replace", "  - run_shell_command", "---", "x"),
    )
    assert granted(definition) == ("ls", "read_file", "edit_file", "grep", "bash")
    assert definition.max_seconds == 120


def test_codex() -> None:
    """D1: Codex writes TOML; its sandbox mode is kept as a restriction."""
    definition = defined(
        ".codex/agents/a.toml",
        *('name = "a"', 'description = "b"', 'sandbox_mode = "read-only"', "since = 2024-01-01"),
        *('model_reasoning_effort = "high"', "developer_instructions = '''", "Work.", "'''"),
        *("[mcp_servers.x]", 'args = ["y"]'),
    )
    assert (definition.name, definition.prompt, definition.effort) == ("a", "Work.", "high")
    assert granted(definition) == ("ls", "read_file", "glob", "grep")
    assert definition.extra["since"] == "2024-01-01"
    assert definition.mcp_servers == {"x": {"args": ["y"]}}


def test_codex_files_that_give_no_definition() -> None:
    """D4: incomplete or broken TOML names the line; configuration is information only."""
    path = ".codex/agents/a.toml"
    assert refused(path, 'developer_instructions = "x"') == (1, "description", "error")
    assert refused(path, 'name = "a"', "", 'description = ""') == (3, "description", "error")
    assert refused(path, 'name = "a"', "description = ") == (2, "file", "error")
    assert refused(path, 'model = "x"') == (1, "file", "info")
