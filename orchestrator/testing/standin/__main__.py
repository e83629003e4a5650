"""`python -m orchestrator.testing.standin`: the stand-in as a process.

The first line on standard output is its base URL; it runs until it is terminated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from .answers import Brain
from .app import Standin
from .brains import LongHaul, Tree, echo, keep_facts, keep_nothing, thoughtful
from .faults import Fault
from .server import silence, start
from .settings import Settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orchestrator.testing.standin")
    add = parser.add_argument
    add("--brain", choices=("echo", "fanout", "tree", "longhaul"), default="echo")
    add("--port", type=int, default=0, help="0: any free one")
    add("--children", default=None, help="per level, such as 50 or 3,3,3")
    add("--parallel", type=int, default=None, help="calls in one turn")
    add("--calls", type=int, default=None, help="look-ups of an agent")
    add("--kilobytes", type=int, default=None, help="size of a look-up's result")
    add("--asked", type=int, default=10, help="longhaul: facts asked for at the end")
    add("--search", action="store_true", help="longhaul: always grep for the facts")
    add("--pages", action="store_true", help="longhaul: always read page by page")
    add("--todo-every", type=int, default=0, help="longhaul: turns between to-do changes")
    add("--odd", action="append", default=[], metavar="CHILD=KIND", help="a misbehaving child")
    add("--think", action="store_true", help="thinking blocks, where the request allows them")
    add("--summary", choices=("facts", "nothing", "brain"), default="facts")
    add("--window", type=int, default=None)
    add("--overflow", choices=("newer", "older"), default="newer")
    add("--binding", choices=("always", "asked", "never"), default="always")
    add("--unknown-models", choices=("accept", "reject"), default="accept")
    add("--latency", type=float, default=0.0, help="seconds before an answer begins")
    add("--no-cache", action="store_true")
    add("--no-count-tokens", action="store_true")
    add("--no-model-list", action="store_true")
    add("--fault", action="append", default=[], metavar="JSON", help="fields of a Fault")
    return parser


def _given(**values: int | None) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _brain(options: argparse.Namespace) -> Brain:
    sizes = _given(parallel=options.parallel, calls=options.calls, kilobytes=options.kilobytes)
    brain: Brain
    if options.brain == "longhaul":
        search = True if options.search else False if options.pages else None
        brain = LongHaul(asked=options.asked, todo_every=options.todo_every, search=search, **sizes)
    elif options.brain == "echo":
        brain = echo
    else:
        levels = options.children or ("50" if options.brain == "fanout" else "3,3")
        odd = {int(child): kind for child, _, kind in (o.partition("=") for o in options.odd)}
        children = tuple(int(level) for level in levels.split(","))
        brain = Tree(children=children, odd=odd, **sizes)
    return thoughtful(brain) if options.think else brain


def _standin(options: argparse.Namespace) -> Standin:
    settings = Settings(
        overflow=options.overflow,
        window=options.window,
        unknown_models=options.unknown_models,
        binding=options.binding,
        latency=options.latency,
        cache=not options.no_cache,
        count_tokens=not options.no_count_tokens,
        model_list=not options.no_model_list,
    )
    summarizer = {"facts": keep_facts, "nothing": keep_nothing, "brain": None}[options.summary]
    faults = [Fault(**json.loads(text)) for text in options.fault]
    return Standin(_brain(options), settings, faults, summarizer)


async def _run(options: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    server = await start(_standin(options), options.port)
    sys.stdout.write(f"{server.base_url}\n")
    sys.stdout.flush()
    await stopping.wait()
    await server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    silence()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    main()
