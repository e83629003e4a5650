"""``python -m orchestrator`` is ``outrider``."""

import os
import sys


def _search_no_workspace() -> None:
    """Python searches the current folder first then, and agents may write there: what is imported later
    must not come from it. In a checkout that is not installed there is no other place to find us."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) != home:
        del sys.path[0]


if __name__ == "__main__":
    _search_no_workspace()

    from orchestrator.cli import main

    sys.exit(main())
