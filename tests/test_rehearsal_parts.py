"""What the rehearsal is made of: areas, scopes, choices, formats, findings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.context.compaction import transcript
from orchestrator.context.history import entry
from orchestrator.messages import assistant, tool_result, user
from orchestrator.model import Request
from orchestrator.rehearsal import extract, formats
from orchestrator.rehearsal.areas import LEAST, MOST, areas_of
from orchestrator.rehearsal.choosing import choose, listed
from orchestrator.rehearsal.conversation import Conversation, Wish
from orchestrator.rehearsal.findings import Findings, merged, parse, render
from orchestrator.rehearsal.outcomes import outcomes_of
from orchestrator.rehearsal.reading import answers, read_back
from orchestrator.rehearsal.scope import Scope, scope_of, target_of
from orchestrator.rehearsal.transcript import calls_in
from subagents import builtin, listing
from workspace import pages
from workspace.globs import glob

NAMES = st.text("abcde", min_size=1, max_size=2)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


# ── areas ────────────────────────────────────────────────────────────────────────────────────────


@given(paths=st.sets(PATHS, max_size=80))
def test_every_file_is_in_exactly_one_area(paths: set[str]) -> None:
    # A name is a file or a folder, not both.
    folders = {p[:i] for p in paths for i in range(len(p)) if p[i] == "/"}
    files = dict.fromkeys(paths - folders, 1)
    areas = areas_of(files)
    assert len(areas) <= MOST
    assert len(areas) >= LEAST or max((area.size for area in areas), default=0) < 4
    assert len({area.name for area in areas}) == len(areas)
    for file in files:
        assert [Scope(area.paths).holds(file) for area in areas].count(True) == 1


def test_a_folder_that_stands_for_many_files_weighs_as_many() -> None:
    files = {"a/x/": 500, "a/y/": 500, "a/z/": 500, "a/w/": 500, "b/1": 1, "c/1": 1, "d/1": 1}
    names = [area.name for area in areas_of(files)]
    assert names == ["a/w", "a/x", "a/y", "a/z", "b", "c", "d"]


def test_a_group_too_long_for_a_brief_stays_a_folder() -> None:
    files = dict.fromkeys((f"flat/{'n' * 60}{i:04}" for i in range(900)), 1)
    assert [area.paths for area in areas_of(files)] == [("flat/",)]


# ── scopes ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("brief", "paths"),
    [
        ("Paths:\n- `a/`\n- `b.py`\n\nMore: `c.py`", ("a/", "b.py")),
        ("Paths:\n- `./`\n", ()),
        ("Look at `src/x.py` and lib/util/.", ("src/x.py", "lib/util/")),
        ("Read ../etc/passwd and /etc/passwd and ~/x and https://example.org/a.html", ()),
        ("Survey this repository.", ()),
    ],
)
def test_a_scope_is_what_a_brief_names(brief: str, paths: tuple[str, ...]) -> None:
    assert scope_of(brief).paths == paths


def test_words_that_are_no_paths_drop_out_once_the_files_are_known() -> None:
    scope = scope_of("In src/ find TODO/FIXME, e.g. in Node.js")
    assert scope.confirmed(["src/a.js", "other/b.js"]).paths == ("src/",)


@given(
    folders=st.sets(st.text("abc{,}[*!", min_size=1, max_size=3), min_size=1, max_size=4),
    base=st.sampled_from(["", "top/"]),
)
def test_one_glob_reaches_exactly_the_scope(folders: set[str], base: str) -> None:
    """Whatever signs the names have."""
    inside = [f"{base}{name}/in/x.py" for name in sorted(folders)]
    scope = Scope((*(f"{base}{name}/" for name in sorted(folders)), f"{base}single.py"))
    compiled = glob(scope.pattern() or "*")
    start = 0 if scope.base == "." else len(scope.base) + 1
    for path in (*inside, f"{base}single.py"):
        assert compiled.matches(tuple(path[start:].split("/")))
    for path in (f"{base}zzz/in/x.py", f"{base}zzz.py", f"{base}in/x.py"):
        assert not compiled.matches(tuple(path[start:].split("/")))


def test_a_glob_for_some_extensions_keeps_to_the_scope() -> None:
    scope = Scope(("a/", "b.py", "c.md"))
    compiled = glob(scope.pattern(("md", "txt")) or "")
    matched = [
        p
        for p in ("a/x.md", "a/x.py", "b.py", "c.md", "d.md")
        if compiled.matches(tuple(p.split("/")))
    ]
    assert matched == ["a/x.md", "c.md"]
    assert Scope(("b.py", "c.py")).pattern(("md",)) == ""


@pytest.mark.parametrize(
    ("brief", "target"),
    [
        ("Survey it and write the result to `out/report.md`.", "out/report.md"),
        ("Save what you find in notes.txt", "notes.txt"),
        ("Never write to notes.txt", None),
        ("> write it to notes.txt", None),
        ("Survey notes.txt", None),
    ],
)
def test_a_target_is_a_file_that_a_brief_asks_to_write(brief: str, target: str | None) -> None:
    assert target_of(brief) == target


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────


def test_kinds_are_listed_under_their_heading_only() -> None:
    system = (
        "- For plans: use write_todos.\n\nKinds of subagents (subagent_type):\n"
        "- one: Does this.\n- the other: Does that.\n\n# Project\n- style: read the guide\n"
    )
    assert listed(system) == {"one": "Does this.", "the other": "Does that."}
    assert listed("- style: read the guide") == {}


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("Survey this repository.", "explorer"),
        ("Review the changes for faults and missing tests, and prove each.", "reviewer"),
    ],
)
def test_the_kind_is_the_one_whose_description_fits(task: str, kind: str) -> None:
    assert choose(task, listed(f"subagent_type\n{listing(builtin())}")) == kind


def test_users_kinds_are_chosen_by_their_descriptions_too() -> None:
    kinds = {"painter": "Paints pictures.", "scout": "Searches and lists files, read-only."}
    assert choose("Have a look around.", kinds) == "scout"
    assert choose("Have a look around.", {}) is None


# ── formats ──────────────────────────────────────────────────────────────────────────────────────


@given(text=st.text("ab\n\f", max_size=2_000), offset=st.integers(1, 30))
def test_pages_give_the_lines_of_the_file(text: str, offset: int) -> None:
    lines = text.removesuffix("\n").split("\n") if text else []
    if offset > max(len(lines), 1):
        return
    page = formats.page(pages.show("x", text, offset))
    assert page is not None
    assert page.lines == lines[offset - 1 :][:200]
    assert page.goes_on == (len(lines) > offset - 1 + 200)


def test_a_childs_report_is_taken_apart() -> None:
    answer = (
        "[explorer explorer-1 · partial · 3 tool calls · 900 tokens]\nreason: limit:max_turns\n"
        "The text.\n[continues in x/conclusion.md]\n[todo 1 was not updated: gone]"
    )
    report = formats.child_report(answer)
    assert report is not None
    assert (report.agent_type, report.status, report.reason) == (
        "explorer",
        "partial",
        "limit:max_turns",
    )
    assert (report.text, report.continues) == ("The text.", "x/conclusion.md")
    assert formats.child_report("[error] No subagent_type 'x'") is None


def test_paths_with_colons_and_notes_of_tools_are_told_apart() -> None:
    answer = "a:b.py:12:x = {1: 2}\n[incomplete: only the first 1,000 are shown]"
    assert formats.matches(answer) == [("a", 12, "x")] or formats.matches(answer) == [
        ("a:b.py", 12, "x = {1: 2}")
    ]
    assert formats.is_incomplete(answer)
    assert formats.folder_entries("a/\nb.txt (1,234 bytes)\nc (symlink)") == (["a"], ["b.txt"])


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("a.py", "class Thing(Base):", "Thing"),
        ("a.py", "async def go() -> None:", "go"),
        ("a.py", "def _private():", None),
        ("a.py", "    def method(self):", None),
        ("a.js", "export default function start() {", "start"),
        ("a.ts", "export const limit = 3;", "limit"),
        ("a.go", "func Serve(port int) error {", "Serve"),
        ("a.rs", "pub fn parse(text: &str) {", "parse"),
        ("a.java", "public final class Main {", "Main"),
        ("a.md", "class of 1999", None),
    ],
)
def test_public_names_in_many_languages(path: str, line: str, name: str | None) -> None:
    assert extract.public_name(path, line) == name


@pytest.mark.parametrize(
    ("path", "text", "purpose"),
    [
        ("a.md", "text\n## Second\n# First", "Second"),
        ("a.py", '"""One line."""', "One line."),
        ("a.py", '#!/bin/sh\nr"""Raw.\n\nMore."""', "Raw."),
        ("a.py", '"""\nOn the next line.\n"""', "On the next line."),
        ("a.py", "x = 1\n# Comment", None),
        ("a.rs", "//! A crate.", "A crate."),
        ("a.js", "/** Draws. */", "Draws."),
        ("package.json", '{\n  "description": "A package",', "A package"),
    ],
)
def test_the_purpose_of_a_file_stands_at_its_top(path: str, text: str, purpose: str | None) -> None:
    assert extract.first_purpose(path, enumerate(text.split("\n"), 1)) == purpose


# ── reading back ─────────────────────────────────────────────────────────────────────────────────


def moved(first: str, *pages_read: tuple[int, str]) -> Request:
    """A conversation in which a search's answer was moved to a file and partly read back."""
    uses = [{"type": "tool_use", "id": "toolu_r1_1", "name": "grep", "input": {"pattern": "x"}}]
    results = [tool_result("toolu_r1_1", first)]
    for number, (offset, answer) in enumerate(pages_read, 2):
        id, given = f"toolu_r1_{number}", {"path": "kept.txt", "offset": offset}
        uses.append({"type": "tool_use", "id": id, "name": "read_file", "input": given})
        results.append(tool_result(id, answer))
    return Request(
        model="rehearsal",
        messages=[user("x"), assistant(*uses), {"role": "user", "content": results}],
    )


