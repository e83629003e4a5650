"""What a sandbox shows and hides, decided without running anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from workspace import Access, Rule, ShellRefused, seconds_for
from workspace.shell import probe
from workspace.shell.bounds import Bounds
from workspace.shell.cgroups import places
from workspace.shell.environment import scrubbed
from workspace.shell.hints import Refusals, hints
from workspace.shell.masks import masks
from workspace.shell.sandbox import Mount, MountKind, View, arguments, beginning
from workspace.shell.surroundings import _closed_to_others, counts_by_namespace, view_of

CAN = Refusals(network=False, hides=True, processes=64, memory=1 << 30, scratch=1 << 20)


# ── time ──


@pytest.mark.parametrize(
    ("given", "background", "seconds"),
    [(None, False, 120), (None, True, None), (1, False, 1), (600, False, 600), (600, True, 600)],
)
def test_a_command_has_120_seconds_and_a_job_as_long_as_it_likes(
    given: int | None, background: bool, seconds: float | None
) -> None:
    assert seconds_for(given, background=background) == seconds


@pytest.mark.parametrize("given", [0, -1, 601, 120_000])
def test_a_time_out_beyond_the_maximum_is_refused_with_the_maximum(given: int) -> None:
    """Other tools count in milliseconds: the unit is named too."""
    with pytest.raises(ValueError, match="in seconds, from 1 to 600"):
        seconds_for(given, background=False)


# ── environment ──


def test_only_what_programs_need_is_handed_on() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "LD_PRELOAD": "/x.so",
        "BASH_ENV": "/x",
        "SSH_AUTH_SOCK": "/x",
        "https_proxy": "http://proxy:1",
    }
    kept = scrubbed(given, network=False)
    assert {"PATH", "HOME", "LC_ALL"} <= set(kept)
    assert not set(kept) & {
        *("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BASH_ENV", "SSH_AUTH_SOCK"),
        "https_proxy",
    }


def test_a_proxy_is_handed_on_only_with_the_network_and_without_its_password() -> None:
    given = {"https_proxy": "http://proxy:1", "HTTP_PROXY": "http://user:password@proxy:1"}
    kept = scrubbed(given, network=True)
    assert kept["https_proxy"] == "http://proxy:1"
    assert "HTTP_PROXY" not in kept


# ── the file system ──


def test_no_home_folder_and_no_key_is_part_of_the_view(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "home/work"
    for folder in (".ssh", ".aws", ".cargo/bin", ".local/bin", ".local/share/keyrings", "work"):
        (home / folder).mkdir(parents=True)
    environ = {"HOME": str(home), "PATH": f"{home}/.local/bin:{home}:/usr/bin"}
    view, _ = view_of(root, Access(), environ, network=False)
    assert set(view.tools) == {f"{home}/.cargo/bin", f"{home}/.local/bin"}
    assert not {"/", "/root", "/home", "/run", "/var", "/tmp", str(home)} & {*view.system}


def test_the_python_of_an_environment_on_the_path_comes_with_it(tmp_path: Path) -> None:
    base, made = tmp_path / "base", tmp_path / "venv"
    for folder in (base / "bin", made / "bin", tmp_path / "work"):
        folder.mkdir(parents=True)
    (made / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3\n")
    environ = {"HOME": "/nowhere", "PATH": f"{made}/bin"}
    view, _ = view_of(tmp_path / "work", Access(), environ, network=False)
    assert {str(base), str(made)} <= set(view.tools)


def test_what_is_not_for_everybody_is_hidden_from_root(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("closed", 0o640), ("d/k", 0o644), ("e/k", 0o644)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    (tmp_path / "d").chmod(0o750)
    (tmp_path / "link").symlink_to("closed")
    assert set(_closed_to_others(str(tmp_path))) == {
        Mount("hidden_file", f"{tmp_path}/closed"),
        Mount("hidden_folder", f"{tmp_path}/d"),
    }


@pytest.mark.parametrize("home", ["/", "", "relative", "/usr/sbin", "/etc", "/proc"])
def test_a_home_in_the_place_of_the_systems_folders_is_put_elsewhere(
    tmp_path: Path, home: str
) -> None:
    """Services have such homes; an empty one there would hide programs."""
    view, _ = view_of(tmp_path, Access(), {"HOME": home}, network=False)
    assert (view.home, view.environment["HOME"]) == ("/tmp", "/tmp")


def test_a_home_that_is_a_link_is_named_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    view, _ = view_of(tmp_path, Access(), {"HOME": f"{tmp_path}/link"}, network=False)
    assert view.home == view.environment["HOME"] == f"{tmp_path}/real"


@pytest.mark.parametrize("root", ["/", "/proc/self"])
def test_a_workspace_that_cannot_be_confined_is_refused(root: str) -> None:
    with pytest.raises(ShellRefused):
        view_of(Path(root), Access(), {}, network=False)


def test_the_private_folder_is_hidden_after_everything_that_could_show_it() -> None:
    view = View("/ws", "/home/u", mounts=[Mount("pin", "/ws/a")], readable=["/ws/.outrider/x"])
    made = arguments(view, Bounds())
    order = [made.index(path) for path in ("/ws", "/ws/a", "/ws/.outrider")]
    assert order == sorted(order)
    assert made[made.index("/ws/.outrider") - 1] == "--tmpfs"
    assert made[made.index("/ws/.outrider/x") - 1] == "--ro-bind"
    assert made.count("/ws/.outrider") == 2  # made, and then read-only
    assert "--unshare-net" in made


# ── rules ──


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/b/.env", "a/c.txt", "src/main.py", "src/deep/keys.pem", "free/x", "vault/k"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("vault")
    (tmp_path / ".outrider/runs").mkdir(parents=True)
    return tmp_path


def found(tree: Path, access: Access) -> dict[str, str]:
    _, mounts = masks(str(tree), access)
    return {os.path.relpath(mount.path, tree): mount.kind for mount in mounts}


def test_without_rules_nothing_is_covered(tree: Path) -> None:
    assert masks(str(tree), Access()) == (False, [])


def test_what_is_denied_is_hidden_and_the_way_to_it_keeps_its_names(tree: Path) -> None:
    assert found(tree, Access(deny_read=(Rule(".env"), Rule("vault/")))) == {
        "a": "pin",
        "a/b": "pin",
        "a/b/.env": "hidden_file",
        "vault": "hidden_folder",
    }


def test_what_may_not_be_written_is_read_only_and_what_is_hidden_in_it_stays_so(
    tree: Path,
) -> None:
    access = Access(deny_read=(Rule("*.pem"),), deny_write=(Rule("/src/**"),))
    assert found(tree, access) == {"src": "read_only", "src/deep/keys.pem": "hidden_file"}


def test_a_pattern_for_any_file_of_a_folder_closes_the_folder(tree: Path) -> None:
    assert found(tree, Access(deny_write=(Rule("/free/*"),))) == {"free": "read_only"}


def test_where_nothing_may_be_written_all_is_read_only(tree: Path) -> None:
    is_read_only, mounts = masks(str(tree), Access(deny_write=(Rule("**"),)))
    assert (is_read_only, mounts) == (True, [])


def test_too_many_names_are_refused_rather_than_left_open(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workspace.shell.masks.MOST_MOUNTS", 3)
    for number in range(4):
        (tree / f"free/{number}.pem").write_text("x")
    with pytest.raises(ShellRefused, match="whole folders"):
        masks(str(tree), Access(deny_read=(Rule("*.pem"),)))


# ── control groups ──

V2 = "29 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "40 39 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "41 39 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "42 39 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)


def test_a_group_is_made_beside_the_nearest_that_hands_its_controllers_down() -> None:
    found = places("0::/user.slice/app.slice/x.scope\n", V2)
    assert [place.folder for place in found] == [
        "/sys/fs/cgroup/user.slice/app.slice/x.scope",
        "/sys/fs/cgroup/user.slice/app.slice",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]
    assert found[1].enabled == "/sys/fs/cgroup/user.slice/app.slice/cgroup.subtree_control"
    assert {place.controllers for place in found} == {("pids", "memory")}


def test_where_the_old_tree_has_the_controllers_it_bounds_processes() -> None:
    found = places("8:pids:/a/b\n4:memory:/a\n0::/\n", V1)
    assert [(place.folder, place.controllers) for place in found] == [
        ("/sys/fs/cgroup/unified", ("pids", "memory")),
        ("/sys/fs/cgroup/pids/a/b", ("pids",)),
    ]


@pytest.mark.parametrize(
    ("membership", "mounts"), [("", ""), ("0::/elsewhere\n", V2.replace(" / ", " /docker/x "))]
)
def test_a_tree_that_is_not_ours_is_left_alone(membership: str, mounts: str) -> None:
    assert places(membership, mounts) == []


@pytest.mark.parametrize(
    ("release", "counts"),
    [("6.1.0-18-amd64", True), ("5.14.0-427.el9", True), ("5.10.0-28", False), ("4.18.0", False)],
)
def test_the_users_limit_is_used_only_where_it_counts_the_sandbox_alone(
    release: str, counts: bool
) -> None:
    assert counts_by_namespace(release) == counts
    assert any("ulimit -u" in word for word in beginning("sh", "true", 9, 1 << 20))
    assert not any("ulimit -u" in word for word in beginning("sh", "true", None, 1 << 20))


# ── hints ──


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("curl: (6) Could not resolve host: example.org", "--network"),
        ("ConnectionError: [Errno -3] Temporary failure in name resolution", "--network"),
        ("npm ERR! code ENOTFOUND", "--network"),
        ("touch: cannot touch '/usr/x': Read-only file system", "write(…)"),
        ("cat: .env: Permission denied", "read(…)"),
        ("bash: fork: retry: Resource temporarily unavailable", "64 processes"),
        ("RuntimeError: can't start new thread", "64 processes"),
        ("MemoryError", "1,024 MiB"),
        ("tail: memory exhausted", "1,024 MiB"),
        ("cp: error writing 'x': No space left on device", "1 MiB"),
    ],
)
def test_what_the_sandbox_refused_is_said_in_one_line(text: str, word: str) -> None:
    (line,) = hints(f"working\n{text}\n", 1, CAN)
    assert word in line
    assert "\n" not in line


def test_nothing_is_said_of_a_command_that_succeeded_or_failed_by_itself() -> None:
    assert hints("grep: 'permission denied' found", 0, CAN) == []
    assert hints("1 test failed: assert 1 == 2", 1, CAN) == []
    network = Refusals(network=True, hides=False, processes=1, memory=1, scratch=1)
    assert hints("Could not resolve host; Permission denied", 1, network) == []


def test_the_trial_tries_what_a_sandbox_is_made_with() -> None:
    """An option that bubblewrap does not know would else be told by the first command."""
    root = "/workspace"
    view = View(
        root=root,
        home="/home/x",
        system=["/usr"],
        links=[("usr/bin", "/bin")],
        mounts=[Mount(kind, f"{root}/{kind}") for kind in get_args(MountKind)],
        environment={"A": "1"},
    )
    used = {word for word in arguments(view, Bounds()) if word.startswith("--")}
    old = {"--bind", "--symlink", "--setenv", "--chdir", "--new-session", "--unshare-cgroup-try"}
    assert used - old - {"--clearenv"} <= {*probe._TRIAL}
