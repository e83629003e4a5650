"""The command line, ``outrider``. Its contract: commands, exit codes and JSON forms do not change.

Start-up matters: a command imports what it needs when it runs, so that ``outrider --help`` loads
typer and little else.
"""

from orchestrator.cli.app import main

__all__ = ["main"]
