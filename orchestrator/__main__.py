"""``python -m orchestrator`` is ``outrider``."""

import os
import sys

# Python searches the current folder first then, and agents may write there: what is imported later must
# not come from it. In a checkout that is not installed there is no other place to find us.
_HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if not sys.flags.safe_path and os.path.realpath(sys.path[0]) not in (_HOME, ""):
    del sys.path[0]

from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main())
