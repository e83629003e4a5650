"""`stream`: a run's records as they come, its report at their end, and nothing left behind."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orchestrator import ConfigError, Request, __all__, run, stream
from orchestrator.journal import read_records
from orchestrator.rundir import find_run
from orchestrator.streaming import RunOptions
from orchestrator.testing import ScriptedModel, call, results

pytestmark = pytest.mark.anyio


def looks_once(request: Request) -> Any:
    return "Seen." if results(request) else [call("ls")]


async def test_it_gives_every_record_of_the_journal_in_order_and_then_the_report(
    tmp_path: Path,
) -> None:
    async with stream("Look", model=ScriptedModel(looks_once), root=tmp_path) as events:
        records = [record async for record in events]
        report = events.report
    assert (report.status, report.conclusion) == ("finished", "Seen.")
    recorded = read_records(find_run(tmp_path, report.run_id).journal)
    assert [(r.seq, r.ts, r.fact.event) for r in records] == [
        (r.seq, r.ts, r.fact.event) for r in recorded
    ]
    assert records[-1].fact.event == "run_ended"


async def test_records_come_while_the_run_goes_on(tmp_path: Path) -> None:
    released = anyio.Event()

    async def waits() -> str:
        """Wait until the reader has read."""
        await released.wait()
        return "read"

    model = ScriptedModel(lambda request: "\n".join(results(request)) or [call("waits")])
    async with stream("Wait", model=model, root=tmp_path, tools=[waits]) as events:
        async for record in events:
            if record.fact.event == "tool_started":
                with pytest.raises(RuntimeError, match="goes on"):
                    _ = events.report
                released.set()
    assert events.report.conclusion == "read"


async def test_leaving_the_block_early_cancels_the_run_and_keeps_what_was_recorded(
    tmp_path: Path,
) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def forever() -> str:
        """Never answers."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    model = ScriptedModel(lambda request: [call("forever")])
    with anyio.fail_after(60):
        async with stream("Wait", model=model, root=tmp_path, tools=[forever]) as events:
            async for record in events:
                if record.fact.event == "tool_started":
                    await began.wait()
                    break
    assert ended.is_set()
    kinds = [r.fact.event for r in read_records(find_run(tmp_path, "latest").journal)]
    assert "tool_started" in kinds
    with pytest.raises(RuntimeError):
        _ = events.report


async def test_cancelling_the_reader_cancels_the_run(tmp_path: Path) -> None:
    async def forever() -> str:
        """Never answers."""
        await anyio.sleep_forever()
        raise AssertionError

    model = ScriptedModel(lambda request: [call("forever")])
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with stream("Wait", model=model, root=tmp_path, tools=[forever]) as events:
            async for record in events:
                if record.fact.event == "tool_started":
                    scope.cancel()
    assert scope.cancelled_caught


async def test_an_error_of_the_reader_comes_out_as_it_is_and_ends_the_run(tmp_path: Path) -> None:
    async def read() -> None:
        async with stream("Look", model=ScriptedModel(looks_once), root=tmp_path) as events:
            async for _ in events:
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await read()


@pytest.mark.parametrize("is_read", [True, False])
async def test_what_run_raises_is_raised_here_not_wrapped(tmp_path: Path, is_read: bool) -> None:
    async def read() -> None:
        async with stream(" ", model="rehearsal", root=tmp_path) as events:
            if is_read:
                assert [record async for record in events] == []
            while events._failed is None:
                await anyio.lowlevel.checkpoint()

    with pytest.raises(ConfigError, match="the task is empty"):
        await read()


async def test_other_observers_are_told_too(tmp_path: Path) -> None:
    seen: list[Any] = []
    model = ScriptedModel(looks_once)
    async with stream("Look", model=model, root=tmp_path, observers=[seen.extend]) as events:
        assert [record async for record in events] == seen


async def test_it_takes_what_run_takes() -> None:
    parameters = inspect.signature(run).parameters
    assert RunOptions.__annotations__.keys() == parameters.keys() - {"task"}
    for name, annotation in inspect.get_annotations(run).items():
        if name not in ("task", "return"):
            declared = RunOptions.__annotations__[name]
            assert getattr(declared, "__forward_arg__", declared) == annotation, name


async def test_no_module_of_the_package_bears_the_name_of_one_of_its_functions() -> None:
    """Else importing the module would put it in the function's place."""
    folder = Path(inspect.getfile(run)).parent
    assert not {path.stem for path in folder.iterdir()} & set(__all__)
