"""The fields of definition files: which are known, how they are spelled, which one was meant."""

import re
from functools import lru_cache

# Snake case is the one spelling inside; files use camelCase, kebab-case and snake_case.
_OURS = """
    name description tools disallowed_tools model max_turns max_tokens max_seconds max_cost
    conclusion_tokens offload_at compact_at can_spawn permissions memory
    instructions todos effort returns mcp_servers
"""
# Fields of the other tools: kept or translated, never worth a remark.
_FOREIGN = """
    allowed_tools permission_mode permission hooks skills background isolation color
    initial_prompt argument_hint handoffs target infer user_invocable disable_model_invocation
    agents mode temperature top_p top_k steps max_steps disable hidden reasoning_effort prompt kind
    timeout_mins display_name developer_instructions model_reasoning_effort sandbox_mode
    nickname_candidates model_provider model_verbosity version author license tags category metadata
"""
OURS = frozenset(_OURS.split())
KNOWN = OURS | frozenset(_FOREIGN.split())
# What stands under these decides what an agent may do: they never get lost in a repair.
GRANTS = frozenset({"tools", "allowed_tools", "disallowed_tools"})
_SAME = {
    "permission": "permissions",
    "permission_mode": "permissions",
    "steps": "max_turns",
    "max_steps": "max_turns",
    "reasoning_effort": "effort",
    "model_reasoning_effort": "effort",
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=1024)
def spelled(key: str) -> str:
    """`maxTurns`, `max-turns` and `Max_Turns` are `max_turns`."""
    return _CAMEL.sub("_", key.strip().replace("-", "_")).casefold()


@lru_cache(maxsize=1024)
def meant(key: str) -> str:
    """Our name for a field, whatever dialect it is written in; the key itself if unknown."""
    name = spelled(key)
    if name in KNOWN:
        return _SAME.get(name, name)
    near = suggestion(key, cutoff=0.85)
    # A misspelled restriction that was passed over would grant everything.
    return near if near in GRANTS else key


@lru_cache(maxsize=1024)
def suggestion(key: str, cutoff: float = 0.75) -> str | None:
    """The known field that an unknown key comes close to."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(spelled(key), sorted(OURS | GRANTS), 1, cutoff)), None)
