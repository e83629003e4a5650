"""Claude, and every server that speaks the Messages API, behind the `Model` seam.

The only package that imports ``anthropic`` and ``httpx2``, and only once a call is made: the import
costs about a second and 80 MB.
"""

from orchestrator.claude.client import ClaudeModel

__all__ = ["ClaudeModel"]
