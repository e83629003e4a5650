"""D2 to D4: what the reader of definition files repairs, accepts and refuses."""

from pathlib import PurePath

import pytest

from subagents import Definition, Problem, parse

BODY = "You help."


def parsed(
    text: str | bytes, path: str = ".claude/agents/helper.md"
) -> tuple[Definition | None, list[Problem]]:
    return parse(text if isinstance(text, bytes) else text.encode(), PurePath(path))


def fields(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", BODY])


def accepted(text: str | bytes, path: str = ".claude/agents/helper.md") -> Definition:
    """The definition of a text about which there is nothing to warn."""
    definition, problems = parsed(text, path)
    assert [str(p) for p in problems if p.severity != "info"] == []
    assert definition is not None
    return definition


def repaired(text: str | bytes, line: int, path: str = ".claude/agents/helper.md") -> Definition:
    """The definition of a text that gets a warning about that line."""
    definition, problems = parsed(text, path)
    assert definition is not None, problems
    assert {p.severity for p in problems} - {"info"} == {"warning"}
    assert line in {p.line for p in problems if p.severity == "warning"}, problems
    return definition


def refused(text: str | bytes, path: str = ".claude/agents/helper.md") -> Problem:
    definition, problems = parsed(text, path)
    assert definition is None
    return problems[-1]


def test_a_plain_file_gives_its_fields() -> None:
    text = fields("name: helper", "description: Helps.", "tools: Read, Grep", "model: opus")
    definition = accepted(text)
    assert (definition.name, definition.description) == ("helper", "Helps.")
    assert (definition.tools, definition.model) == (("Read", "Grep"), "opus")
    assert (definition.prompt, definition.source) == (BODY, ".claude/agents/helper.md")


# D2: repairs with a warning


def test_an_unquoted_colon_in_one_line() -> None:
    """D2: unquoted `: `."""
    text = fields("name: helper", "description: Use it so: always.", "tools: Read")
    definition = repaired(text, 3)
    assert (definition.description, definition.tools) == ("Use it so: always.", ("Read",))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_unquoted_colon_over_several_lines(newline: str) -> None:
    """D2: the known key at column 0 owns the lines up to the next known key; CRLF too."""
    lines = fields(
        *("name: helper", "description: Use it. Examples:", "", "<example>", "user: do this: now"),
        *("  - and: that", "</example>", "tools: Read", "colour: red", "model: opus"),
    )
    definition = repaired(lines.replace("\n", newline), 3)
    assert definition.description.startswith("Use it. Examples:\n\n<example>\nuser: do this: now")
    assert definition.description.endswith("</example>")
    assert (definition.tools, definition.model) == (("Read",), "opus")
    assert definition.extra == {"colour": "red"}


@pytest.mark.parametrize("value", ["**Main** agent", "`code` agent", "@team agent", "%x agent"])
def test_a_value_that_begins_with_a_sign(value: str) -> None:
    """D2: values beginning with `*`, backtick, `@`, `%`."""
    assert repaired(fields("name: a", f"description: {value}"), 3).description == value


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ('"Opened and never closed', "Opened and never closed"),
        ("'It's quoted'", "It's quoted"),
        ('"Quick" is the word', '"Quick" is the word'),
        (r'"a \"b\" c\nd', 'a "b" c\nd'),
    ],
)
def test_unbalanced_quotes(value: str, read: str) -> None:
    """D2: unbalanced quotes; the fields below them are not swallowed."""
    definition = repaired(fields("name: a", f"description: {value}", "tools: Read"), 3)
    assert (definition.description, definition.tools) == (read, ("Read",))


def test_a_quote_that_swallows_the_tools_and_is_still_yaml() -> None:
    """D5: a field inside an open quote is not lost."""
    text = fields("name: a", "description: 'Open", "tools: Read", "color: 'red'", "x: 'y'")
    definition, _ = parsed(text)
    assert definition is not None
    assert definition.tools == ("Read",)
    text = fields("name: a", 'description: "Open', "tools: Read", 'model: opus"')
    assert repaired(text, 3).tools == ("Read",)


def test_a_block_text_that_is_broken_elsewhere_keeps_its_lines() -> None:
    text = fields("name: a", "description: |", "  one", "  two: three", "tools: @x, Read")
    definition = repaired(text, 6)
    assert (definition.description, definition.tools) == ("one\ntwo: three", ("Read",))


def test_a_broken_block_text_is_read_without_its_sign() -> None:
    text = fields("name: a", "description: >-", "  one", "\x0btwo: three")
    assert repaired(text, 3).description == "one\n\x0btwo: three"