def test_a_moved_answer_is_put_together_from_its_pages_in_any_order() -> None:
    text = "".join(f"f.py:{i}:line {i}\n" for i in range(1, 301))
    first = (
        f"[offloaded kept.txt · {len(text):,} characters, 300 lines · preview, not the whole]\n…"
    )
    shown = [(offset, pages.show("kept.txt", text, offset, 100)) for offset in (201, 1, 101)]
    whole = answers(Conversation.of(moved(first, *shown)).calls)[0]
    assert (whole.text, whole.whole) == (text.strip(), True)
    part = Conversation.of(moved(first, *shown[:2])).calls
    assert not answers(part)[0].whole
    assert [wish.arguments["offset"] for wish in read_back(part)] == [101]


def test_a_moved_page_is_not_fetched_again() -> None:
    placeholder = "[offloaded other.txt · 9,000 characters, 90 lines · preview, not the whole]"
    calls = Conversation.of(moved("f.py:1:x", (1, placeholder))).calls
    assert list(read_back(calls)) == []


def test_calls_keep_to_the_schema_of_the_tool() -> None:
    schema = {"type": "object", "properties": {"pattern": {}}, "required": ["pattern"]}
    tools = [{"name": "grep", "input_schema": schema}]
    request = Request(model="m", messages=[user("x")], tools=tools)
    conversation = Conversation.of(request)
    assert conversation.fresh([Wish("grep", {"pattern": "a", "glob": "*.py"})]) == [
        Wish("grep", {"pattern": "a"})
    ]
    assert conversation.fresh([Wish("grep", {"glob": "*.py"}), Wish("ls", {})]) == []


