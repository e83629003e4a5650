"""The `bash` tool: commands of one agent, with results that fit its context."""

from __future__ import annotations

import anyio

from orchestrator.agent import Agent
from orchestrator.context.placeholders import stored_placeholder
from orchestrator.events import Offloaded
from orchestrator.execution import current_call
from orchestrator.permitting import denied_by
from workspace import Job, JobWords, Ran, Shell, ShellRefused, job_words, seconds_for

NAME = "bash"
# Shorter is what anything takes that was started at all.
_WORTH_TELLING_SECONDS = 5.0
_SHOWN_CHARS = 80

_ENDED = {
    "timeout": "ended by its time-out; set timeout, or background=true",
    "output": "ended: it printed more than can be kept",
    "processes": "ended: too many processes",
    "memory": "ended: too much memory",
    "disk": "ended: its output could not be stored any more",
}


class Commands:
    """What `bash` does for one agent. Its jobs end with `Shell.close`."""

    def __init__(self, agent: Agent, shell: Shell) -> None:
        self._agent = agent
        self._shell = shell

    async def bash(
        self,
        command: str,
        timeout: int | None = None,  # noqa: ASYNC109
        background: bool = False,
    ) -> str:
        """Run a shell command in the workspace root. Each starts afresh there, with an empty /tmp.

        Args:
            timeout: Seconds, at most 600; 120 if not given, in the background none.
            background: Return at once. Afterwards `jobs`, `wait %1` and `kill %1` are commands.
        """
        try:
            return await self._answered(command, timeout, background=background)
        finally:
            await note_taken(self._agent)

    async def _answered(self, command: str, timeout: int | None, *, background: bool) -> str:  # noqa: ASYNC109
        if asked := job_words(command):
            return await self._of_jobs(asked, timeout)
        seconds = self._seconds(timeout, background=background)
        if background:
            return _started(await self._shell.start(command, seconds))
        with self._agent.patient():
            return await self._told(await self._shell.run(command, seconds), keep=False)

    def _seconds(self, given: int | None, *, background: bool) -> float | None:
        """How long to wait for the command, never past the agent's own time."""
        try:
            seconds = seconds_for(given, background=background)
        except ValueError as error:
            raise ShellRefused(str(error)) from None
        left = self._agent.seconds_left()
        if left is None or seconds is None:
            return seconds
        return max(0.0, min(seconds, left))

    async def _of_jobs(self, asked: JobWords, given: int | None) -> str:
        jobs = self._shell.jobs
        if asked.word == "jobs":
            return "\n".join(map(_line, jobs.values())) or "[no command is in the background]"
        job = jobs.get(asked.number)
        if job is None:
            raise ShellRefused(f"no job %{asked.number}; `jobs` lists them")
        if asked.word == "kill":
            await self._shell.stop(job)
            return _line(job)
        return await self._waited(job, given)

    async def _waited(self, job: Job, given: int | None) -> str:
        seconds = self._seconds(given, background=False)
        with self._agent.patient(), anyio.move_on_after(seconds):
            await job.done.wait()
        return _line(job) if job.ran is None else await self._told(job.ran, keep=True)

    async def _told(self, ran: Ran, *, keep: bool) -> str:
        """The result as the model gets it: the output, or where it is, and how the command ended.
        ``keep``: the file of an output that is told whole stays, since the model knows of it."""
        ending = f"[{' · '.join(_facts(ran))}]"
        output, by = ran.output, self._agent.state.read_back
        limit = self._agent.state.settings.offload_at
        if by is None or limit is None or output.chars + len(ending) < limit:
            text = await self._shell.text(output)
            if not keep:
                await self._shell.forget(output)
            return f"{text}{_break(text)}{ending}"
        await self._shell.keep(output)
        await self._agent.record(
            Offloaded(
                tool=NAME,
                tool_use_id=current_call.get().tool_use_id,
                chars=output.chars,
                path=output.path,
                reason="birth",
                sha256=output.sha256,
            )
        )
        stub = stored_placeholder(
            output.path, output.chars, output.lines, output.head, output.tail, by
        )
        return f"{stub}\n{ending}"


async def note_taken(agent: Agent) -> None:
    """Record what commands had made where none may make anything; also of those that nobody is told
    of, since they were cancelled."""
    if agent.shell is not None and (news := agent.shell.take_news()):
        facts = [denied_by(f"protected {'/'.join(t.parts)}", NAME, t.kept or None) for t in news]
        with anyio.CancelScope(shield=True):
            await agent.record(*facts)


async def end_jobs(agent: Agent) -> None:
    """End what the agent left running in its shell, also where it was cancelled itself."""
    if agent.shell is not None:
        with anyio.CancelScope(shield=True):
            await agent.shell.close()
        await note_taken(agent)


def _facts(ran: Ran) -> list[str]:
    facts = [f"exit code {ran.code}"]
    if ran.why is not None:
        facts = [_ENDED[ran.why]]
    if ran.seconds >= _WORTH_TELLING_SECONDS or ran.why is not None:
        facts.append(f"{ran.seconds:.0f} s")
    if not ran.output.chars:
        facts.append("no output")
    return [*facts, *ran.hints]


def _break(text: str) -> str:
    return "\n" if text and not text.endswith("\n") else ""


def _started(job: Job) -> str:
    return (
        f"[%{job.number} started · output so far: {job.path} · commands: jobs, wait %{job.number}, "
        f"kill %{job.number}]"
    )


def _line(job: Job) -> str:
    shown = " ".join(job.command.split())[:_SHOWN_CHARS]
    return f"[%{job.number} {_state(job)} · output: {job.path} · {shown}]"


def _state(job: Job) -> str:
    if job.failure is not None:
        return f"not run: {job.failure}"
    if job.ran is not None:
        return " · ".join(_facts(job.ran))
    if job.done.is_set():
        return " · ".join(["ended by kill", *map(str, job.taken)])
    return f"running for {job.seconds:.0f} s"