def test_tabs_as_indentation() -> None:
    """D2: tabs."""
    text = fields("name: a", "description: b", "tools:", "\t- Read", "\t- Grep")
    assert repaired(text, 5).tools == ("Read", "Grep")
    text = fields("name: a", "description: b: c", "tools:", "\t- Read")
    assert repaired(text, 3).tools == ("Read",)


def test_a_block_that_is_indented_as_a_whole() -> None:
    text = fields("  name: a", "  description: b: c", "  tools: Read")
    assert repaired(text, 3).tools == ("Read",)


def test_cp1252_and_utf_16() -> None:
    """D2: cp1252."""
    text = fields("name: a", "description: It’s here")
    assert repaired(text.encode("cp1252"), 3).description == "It’s here"
    assert repaired(text.encode("utf-16"), 1).description == "It’s here"


@pytest.mark.parametrize(
    ("opening", "closing", "line"),
    [("-----", "---", 1), ("---", "----------", 4), ("—", "---", 1), ("---", "...", 4)],
)
def test_other_fences(opening: str, closing: str, line: int) -> None:
    """D2: dash fence."""
    text = f"{opening}\nname: a\ndescription: b\n{closing}\n{BODY}"
    assert repaired(text, line).prompt == BODY


def test_blank_lines_before_the_fence() -> None:
    assert repaired("\n\n" + fields("name: a", "description: b"), 3).name == "a"


def test_a_key_that_is_written_twice() -> None:
    """D2: last wins; for `tools` the stricter."""
    assert repaired(fields("name: a", "name: b", "description: c"), 3).name == "b"
    text = fields("name: a", "description: c", "tools: Read, Bash", "tools: read_file, Grep")
    assert repaired(text, 5).tools == ("read_file",)
    assert repaired(fields("name: a", "description: c", "tools: '*'", "tools: Read"), 5).tools == (
        "Read",
    )
    text = fields("name: a", "description: c", "tools: Read", "tools: '*'")
    assert repaired(text, 5).tools == ("Read",)
    text = fields("name: a", "description: c", "tools: Bash(git:*)", "tools: Bash")
    assert repaired(text, 5).tools == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("color: red", "helper"),
        ("name:", "helper"),
        ("name: 'a:b'", "helper"),
        ("name: a/b", "helper"),
        ("name: [a, b]", "helper"),
        ("name: 007", "007"),
        ("name: yes", "yes"),
    ],
)
def test_a_missing_illegal_or_numeric_name(line: str, name: str) -> None:
    """D2: missing or illegal name → file name; numeric name → its text."""
    number = 2 if line.startswith("name") else 1
    assert repaired(fields(line, "description: b"), number).name == name


@pytest.mark.parametrize(
    "key", ["allowedTools", "allowed-tools", "allowed_tools", "tool", "toools"]
)
def test_misnamed_tools_still_restrict(key: str) -> None:
    """D2: `allowedTools` read as `tools`; D5: a misspelled restriction is none the less one."""
    assert repaired(fields("name: a", "description: b", f"{key}: Read"), 4).tools == ("Read",)


def test_tools_that_mean_all() -> None:
    """D2: `tools: all` and the bare `*`; quoted it is plain YAML."""
    start = ("name: a", "description: b")
    assert repaired(fields(*start, "tools: all"), 4).tools is None
    assert repaired(fields(*start, "tools: *"), 4).tools is None
    assert accepted(fields(*start, "tools: '*'")).tools is None
    assert accepted(fields(*start, "tools: ['*']")).tools is None


@pytest.mark.parametrize("value", ["", "''", "~", "none"])
def test_blank_tools_are_none(value: str) -> None:
    """D2: blank tools → none."""
    assert repaired(fields("name: a", "description: b", f"tools: {value}"), 4).tools == ()


def test_an_empty_list_is_none_without_a_warning() -> None:
    assert accepted(fields("name: a", "description: b", "tools: []")).tools == ()