def test_calls_are_found_in_a_transcript() -> None:
    """Excerpts as `orchestrator.context.compaction` makes them."""
    calls = [
        ("ls", {"path": "."}, "a/\nb.txt (12 bytes)\nc d.txt (1,234 bytes)"),
        ("glob", {"pattern": "*", "path": "a"}, "a/x.py\na/y.py"),
        ("grep", {"path": "a", "output": "count", "pattern": "^"}, "a/x.py:3\na/y.py:4"),
        ("grep", {"path": "a", "output": "content", "pattern": "'x\""}, "a/x.py:1:x y\na/y.py:2:z"),
        ("grep", {"path": "a", "pattern": "long"}, "a/x.py:1:" + "long " * 100),
        ("read_file", {"path": "a/x.py"}, "[lines 1–2 of 2 · end]\none\ntwo\n"),
    ]
    uses = [
        {"type": "tool_use", "id": f"t{i}", "name": name, "input": given}
        for i, (name, given, _) in enumerate(calls)
    ]
    results = [tool_result(f"t{i}", answer) for i, (_, _, answer) in enumerate(calls)]
    history = (assistant("I look.", *uses), user(*results))
    text = transcript([entry(message, 1, b"") for message in history], "")
    known = list(calls_in(text))
    assert [(name, given) for name, given, _ in known] == [call[:2] for call in calls]
    assert [answer for _, _, answer in known[:4]] == [answer for _, _, answer in calls[:4]]
    assert formats.is_incomplete(known[4][2])
    assert known[5][2] == "[lines 1–2 of 2 · end]"


