"""All agents of a model slow down together, and none finds out by a refusal of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Limits, Request, run
from orchestrator.errors import RateLimited
from orchestrator.gate import Gate
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio


async def test_an_open_gate_lets_everyone_through_at_once() -> None:
    gate, inside = Gate(), 0
    most = 0

    async def go() -> None:
        nonlocal inside, most
        async with gate.passing():
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(go)
    assert most == 100


async def test_after_a_refusal_one_goes_first_and_then_twice_as_many() -> None:
    gate = Gate()
    gate.slow_down(0.01)
    under_way, history = 0, []

    async def go() -> None:
        nonlocal under_way
        async with gate.passing():
            under_way += 1
            history.append(under_way)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            under_way -= 1
        gate.succeeded()

    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(go)
    assert history[0] == 1
    assert max(history[:2]) <= 2
    assert max(history[:5]) <= 4
    assert len(history) == 40


async def test_who_waits_for_a_place_when_the_gate_is_shut_goes_back_to_it() -> None:
    """The fifty in the queue for four places had passed before anybody was refused."""
    gate, places, refused = Gate(), anyio.CapacityLimiter(4), 0
    all_here = anyio.Event()

    async def go() -> None:
        nonlocal refused
        async with AsyncExitStack() as held:
            await gate.enter(held, places)
            await all_here.wait()
            # Refused are those that were under way already; the others meet a service that answers.
            if refused < 4:
                refused += 1
                gate.slow_down(0.05)
            else:
                under_way.append(places.borrowed_tokens)
                await anyio.lowlevel.checkpoint()
                gate.succeeded()

    under_way: list[float] = []
    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(go)
        await anyio.wait_all_tasks_blocked()
        assert (gate._under_way, places.statistics().tasks_waiting) == (50, 46)
        shut = anyio.current_time()
        all_here.set()
    assert under_way[0] == 1
    assert under_way[1] <= 2
    assert len(under_way) == 46
    assert anyio.current_time() >= shut + 0.05


async def test_a_cancelled_wait_leaves_the_gate_as_it_was() -> None:
    gate = Gate()
    gate.slow_down(60)
    with anyio.move_on_after(0.01) as scope:
        async with gate.passing():
            pytest.fail("the gate is shut")
    assert scope.cancelled_caught
    assert gate._under_way == 0


async def test_fifty_children_do_not_each_retry_alone(tmp_path: Path) -> None:
    """One refusal is enough for all: while it lasts nobody else calls."""
    refused = 0
    started = anyio.current_time()

    async def script(request: Request) -> Any:
        nonlocal refused
        if request.agent_type == "main":
            if not results(request):
                return [call("task", prompt=f"part {n}") for n in range(50)]
            return "end"
        if anyio.current_time() < started + 1.0:
            refused += 1
            raise RateLimited("slow down", retry_after=0.3)
        return "done"

    model = ScriptedModel(script)
    report = await run("go", model=model, root=tmp_path, limits=Limits(concurrency=4))
    assert report.status == "finished"
    assert {a.status for a in report.agents} == {"finished"}
    # Four were under way when the first refusal came; afterwards only the probe is refused.
    assert refused <= 4 + 6
