"""The audit of a run: that its figures are right, and that everything it recorded is whole.

Nothing here is taken on trust: tokens are added up from the journal's own rows, apart from the folds
that the rest of Outrider adds them up with, and every file is read.
"""

from orchestrator.audit.finding import Audit, Check, Problem
from orchestrator.audit.whole import audit

__all__ = ["Audit", "Check", "Problem", "audit"]
