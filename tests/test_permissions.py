"""The rule grammar and what rules decide: tables, and laws over generated rules and calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator import ConfigError, Permissions
from orchestrator.permissions import OPTIONAL, Decision, rule
from orchestrator.permissions.protected import protecting
from orchestrator.permissions.subjects import Path

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def verdict(permissions: Permissions, tool: str, **arguments: Any) -> str:
    return permissions.decide(tool, arguments).verdict


def allowing(*rules: str) -> Permissions:
    return Permissions(allow=rules)


def denying(*rules: str) -> Permissions:
    return Permissions(deny=rules)


def of(**rules: Any) -> Permissions:
    return Permissions(**rules)


# ── commands ──

BEYOND_A_PREFIX = [
    "git status; rm -rf /",
    "git status;rm -rf /",
    "git status && x",
    "git status&&x",
    "git status || x",
    "git status | sh",
    "git status & x",
    "git status &",
    "git status\nrm -rf /",
    "git status $(rm -rf /)",
    "git status `rm -rf /`",
    'git status "$(rm -rf /)"',
    'git status "`rm -rf /`"',
    "git status <(rm -rf /)",
    "git status >(tee x)",
    "git status > /etc/passwd",
    "git status >> x",
    "git status < x",
    "git status 2>&1",
    "git status &> x",
    "git status <<< x",
    "git status << EOF\nEOF",
    "git status $HOME",
    "git status ${x:=y}",
    "git status \\\nx",
    "git status # rest",
    "git status 'open",
    'git status "open',
    "git status \\",
    "git status \x00",
    "git status\r\nx",
    "git status\u2028x",
    "git status ;; x",
    "git status |& x",
    "env X=1 git status",
    "X=1 git status",
    "X+=1 git status",
    "X[0]=1 git status",
    "sudo git status",
    "time git status",
    "! git status",
    "{ git status; }",
    "(git status)",
    "if git status; then x; fi",
    "function git { x; }; git status",
    "git() { rm -rf /; }; git status",
    "coproc git status",
    "[[ git status ]]",
    "./git status",
    "/usr/bin/git status",
    "GIT status",
    "git statusx",
    "git 'status x'",
    "git status'x'",
    "git st{a,b}tus",
    "git stat*",
    "g?t status",
    "~/git status",
    "git -C / status",
    "git",
    "",
    "   ",
    "\n",
    "; git status",
    "&& git status",
    "alias git=rm; git status",
    "git status" + " x" * 20_000,
]


@pytest.mark.parametrize("command", BEYOND_A_PREFIX)
def test_a_prefix_covers_nothing_but_plain_commands_that_begin_so(command: str) -> None:
    permissions = allowing("bash(git status:*)")
    assert (verdict(permissions, "bash", command=command) == "allow") == (command == "git status &")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "  git   status  ",
        "git status -s --porcelain",
        "git status *.py",
        "git status 'a; rm -rf /'",
        'git status "a && b"',
        r"git status a\;b",
        "'git' \"sta\"tus",
        "git status;",
        "git status\n",
        "git status; git status -s\n\ngit status && git status | git status",
    ],
)
def test_quoting_and_joining_what_is_allowed_is_allowed(command: str) -> None:
    assert verdict(allowing("bash(git status:*)"), "bash", command=command) == "allow"


@pytest.mark.parametrize(
    ("rules", "command", "allowed"),
    [
        (["bash(git status)"], "git status", True),
        (["bash(git status)"], "git status -s", False),
        (["bash(git status *)"], "git status", True),
        (["bash(git status *)"], "git status -s", True),
        (["Bash(git status:*)"], "git status -s", True),
        (["bash(npm run test-*)"], "npm run test-unit", True),
        (["bash(npm run test-*)"], "npm run test-unit x", False),
        (["bash(npm run test-*)"], "npm run build", False),
        (["bash(git * main)"], "git push origin main", True),
        (["bash(git * main)"], "git push origin main x", False),
        (["bash(grep 'a b' *)"], "grep 'a b' x", True),
        (["bash(grep 'a b' *)"], "grep a b x", False),
        (["bash(echo '*')"], "echo '*'", True),
        (["bash(echo '*')"], "echo x", False),
        (["bash(git status:*)", "bash(head:*)"], "git status | head -3", True),
        (["bash(git status:*)", "bash(head:*)"], "git status | tail -3", False),
        (["bash"], "rm -rf / $(x) > y", True),
        (["Bash"], "x", True),
        (["bash(*)"], "a; b $(c)", True),
        (["bash(:*)"], "a", True),
    ],
)
def test_what_a_shell_rule_allows(rules: list[str], command: str, allowed: bool) -> None:
    """A compound is allowed only if every part is."""
    assert (verdict(allowing(*rules), "bash", command=command) == "allow") is allowed


@pytest.mark.parametrize(
    ("text", "command", "denied"),
    [
        ("bash(rm:*)", "rm -rf x", True),
        ("bash(rm:*)", "git status; rm x", True),
        ("bash(rm:*)", "git status && git log | rm", True),
        ("bash(rm:*)", "/bin/rm x", True),
        ("bash(rm:*)", "./rm x", True),
        ("bash(rm:*)", "RM x", True),
        ("bash(rm:*)", "r'm' x", True),
        ("bash(rm:*)", "env X=1 rm x", True),
        ("bash(rm:*)", "sudo -u root rm x", True),
        ("bash(rm:*)", "timeout 5 nice rm x", True),
        ("bash(rm:*)", "find . -name '*.pyc' -exec rm {} +", True),
        ("bash(rm:*)", "xargs rm", True),
        ("bash(rm:*)", "sh -c 'rm x'", True),
        ("bash(rm:*)", "sudo bash -ec 'echo; rm x'", True),
        ("bash(rm:*)", "sh -c \"sh -c 'rm x'\"", True),
        ("bash(rm:*)", "eval 'rm x'", True),
        ("bash(rm:*)", "python3 -c 'import os'", True),
        ("bash(rm:*)", "perl -e 'unlink 1'", True),
        ("bash(rm:*)", "$X x", True),
        ("bash(rm:*)", "echo $(x)", True),
        ("bash(rm:*)", "X=1 y", True),
        ("bash(rm:*)", "r? x", True),
        ("bash(rm:*)", "echo 'open", True),
        ("bash(rm:*)", "echo rm", False),
        ("bash(rm:*)", "grep -r rm .", False),
        ("bash(rm:*)", "rmdir x", False),
        ("bash(rm:*)", "sh build.sh", False),
        ("bash(rm:*)", "sh -c 'ls'", False),
        ("bash(rm:*)", "python3 x.py", False),
        ("bash(git push:*)", "git push origin", True),
        ("bash(git push:*)", "git -C x push", True),
        ("bash(git push:*)", "git --no-pager push", True),
        ("bash(git push:*)", "git 'push'", True),
        ("bash(git push:*)", "git p*", True),
        ("bash(git push:*)", "git commit -m push", False),
        ("bash(git push:*)", "git pull", False),
        ("bash(git push)", "git push", True),
        ("bash(git push)", "git push x", False),
        ("bash(* --force)", "git push --force", True),
        ("bash(*--force*)", "a--force", True),
        ("bash(sudo:*)", "sudo x", True),
        ("bash(sudo:*)", "ls; env sudo x", True),
        ("bash(/usr/bin/rm:*)", "/usr/bin/rm x", True),
    ],
)
def test_a_denial_holds_for_each_part_and_for_all_that_is_not_understood(
    text: str, command: str, denied: bool
) -> None:
    """Also behind what runs other commands; what only mentions a word is free."""
    permissions = Permissions(allow=("bash",), deny=(text,))
    assert verdict(permissions, "bash", command=command) == ("deny" if denied else "allow")


# ── paths ──


@pytest.mark.parametrize(
    ("rules", "tool", "path", "expected"),
    [
        (["read(src/**)"], "read_file", "src/a.py", "allow"),
        (["read(src/**)"], "read_file", "./src//x/./a.py", "allow"),
        (["read(src/**)"], "read_file", "docs/a.md", "ask"),
        (["read(src/**)"], "read_file", "SRC/a.py", "ask"),
        (["read(src/**)"], "read_file", "src-evil/a.py", "ask"),
        (["read(src/**)"], "ls", ".", "allow"),
        (["read(src/**)"], "ls", "docs", "ask"),
        (["read(src/**)"], "grep", "src", "allow"),
        (["read(src/**)"], "write_file", "docs/a.md", "allow"),
        (["Read(./src/**)"], "read_file", "src/a.py", "allow"),
        (["read(*.py)"], "read_file", "a/b/c.py", "allow"),
        (["read(*.py)"], "read_file", "a/b/c.md", "ask"),
        (["read(/a.py)"], "read_file", "b/a.py", "ask"),
        (["write(out/**)"], "write_file", "out/x", "allow"),
        (["write(out/**)"], "edit_file", "src/x", "ask"),
        (["write(out/**)"], "delete_file", "src/x", "ask"),
        (["write(out/**)"], "read_file", "src/x", "allow"),
        (["Edit(out/**)"], "write_file", "src/x", "ask"),
        (["Write(out/**)"], "delete_file", "out/x", "allow"),
        (["edit_file(out/**)"], "edit_file", "src/x", "ask"),
        (["edit_file(out/**)"], "write_file", "src/x", "allow"),
        (["write(**)"], "write_file", "a/b", "allow"),
        (["read(src/**)"], "read_file", "/ws/src/a.py", "allow"),
        (["read(src/**)"], "read_file", "/ws/docs/a.py", "ask"),
    ],
)
def test_what_a_rule_about_paths_allows(
    rules: list[str], tool: str, path: str, expected: str
) -> None:
    """Once a rule names a kind of tool with a pattern, what matches no pattern is asked for."""
    assert verdict(allowing(*rules).within(("ws",)), tool, path=path) == expected


@pytest.mark.parametrize(
    ("text", "tool", "path", "denied"),
    [
        ("read(secret/**)", "read_file", "secret/x", True),
        ("read(secret/**)", "read_file", "Secret//./x", True),
        ("read(secret/**)", "read_file", "/ws/secret/x", True),
        ("read(secret/**)", "write_file", "secret/x", True),
        ("read(secret/**)", "ls", "secret", True),
        ("read(secret/**)", "ls", ".", False),
        ("read(secret/**)", "read_file", "secrets/x", False),
        ("read", "write_file", "x", True),
        ("write(docs/**)", "edit_file", "docs/x", True),
        ("write(docs/**)", "read_file", "docs/x", False),
        ("read_file(x)", "read_file", "x", True),
        ("read_file(x)", "grep", "x", False),
        ("write", "delete_file", "x", True),
    ],
)
def test_what_a_rule_about_paths_denies(text: str, tool: str, path: str, denied: bool) -> None:
    """P4: no spelling passes; what may not be read may not be written."""
    permissions = Permissions(allow=("read(**)", "write(**)"), deny=(text,)).within(("ws",))
    assert (verdict(permissions, tool, path=path) == "deny") is denied


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "~/x", "a\0b", "C:\\x", None, 7])
def test_what_is_no_path_in_the_workspace_is_left_to_the_tool_which_refuses_it(path: Any) -> None:
    """P2: its refusal says why, and it knows the workspace."""
    permissions = Permissions(allow=("read(src/**)",), ask=("read(**)",), deny=("read(x)",))
    assert permissions.decide("read_file", {"path": path}) == Decision("allow")


# ── hosts, servers, names ──


@pytest.mark.parametrize(
    ("text", "url", "allowed"),
    [
        ("fetch(example.org)", "https://example.org/a?b", True),
        ("fetch(example.org)", "HTTP://EXAMPLE.ORG:8080/", True),
        ("fetch(example.org)", "https://example.org./", True),
        ("WebFetch(domain:example.org)", "https://example.org", True),
        ("fetch(example.org)", "https://www.example.org", False),
        ("fetch(example.org)", "https://example.org.evil.net", False),
        ("fetch(example.org)", "https://evil-example.org", False),
        ("fetch(example.org)", "https://example.org@evil.net/", False),
        ("fetch(example.org)", "https://user@example.org/", False),
        ("fetch(example.org)", "https://evil.net\\@example.org/", False),
        ("fetch(example.org)", "https://evil.net#@example.org/", False),
        ("fetch(example.org)", "https://example.org%2eevil.net/", False),
        ("fetch(example.org)", "file://example.org/etc/passwd", False),
        ("fetch(example.org)", "//example.org/", False),
        ("fetch(example.org)", "https://ex\u0430mple.org/", False),
        ("fetch(example.org)", "https://[::1", False),
        ("fetch(example.org)", "", False),
        ("fetch(*.example.org)", "https://a.b.example.org", True),
        ("fetch(*.example.org)", "https://example.org", False),
        ("fetch(*.example.org)", "https://badexample.org", False),
        ("fetch(::1)", "http://[::1]:80/", True),
        ("fetch(*)", "https://anything.net", True),
        ("fetch", "https://anything.net", True),
    ],
)
def test_what_a_rule_about_hosts_allows(text: str, url: str, allowed: bool) -> None:
    assert (verdict(allowing(text), "fetch", url=url) == "allow") is allowed


def test_a_host_that_programs_read_differently_falls_under_every_denial() -> None:
    permissions = Permissions(allow=("fetch",), deny=("fetch(evil.net)",))
    assert verdict(permissions, "fetch", url="https://evil.net\\@example.org/") == "deny"
    assert verdict(permissions, "fetch", url="https://example.org/") == "allow"


@pytest.mark.parametrize(
    ("text", "tool", "covered"),
    [
        ("mcp(git/log)", "mcp__git__log", True),
        ("mcp(git/log)", "mcp__git__push", False),
        ("mcp(git)", "mcp__git__push", True),
        ("mcp(git/*)", "mcp__git__push", True),
        ("mcp(git)", "mcp__github__push", False),
        ("mcp(git/read_*)", "mcp__git__read_file", True),
        ("mcp", "mcp__any__thing", True),
        ("mcp__git__log", "mcp__git__log", True),
        ("mcp__git", "mcp__git__log", True),
        ("mcp__git__*", "mcp__git__log", True),
        ("mcp(my.server/log)", "mcp__my_server__log", True),
        ("deploy", "deploy", True),
        ("deploy", "deploy_all", False),
        ("Task", "task", True),
        ("TodoWrite", "write_todos", True),
    ],
)
def test_a_bare_name_and_a_servers_tool_are_denied_by_name(
    text: str, tool: str, covered: bool
) -> None:
    assert (verdict(denying(text), tool) == "deny") is covered
    assert denying(text).enables(tool) is not covered


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "()", "a b", "rm(x)", "read(", "read)", "read()", "read(!x)", "read(~/x)"),
        *("read(//etc)", "read(../x)", "bash()", "bash(a; b)", "bash(a $(b))", "bash(X=1 a)"),
        *("bash(a > b)", "bash('a)", "fetch(a/b)", "fetch(http://a)", "fetch(a:80)", "fetch()"),
        *("mcp(a b)", "mcp()", "mcp__a__b(c)", "*", "ba*h", "web_search(x)", "-x"),
    ],
)
def test_a_rule_that_cannot_be_read_is_an_error_and_not_passed_over(text: str) -> None:
    """P6: one that is silently ignored protects nothing."""
    for kind in ("allow", "ask", "deny"):
        with pytest.raises(ConfigError, match="cannot be read"):
            of(**{kind: (text,)})


def test_a_text_is_no_list_of_rules() -> None:
    with pytest.raises(ConfigError, match="is a list of rules"):
        Permissions(deny="bash")  # type: ignore[arg-type]


# ── order and defaults ──


def test_deny_goes_before_ask_before_allow_before_the_default() -> None:
    call = {"command": "git push origin"}
    allow, ask, deny = ("bash(git push:*)",), ("bash(git:*)",), ("bash(git push:*)",)
    assert Permissions(allow).decide("bash", call) == Decision("allow", "bash(git push:*)")
    asked = Permissions(allow, ask).decide("bash", call)
    assert asked == Decision("ask", "ask bash(git:*)", ("bash(git push origin)",))
    assert Permissions(allow, ask, deny).decide("bash", call) == Decision(
        "deny", "bash(git push:*)"
    )
    assert Permissions().decide("bash", call).verdict == "ask"


def test_an_allow_rule_that_names_just_this_call_answers_the_question_beforehand() -> None:
    permissions = Permissions(("bash(rm -rf build)", "bash(rm:*)"), ("bash(rm:*)",))
    assert verdict(permissions, "bash", command="rm -rf build") == "allow"
    assert verdict(permissions, "bash", command="rm -rf src") == "ask"
    assert verdict(permissions, "bash", command="rm -rf build src") == "ask"


def test_without_rules_all_tools_are_allowed_but_those_that_a_run_has_to_enable() -> None:
    for tool in (
        "ls",
        "read_file",
        "write_file",
        "task",
        "write_todos",
        "remember",
        "skill",
        "own",
    ):
        assert Permissions().decide(tool, {"path": "x"}) == Decision("allow")
        assert Permissions().enables(tool)
    for tool in OPTIONAL:
        assert not Permissions().enables(tool)
        assert verdict(Permissions(), tool, command="x", url="http://x") == "ask"


@pytest.mark.parametrize("kind", ["allow", "ask"])
def test_a_tool_is_enabled_by_an_allow_or_ask_rule_that_names_it(kind: str) -> None:
    for text, tool in [("bash(git:*)", "bash"), ("WebFetch(domain:x.org)", "fetch")]:
        permissions = of(**{kind: (text,)})
        assert permissions.enables(tool)
        assert not of(**{kind: (text,)}, deny=(tool,)).enables(tool)
    assert not denying("bash(rm:*)").enables("bash")


# ── laws ──

WORDS = st.sampled_from(
    ["git", "status", "push", "rm", "-rf", "-C", "x", "'a b'", "*.py", "sh", "-c"]
)
JOINTS = st.sampled_from([" ", " ", " ", " ; ", " && ", " | ", "\n", " > ", " $(", ")", " `", '"'])
COMMANDS = st.lists(st.tuples(WORDS, JOINTS), min_size=1, max_size=6).map(
    lambda pairs: "".join(word + joint for word, joint in pairs)
)
PATHS = st.lists(
    st.sampled_from(["src", "SRC", "secret", "a.py", "..", ".", "b c"]), max_size=4
).map("/".join)
HOSTS = st.sampled_from(["example.org", "a.example.org", "evil.net", "evil.net\\@example.org"])
CALLS: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    COMMANDS.map(lambda text: ("bash", {"command": text})),
    st.tuples(
        st.sampled_from(["ls", "read_file", "grep", "write_file", "edit_file", "delete_file"]),
        PATHS.map(lambda path: {"path": path}),
    ),
    HOSTS.map(lambda host: ("fetch", {"url": f"https://{host}/"})),
    st.sampled_from(["task", "mcp__git__log", "mcp__git__push", "own"]).map(
        lambda name: (name, {})
    ),
)
RULES = st.sampled_from(
    [
        *("bash", "bash(git:*)", "bash(git status:*)", "bash(rm:*)", "bash(git push)", "bash(* x)"),
        *("read", "read(src/**)", "read(secret/**)", "read(*.py)", "read(/a.py)", "write(src/**)"),
        *(
            "write",
            "write(**)",
            "read_file(src/**)",
            "edit_file(secret)",
            "fetch",
            "fetch(evil.net)",
        ),
        *("fetch(*.example.org)", "fetch(example.org)", "mcp(git)", "mcp(git/log)", "task", "own"),
    ]
)
SETS = st.builds(
    Permissions,
    allow=st.lists(RULES, max_size=3).map(tuple),
    ask=st.lists(RULES, max_size=2).map(tuple),
    deny=st.lists(RULES, max_size=2).map(tuple),
)
BOUNDS = st.dictionaries(
    st.sampled_from(["bash", "read_file"]),
    st.lists(st.sampled_from(["git:*", "src/**"]), min_size=1, max_size=2),
    max_size=2,
)
NARROWER = st.fixed_dictionaries(
    {},
    optional={kind: st.lists(RULES, max_size=2) for kind in ("allow", "ask", "deny")},
)


@given(SETS, st.lists(st.tuples(NARROWER, BOUNDS), min_size=1, max_size=3), CALLS)
def test_p6_a_childs_decision_is_never_wider_than_its_parents(
    parent: Permissions, generations: list[tuple[Any, Any]], call: tuple[str, dict[str, Any]]
) -> None:
    """P6: for all rules, all calls, and however deep; nor is a child offered a tool more."""
    for given_rules, bounds in generations:
        child = parent.narrowed(given_rules, bounds)
        strictness = STRICTNESS[child.decide(*call).verdict]
        assert strictness >= STRICTNESS[parent.decide(*call).verdict]
        assert parent.enables(call[0]) or not child.enables(call[0])
        parent = child


@given(SETS, RULES, CALLS)
def test_no_rule_of_deny_or_ask_makes_anything_wider(
    permissions: Permissions, text: str, call: tuple[str, dict[str, Any]]
) -> None:
    before = STRICTNESS[permissions.decide(*call).verdict]
    for kind in ("deny", "ask"):
        more = (*getattr(permissions, kind), text)
        rules = {"allow": permissions.allow, "ask": permissions.ask, "deny": permissions.deny}
        narrower = of(**{**rules, kind: more})
        # Naming an optional tool in an ask rule enables it; a question it remains.
        assert STRICTNESS[narrower.decide(*call).verdict] >= before


@given(SETS, CALLS)
@example(Permissions(("bash(x)",)), ("bash", {"command": "git *.py | x; 'time' a"}))
@example(Permissions(("read(src/**)",)), ("ls", {"path": "."}))
@example(Permissions(ask=("read(**)",)), ("ls", {"path": "."}))
def test_p7_the_rules_that_a_refusal_names_let_the_call_pass(
    permissions: Permissions, call: tuple[str, dict[str, Any]]
) -> None:
    """P7: the text is true; and what is denied for good names no rule."""
    decision = permissions.decide(*call)
    if decision.verdict != "ask":
        assert not decision.permit
        return
    allow = (*permissions.allow, *decision.permit)
    after = Permissions(allow, permissions.ask, permissions.deny).decide(*call)
    assert (after.verdict == "allow") is bool(decision.permit)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_of_a_rule_or_call_makes_the_decision_fail(text: str, other: str) -> None:
    """Either a rule is read or it is a `ConfigError`; a call always gets a decision."""
    sets = [
        Permissions(allow=("bash(git:*)", "read(src/**)", "fetch(x.org)"), deny=("bash(rm:*)",))
    ]
    for form in ("{}", "bash({})", "read({})", "fetch({})", "mcp({})"):
        try:
            rule(form.format(other))
        except ConfigError:
            continue
        sets.append(Permissions(deny=(form.format(other),)))
    for permissions in sets:
        for argument in ("command", "path", "url"):
            for tool in ("bash", "read_file", "grep", "fetch", "own", "mcp__a__b"):
                permissions.decide(tool, {argument: text})


def test_files_of_this_run_are_kept_also_beside_those_of_every_run() -> None:
    """A server list in `.claude` that `--mcp-config` names is no place that is protected anyway."""
    own = (".claude", "servers.json")
    for path, kept in ((own, True), ((".claude", "notes.md"), False)):
        found = protecting("write_file", Path(path), (), (own,))
        assert (found == "protected /.claude/servers.json") == kept
