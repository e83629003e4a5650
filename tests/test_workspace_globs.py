"""Globs and `.gitignore` files."""

import contextlib
import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace import BadPattern
from workspace.globs import Ignored, glob


def parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


GLOBS = [
    ("*.py", ["a.py", "sub/a.py", "sub/deep/a.py"], [".a.py", ".git/a.py", "a.pyc"]),
    ("/*.py", ["a.py"], ["sub/a.py"]),
    ("./*.py", ["a.py"], ["sub/b.pyc"]),
    ("sub/**/*.py", ["sub/a.py", "sub/x/y/a.py"], ["a.py", "other/sub/a.py", "sub/.x/a.py"]),
    ("*.{py,md}", ["a.py", "x/b.md"], ["a.txt", "a.{py,md}"]),
    ("{a,b{1,2}}.txt", ["a.txt", "b1.txt", "b2.txt"], ["b.txt"]),
    ("x{,.bak}", ["x", "x.bak"], ["x."]),
    ("[!a].py", ["b.py"], ["a.py", ".py", "/.py"]),
    ("[^a].py", ["b.py"], ["a.py"]),
    ("[a-c]?.py", ["bx.py"], ["dx.py", "b.py"]),
    ("[]].py", ["].py"], ["a.py"]),
    ("[\\]^-].py", [], ["a.py"]),
    ("**/*.py", ["a.py", "x/y/a.py"], [".x/a.py"]),
    ("**", ["a", "a/b"], [".a", "a/.b"]),
    ("src/**", ["src/a", "src/a/b"], ["src", "src/.a", "a/src/b"]),
    ("src/", ["src/a", "x/src/a/b"], ["src"]),
    (".*", [".env", "a/.env"], ["env", ".git/config"]),
    (".github/**", [".github/workflows/ci.yml"], [".github/.x"]),
    ("?env", ["xenv"], [".env"]),
    ("a\\*b", ["a*b"], ["axb"]),
    ("a\\{b\\}", ["a{b}"], ["ab"]),
    ("a**b.txt", ["ab.txt", "axyb.txt"], ["a/b.txt"]),
    ("a*b*c*", ["abc", "a1b2c3", "abbcbc"], ["acb", "ab/c"]),
    ("a}b,c", ["a}b,c"], ["ab"]),
    ("é*", ["é1"], ["e1"]),
    ("[\\d].x", ["d.x"], ["1.x"]),
]


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), GLOBS)
def test_a_glob_matches_what_it_says(
    pattern: str, matched: list[str], unmatched: list[str]
) -> None:
    """G4: any depth, top only, braces, classes, dotfiles only when asked."""
    compiled = glob(pattern)
    assert [path for path in matched if not compiled.matches(parts(path))] == []
    assert [path for path in unmatched if compiled.matches(parts(path))] == []


def test_dotfiles_can_be_asked_for_as_a_whole() -> None:
    """G4."""
    assert glob("*.yml", dotfiles=True).matches(parts(".github/ci.yml"))
    assert glob("**/x", dotfiles=True).matches(parts(".a/.b/x"))


@pytest.mark.parametrize(
    ("pattern", "reason", "column"),
    [
        ("a/{b,c", "unclosed {", 3),
        ("ab[c", "unclosed [", 3),
        ("../*.py", "'..' is not allowed", 1),
        ("[z-a]", "bad class", 1),
        ("{a,b}" * 12, "too many", 1),
        ("{" * 5_000, "nested too deep", 1),
    ],
)
def test_a_bad_glob_shows_the_column(pattern: str, reason: str, column: int) -> None:
    """G1, G4."""
    with pytest.raises(BadPattern) as caught:
        glob(pattern)
    assert reason in str(caught.value)
    assert caught.value.column == column


def test_many_stars_stay_cheap() -> None:
    """G2: a glob cannot hang either."""
    assert not glob("*a" * 60 + "b").matches(("a" * 250,))


@given(st.text(alphabet="ab*?.", min_size=1, max_size=8), st.text(alphabet="ab.", min_size=1))
def test_stars_and_question_marks_mean_what_fnmatch_says(pattern: str, name: str) -> None:
    """G4: for one visible name."""
    if pattern in (".", "**") or ".." in (pattern, name):
        return
    expected = fnmatch.fnmatchcase(name, pattern)
    if name.startswith(".") and not pattern.startswith("."):
        expected = False
    assert glob(pattern).matches((name,)) == expected


@given(st.text(alphabet="ab/*?[]{},!\\.-^"))
def test_any_glob_compiles_or_is_a_bad_pattern(pattern: str) -> None:
    """G4: an error result, never a crash or a warning."""
    with contextlib.suppress(BadPattern):
        assert glob(pattern).expression


def test_ignore_files_add_up_and_the_inner_one_wins() -> None:
    """G3: `.gitignore` at several depths, negation, folders, lines that git rejects."""
    ignored = Ignored().adding(0, "*.log\nbuild/\n!\n# comment\n/top\n")
    inner = ignored.adding(1, "!keep.log\nlocal\n")
    assert ignored.covers(("a.log",), folder=False)
    assert ignored.covers(("sub", "build"), folder=True)
    assert not ignored.covers(("build",), folder=False)
    assert ignored.covers(("top",), folder=False)
    assert not ignored.covers(("sub", "top"), folder=False)
    assert not inner.covers(("sub", "keep.log"), folder=False)
    assert inner.covers(("sub", "other.log"), folder=False)
    assert inner.covers(("sub", "local"), folder=False)
    assert not Ignored().covers(("x",), folder=False)
