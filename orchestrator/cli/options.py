"""Options and arguments that the commands share. Values are checked in `orchestrator.config`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

Root = Annotated[
    Path,
    typer.Option(
        "--root",
        metavar="DIR",
        envvar="OUTRIDER_ROOT",
        exists=True,
        file_okay=False,
        help="The workspace folder.",
    ),
]
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or: latest.")
]
NewestRun = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="A run's id, the beginning of one, or: latest, which is meant where none is given.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# ── of `run` ──

Task = Annotated[str, typer.Argument(metavar="TASK", help="What to do; - reads standard input.")]
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A model or alias; rehearsal needs no key and no network."),
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="A server that speaks the Messages API.")
]
Agents = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Definition file or folder, before others; repeatable."),
]
Agent = Annotated[
    str | None, typer.Option(metavar="NAME", help="The definition that the main agent runs as.")
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="A function, or list of functions, for agents to call; repeatable.",
    ),
]
McpConfig = Annotated[
    str | None,
    typer.Option(
        "--mcp-config", metavar="FILE", help="MCP servers to start, in the form of .mcp.json."
    ),
]
Memory = Annotated[
    bool | None,
    typer.Option(
        "--memory/--no-memory",
        show_default=False,
        help="Memory, its tools and project instructions, for the agents that have them (default: yes).",
    ),
]
Background = Annotated[
    bool | None,
    typer.Option(
        "--background/--no-background",
        show_default=False,
        help="Whether agents may start subagents and commands in the background (default: yes).",
    ),
]
CompactAt = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Summarise history at this share of the window, as 0.8."),
]
Compaction = Annotated[
    bool | None,
    typer.Option(
        "--compaction/--no-compaction",
        show_default=False,
        help="Whether history is summarised when it grows large (default: yes).",
    ),
]
OffloadAt = Annotated[
    str | None,
    typer.Option(
        metavar="CHARS|never", help="Move tool results over so many characters to files (5000)."
    ),
]
Window = Annotated[
    str | None, typer.Option(metavar="TOKENS", help="Working window; at most the model's own.")
]
KeepTurns = Annotated[
    str | None, typer.Option(metavar="N", help="Newest turns that stay whole in a summary (8).")
]
SummaryModel = Annotated[
    str | None, typer.Option(metavar="NAME|rules", help="Who writes summaries; rules: no model.")
]
FallbackModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A model that takes over where an agent's own does not answer any more.",
    ),
]
MaxTokens = Annotated[str | None, typer.Option(metavar="N", help="Tokens of the whole run (none).")]
MaxCost = Annotated[
    str | None, typer.Option(metavar="USD", help="Cost of the whole run in USD (none).")
]
MaxTurns = Annotated[str | None, typer.Option(metavar="N|none", help="Turns of each agent (200).")]
MaxSeconds = Annotated[
    str | None, typer.Option(metavar="N", help="Seconds for the whole run (none).")
]
MaxAgents = Annotated[
    str | None, typer.Option(metavar="N|none", help="Subagents of the whole run (200).")
]
Concurrency = Annotated[
    str | None, typer.Option(metavar="N|none", help="Model calls at the same time (8).")
]
Depth = Annotated[
    str | None, typer.Option(metavar="N|none", help="How deep subagents may spawn (2); 0: none.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help='Permit a tool, or such calls of it, as "bash(git status:*)"; repeatable.',
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE", help='Take a tool away, or such calls, as "read(secret/**)"; repeatable.'
    ),
]
Asking = Annotated[
    bool | None,
    typer.Option(
        "--ask/--no-ask",
        show_default=False,
        help="Ask on this terminal about calls that no rule decides (default: where there is one).",
    ),
]
Sandbox = Annotated[
    bool | None,
    typer.Option(
        "--sandbox/--no-sandbox",
        show_default=False,
        help="Whether commands of agents are confined, with bubblewrap (default: yes).",
    ),
]
Network = Annotated[
    bool | None,
    typer.Option(
        "--network/--no-network",
        show_default=False,
        help="Whether commands in the sandbox may use the network (default: no).",
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(metavar="text|json|stream-json", help="What goes to stdout (text)."),
]
Quiet = Annotated[
    bool | None,
    typer.Option("--quiet", help="No progress and no summary on stderr.", show_default=False),
]
LogContent = Annotated[
    bool | None,
    typer.Option(
        "--log-content", help="Log the texts of prompts, tools and replies.", show_default=False
    ),
]
RunId = Annotated[
    str | None, typer.Option(metavar="ID", help="A name for the run instead of one by time.")
]

# ── of `resume` and `fork` ──

Message = Annotated[
    str | None, typer.Argument(metavar="MESSAGE", help="What to say to it; - reads standard input.")
]
OneAgent = Annotated[
    str | None,
    typer.Option(
        "--agent", metavar="ID", help="That agent alone (the beginning of its id will do)."
    ),
]
At = Annotated[
    int, typer.Option(metavar="TURN", help="The main agent's turn after which to begin, from 1.")
]
ForkTask = Annotated[
    str | None, typer.Argument(metavar="TASK", help="What to do instead; - reads standard input.")
]
AcceptChanges = Annotated[
    bool,
    typer.Option(
        "--accept-changes", help="Go on although a definition has changed or a tool is missing."
    ),
]

# Settings that every command takes which runs agents.
_OF_RUNS: Mapping[str, Any] = {
    "compact_at": CompactAt,
    "compaction": Compaction,
    "offload_at": OffloadAt,
    "window": Window,
    "keep_turns": KeepTurns,
    "summary_model": SummaryModel,
    "fallback_model": FallbackModel,
    "max_tokens": MaxTokens,
    "max_cost": MaxCost,
    "max_turns": MaxTurns,
    "max_seconds": MaxSeconds,
    "max_agents": MaxAgents,
    "concurrency": Concurrency,
    "depth": Depth,
    "allow": Allow,
    "deny": Deny,
    "sandbox": Sandbox,
    "network": Network,
    "asking": Asking,
    "output_format": OutputFormat,
    "quiet": Quiet,
}


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` the options of `_OF_RUNS` behind its own. Typer reads options from a signature;
    the command finds their values in its context, as it finds all settings."""
    own = inspect.signature(command, eval_str=True)

    @wraps(command)
    def taking(**given: Any) -> None:
        command(**{name: given[name] for name in own.parameters})

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _OF_RUNS.items()
    ]
    signature = own.replace(parameters=[*own.parameters.values(), *more])
    vars(taking)["__signature__"] = signature
    taking.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return taking
