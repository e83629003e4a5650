"""Outrider inside a FastAPI application: runs that outlive the request that started them.

    pip install fastapi uvicorn
    uvicorn fastapi_app:app
    curl localhost:8000/runs -H 'content-type: application/json' -d '{"task": "Survey this folder"}'
    curl localhost:8000/runs/RUN
    curl -X DELETE localhost:8000/runs/RUN

The application's life encloses its runs: what is still under way when it ends is cancelled, with
everything on disk, and goes on by `POST /runs/RUN/resume` after a restart. In `service.py` a run ends
with its request instead. Give a service that others can reach its own authentication, and each of
them a workspace of their own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from orchestrator import Limits, OutriderError, Reins, Report, resume, run

LIMITS = Limits(max_tokens=500_000, max_seconds=600, concurrency=4)
# How many runs are worked on at a time; others wait their turn.
MOST_RUNS = 4


class Task(BaseModel):
    task: str


class Message(BaseModel):
    message: str | None = None


@dataclass
class Job:
    """A run of this process: `reins` stop it, `ended` is its report, or what kept it from running."""

    reins: Reins
    ended: Report | str | None = None


class Runs:
    """The runs of this process, carried out beside its requests."""

    def __init__(self, group: TaskGroup) -> None:
        self.jobs: dict[str, Job] = {}
        self._group = group
        self._places = anyio.CapacityLimiter(MOST_RUNS)

    def begin(self, run_id: str, go: Callable[..., Awaitable[Report]]) -> None:
        job = self.jobs[run_id] = Job(Reins())
        self._group.start_soon(self._carry_out, job, partial(go, reins=job.reins))

    async def _carry_out(self, job: Job, go: Callable[[], Awaitable[Report]]) -> None:
        async with self._places:
            try:
                job.ended = await go()
            except OutriderError as error:  # nothing was run, or it cannot be recorded
                job.ended = str(error)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        app.state.runs = Runs(group)
        yield
        group.cancel_scope.cancel()


app = FastAPI(lifespan=lifespan)


def where() -> dict[str, Any]:
    """The model and the workspace of every run."""
    return {
        "model": os.environ.get("OUTRIDER_MODEL", "rehearsal"),
        "root": os.environ.get("ROOT", "."),
    }


def job_of(run_id: str) -> Job:
    job: Job | None = app.state.runs.jobs.get(run_id)
    if job is None:
        raise HTTPException(
            404, "no such run in this process; POST …/resume goes on with an old one"
        )
    return job


@app.post("/runs", status_code=202)
async def start_run(asked: Task) -> dict[str, str]:
    run_id = uuid4().hex
    app.state.runs.begin(run_id, partial(run, asked.task, run_id=run_id, limits=LIMITS, **where()))
    return {"run_id": run_id}


@app.post("/runs/{run_id}/resume", status_code=202)
async def go_on(run_id: str, asked: Message) -> dict[str, str]:
    known = app.state.runs.jobs.get(run_id)
    if known is not None and known.ended is None:
        raise HTTPException(409, "the run is under way")
    app.state.runs.begin(run_id, partial(resume, run_id, asked.message, **where()))
    return {"run_id": run_id}


@app.get("/runs/{run_id}")
async def look(run_id: str) -> dict[str, Any]:
    match job_of(run_id).ended:
        case None:
            return {"run_id": run_id, "status": "running"}
        case Report() as report:
            return report.as_json()
        case problem:
            raise HTTPException(422, problem)


@app.delete("/runs/{run_id}", status_code=202)
async def stop(run_id: str) -> dict[str, str]:
    """The run hands back what it has: its status will be partial."""
    job_of(run_id).reins.stop()
    return {"run_id": run_id}
