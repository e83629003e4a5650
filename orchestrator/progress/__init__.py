"""What a person sees while a run goes on: a small live tree on a terminal, plain lines elsewhere.

`Board` is the model behind both, a pure fold over the records. Everything that a model, a tool or a
file wrote passes through `inert` before it is shown, so that it cannot steer the terminal.
"""

from orchestrator.progress.board import Board
from orchestrator.progress.inert import inert, one_line
from orchestrator.progress.plain import PlainLines, notable
from orchestrator.progress.tree import LiveTree, drawn

__all__ = ["Board", "LiveTree", "PlainLines", "drawn", "inert", "notable", "one_line"]
