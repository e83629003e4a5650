"""The commands of ``outrider``, and what surrounds every one of them."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from orchestrator.cli import (
    again,
    agents,
    audit,
    compact,
    config,
    context,
    doctor,
    exits,
    init,
    log,
    memory,
    replay,
    running,
    runs,
    skills,
    steer,
    tokens,
    view,
)

# rich_markup_mode: rich's help pages cost more CPU than everything else that --help does.
app: typer.Typer = typer.Typer(
    name="outrider",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(running.run)
app.command("resume")(again.resume)
app.command("fork")(again.fork)
app.add_typer(runs.app, name="runs")
app.command("steer")(steer.steer)
app.command("tokens")(tokens.tokens)
app.command("log")(log.log)
app.command("context")(context.context)
app.command("audit")(audit.audit)
app.command("compact")(compact.compact)
app.command("replay")(replay.replay)
app.command("view")(view.view)
app.add_typer(agents.app, name="agents")
app.add_typer(memory.app, name="memory")
app.command("skills")(skills.skills)
app.add_typer(config.app, name="config")
app.command("init")(init.init)
app.command("doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"outrider {version('outrider')}")
        raise typer.Exit


@app.callback()
def _outrider(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run long tasks with language-model agents, and see what every one of them did.

    \b
    Examples:
      outrider init
      outrider run "Survey this repository" --model rehearsal
      outrider tokens latest
      outrider run --help
    """


def main() -> int:
    """Run the command line in `sys.argv`; returns the exit code."""
    exits.open_closed()
    _take_any_text()
    try:
        return _carry_out()
    finally:
        exits.settle()


def _carry_out() -> int:
    try:
        command = typer.main.get_command(app)
        code = command.main(sys.argv[1:] or ["--help"], "outrider", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has gone, which is no error to talk about
        return exits.FAILED
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    # The one place where whatever happened is told.
    except Exception as error:  # noqa: BLE001
        return exits.explain(error)
    return code if isinstance(code, int) else exits.FINISHED


def _take_any_text() -> None:
    """Models and file names bring characters that a terminal's encoding may not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