# ── findings ─────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text("ab `:-*[]0,", min_size=1, max_size=20).map(lambda t: f"x{t}".strip())
FINDINGS = st.builds(
    Findings,
    covered=st.lists(PATHS, unique=True, max_size=3),
    lines=st.dictionaries(PATHS, st.integers(1, 99_999), max_size=4),
    purposes=st.dictionaries(PATHS, TEXTS, max_size=4),
    names=st.dictionaries(PATHS, st.lists(NAMES, min_size=1, unique=True), max_size=4),
    marked=st.dictionaries(st.tuples(PATHS, st.integers(1, 9_999)), TEXTS, max_size=4),
    gaps=st.lists(TEXTS, unique=True, max_size=3),
    read=st.dictionaries(PATHS, st.just(0), max_size=3),
)


@given(found=FINDINGS)
def test_findings_are_read_back_as_they_were_written(found: Findings) -> None:
    known = parse(f"Something before.\n\n{render(found, 50_000)}\n\nSomething behind.")
    assert known is not None
    assert known.size == found.size
    assert (known.covered, known.lines, known.purposes) == (
        found.covered,
        found.lines,
        found.purposes,
    )
    assert (known.marked, known.gaps, known.read) == (found.marked, found.gaps, found.read)
    assert {p: n[:10] for p, n in known.names.items()} == {
        p: n[:10] for p, n in found.names.items()
    }


@given(found=FINDINGS, room=st.integers(600, 3_000))
def test_a_rendering_fits_and_says_what_it_leaves_out(found: Findings, room: int) -> None:
    text = render(found, room)
    assert len(text.encode()) <= room + 300
    shown = parse(text)
    assert shown is not None
    assert shown.marked == found.marked or any("did not fit" in gap for gap in shown.gaps)


def test_totals_of_areas_add_up() -> None:
    parts = [Findings(lines={"a": 1}), Findings(total=(10, 100)), Findings(lines={"b": 2})]
    assert merged(parts).size == (12, 103)


def test_a_text_without_findings_is_none() -> None:
    assert parse("I found nothing of note.\n\n- a list: of things\n") is None


def test_a_conclusion_that_is_no_survey_is_kept_as_text() -> None:
    use = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "task",
        "input": {"prompt": "p", "description": "other"},
    }
    answer = "[helper helper-1 · finished · 0 tool calls · 9 tokens]\nAll is well."
    results: list[dict[str, object]] = [tool_result("toolu_1", answer)]
    request = Request(
        model="m", messages=[user("x"), assistant(use), {"role": "user", "content": results}]
    )
    [outcome] = outcomes_of(Conversation.of(request))
    assert (outcome.findings, outcome.text) == (None, "All is well.")
    assert outcome.is_finished
