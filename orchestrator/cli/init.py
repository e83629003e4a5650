"""``outrider init``: the files that a workspace begins with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.cli import options as opt
from orchestrator.errors import ConfigError

CONFIG = ".outrider/config.toml"
MEMORY = ".outrider/MEMORY.md"
AGENT = "my-agent"
_NEXT = (
    ("outrider agents list", "what may be started here; edit the new definition, then check it"),
    ('outrider run "Survey this folder" --model rehearsal', "a run without a key and a network"),
    ("outrider config show", "the settings in force, and where each comes from"),
    ("outrider doctor", "whether what a run needs is here"),
)


def init(root: opt.Root = Path(), as_json: opt.Json = False) -> None:
    """Write settings, a memory and a first definition for the workspace, all of them to be edited.

    Makes .outrider/config.toml (every setting, commented out), .outrider/MEMORY.md and, where there is
    no definition yet, .outrider/agents/my-agent.md. A file that is there already is left alone.

    \b
    Examples:
      outrider init
      outrider init --root ~/shop
    """
    from orchestrator.cli.output import print_json
    from orchestrator.cli.terminal import print_lines

    made = {path: write(root) for path, write in _FILES.items()}
    if as_json:
        parts = {"made": True, "kept": False}
        print_json(
            {"schema": 1} | {k: [p for p, m in made.items() if m is v] for k, v in parts.items()}
        )
        return
    print_lines(
        f"{'made' if new else 'kept'}  {path}{_remark(path, new)}" for path, new in made.items()
    )
    longest = max(len(command) for command, _ in _NEXT)
    print_lines(["", "Try next:", *(f"  {c:<{longest}}  # {why}" for c, why in _NEXT)])


def _remark(path: str, new: bool) -> str:
    if new:
        return ""
    return "  (there are definitions already)" if path == _DEFINITION else "  (is there already)"


def _config(root: Path) -> bool:
    text = Path(__file__).with_name("starting.toml").read_text(encoding="utf-8")
    return _write_once(root / CONFIG, text)


def _memory(root: Path) -> bool:
    return _write_once(root / MEMORY, "# Memory\n")


def _definition(root: Path) -> bool:
    from orchestrator.cli.agents_new import FOLDER, write_new

    if any((root / FOLDER).glob("**/*.md")):
        return False
    write_new(AGENT, root)
    return True


def _write_once(path: Path, text: str) -> bool:
    """Whether the file was made; one that is there stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        if not path.parent.is_dir():
            raise ConfigError(f"{path.parent} is a file: a folder is needed there") from None
        return False
    return True


_DEFINITION = f".outrider/agents/{AGENT}.md"
_FILES: dict[str, Callable[[Path], bool]] = {
    CONFIG: _config,
    MEMORY: _memory,
    _DEFINITION: _definition,
}
