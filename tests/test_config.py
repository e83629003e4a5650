"""Settings: where each comes from, and what is said of one that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import ConfigError, Context, Limits
from orchestrator.config import Settings, load_settings, unknown_variables, user_config


@pytest.fixture(autouse=True)
def no_settings_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests' own environment: nothing of the person's who runs them."""
    import os

    for name in list(os.environ):
        if name.startswith(("OUTRIDER_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws/.outrider").mkdir(parents=True)
    return tmp_path / "ws"


def write_project(root: Path, text: str) -> None:
    (root / ".outrider/config.toml").write_text(text)


def write_user(text: str) -> None:
    user_config().parent.mkdir(parents=True, exist_ok=True)
    user_config().write_text(text)


def refusal(root: Path, options: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(root, options)
    return str(caught.value)


def test_without_any_setting_the_defaults_are_the_librarys(root: Path) -> None:
    configured = load_settings(root)
    assert configured.settings.limits() == Limits()
    assert configured.settings.context() == Context()
    assert configured.origin("max_turns") == "default"


def test_an_option_goes_before_the_environment_before_the_project_before_the_user(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_user("max_turns = 1\ndepth = 1\nkeep_turns = 1\nmax_agents = 1\n")
    write_project(root, "max_turns = 2\ndepth = 2\nkeep_turns = 2\n")
    monkeypatch.setenv("OUTRIDER_MAX_TURNS", "3")
    monkeypatch.setenv("OUTRIDER_DEPTH", "3")
    configured = load_settings(root, {"max_turns": "4"})
    settings = configured.settings
    assert (settings.max_turns, settings.depth, settings.keep_turns) == (4, 3, 2)
    assert settings.max_agents == 1
    origins = [configured.origin(n) for n in ("max_turns", "depth", "keep_turns", "max_agents")]
    project = ".outrider/config.toml"
    assert origins == ["option", "OUTRIDER_DEPTH", project, str(user_config())]


@pytest.mark.parametrize("word", ["none", "None", "never"])
def test_none_takes_a_limit_away_that_has_a_default(root: Path, word: str) -> None:
    settings = load_settings(root, {"max_turns": word, "offload_at": word}).settings
    assert settings.limits().max_turns is None
    assert settings.context().offload_at is None


def test_what_one_place_denies_no_other_place_allows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a rule on the command line does not drop the project's."""
    write_project(root, 'deny = ["write(docs/**)"]\n')
    monkeypatch.setenv("OUTRIDER_DENY", "write_file, read(secret/)")
    configured = load_settings(root, {"deny": ["task"]})
    rules = ("task", "write_file", "read(secret/)", "write(docs/**)")
    assert configured.settings.permissions().deny == rules
    assert configured.origin("deny") == "option, OUTRIDER_DENY, .outrider/config.toml"


def test_model_names_of_project_and_user_are_one_table(root: Path) -> None:
    write_user('[models]\nFast = "user-fast"\nbig = "user-big"\n')
    write_project(root, '[models]\nfast = "project-fast"\n')
    assert load_settings(root).settings.models == {"fast": "project-fast", "big": "user-big"}


def test_lists_in_the_environment_are_json_or_texts_between_commas(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_AGENTS", "a.md, b.md")
    monkeypatch.setenv("OUTRIDER_TOOLS", '["m:one", "m:two"]')
    monkeypatch.setenv("OUTRIDER_MODELS", "fast=a,big=b")
    settings = load_settings(root).settings
    assert (settings.agents, settings.tools) == (("a.md", "b.md"), ("m:one", "m:two"))
    assert settings.models == {"fast": "a", "big": "b"}


def test_paths_in_a_file_are_relative_to_its_workspace(root: Path) -> None:
    write_project(root, 'agents = ["team"]\n')
    assert load_settings(root).settings.agents == (str(root / "team"),)


def test_the_sdks_own_address_variable_is_part_of_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's file cannot lead away from where the person's environment points."""
    write_project(root, 'base_url = "http://elsewhere"\n')
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://mine")
    configured = load_settings(root)
    assert configured.settings.base_url == "http://mine"
    assert configured.origin("base_url") == "ANTHROPIC_BASE_URL"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nmax-turn = 4\n", ".outrider/config.toml:2: max-turn: no such setting; did you mean"),
        ("# first\n\n[modells]\na = 'b'\n", ".outrider/config.toml:3: modells: no such setting"),
        (
            "depth = 1\nmax_turns = 'many'\n",
            ".outrider/config.toml:2: max_turns: write a whole number",
        ),
        ("max_turns = -4\n", ".outrider/config.toml:1: max_turns: must be over 0, or none"),
        ("compact_at = 7\n", ".outrider/config.toml:1: compact_at: is a share"),
        ("deny = ['rm(x)']\n", ".outrider/config.toml:1: deny: the rule 'rm(x)'"),
        ("[models]\nx = 3\n", ".outrider/config.toml:1: models: Input should"),
        ("max_turns = = 4\n", ".outrider/config.toml: no valid TOML: Invalid value (at line 1"),
    ],
)
def test_an_error_names_file_line_and_key(root: Path, text: str, said: str) -> None:
    """H3."""
    write_project(root, text)
    assert refusal(root).startswith(said)


def test_a_misspelt_key_gets_the_nearest_valid_one(root: Path) -> None:
    write_project(root, "max_token = 4\n")
    assert refusal(root).endswith("did you mean max_tokens?")
    write_project(root, "zzzzzzzz = 4\n")
    assert "outrider config show" in refusal(root)


def test_an_error_names_the_option_or_the_variable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(root, {"max_turns": "x"}).startswith("--max-turns: write a whole number")
    monkeypatch.setenv("OUTRIDER_MAX_SECONDS", "soon")
    assert refusal(root).startswith("OUTRIDER_MAX_SECONDS: write a number")
    monkeypatch.setenv("OUTRIDER_MAX_SECONDS", "")
    monkeypatch.setenv("OUTRIDER_TOOLS", "[")
    assert refusal(root).startswith("OUTRIDER_TOOLS: no valid JSON list")


def test_a_file_that_cannot_be_read_is_an_error_in_words(root: Path) -> None:
    (root / ".outrider/config.toml").write_bytes(b"model = '\xff'\n")
    assert refusal(root) == ".outrider/config.toml: not UTF-8: save it as UTF-8 text"
    (root / ".outrider/config.toml").unlink()
    (root / ".outrider/config.toml").mkdir()
    assert refusal(root) == ".outrider/config.toml: cannot be read: Is a directory"


def test_a_variable_that_is_no_setting_is_noted_and_no_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TURN", "3")
    monkeypatch.setenv("OUTRIDER_ROOT", "/")
    assert load_settings(root).settings == Settings()
    assert unknown_variables() == ["OUTRIDER_MAX_TURN: no such setting; did you mean max_turns?"]


def test_every_limit_and_context_setting_of_the_library_can_be_set() -> None:
    from dataclasses import fields

    own = set(Settings.model_fields)
    assert {f.name for f in fields(Limits)} <= own
    assert {f.name for f in fields(Context)} - {"summary_tokens", "keep_tokens"} <= own


def test_the_rules_of_all_places_add_up_in_their_order(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_user('ask = ["task"]\n')
    write_project(root, 'allow = ["bash(make:*)"]\nask = ["bash(git push:*)"]\n')
    monkeypatch.setenv("OUTRIDER_ALLOW", "fetch")
    configured = load_settings(root, {"allow": ["bash(git log:*)"]})
    permissions = configured.settings.permissions()
    assert permissions.allow == ("bash(git log:*)", "fetch", "bash(make:*)")
    assert permissions.ask == ("bash(git push:*)", "task")
    assert configured.origin("allow") == "option, OUTRIDER_ALLOW, .outrider/config.toml"


def test_ask_is_rules_or_a_yes_or_no_whether_a_person_may_be_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(root).settings.asking is None
    write_project(root, 'ask = ["task"]\n')
    monkeypatch.setenv("OUTRIDER_ASK", "no")
    configured = load_settings(root)
    assert (configured.settings.ask, configured.settings.asking) == (("task",), False)
    assert configured.origin("asking") == "OUTRIDER_ASK"
    assert load_settings(root, {"asking": True}).settings.asking is True
    monkeypatch.setenv("OUTRIDER_ASK", "bash(rm:*)")
    assert load_settings(root).settings.ask == ("bash(rm:*)", "task")
    write_project(root, "ask = false\n")
    assert load_settings(root).settings.asking is False


def write_claude(root: Path, text: str, name: str = "settings.json") -> None:
    (root / ".claude").mkdir(exist_ok=True)
    (root / ".claude" / name).write_text(text)


def test_a_folder_that_begins_with_two_dots_is_inside(root: Path) -> None:
    write_claude(root, '{"permissions": {"deny": ["Read(..vault/**)", "Read(../vault/**)"]}}')
    assert load_settings(root).settings.deny == ("Read(..vault/**)",)


def test_claude_codes_settings_in_endless_brackets_are_one_clear_error(root: Path) -> None:
    write_claude(root, "[" * 200_000)
    assert refusal(root).startswith(".claude/settings.json: no valid JSON")


def test_claude_codes_settings_take_away_and_never_give(root: Path) -> None:
    """P6: their rules to deny and to ask hold here too; what they allow, and their modes, do not."""
    rules = """{"permissions": {
        "allow": ["Bash(*)", "WebFetch", "Write(.claude/agents/**)"],
        "ask": ["Bash(git push:*)", "WebFetch(domain:x.org)", "Edit(docs/**)"],
        "deny": ["Read(./.env)", "Read(~/.ssh/**)", "Bash(curl:*)", "Bash(a $(b))", "SlashCommand(x)"],
        "defaultMode": "bypassPermissions"}, "model": "opus", "env": {"A": "b"}}"""
    write_claude(root, rules)
    write_claude(root, '{"permissions": {"deny": ["task"]}}', "settings.local.json")
    configured = load_settings(root, {"allow": ["bash(git:*)"], "deny": ["glob"]})
    permissions = configured.settings.permissions()
    assert permissions.allow == ("bash(git:*)",)
    # Nothing is asked about a tool that is not there: the rule alone would enable it.
    assert permissions.ask == ("Bash(git push:*)", "Edit(docs/**)")
    assert not permissions.enables("fetch")
    # A pattern that cannot be read takes the whole tool; what lies outside is out of reach anyway.
    deny = ("glob", "Read(./.env)", "Bash(curl:*)", "Bash", "SlashCommand", "task")
    assert permissions.deny == deny
    assert configured.settings.model is None
    origin = "option, .claude/settings.json, .claude/settings.local.json"
    assert configured.origin("deny") == origin


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"permissions": {"ask": ["a b"]}}',
        '{"permissions": 7}',
        '{"permissions": {"deny": "Bash"}}',
        "\xff",
    ],
)
def test_claude_codes_settings_that_cannot_be_read_are_an_error_and_not_passed_over(
    root: Path, text: str
) -> None:
    """P6: they may be there to protect something."""
    write_claude(root, "")
    (root / ".claude/settings.json").write_bytes(text.encode("latin-1"))
    assert refusal(root).startswith(".claude/settings.json: ")
