"""Permissions: what the tools of a run may do, as rules that people write.

`Permissions` decides, purely; `rules` is the grammar, `commands` reads shell commands. The orchestrator
asks before every call, and again for each path that a file tool meets on its way.
"""

from orchestrator.permissions.asking import Answer, Ask, AskedFor, Asking, refusal
from orchestrator.permissions.deciding import BY_RULE, OPTIONAL, Permissions, can_bind
from orchestrator.permissions.decision import Decision, Verdict
from orchestrator.permissions.elsewhere import CLAUDE_FILES, restrictions_in
from orchestrator.permissions.protected import BY_NAME
from orchestrator.permissions.rules import HostPattern, Rule, rule

__all__ = [
    "BY_NAME",
    "BY_RULE",
    "CLAUDE_FILES",
    "OPTIONAL",
    "Answer",
    "Ask",
    "AskedFor",
    "Asking",
    "Decision",
    "HostPattern",
    "Permissions",
    "Rule",
    "Verdict",
    "can_bind",
    "refusal",
    "restrictions_in",
    "rule",
]
