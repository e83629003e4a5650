"""``outrider steer``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli import options as opt
from orchestrator.cli.exits import FAILED, say

if TYPE_CHECKING:
    from orchestrator.rundir import RunDir

Command = Annotated[
    str,
    typer.Argument(
        metavar="COMMAND", help="status|pause|continue|cancel|budget|say|approve|deny|compact"
    ),
]
Argument = Annotated[
    str, typer.Argument(metavar="[AGENT|NAME=VALUE|TEXT|ID]", help="What the command is about.")
]
# Whether each command needs its argument, may have one, or has none.
_ARGUMENTS = {
    "status": "none",
    "pause": "none",
    "continue": "none",
    "cancel": "AGENT",
    "budget": "NAME=VALUE",
    "say": "TEXT",
    "approve": "ID",
    "deny": "ID",
    "compact": "may",
}


def steer(
    run: opt.Run,
    command: Command,
    argument: Argument = "",
    root: opt.Root = Path(),
    as_json: opt.Json = False,
) -> None:
    """Look at a RUN that is going on, and act on it, from another terminal.

    pause: nothing new begins until continue. cancel AGENT: stop a subagent; cancel main is like the first
    Ctrl-C. budget NAME=VALUE: max_tokens, max_cost, max_turns or max_agents from now on. say TEXT: tell
    the main agent. approve, deny ID: answer a question that status shows. compact [AGENT].

    \b
    Examples:
      outrider steer latest status
      outrider steer latest say "Leave the tests alone"
      outrider steer latest budget max_tokens=2000000
    """
    from orchestrator.cli.output import clean, print_json
    from orchestrator.cli.terminal import print_lines
    from orchestrator.rundir import find_run
    from orchestrator.steersocket import ask

    _check(command, argument)
    run_dir = find_run(root, run)
    found = ask(run_dir.folder, {"command": command, "argument": argument})
    if found is None:
        say(_nobody(run_dir))
        raise typer.Exit(FAILED)
    if as_json:
        print_json(clean(found.get("status", found)))
    elif found.get("ok"):
        print_lines(_lines(found["status"]) if "status" in found else [str(found.get("said"))])
    if not found.get("ok"):
        say(str(found.get("error")))
        raise typer.Exit(FAILED)


def _check(command: str, argument: str) -> None:
    from orchestrator.errors import ConfigError

    kind = _ARGUMENTS.get(command)
    if kind is None:
        raise ConfigError(f"no command {command!r}; there are: {', '.join(_ARGUMENTS)}")
    if kind == "none" and argument:
        raise ConfigError(f"{command} takes nothing more, not {argument!r}")
    if kind not in ("none", "may") and not argument:
        raise ConfigError(f"write: outrider steer RUN {command} {kind}")


def _nobody(run_dir: RunDir) -> str:
    from orchestrator.journal import is_running

    if is_running(run_dir.journal):
        return f"run {run_dir.run_id} is going on, but cannot be steered from here"
    return (
        f"run {run_dir.run_id} is not going on; outrider resume {run_dir.run_id} goes on with it, with a "
        "MESSAGE where it has finished"
    )


def _lines(status: dict[str, Any]) -> list[str]:
    from orchestrator.cli.table import Column, number, table
    from orchestrator.cli.terminal import width

    used, limits = status["used"], status["limits"]
    most = "" if limits["max_tokens"] is None else f" of {number(limits['max_tokens'])}"
    lines = [f"{status['run_id']} · {status['state']} · {number(used['tokens'])}{most} tokens", ""]
    columns = (
        Column("agent", least=12),
        Column("model", least=8),
        Column("turn", right=True),
        Column("calls", right=True),
        Column("context", right=True),
        Column("tokens", right=True),
    )
    rows = [
        [
            each["agent_id"],
            each["model"],
            str(each["turn"]),
            str(each["tool_calls"]),
            f"{100 * each['context_tokens'] // max(1, each['window_tokens'])} %",
            number(each["tokens"]),
        ]
        for each in status["agents"]
    ]
    lines += table(columns, rows, width())
    for each in status["questions"]:
        what = f"{each['tool']} {each['input']}"[:300]
        lines += ["", f"{each['id']}: {each['agent_id']} asks to use {what} ({each['rule']})"]
    return lines
