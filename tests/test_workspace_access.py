"""Deny rules and the private folder, decided by names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace import Access, Denied, Refused, Rule


def parts(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


@pytest.mark.parametrize(
    ("pattern", "covered", "free"),
    [
        ("secret/**", ["secret", "secret/x", "secret/x/y", "SECRET/x"], ["secrets", "a/secret/x"]),
        ("secret/", ["secret", "secret/x", "a/secret/x"], ["secrets/x"]),
        ("*.env", [".env", "a/b/.ENV", "x.env", "x.env/y"], ["env", "x.envy"]),
        ("/.env", [".env"], ["a/.env"]),
        ("**/keys/**", ["keys", "a/keys", "a/Keys/k"], ["keyst/x"]),
        ("a/*/c", ["a/b/c", "A/B/C/d"], ["a/c", "a/b/x/c"]),
        ("**", ["x", "x/y"], []),
        ("Straße?", ["STRAßE1"], ["strasse1"]),
        ("[ab].txt", ["a.txt", "B.TXT"], ["c.txt"]),
    ],
)
def test_a_rule_covers_what_gitignore_would_whatever_the_case(
    pattern: str, covered: list[str], free: list[str]
) -> None:
    """P4: case tricks do not pass; a denied folder covers what is in it, and its own name."""
    rule = Rule(pattern)
    assert [path for path in covered if not rule.matches(parts(path))] == []
    assert [path for path in free if rule.matches(parts(path))] == []


def test_a_line_break_in_a_name_does_not_pass_a_rule() -> None:
    """P4."""
    assert Rule("secret/**").matches(("secret", "a\nb"))
    assert Rule("*.key").matches(("a\nb.key",))


@pytest.mark.parametrize("pattern", ["", "  ", "!x", "# x"])
def test_a_rule_that_would_deny_nothing_is_an_error(pattern: str) -> None:
    """P6: text that narrows nothing is not taken for a rule."""
    with pytest.raises(ValueError, match="not a deny pattern"):
        Rule(pattern)


def test_a_refusal_begins_with_the_rule_as_the_user_wrote_it() -> None:
    """P7: the text names the rule."""
    access = Access(deny_read=(Rule("secret/**", "read(secret/**)"),), deny_write=(Rule("*.lock"),))
    with pytest.raises(Denied) as read:
        access.check_read(("secret", "x"))
    assert read.value.rule == "read(secret/**)"
    assert str(read.value) == "denied by read(secret/**): secret/x"
    with pytest.raises(Denied) as write:
        access.check_write(("a.lock",))
    assert write.value.rule == "*.lock"
    access.check_read(("a.lock",))


def test_what_may_not_be_read_may_not_be_written() -> None:
    """P6: the narrower of the two holds."""
    with pytest.raises(Denied):
        Access(deny_read=(Rule("x"),)).check_write(("x",))


def test_the_private_folder_is_never_written_and_read_only_where_it_is_ones_own() -> None:
    """L8: also in another case, and also where it may be read."""
    own = [".outrider/runs/R/agents/A/results"]
    access = Access(readable_private=lambda: own)
    access.check_read(parts(".outrider/runs/R/agents/A/results/0001-x.txt"))
    for path in (".outrider", ".outrider/MEMORY.md", ".OUTRIDER/x", ".outrider/runs/R/agents/A"):
        with pytest.raises(Refused):
            access.check_read(parts(path))
        assert access.hides(parts(path))
    for path in (".outrider/runs/R/agents/A/results/x", ".Outrider/x", ".outrider"):
        with pytest.raises(Refused, match="written by a tool"):
            access.check_write(parts(path))
    own.append(".outrider/runs/R/agents/B/results/")
    access.check_read(parts(".outrider/runs/R/agents/B/results/y"))
    with pytest.raises(Refused):
        access.check_read(parts(".outrider/runs/R/agents/B/results-other/y"))


def test_without_rules_all_but_the_private_folder_is_free() -> None:
    """L8: nothing of it is readable unless it is said."""
    Access().check_read(("a",))
    Access().check_write(("a",))
    assert Access().hides((".outrider", "runs"))


@given(st.lists(st.sampled_from(["secret", "Secret", "a", "SECRET", "x.py"]), min_size=1))
def test_no_spelling_of_a_denied_name_is_free(names: list[str]) -> None:
    """P4: a path is denied exactly when some name in it is the denied one, in any case."""
    denied = any(name.lower() == "secret" for name in names)
    assert Access(deny_read=(Rule("secret"),)).hides(tuple(names)) == denied
