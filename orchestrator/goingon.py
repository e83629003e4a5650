"""Whether there is anything to go on with in a run that has ended. Pure."""

from __future__ import annotations

from orchestrator.budget import Limits
from orchestrator.errors import ConfigError
from orchestrator.kept import Kept
from orchestrator.past import Past
from orchestrator.rundir import MAIN

_SOME_TURNS_TOKENS = 100_000


def check_goes_on(
    past: Past, run_id: str, agent_id: str, message: str | None, limits: Limits
) -> None:
    """Raises `ConfigError` where there is nothing to go on with."""
    ended = past.end_of(agent_id)
    if ended is None or message is not None:
        return
    if past.summary.status is None and agent_id == MAIN and ended.status == "finished":
        return  # the process died between the last conclusion and the end of the run
    who = "the run" if agent_id == MAIN else agent_id
    if ended.status == "finished":
        raise ConfigError(
            f"{who} has finished; say what else there is to do: outrider resume {run_id} MESSAGE"
        )
    name = (ended.reason or "").removeprefix("limit:")
    if name == ended.reason or not hasattr(limits, name):
        return
    now, before = getattr(limits, name), getattr(Kept.of_json(past.options).limits, name)
    if now is not None and before is not None and now <= before:
        option, enough = "--" + name.replace("_", "-"), before * 2
        if name == "max_tokens":  # a turn needs room for its context, its answer and a conclusion
            enough = max(enough, past.spent()[0] + _SOME_TURNS_TOKENS)
        raise ConfigError(
            f"{who} has ended at its limit, {name} {before}: raise it, for example {option} {enough}"
        )