@pytest.mark.parametrize(
    ("lines", "tools"),
    [
        (["tools: Read Grep Bash(a b)"], ("Read", "Grep", "Bash(a b)")),
        (["tools: [Read, Grep"], ("Read", "Grep")),
        (["tools:", "  - Read", "  - *"], ("Read",)),
        (["tools: ['*', Read]"], ("Read",)),
        (["tools: Read, <none>"], ("Read",)),
        (["tools: 7"], ()),
        (["tools: true"], ()),
        (["tools:", "- [Read]", "- 3"], ()),
        (["tools: ???"], ()),
        (["tools: Read", "  model: opus"], ("Read",)),
        (["tools: Read", "Bash"], ("Read",)),
        (["tools: Read", "- Bash"], ("Read",)),
        (["tools: [Read]", "  - Bash"], ("Read",)),
        (["tools: {bash: false}", "  - Bash"], ()),
        (["tools:", "- Read", "- @x"], ("Read",)),
        (["tools: Raed, Grep"], ("Raed", "Grep")),
    ],
)
def test_odd_tools_fall_to_the_stricter_side(lines: list[str], tools: tuple[str, ...]) -> None:
    """D5: what cannot be read as the name of a tool grants nothing."""
    definition, problems = parsed(fields("name: a", "description: b", *lines))
    assert definition is not None
    assert definition.tools == tools
    assert any(p.severity == "warning" for p in problems)


@pytest.mark.parametrize(
    ("lines", "denied"),
    [
        (["disallowedTools: Write, Bash(rm:*)", "  - Bash"], ("Write", "Bash", "rm:*")),
        (["disallowedTools: '<Bash>'"], ("Bash",)),
        (["disallowedTools: 7"], ("*",)),
        (["disallowedTools: ???"], ("*",)),
        (["disallowedTools: {bash: true}"], ("*",)),
    ],
)
def test_odd_denials_fall_to_the_stricter_side(lines: list[str], denied: tuple[str, ...]) -> None:
    """P6, D5: a denial that cannot be read must not turn into none."""
    definition, problems = parsed(fields("name: a", "description: b", *lines))
    assert definition is not None
    assert set(denied) <= set(definition.disallowed_tools)
    assert any(p.severity == "warning" for p in problems)


@pytest.mark.parametrize(
    ("lines", "key", "value"),
    [
        (["max_turns: 5", "max_turns:"], "max_turns", 5),
        (["max_turns: 5", "max_turns: 9"], "max_turns", 9),
        (["can_spawn: false", "can_spawn: true"], "can_spawn", False),
        (["can_spawn: [a]", "can_spawn: true"], "can_spawn", ("a",)),
        (["can_spawn: false", "can_spawn:"], "can_spawn", False),
    ],
)
def test_a_double_does_not_undo_a_limit_or_a_no(lines: list[str], key: str, value: object) -> None:
    """D2: last wins; D5: but never so that more is granted than was written."""
    definition = repaired(fields("name: a", "description: b", *lines), 5)
    assert getattr(definition, key) == value


def test_tools_indented_by_mistake_still_restrict() -> None:
    """D5: in a block that has to be repaired they are not part of the text above."""
    text = fields("name: a", "description: b: c", "  tools: Read")
    assert repaired(text, 3).tools == ("Read",)


def test_a_description_that_yaml_takes_for_something_else() -> None:
    assert accepted(fields("name: a", "description: 42")).description == "42"
    text = fields("name: a", "description:", "  Use it: always")
    assert accepted(text).description == "Use it: always"


def test_an_empty_body_is_a_warning() -> None:
    assert repaired("---\nname: a\ndescription: b\n---\n", 4).prompt == ""


def test_text_that_is_no_field_is_passed_over() -> None:
    text = fields("just text", "name: a", "description: b: c", "# a comment", "tools: Read")
    assert repaired(text, 2).tools == ("Read",)
    assert repaired(fields("# only a comment", "name: @a", "description: b"), 3).name == "@a"


def test_comments_and_blank_lines_in_a_broken_block_are_no_body() -> None:
    text = fields("name: a", "", "# which model", "model: opus", "description: b: c")
    assert repaired(text, 6).model == "opus"


# D3: accepts


def test_a_byte_order_mark() -> None:
    """D3: BOM."""
    assert accepted(b"\xef\xbb\xbf" + fields("name: a", "description: b").encode()).name == "a"


def test_literal_newlines_in_a_description() -> None:
    """D3: literal `\\n`."""
    assert accepted(fields("name: a", r"description: one\ntwo")).description == "one\ntwo"


def test_unknown_fields_are_kept_with_a_hint() -> None:
    """D3: unknown fields (kept, did-you-mean)."""
    text = fields("name: a", "description: b", "max_turn: 3", "mood: {calm: [1, 2.5, true, ~]}")
    definition, problems = parsed(text)
    assert definition is not None
    assert definition.extra == {"max_turn": 3, "mood": {"calm": [1, 2.5, True, None]}}
    assert [p.severity for p in problems] == ["info", "info"]
    assert "did you mean max_turns?" in problems[0].message


