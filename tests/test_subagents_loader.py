"""D1, D5: finding and reading definition files, whatever state they are in."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import subagents
from subagents import builtin, discover, load, resolve

READ_ONLY = ("ls", "read_file", "glob", "grep")


def put(path: Path, name: str, description: str = "Helps.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\nYou help.\n")
    return path


def test_public_names_are_sorted() -> None:
    assert subagents.__all__ == sorted(subagents.__all__, key=lambda n: (not n.isupper(), n))


def test_folders_are_read_to_the_bottom_and_files_as_given(tmp_path: Path) -> None:
    """D1: `**/*.md`."""
    put(tmp_path / "a" / "one.md", "one")
    put(tmp_path / "a" / "deep" / "er" / "two.md", "two")
    put(tmp_path / "a" / "node_modules" / "no.md", "no")
    put(tmp_path / "three.txt", "three")
    loaded = load(tmp_path / "a", str(tmp_path / "three.txt"))
    assert (list(loaded.definitions), loaded.problems) == (["one", "two", "three"], [])


def test_lookup_is_case_insensitive(tmp_path: Path) -> None:
    """D3: case-insensitive lookup."""
    loaded = load(put(tmp_path / "a.md", "Python Expert"))
    found = loaded.get("python expert")
    assert found is not None
    assert found is loaded.get("Python Expert")
    assert loaded.get("expert") is None


def test_one_bad_file_never_stops_the_others(tmp_path: Path) -> None:
    """D5: broken link, pipe, huge file, no text, no permission: each is one problem."""
    put(tmp_path / "good.md", "good")
    (tmp_path / "link.md").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "huge.md").write_bytes(b"x" * 1_000_001)
    (tmp_path / "bytes.md").write_bytes(bytes(range(256)))
    (tmp_path / "open.md").write_text("---\nname: x\n")
    (tmp_path / "README.md").write_text("# Agents")
    loaded = load(tmp_path, tmp_path / "missing.md")
    assert list(loaded.definitions) == ["good"]
    assert {Path(p.path).name: p.severity for p in loaded.problems} == {
        "README.md": "info",
        **dict.fromkeys(
            ["link.md", "pipe.md", "huge.md", "bytes.md", "open.md", "missing.md"], "error"
        ),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    put(tmp_path / "good.md", "good")
    (tmp_path / "shut").mkdir(mode=0o000)
    loaded = load(tmp_path)
    assert list(loaded.definitions) == ["good"]
    assert "shut:1: file: cannot be read" in str(loaded.problems[0])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_folders_that_cannot_even_be_looked_for_are_not_there(tmp_path: Path) -> None:
    """Those of another user: a service is often started with the environment of whoever started it."""
    put(tmp_path / "work/.claude/agents/good.md", "good")
    (tmp_path / "home").mkdir(mode=0o000)
    found = discover(tmp_path / "work", user=[tmp_path / "home/.config/outrider/agents"])
    assert found.problems == []
    assert "good" in found.definitions


def test_a_file_that_is_reached_twice_is_read_once(tmp_path: Path) -> None:
    path = put(tmp_path / "a.md", "a")
    (tmp_path / "b.md").symlink_to(path)
    assert load(path, tmp_path, path).problems == []


def test_equal_names_warn_and_name_both_files(tmp_path: Path) -> None:
    """D1: the same name twice: by order, with a warning naming both."""
    first, second = put(tmp_path / "1.md", "same", "One."), put(tmp_path / "2.md", "SAME", "Two.")
    loaded = load(first, second)
    assert [d.description for d in loaded.definitions.values()] == ["One."]
    [problem] = loaded.problems
    assert (problem.path, problem.severity) == (str(second), "warning")
    assert str(first) in problem.message
    assert str(second) in problem.message


def test_order_is_command_line_then_project_then_user_then_built_in(tmp_path: Path) -> None:
    """D1: command line > project (nearest first) > user > built-in."""
    top, root = tmp_path / "repo", tmp_path / "repo" / "part"
    (top / ".git").mkdir(parents=True)
    put(tmp_path / "extra" / "x.md", "explorer", "command line")
    put(root / ".outrider/agents/x.md", "explorer", "ours")
    put(root / ".outrider/agents/a.md", "a", "ours")
    put(root / ".claude/agents/a.md", "a", "claude")
    put(root / ".claude/agents/b.md", "b", "nearest")
    put(top / ".outrider/agents/b.md", "b", "further up")
    put(top / ".opencode/agent/c.md", "c", "project")
    put(tmp_path / "user/c.md", "c", "user")
    put(tmp_path / "user/d.md", "d", "user")
    put(tmp_path / "second/d.md", "d", "the user's second folder")
    put(tmp_path / "second/f.md", "f", "second")
    put(tmp_path / ".claude/agents/e.md", "e", "outside")
    loaded = discover(
        root, extra=[tmp_path / "extra"], user=[tmp_path / "user", tmp_path / "second"]
    )
    assert {name: d.description for name, d in loaded.definitions.items() if d.prompt[:8] == "You help"} == {
        "explorer": "command line",
        "a": "ours",
        "b": "nearest",
        "c": "project",
        "d": "user",
        "f": "second",
    }  # fmt: skip
    assert "built-in:explorer" in loaded.problems[-1].message
    assert len(loaded.problems) == 6


def test_without_version_control_only_the_root_counts(tmp_path: Path) -> None:
    put(tmp_path / ".claude/agents/a.md", "a")
    (tmp_path / "root").mkdir()
    loaded = discover(tmp_path / "root", user=[tmp_path / "nobody"])
    assert sorted(loaded.definitions) == ["explorer", "general", "reviewer", "writer"]
    assert loaded.problems == []


def test_built_in_definitions() -> None:
    """The built-in kinds load cleanly, say when to use them, and grant what they need."""
    loaded = builtin()
    have = (*READ_ONLY, "write_file", "edit_file", "bash", "task")
    assert loaded.problems == []
    assert {name: resolve(d, have).tools for name, d in loaded.definitions.items()} == {
        "explorer": READ_ONLY,
        "general": have,
        "reviewer": READ_ONLY,
        "writer": ("ls", "read_file", "glob", "grep", "write_file", "edit_file"),
    }
    for name, definition in loaded.definitions.items():
        assert definition.source == f"built-in:{name}"
        assert "use it" in definition.description
        assert len(definition.prompt.encode()) <= 900


def test_two_hundred_definitions_load_in_half_a_second(tmp_path: Path) -> None:
    for number in range(200):
        broken = ": so\nuser: x: y" * (number % 2)
        put(tmp_path / f"{number}.md", f"agent-{number}", f"Use it{broken}")
    start = time.process_time()
    loaded = load(tmp_path)
    assert time.process_time() - start <= 0.5
    assert len(loaded.definitions) == 200


@pytest.mark.parametrize("module", ["yaml", "pydantic", "difflib", "asyncio", "trio"])
def test_importing_costs_no_heavy_module(module: str) -> None:
    code = f"import sys, subagents; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
