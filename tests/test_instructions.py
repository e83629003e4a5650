"""`AGENTS.md` and `CLAUDE.md`: which are read, in what order, what they import, what is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import Permissions, Request, run
from orchestrator.testing import ScriptedModel, call, results
from workspace import Access, Rule, project_instructions
from workspace.imports import imports
from workspace.instructions import ALL_CHARS, DEEPEST_IMPORT


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A folder under version control, with a workspace two folders down."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/packages/api").mkdir(parents=True)
    return tmp_path / "repo"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


# ── the chain ──


def test_the_chain_goes_from_the_folder_under_version_control_down_to_the_workspace(
    repo: Path,
) -> None:
    write(repo.parent, **{"AGENTS.md": "OUTSIDE"})
    write(repo, **{"AGENTS.md": "top", "packages/CLAUDE.md": "middle"})
    write(
        repo / "packages/api", **{"AGENTS.md": "own", "CLAUDE.md": "claude", "x/AGENTS.md": "BELOW"}
    )
    assert project_instructions(repo / "packages/api") == (
        "## ../../AGENTS.md\n\ntop\n\n## ../CLAUDE.md\n\nmiddle\n\n"
        "## AGENTS.md\n\nown\n\n## CLAUDE.md\n\nclaude\n"
    )
    assert headings(project_instructions(repo)) == ["AGENTS.md"]


def test_without_version_control_only_the_workspace_itself_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path, **{"AGENTS.md": "above", "ws/AGENTS.md": "own"})
    assert project_instructions(tmp_path / "ws") == "## AGENTS.md\n\nown\n"


def test_a_text_comes_once_wherever_it_stands(repo: Path) -> None:
    """A symlink, the same bytes, an import of the other, and its bare name."""
    api = repo / "packages/api"
    write(
        repo,
        **{
            "AGENTS.md": "the rules",
            "packages/AGENTS.md": "more",
            "packages/CLAUDE.md": "@AGENTS.md\n",
        },
    )
    write(api, **{"AGENTS.md": "the rules\n"})
    (repo / "CLAUDE.md").symlink_to("AGENTS.md")
    (api / "CLAUDE.md").symlink_to("../AGENTS.md")
    assert headings(project_instructions(api)) == ["../../AGENTS.md", "../AGENTS.md"]


def test_a_chain_file_that_leads_out_of_the_project_is_named_and_not_read(repo: Path) -> None:
    """P3."""
    write(repo.parent, secret="SECRET")
    (repo / "AGENTS.md").symlink_to("../secret")
    text = project_instructions(repo / "packages/api")
    assert "SECRET" not in text
    assert text.startswith("## ../../AGENTS.md\n\n[not read: ")


# ── imports ──


def test_imports_come_after_the_file_that_names_them_each_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "CLAUDE.md": "See @docs/style.md, @./docs/tests.md and (not this) docs/x.md.\n@docs/style.md",
            "docs/style.md": "Style. Also @deeper/more.md",
            "docs/tests.md": "Tests, and @../CLAUDE.md, and @style.md.",
            "docs/deeper/more.md": "More.",
            "docs/x.md": "NOT IMPORTED",
        },
    )
    text = project_instructions(tmp_path)
    assert headings(text) == ["CLAUDE.md", "docs/style.md", "docs/deeper/more.md", "docs/tests.md"]
    assert "NOT IMPORTED" not in text
    assert text.startswith("## CLAUDE.md\n\nSee @docs/style.md, ")


def test_people_packages_code_and_folders_are_no_imports(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "AGENTS.md": "Ask @ann (ann@docs/a.md) about @types/node or @src.\n`@docs/a.md`\n"
            "```\n@docs/a.md\n```\n``x ` @docs/a.md``\n",
            "docs/a.md": "NOT IMPORTED",
            "src/x.py": "",
        },
    )
    text = project_instructions(tmp_path)
    assert headings(text) == ["AGENTS.md"]
    assert "NOT IMPORTED" not in text
    assert "[not imported" not in text


def test_a_file_of_imports_alone_has_no_section_but_says_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, **{"CLAUDE.md": "@a.md\n@b\\ c.md\n", "a.md": "A.", "b c.md": "B C."})
    assert project_instructions(tmp_path) == "## a.md\n\nA.\n\n## b c.md\n\nB C.\n"
    (tmp_path / "a.md").unlink()
    assert project_instructions(tmp_path) == (
        "## CLAUDE.md\n\n@a.md\n@b\\ c.md\n[not imported: @a.md: not found]\n\n## b c.md\n\nB C.\n"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("~/notes.md", "outside the project"),
        ("/etc/hostname", "outside the project"),
        ("../outside.md", "outside the project"),
        ("link.md", "link.md: a symbolic link that leads outside the workspace"),
        (".outrider/config.toml", ".outrider/config.toml: .outrider/ is Outrider's own folder"),
        ("secret/key.md", "denied by read(secret/**): secret/key.md"),
        ("docs/alias.md", "denied by read(secret/**): "),
        ("picture.png", "picture.png: is not text"),
        ("loop.md", "loop.md: symbolic links form a loop"),
    ],
)
def test_an_import_that_may_not_be_read_is_named_and_not_read(
    tmp_path: Path, path: str, why: str
) -> None:
    """P2, P3, P4: imports widen nothing."""
    root = tmp_path / "ws"
    write(
        root,
        **{
            "CLAUDE.md": f"Read @{path} first.",
            "secret/key.md": "SECRET",
            ".outrider/config.toml": "SECRET",
            "docs/x.md": "",
            "picture.png": "SECRET\0",
        },
    )
    write(tmp_path, **{"outside.md": "SECRET"})
    (root / "link.md").symlink_to("../outside.md")
    (root / "docs/alias.md").symlink_to("../secret/key.md")
    (root / "loop.md").symlink_to("loop.md")
    deny = Access(deny_read=(Rule("secret/**", "read(secret/**)"),))
    text = project_instructions(root, deny.check_read)
    assert "SECRET" not in text
    assert f"[not imported: @{path}: {why}" in text
    assert headings(text) == ["CLAUDE.md"]


def test_imports_stay_in_the_workspace_also_from_a_file_above_it(repo: Path) -> None:
    api = repo / "packages/api"
    write(
        repo,
        **{
            "CLAUDE.md": "@AGENTS.md and @docs/a.md and @packages/api/b.md",
            "AGENTS.md": "top",
            "docs/a.md": "A",
        },
    )
    write(api, **{"b.md": "B"})
    text = project_instructions(api)
    assert headings(text) == ["../../AGENTS.md", "../../CLAUDE.md", "b.md"]
    assert "[not imported: @docs/a.md: ../../docs/a.md: outside the workspace]" in text


def test_imports_are_followed_to_a_depth_and_what_is_deeper_is_named(tmp_path: Path) -> None:
    for number in range(DEEPEST_IMPORT + 2):
        write(tmp_path, **{f"{number}.md": f"Number {number}. @{number + 1}.md"})
    write(tmp_path, **{"AGENTS.md": "Start: @0.md"})
    text = project_instructions(tmp_path)
    assert headings(text) == ["AGENTS.md", *(f"{n}.md" for n in range(DEEPEST_IMPORT))]
    assert f"[not imported: @{DEEPEST_IMPORT}.md: more than 5 imports deep]" in text


def test_files_that_import_each_other_come_once(tmp_path: Path) -> None:
    write(
        tmp_path, **{"AGENTS.md": "A @b.md", "b.md": "B @c.md @AGENTS.md", "c.md": "C @b.md @c.md"}
    )
    assert headings(project_instructions(tmp_path)) == ["AGENTS.md", "b.md", "c.md"]


def test_reading_imports_takes_time_in_proportion_to_the_text() -> None:
    """Texts on which a careless pattern would take hours."""
    for text in ("`" * 200_000, "``a" * 70_000, "```\n" * 50_000, "@" * 200_000, "\\ " * 100_000):
        list(imports(text))


# ── size ──


def test_where_there_is_no_room_the_nearest_files_stay_and_the_others_are_named(repo: Path) -> None:
    api = repo / "packages/api"
    write(repo, **{"AGENTS.md": "t" * 9_000, "packages/AGENTS.md": "m" * 9_000})
    write(api, **{"AGENTS.md": "o" * 9_000 + " @long.md", "long.md": "i" * 9_000})
    text = project_instructions(api)
    assert len(text) < ALL_CHARS + 600
    assert headings(text) == ["../../AGENTS.md", "../AGENTS.md", "AGENTS.md"]
    assert "o" * 9_000 in text
    assert "m" * 9_000 in text
    assert "of 9,000 characters of ../../AGENTS.md]" in text
    assert text.endswith("\n[left out for want of room: long.md (9,000 characters)]\n")


def test_many_files_that_do_not_fit_are_named_in_one_bounded_line(tmp_path: Path) -> None:
    names = [f"{number:03}.md" for number in range(200)]
    for name in names:
        write(tmp_path, **{name: f"{name} {'x' * 5_000}"})
    write(tmp_path, **{"AGENTS.md": " ".join(f"@{name}" for name in names) + " and so on"})
    text = project_instructions(tmp_path)
    assert len(text) < ALL_CHARS + 1_000
    assert "@099.md: more than 100 files]\n" in text
    assert re.search(
        r"\n\[left out for want of room: 004.md \(.*\]\n\[85 more files left out\]\n$", text
    )
    assert "\n[91 more imports left out]\n" in text


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["AGENTS.md", "CLAUDE.md", "a.md", "d/b.md"]),
        st.lists(
            st.sampled_from(
                ["word ", "@a.md ", "@d/b.md", "@../a.md ", "\n", "@AGENTS.md", "`", "@x "]
            ),
            max_size=6,
        ).map("".join),
    )
)
def test_no_file_comes_twice_whatever_imports_what(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]
) -> None:
    root = tmp_path_factory.mktemp("ws")
    write(root, **files)
    found = headings(project_instructions(root))
    assert len(set(found)) == len(found)
    assert set(found) <= {name for name, text in files.items() if text.strip()}


# ── in a run ──


async def first_requests(root: Path, *kinds: str, **options: Any) -> dict[str, Request]:
    seen: dict[str, Request] = {}

    def script(request: Request) -> Any:
        seen.setdefault(request.agent_type, request)
        if request.agent_type == "main" and not results(request):
            return [call("task", prompt="x", subagent_type=kind) for kind in kinds] or "done"
        return "done"

    await run("x", model=ScriptedModel(script), root=root, **options)
    return seen


def define(root: Path, name: str, fields: str) -> None:
    text = f"---\nname: {name}\ndescription: For {name}.\n{fields}\n---\nYou are {name}.\n"
    write(root, **{f".outrider/agents/{name}.md": text})


@pytest.mark.anyio
async def test_each_definition_can_have_instructions_and_memory_or_either_or_neither(
    tmp_path: Path,
) -> None:
    write(tmp_path, **{"AGENTS.md": "RULES-MARK", ".outrider/MEMORY.md": "- MEMORY-MARK\n"})
    define(tmp_path, "plain", "")
    define(tmp_path, "remembers", "memory: project")
    define(tmp_path, "obeys", "instructions: yes")
    define(tmp_path, "both", "memory: project\ninstructions: no")
    seen = await first_requests(tmp_path, "plain", "remembers", "obeys", "both")
    marks = {k: (b"RULES-MARK" in r.body, b"MEMORY-MARK" in r.body) for k, r in seen.items()}
    assert marks == {
        "main": (True, True),
        "plain": (False, False),
        "remembers": (True, True),
        "obeys": (True, False),
        "both": (False, True),
    }
    seen = await first_requests(tmp_path, "obeys", memory=False)
    assert not any(b"-MARK" in r.body for r in seen.values())


@pytest.mark.anyio
async def test_a_runs_denials_hold_for_what_instructions_import(tmp_path: Path) -> None:
    """P4, P6."""
    write(tmp_path, **{"AGENTS.md": "See @secret/x.md", "secret/x.md": "SECRET-MARK"})
    seen = await first_requests(tmp_path, permissions=Permissions(deny=("read(secret/**)",)))
    assert b"SECRET-MARK" not in seen["main"].body
    assert b"[not imported: @secret/x.md: denied by read(secret/**)" in seen["main"].body
    seen = await first_requests(tmp_path)
    assert b"SECRET-MARK" in seen["main"].body