def test_unknown_tools_are_named() -> None:
    """D3: unknown tools (warned); one that comes close to a tool is a warning at once."""
    _, problems = parsed(fields("name: a", "description: b", "tools: Raed, Frobnicate, mcp__a__b"))
    assert [(p.severity, p.line) for p in problems] == [("warning", 4), ("info", 4)]
    assert "did you mean read_file?" in problems[0].message


@pytest.mark.parametrize("name", ["Python Expert", ".NET Guru", "Ärztin", "a.b+c"])
def test_odd_names(name: str) -> None:
    """D3: odd names."""
    assert accepted(fields(f"name: {name}", "description: b")).name == name


def test_unicode_line_breaks_do_not_break_lines() -> None:
    text = fields("name: a", "description: one\u2028two\x85three", "tools: Read")
    assert accepted(text).description == "one two three"


def test_odd_yaml_scalars_stay_text() -> None:
    text = fields("name: a", "description: b", "when: 2024-02-31", "time: 1:30", "big: 0o7")
    assert accepted(text).extra == {"when": "2024-02-31", "time": "1:30", "big": "0o7"}


# D4: refuses, with the line


@pytest.mark.parametrize(
    ("text", "line", "key", "message"),
    [
        ("---\nname: a\ndescription: b\n\nYou help.", 1, "fence", "never closed"),
        ("---\nname: a\n\nYou help.\n\n---\nmore", 1, "fence", "closed only on line 6"),
        (
            "---\nname: a\ndescription: b\n\n# Role\n\nYou help.\n\n---\nx",
            1,
            "fence",
            "closed only on line 9",
        ),
        ("# A\n\n```yaml\n---\nname: a\n---\n```", 1, "fence", "text stands before"),
        ("name: a\ndescription: b\n---\nx", 1, "fence", "no opening ---"),
        (fields("name: a"), 1, "description", "is missing"),
        (fields("name: a", "description:"), 3, "description", "is empty"),
        (fields("name: {{NAME}}", "description: b"), 2, "name", "not rendered"),
        (fields("name: a", "description: For {{x}}"), 3, "description", "not rendered"),
        (fields("name: a", "description: b", "tools: {{x}}"), 4, "tools", "not rendered"),
        ("---\nname: a\ndescription: b\n---\ntools: Read\nx", 5, "tools", "below the fence"),
        ("---\nname: a\n---\nx\ntools: Read\n---\nx", 5, "tools", "below the fence"),
        (fields("name: a\0", "description: b"), 2, "file", "NUL byte"),
        (fields("name: a", "description: b", "max_turns: many"), 4, "max_turns", "whole number"),
    ],
)
def test_refusals_name_the_line(text: str, line: int, key: str, message: str) -> None:
    """D4: refuses with the line: unclosed fence, text before the fence, missing description,
    unrendered template."""
    problem = refused(text)
    assert (problem.line, problem.key, problem.severity) == (line, key, "error")
    assert message in problem.message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("# Agents\n\nAll of them.", "agents/README.md"),
        (fields("name: a", "description: b"), "agents/readme.md"),
        ("# Guide\n\nProse.", "agents/guide.md"),
        ("Prose.\n" * 20 + fields("name: a", "description: b"), "agents/guide.md"),
        ("Title\n\n---\n\nProse.", "agents/guide.md"),
        ("", "agents/empty.md"),
    ],
)
def test_documents_are_information_only(text: str, path: str) -> None:
    """D4: a README is information only."""
    assert refused(text, path).severity == "info"


@pytest.mark.parametrize(
    "lines",
    [
        ["a: &a [x, x, x, x, x, x, x, x, x]", *(f"{n}: &{n} [*{m}, *{m}, *{m}, *{m}, *{m}, *{m}]"
         for m, n in zip("abcdefg", "bcdefgh", strict=True))],
        ["x: " + "[" * 60 + "]" * 60],
        ["x: &a [*a]"],
        ["<<: {tools: '*'}"],
        ["? [a]", ": b"],
    ],
)  # fmt: skip
def test_yaml_made_to_harm_is_read_as_text(lines: list[str]) -> None:
    """D5: alias bombs, deep nests, cycles and merge keys neither hang nor grant."""
    definition, problems = parsed(fields("name: a", "description: b", "tools: Read", *lines))
    assert problems
    assert definition is None or definition.tools == ("Read",)


def test_a_message_reads_path_line_key_what_fix() -> None:
    """D5: every message reads `path:line: key: what – fix`."""
    assert str(refused(fields("name: a"), "x/a.md")) == (
        "x/a.md:1: description: is missing – add when to use this agent"
    )
